// One step, with a11 the diagonal tile of the owner's next block and a21 the rows that remain:
//
//   a11 = l11 l11^H          tile Cholesky                        owner, panel queue
//   l21 = a21 l11^-H         panel, in place                      owner, panel and panel_rest
//   p   = l21^H              packed: any run of rows is one slice, likewise
//                            as the backend's updates take it
//   p   -> all ranks                                              transfer queue
//   a22 -= p^H p             each rank its own columns            update queue
//
// The column block of the next step is the exception: its owner's panel and panel_rest queues
// update it. They work in chunks of rows (layout/panel_chunks.hpp), and the transfer queue sends
// these chunks, first those that the next tile waits for. So the panels of consecutive steps are
// computed side by side, by their owners or by the two queues of one rank, while the update queues
// of all ranks are busy with the step before. The rows that remain are one run a segment
// (SlabLayout::rows_from), and the update of a slab is a staircase (layout/staircase.hpp).
//
// A partial factorisation ends before a step: no column block is an exception in its last update,
// which leaves the Schur complement in the columns from that step on.

#include "dense/cholesky/factor.hpp"

#include "core/each_dtype.hpp"
#include "dense/cholesky/wait_sites.hpp"
#include "layout/panel_chunks.hpp"
#include "layout/staircase.hpp"
#include "programs/message_ring.hpp"
#include "programs/step_flags.hpp"
#include "runtime/cholesky_kernels.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

namespace shardsolve::dense::cholesky {
namespace {

using layout::Batch;
using layout::Piece;
using layout::RowChunk;

template <Scalar T>
class Factorisation {
 public:
  Factorisation(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab, Step end)
      : rank_(rank),
        layout_(layout),
        slab_(slab),
        end_(end),
        kernels_(rank.kernels<runtime::CholeskyKernels<T>>()),
        tuning_(kernels_.tuning(layout.tile())),
        flags_(rank),
        panels_(rank, slots, largest_panel()),
        factored_(rank.event()),
        column_ready_{&rank.event(), &rank.event()} {
    for (MatrixView<T>& tile_scratch : tile_scratch_) {
      tile_scratch = rank.workspace<T>(layout.tile(), tuning_.tile_scratch_columns);
    }
    const std::int64_t chunks = layout::max_panel_chunks(layout, chunk_rows());
    for (std::int64_t i = 0; i < chunks; ++i) {
      packed_.push_back(&rank.event());
    }
    for (std::int64_t i = 0; i < chunks * slots; ++i) {
      chunk_arrived_.push_back(&rank.event());
    }
  }

  Outcome run() {
    panels_.begin(0, owns(Step(0)));
    for (Step step(0); step < end_ && flags_.may_enqueue(step.value()); ++step) {
      rank_.set_step(step.value());
      report(step);
      if (owns(step)) {
        factor_panel(step);
      }
      // The next panel begins while this one is on its way. Its owner first waits for a part of
      // this one, so by then its slot is free.
      panels_.await_done(step.value() + 1, sites::panel_used);
      panels_.begin(step.value() + 1, owns(step + 1));
      send_panel(step);
      update_trailing(step);
    }
    flags_.finish(end_.value());
    flags_.throw_if_cancelled();
    return outcome();
  }

 private:
  /// Panels in memory: one being used, one arriving, one being made.
  static constexpr std::int64_t slots = 3;

  bool owns(Step step) const { return step < end_ && layout_.owner(step) == rank_.index(); }
  /// Rows of a chunk: about eight chunks a panel keep two owners busy at a time. Of one rank two
  /// queues make half of the first panel each.
  std::int64_t chunk_rows() const {
    const std::int64_t least = tuning_.least_panel_rows;
    return layout_.ranks() == 1 ? std::max(layout_.size() / 2, 2 * least)
                                : std::max(layout_.size() / 8, least);
  }
  std::vector<RowChunk> chunks(Step step) const {
    return layout::panel_chunks(layout_, step, chunk_rows());
  }
  /// Complete when chunk number `chunk` of the panel of `step` is on this rank.
  runtime::Event& chunk_arrived(Step step, std::size_t chunk) const {
    const auto slot = static_cast<std::size_t>(step.value() % slots);
    return *chunk_arrived_[slot * packed_.size() + chunk];
  }
  std::int64_t block_of(Step step) const {
    return layout_.columns(step).begin.value() / layout_.tile();
  }

  /// Elements of the largest panel. It need not be the first: a step may have less than a tile.
  std::int64_t largest_panel() const {
    std::int64_t largest = 0;
    for (Step step(0); step < end_; ++step) {
      largest = std::max(largest, packed_rows(step) * count_after(step));
    }
    return largest;
  }

  /// Rows after `step`, as they are packed in its panel.
  std::vector<RowRun> rows_after(Step step) const { return layout_.rows_from(step + 1); }
  std::int64_t count_after(Step step) const {
    return layout_.size() - layout_.eliminated(step + 1);
  }
  MatrixView<T> panel(Step step) const {
    const MatrixView<T> all =
        panels_.payload(step.value(), layout_.owner(step), 0, packed_rows(step), count_after(step));
    return all.block(0, 0, layout_.columns(step).size(), all.columns());
  }
  std::int64_t packed_rows(Step step) const {
    return kernels_.packed_rows(layout_.columns(step).size());
  }

  void factor_panel(Step step) {
    if (step.value() >= 2) {
      rank_.panel().wait(*column_ready_[step.value() % 2], sites::next_column_ready);
    }
    const MatrixView<T> l11 = column(step, layout_.rows(step));
    update_next_column(rank_.panel(), step, layout_.rows(step));
    panels_.stamp(rank_.panel(), step.value());
    // The panel_rest queue may still be at work on the panel before.
    const MatrixView<T> tile_scratch =
        tile_scratch_[block_of(step) % 2].block(0, 0, l11.rows(), tuning_.tile_scratch_columns);
    // a11 = l11 l11^H
    kernels_.potrf(rank_.panel(), l11, tile_scratch,
                   &panels_.header(step.value(), rank_.index())->pivot);
    rank_.panel().record(factored_);
    rank_.panel_rest().wait(factored_, sites::rest_of_panel);
    std::size_t number = 0;
    for (const RowChunk& chunk : chunks(step)) {
      runtime::Queue& queue = maker(number);
      update_next_column(queue, step, chunk.rows);
      // l21 = a21 l11^-H, p = l21^H
      const MatrixView<T> packed = panel(step).columns_from(chunk.packed, chunk.rows.size());
      kernels_.panel(queue, l11, tile_scratch, column(step, chunk.rows), packed);
      kernels_.prepare_updates(queue, packed);
      queue.record(*packed_[number++]);
    }
  }

  /// The queue that makes a chunk of a panel. If a rank is alone its panel queue makes the first
  /// chunk only, so that it can go on with the next tile, which waits for no other.
  runtime::Queue& maker(std::size_t chunk) const {
    const bool by_panel_queue = rank_.count() == 1 ? chunk == 0 : chunk % 2 == 0;
    return by_panel_queue ? rank_.panel() : rank_.panel_rest();
  }

  /// Some rows of the column block that `step` eliminates.
  MatrixView<T> column(Step step, GlobalRange rows) const {
    const LocalRange columns = layout_.columns(step);
    return slab_.block(rows.begin.value(), columns.begin.value(), rows.size(), columns.size());
  }

  /// Rows of the column block of `step`: the update with the panel before, which the queue that
  /// makes the panel does itself.
  void update_next_column(runtime::Queue& queue, Step step, GlobalRange rows) {
    if (step.value() == 0) {
      return;
    }
    const Step last = step - 1;
    const std::vector<RowChunk> arriving = chunks(last);
    const auto holds = [&](const RowChunk& chunk) {
      return chunk.rows.begin <= rows.begin && rows.end <= chunk.rows.end;
    };
    const auto chunk = std::find_if(arriving.begin(), arriving.end(), holds);
    queue.wait(chunk_arrived(last, static_cast<std::size_t>(chunk - arriving.begin())),
               sites::next_column_arrived);
    const RowRun tile = rows_after(last)[static_cast<std::size_t>(layout_.owner(step))];
    const std::int64_t left = chunk->packed + (rows.begin - chunk->rows.begin);
    const bool is_tile = rows == layout_.rows(step);
    kernels_.update(
        queue, panel(last), panel(last),
        {{.left = left, .right = tile.packed, .c = column(step, rows), .lower = is_tile}});
  }

  void send_panel(Step step) {
    const std::int64_t owner = layout_.owner(step);
    const std::int64_t rows = packed_rows(step);
    if (owns(step)) {
      rank_.transfer().wait(factored_, sites::header_written);
    }
    panels_.publish(step.value(), owner, 0);
    flags_.receive(step.value(), panels_.header(step.value(), owner));
    std::size_t number = 0;
    for (const RowChunk& chunk : chunks(step)) {
      if (owns(step)) {
        rank_.transfer().wait(*packed_[number], sites::panel_packed);
      }
      panels_.publish_part(step.value(), owner, rows * chunk.packed, rows * chunk.rows.size());
      rank_.transfer().record(chunk_arrived(step, number++));
    }
    rank_.transfer().record(panels_.arrived(step.value()));
  }

  /// All columns that this rank still has but those of the next step, if that is one; first those
  /// that its next panel needs.
  void update_trailing(Step step) {
    const bool is_last = step + 1 == end_;
    const Step first = layout_.next_owned(rank_.index(), is_last ? step + 1 : step + 2);
    if (first.value() >= layout_.steps()) {
      return;
    }
    const std::int64_t block = block_of(first);
    const std::int64_t blocks = (slab_.columns() + layout_.tile() - 1) / layout_.tile();
    rank_.update().wait(panels_.arrived(step.value()), sites::trailing_arrived);
    update(rank_.update(), step, block, block + 1);
    rank_.update().record(*column_ready_[step.value() % 2]);
    update(rank_.update(), step, block + 1, blocks);
    rank_.update().record(panels_.done(step.value()));
  }

  /// a22 -= p^H p on blocks [first, last) of the slab.
  void update(runtime::Queue& queue, Step step, std::int64_t first, std::int64_t last) {
    const std::vector<RowRun> runs = rows_after(step);
    const auto packed = [&](GlobalIndex row, std::int64_t segment) {
      const RowRun& run = runs[static_cast<std::size_t>(segment)];
      return run.packed + (row - run.rows.begin);
    };
    std::vector<runtime::PanelUpdate<T>> updates;
    for (const Batch& batch :
         layout::in_batches(layout::lower_staircase(layout_, rank_.index(), first, last))) {
      const Piece& piece = batch.first;
      updates.push_back(
          {.left = packed(piece.rows.begin, piece.segment),
           .right = packed(layout_.global(rank_.index(), piece.columns.begin), rank_.index()),
           .c = slab_.block(piece.rows.begin.value(), piece.columns.begin.value(),
                            piece.rows.size(), piece.columns.size()),
           .lower = piece.diagonal,
           .count = batch.count,
           .apart = batch.distance,
           .c_apart = batch.distance * (slab_.stride() + 1)});
    }
    kernels_.update(queue, panel(step), panel(step), updates);
  }

  Outcome outcome() const {
    Outcome outcome;
    if (flags_.failed_step() >= 0) {
      const Step step(flags_.failed_step());
      const std::int64_t row = std::abs(flags_.pivot()) - 1;
      // The input was finite: for a pivot that is not a number something has left the range.
      outcome.status = flags_.pivot() > 0 ? Status::not_positive_definite : Status::overflow;
      outcome.location =
          Location::pivot(layout_.rows(step).begin + row, layout_.eliminated(step) + row);
    }
    return outcome;
  }

  void report(Step step) {
    const double left =
        1.0 - static_cast<double>(layout_.eliminated(step)) / static_cast<double>(layout_.size());
    rank_.report("factor", 1.0 - left * left * left);
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  Step end_;
  const runtime::CholeskyKernels<T>& kernels_;
  const runtime::CholeskyTuning tuning_;
  programs::StepFlags flags_;
  programs::MessageRing<T> panels_;
  std::array<MatrixView<T>, 2> tile_scratch_;   // of own tiles, in turn
  runtime::Event& factored_;                    // the owner's header is written
  std::vector<runtime::Event*> packed_;         // a chunk of the owner's panel is
  std::vector<runtime::Event*> chunk_arrived_;  // one a slot and chunk
  // The next own column block has all its updates but the last. Two events, for even and odd steps:
  // the update queue may have gone one step further.
  std::array<runtime::Event*, 2> column_ready_;
};

}  // namespace

template <Scalar T>
Outcome factor(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab, Step end) {
  return Factorisation<T>(rank, layout, slab, end).run();
}

template <Scalar T>
Outcome factor(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab) {
  return factor(rank, layout, slab, Step(layout.steps()));
}

#define SHARDSOLVE_INSTANTIATE(T)                                         \
  template Outcome factor(mesh::Rank&, const SlabLayout&, MatrixView<T>); \
  template Outcome factor(mesh::Rank&, const SlabLayout&, MatrixView<T>, Step);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::cholesky
