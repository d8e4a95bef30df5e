#include "krylov/local_call.hpp"

#include "core/each_dtype.hpp"
#include "krylov/enqueue_local_call.hpp"
#include "runtime/host/in_caller.hpp"
#include "runtime/host/krylov_kernels.hpp"
#include "runtime/host/krylov_program.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

namespace shardsolve::krylov {

LocalLengths local_lengths(const Problem& problem, std::int64_t rows, std::int64_t ranks) {
  std::vector<std::int64_t> boundaries;
  for (std::int64_t r = 0; r <= ranks; ++r) {
    boundaries.push_back(std::min(r * rows, problem.n));
  }
  const SumLayout layout{.n = problem.n,
                         .ranks = ranks,
                         .boundaries = boundaries.data(),
                         .block_leaves = SumLayout::block_leaves_of(problem.n)};
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < ranks; ++r) {
    longest = std::max(longest, layout.part(r).length());
  }
  LocalLengths lengths;
  const RoomLayout room = room_layout(problem);
  lengths.room_words = room.bytes / static_cast<std::int64_t>(sizeof(std::int32_t));
  lengths.record_words = room.records / static_cast<std::int64_t>(sizeof(std::int32_t));
  std::size_t at = 0;
  for (const TableReduction& shape : table_of(problem.method).reductions) {
    const std::int64_t slots = slots_of(shape, problem);
    lengths.begin.at(at) = lengths.parts;
    lengths.length.at(at) = slots * longest + 1;
    lengths.parts += slots * SumLayout::max_length(problem.n) + 1;
    ++at;
  }
  return lengths;
}

namespace {

/// All is done when a function returns.
template <Scalar T>
class HostSteps {
 public:
  HostSteps(runtime::Queue& queue, runtime::host::SpareThreads* spare)
      : queue_(queue), spare_(spare) {}

  void scan(MatrixView<const T> x, runtime::Scan* result, void* /*work*/) const {
    kernels_.scan(queue_, x, result);
  }
  void run(const Program& program, const Vectors<T>& vectors, const State* state,
           const StateRoom& room, const SumTable<T>& sums, const std::int32_t* /*rank*/) const {
    const runtime::host::RowPieces pieces(sums.layout, vectors.first_row, vectors.rows);
    runtime::host::in_pieces(spare_, pieces.count(), [&](std::int64_t piece) {
      runtime::host::run_program(program, vectors, *state, room, sums, pieces.begin(piece),
                                 pieces.begin(piece + 1));
    });
  }
  void finish(const Problem& problem, int reduction, const SumTable<T>& sums, State* state,
              const StateRoom& room) const {
    runtime::host::finish_reduction(problem, reduction, sums, *state, room);
  }
  bool run_part(const Problem& /*problem*/, const Part& /*part*/, const Vectors<T>& /*vectors*/,
                const std::vector<SumTable<T>>& /*sums*/, State* /*state*/,
                const StateRoom& /*room*/) const {
    return false;
  }
  void clear(void* memory, std::int64_t bytes) const {
    if (bytes > 0) {
      std::memset(memory, 0, static_cast<std::size_t>(bytes));
    }
  }
  void begin(const Problem& problem, const Scan* of_b, const Scan* of_x,
             const std::int64_t* boundaries, std::int64_t ranks, SolveState* solve) const {
    *solve = begin_solve(problem, merged(of_b, boundaries, ranks), merged(of_x, boundaries, ranks),
                         std::numeric_limits<RealOf<T>>::max_exponent);
  }
  void end(const Problem& problem, const Scan* of_x, std::int64_t ranks, SolveState* solve,
           Report* report, RealOf<T>* figures) const {
    end_solve(problem, of_x, ranks, *solve, *report, figures);
  }
  void scale(Way way, const SolveState* solve, MatrixView<const T> source,
             MatrixView<T> target) const {
    if (is_zero_vector(*solve)) {
      std::fill_n(target.data(), target.rows(), T{0});
      return;
    }
    kernels_.scale_exactly(queue_, exponent_of(*solve, way), source, target);
  }

 private:
  runtime::Queue& queue_;
  runtime::host::SpareThreads* spare_;
  runtime::host::HostKrylovKernels<T> kernels_;
};

}  // namespace

void run_on_host(const LocalCall& call, runtime::host::SpareThreads* spare) {
  // Small ones of a batch several to a piece.
  const std::int64_t together = std::clamp<std::int64_t>(
      runtime::host::RowPieces::least_rows / std::max<std::int64_t>(call.rows, 1), 1,
      std::max<std::int64_t>(call.batch, 1));
  runtime::host::in_pieces(spare, (call.batch + together - 1) / together, [&](std::int64_t piece) {
    runtime::host::in_caller([&](runtime::Queue& queue) {
      with_dtype(call.dtype, [&]<class T>() {
        enqueue<T>(HostSteps<T>(queue, spare), call, piece * together,
                   std::min((piece + 1) * together, call.batch));
      });
    });
  });
}

}  // namespace shardsolve::krylov
