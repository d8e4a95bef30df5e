/// The devices of a job, and whether it fits on them.
#pragma once

#include "mesh/mesh_state.hpp"
#include "mesh/rank.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "tile_choice.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/routine.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>
#include <shardsolve/trace.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::cli {

class Workplace {
 public:
  /// Throws Error(device) if the system has no threads to spare, or if the processes that a
  /// launcher has started do not find each other.
  Workplace(Options options, std::stop_token stop, std::shared_ptr<ProgressDisplay> progress);
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const Options& options() const { return options_; }
  Mesh& mesh() { return mesh_; }
  const RunOptions& run_options() const { return run_options_; }
  const Trace& trace() const { return trace_; }
  /// Runs the program on every rank and returns the seconds that took. What the program refers to
  /// it also owns: a rank that never comes back keeps it. It is no part of the trace.
  double run(std::function<void(mesh::Rank&)> program);

  /// Whether the job is done by several processes, each of which has one rank.
  bool has_processes() const { return options_.mpi; }
  /// Whether it is this process that tells the user: one of them does.
  bool speaks() const { return mesh_.state().speaks(); }
  /// Whether a rank never came back.
  bool broken() const { return mesh_.state().broken(); }
  /// Who this process is among the others: "rank 2 of 4, on node7"; empty if there are none.
  std::string whereabouts() const;
  /// What `work` returns, which is called once in each process. If it throws in one, this throws
  /// the same in all. `doing`, a literal, is what a process is said to do if it falls silent.
  template <class Work>
  auto everywhere(Work work, const char* doing = "start") {
    auto result = on(&mesh::Rank::leads, std::move(work), doing);
    if (!result) {
      throw Error(ErrorKind::internal,
                  "no rank leads in this process: this is a bug of shardsolve");
    }
    return *std::move(result);
  }
  /// The same in the process of rank 0 alone; nothing in the others.
  template <class Work>
  auto on_rank_0(Work work, const char* doing = "start") {
    return on([](const mesh::Rank& rank) { return rank.index() == 0; }, std::move(work), doing);
  }
  /// The texts that the processes give, by rank; in one process its own alone.
  std::vector<std::string> texts(const std::string& own);
  /// Throws Error(invalid_argument) unless all processes give the same text. Names the first line
  /// that differs.
  void require_same(const std::string& text);

  /// Reads the table of tile sizes, unless the options say the tile. Throws as TileTable::load(),
  /// in all processes.
  void take_tile_table();
  /// The tile that the options or the table ask for, else the library's choice. Throws
  /// Error(invalid_argument) unless it is the same in all processes.
  TileChoice tile_for(std::int64_t n, Dtype dtype, Routine routine = Routine::cholesky);
  /// The layout with that tile, for a matrix of n x n; without one where only the boundaries of
  /// slabs count.
  SlabLayout layout(std::int64_t n, const std::optional<TileChoice>& tile) const;
  /// The layout of a matrix that a job without a tile of its own factors on the way.
  SlabLayout layout_to_factor(std::int64_t n, Dtype dtype) const;
  /// Throws Error(out_of_memory) if calls with these plans, one after the other on the same slabs,
  /// will not fit into the memory that is free now. There is at least one.
  void require_memory(const std::vector<Plan>& plans, const std::string& job);

 private:
  template <class Which, class Work>
  auto on(Which which, Work work, const char* doing) {
    const auto result = std::make_shared<std::optional<std::invoke_result_t<Work>>>();
    run([result, which, work = std::move(work), doing](mesh::Rank& rank) {
      if (std::invoke(which, rank)) {
        rank.beat(doing);
        result->emplace(work());
      }
    });
    return std::move(*result);
  }

  Options options_;
  Mesh mesh_;
  Trace trace_;
  RunOptions run_options_;
};

/// Throws Error(cancelled) if a stop was requested.
void leave_if_stopped(const std::stop_token& stop);

/// Memory of the host for a piece of a file that belongs on the device: what is read from a file
/// goes through it, and what is written to one.
template <Scalar T>
class Staging {
 public:
  /// The piece itself if it lies on the host, else room for it. Pieces are whole columns.
  MatrixView<T> room(MatrixView<T> piece, Memory memory) {
    if (memory == Memory::host) {
      return piece;
    }
    values_.resize(static_cast<std::size_t>(piece.rows() * piece.columns()));
    return {values_.data(), piece.rows(), piece.columns()};
  }
  /// Copies from one to the other, unless they are the same.
  static void move(mesh::Rank& rank, MatrixView<const T> source, MatrixView<T> target) {
    if (source.data() != target.data()) {
      rank.update().copy(target.data(), source.data(),
                         static_cast<std::size_t>(source.rows() * source.columns()) * sizeof(T));
      rank.update().synchronize();
    }
  }

 private:
  std::vector<T> values_;
};

/// Calls body(first, count) for pieces of `lines` lines of a file, in between reports how far the
/// rank is in the phase, a literal, and leaves if another rank has failed or a stop was requested.
template <class Body>
void in_pieces(mesh::Rank& rank, const char* phase, std::int64_t lines, std::int64_t line_bytes,
               Body body) {
  constexpr std::int64_t piece_bytes = std::int64_t{16} << 20;
  const std::int64_t step =
      std::max<std::int64_t>(1, piece_bytes / std::max<std::int64_t>(1, line_bytes));
  for (std::int64_t first = 0; first < lines; first += step) {
    rank.leave_if_failed();
    leave_if_stopped(rank.options().cancel);
    rank.beat(phase);
    rank.report(phase, static_cast<double>(first) / static_cast<double>(lines));
    body(first, std::min(step, lines - first));
  }
}

}  // namespace shardsolve::cli
