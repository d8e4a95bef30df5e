// One step, with a11 the diagonal tile of the owner's next block and a21 the rows that remain:
//
//   a11 = l11 l11^H          tile Cholesky                        owner, panel queue
//   l21 = a21 l11^-H         panel, in place                      owner, panel queue
//   p   = l21^H              packed: any run of rows is one slice owner, panel queue
//   p   -> all ranks                                              transfer queue
//   a22 -= p^H p             each rank its own columns            update queue
//
// The column block of the next step is updated first, on the panel queue of its owner, so that the
// next panel is on its way while the rest of this update runs. The rows that remain are one run a
// segment (SlabLayout::rows_from), and the update of a slab is a staircase (layout/staircase.hpp).

#include "dense/cholesky.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "dense/message.hpp"
#include "dense/step_flags.hpp"
#include "dense/wait_sites.hpp"
#include "layout/staircase.hpp"

namespace shardsolve::dense {
namespace {

using layout::Piece;
using runtime::Op;
using runtime::Side;
using runtime::Triangle;

/// Three panels: one being used, one arriving, one being made.
constexpr std::int64_t slots = 3;

template <Scalar T>
class Cholesky {
 public:
  Cholesky(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab)
      : rank_(rank),
        layout_(layout),
        slab_(slab),
        kernels_(rank.kernels<T>()),
        flags_(rank),
        packed_(rank.event()),
        column_ready_(rank.event()) {
    for (std::int64_t i = 0; i < slots; ++i) {
      panels_.emplace_back(rank, layout.size() * layout.tile());
      arrived_.push_back(&rank.event());
      used_.push_back(&rank.event());
    }
  }

  Outcome run() {
    for (Step step(0); step.value() < layout_.steps() && flags_.may_enqueue(step.value()); ++step) {
      rank_.set_step(step.value());
      report(step);
      if (owns(step)) {
        factor_panel(step);
      }
      send_panel(step);
      update_next_column(step);
      update_trailing(step);
    }
    flags_.finish(layout_.steps());
    flags_.throw_if_cancelled();
    return outcome();
  }

 private:
  bool owns(Step step) const {
    return step.value() < layout_.steps() && layout_.owner(step) == rank_.index();
  }
  std::int64_t block_of(Step step) const {
    return layout_.columns(step).begin.value() / layout_.tile();
  }
  static std::size_t slot(Step step) { return static_cast<std::size_t>(step.value() % slots); }

  /// Rows after `step`, as they are packed in its panel.
  std::vector<RowRun> rows_after(Step step) const { return layout_.rows_from(step + 1); }
  std::int64_t count_after(Step step) const {
    return layout_.size() - layout_.eliminated(step + 1);
  }
  MatrixView<T> panel(Step step) const {
    return panels_[slot(step)].payload(layout_.columns(step).size(), count_after(step));
  }

  void factor_panel(Step step) {
    const LocalRange columns = layout_.columns(step);
    const MatrixView<T> block = slab_.columns_from(columns.begin.value(), columns.size());
    const MatrixView<T> l11 =
        block.block(layout_.rows(step).begin.value(), 0, columns.size(), columns.size());
    StepHeader* header = panels_[slot(step)].header();

    rank_.panel().wait(*used_[slot(step)], sites::panel_slot_free);
    rank_.panel().store(&header->stop, rank_.stop_requested() ? 1 : 0);
    // a11 = l11 l11^H
    kernels_.potrf(rank_.panel(), l11, &header->pivot);
    for (const RowRun& run : rows_after(step)) {
      if (run.rows.empty()) {
        continue;
      }
      const MatrixView<T> l21 = block.block(run.rows.begin.value(), 0, run.rows.size(), columns.size());
      // l21 = a21 l11^-H
      kernels_.trsm(rank_.panel(), Side::right, Triangle::lower, Op::conjugate_transpose, l11, l21);
      // p = l21^H
      kernels_.conjugate_transpose(rank_.panel(), l21,
                                   panel(step).columns_from(run.packed, run.rows.size()));
    }
    rank_.panel().record(packed_);
  }

  void send_panel(Step step) {
    if (owns(step)) {
      rank_.transfer().wait(packed_, sites::panel_packed);
    } else {
      rank_.transfer().wait(*used_[slot(step)], sites::receive_slot_free);
    }
    const Message<T>& message = panels_[slot(step)];
    rank_.communicator().broadcast(rank_.transfer(),
                                   message.bytes(layout_.columns(step).size() * count_after(step)),
                                   layout_.owner(step));
    flags_.receive(step.value(), message.header());
    rank_.transfer().record(*arrived_[slot(step)]);
  }

  /// The next column block, if this rank owns it: the panel queue updates it and goes on to factor it.
  void update_next_column(Step step) {
    if (!owns(step + 1)) {
      return;
    }
    rank_.panel().wait(*arrived_[slot(step)], sites::next_column_arrived);
    rank_.panel().wait(column_ready_, sites::next_column_ready);
    const std::int64_t block = block_of(step + 1);
    update(rank_.panel(), step, block, block + 1);
  }

  /// All other columns that this rank still has; first those that its next panel needs.
  void update_trailing(Step step) {
    const Step first = layout_.next_owned(rank_.index(), step + 2);
    if (first.value() >= layout_.steps()) {
      return;
    }
    const std::int64_t block = block_of(first);
    const std::int64_t blocks = (slab_.columns() + layout_.tile() - 1) / layout_.tile();
    rank_.update().wait(*arrived_[slot(step)], sites::trailing_arrived);
    update(rank_.update(), step, block, block + 1);
    rank_.update().record(column_ready_);
    update(rank_.update(), step, block + 1, blocks);
    rank_.update().record(*used_[slot(step)]);
  }

  /// a22 -= p^H p on blocks [first, last) of the slab.
  void update(runtime::Queue& queue, Step step, std::int64_t first, std::int64_t last) {
    const std::vector<RowRun> runs = rows_after(step);
    const MatrixView<T> p = panel(step);
    const auto packed = [&](GlobalIndex row, std::int64_t segment) {
      const RowRun& run = runs[static_cast<std::size_t>(segment)];
      return run.packed + (row - run.rows.begin);
    };
    for (const Piece& piece : layout::lower_staircase(layout_, rank_.index(), first, last)) {
      const MatrixView<T> a22 =
          slab_.block(piece.rows.begin.value(), piece.columns.begin.value(), piece.rows.size(),
                      piece.columns.size());
      const MatrixView<T> right = p.columns_from(
          packed(layout_.global(rank_.index(), piece.columns.begin), rank_.index()),
          piece.columns.size());
      if (piece.diagonal) {
        kernels_.herk(queue, Triangle::lower, Op::conjugate_transpose, -1, right, 1, a22);
      } else {
        const MatrixView<T> left =
            p.columns_from(packed(piece.rows.begin, piece.segment), piece.rows.size());
        kernels_.gemm(queue, Op::conjugate_transpose, Op::none, T{-1}, left, right, T{1}, a22);
      }
    }
  }

  Outcome outcome() const {
    Outcome outcome;
    if (flags_.failed_step() >= 0) {
      const Step step(flags_.failed_step());
      const std::int64_t row = std::abs(flags_.pivot()) - 1;
      // The input was finite: a pivot that is not a number comes from overflow.
      outcome.status = flags_.pivot() > 0 ? Status::not_positive_definite : Status::overflow;
      outcome.pivot = Pivot{layout_.rows(step).begin + row, layout_.eliminated(step) + row};
    }
    return outcome;
  }

  void report(Step step) {
    const double left = 1.0 - static_cast<double>(layout_.eliminated(step)) /
                                  static_cast<double>(layout_.size());
    rank_.report("factor", 1.0 - left * left * left);
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  const runtime::Kernels<T>& kernels_;
  StepFlags flags_;
  std::vector<Message<T>> panels_;
  std::vector<runtime::Event*> arrived_;  // a slot's panel is on this rank
  std::vector<runtime::Event*> used_;     // the update queue needs a slot no longer
  runtime::Event& packed_;                // the owner's panel is packed
  runtime::Event& column_ready_;          // the next own column block has its updates but the last
};

}  // namespace

template <Scalar T>
Outcome cholesky(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab) {
  return Cholesky<T>(rank, layout, slab).run();
}

template Outcome cholesky(mesh::Rank&, const SlabLayout&, MatrixView<float>);
template Outcome cholesky(mesh::Rank&, const SlabLayout&, MatrixView<double>);
template Outcome cholesky(mesh::Rank&, const SlabLayout&, MatrixView<std::complex<float>>);
template Outcome cholesky(mesh::Rank&, const SlabLayout&, MatrixView<std::complex<double>>);

}  // namespace shardsolve::dense
