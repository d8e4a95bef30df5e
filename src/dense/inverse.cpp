// X = L^-H L^-1 in one sweep. At step t, with l11 the diagonal tile of the owner's block and l21 the
// rows below it, row block t of M = L^-1 becomes known, is given to all ranks and is used up:
//
//   l   = [l11; l21] -> all ranks                                          owner, panel queue
//   m1  = l11^-1 (row block t) -> all ranks    each rank its columns of earlier steps, panel queue
//                                              (the owner's new block starts as l11^-1)
//   m2 -= l21 m1                               rows below, columns up to step t
//   x  += m1^H m1                              on and above the diagonal, columns up to step t
//
// In elimination order X grows in the upper triangle, and in place of L the lower one holds the rows
// of M that are not finished; both begin a new column block as 0. m2 of the next step's rows is
// updated first, on the panel queue; the rest on the update queue. At the end the upper triangle is
// mirrored (dense/mirror.hpp).

#include "dense/inverse.hpp"

#include <algorithm>
#include <vector>

#include "dense/message_ring.hpp"
#include "dense/step_flags.hpp"
#include "dense/wait_sites.hpp"
#include "layout/staircase.hpp"

namespace shardsolve::dense {
namespace {

using layout::Piece;
using runtime::Op;
using runtime::Side;
using runtime::Triangle;

template <Scalar T>
class Inverse {
  using Real = RealOf<T>;

 public:
  Inverse(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab)
      : rank_(rank),
        layout_(layout),
        slab_(slab),
        kernels_(rank.kernels<T>()),
        flags_(rank),
        // l has the rows from its step on, m1 the columns up to it: together one panel and a tile
        messages_(rank, (layout.size() + layout.tile()) * layout.tile()),
        column_arrived_(rank.event()),
        packed_(rank.event()),
        row_ready_(rank.event()),
        next_row_ready_(rank.event()) {}

  void run() {
    for (Step step(0); step.value() < layout_.steps() && flags_.may_enqueue(step.value()); ++step) {
      rank_.set_step(step.value());
      report(step);
      messages_.begin(step.value(), true, sites::inverse_used);
      messages_.await_free(rank_.panel(), sites::inverse_slot_free);
      send_column(step);
      send_row(step);
      update_next_row(step);
      update_rest(step);
    }
    flags_.finish(layout_.steps());
    flags_.throw_if_cancelled();
  }

 private:
  bool owns(Step step) const { return layout_.owner(step) == rank_.index(); }
  std::int64_t size(Step step) const { return layout_.columns(step).size(); }
  Step later(Step step, std::int64_t by) const {
    return Step(std::min(step.value() + by, layout_.steps()));
  }
  /// Columns of this rank that belong to earlier steps.
  std::int64_t before(Step step) const { return layout_.eliminated(rank_.index(), step).value(); }

  /// l^H: the rows from `step` on, packed as in SlabLayout::rows_from.
  MatrixView<T> column(Step step) const {
    return messages_.payload(step.value(), layout_.owner(step), 0, size(step),
                             layout_.size() - layout_.eliminated(step));
  }
  /// The part of it that belongs to a run of rows, not empty, in one segment.
  MatrixView<T> column(Step step, GlobalRange rows) const {
    const std::int64_t segment = layout_.owner(rows.begin);
    const RowRun run = layout_.rows_from(step)[static_cast<std::size_t>(segment)];
    return column(step).columns_from(run.packed + (rows.begin - run.rows.begin), rows.size());
  }
  /// m1 in the columns of one rank; behind l.
  MatrixView<T> row(Step step, std::int64_t rank) const {
    const RowRun run = layout_.rows_before(step + 1)[static_cast<std::size_t>(rank)];
    return messages_.payload(step.value(), rank, row_offset(step) + size(step) * run.packed,
                             size(step), run.rows.size());
  }
  std::int64_t row_offset(Step step) const {
    return size(step) * (layout_.size() - layout_.eliminated(step));
  }

  /// l from its owner to all ranks.
  void send_column(Step step) {
    if (owns(step)) {
      pack_column(step);
      rank_.panel().record(packed_);
      rank_.transfer().wait(packed_, sites::inverse_column_packed);
    }
    const std::int64_t owner = layout_.owner(step);
    messages_.publish(step.value(), owner, row_offset(step));
    flags_.receive(step.value(), messages_.header(step.value(), owner));
    rank_.transfer().record(column_arrived_);
  }

  void pack_column(Step step) {
    messages_.stamp(rank_.panel(), step.value());
    const LocalRange columns = layout_.columns(step);
    for (const RowRun& run : layout_.rows_from(step)) {
      const MatrixView<T> l = slab_.block(run.rows.begin.value(), columns.begin.value(),
                                          run.rows.size(), columns.size());
      kernels_.conjugate_transpose(rank_.panel(), l,
                                   column(step).columns_from(run.packed, run.rows.size()));
    }
  }

  /// m1 = l11^-1 (row block of this step), from each rank to all.
  void send_row(Step step) {
    const MatrixView<T> m1 = row(step, rank_.index());
    const GlobalRange rows = layout_.rows(step);
    const MatrixView<T> old = slab_.block(rows.begin.value(), 0, rows.size(), before(step));
    kernels_.copy(rank_.panel(), old, m1.columns_from(0, before(step)));
    if (owns(step)) {
      kernels_.identity(rank_.panel(), m1.columns_from(before(step), size(step)));
    }
    rank_.panel().wait(column_arrived_, sites::inverse_column_arrived);
    kernels_.trsm(rank_.panel(), Side::left, Triangle::upper, Op::conjugate_transpose,
                  column(step, rows), m1);
    rank_.panel().record(row_ready_);

    std::vector<std::int64_t> offsets;
    for (const RowRun& run : layout_.rows_before(step + 1)) {
      offsets.push_back(row_offset(step) + size(step) * run.packed);
    }
    offsets.push_back(row_offset(step) + size(step) * layout_.eliminated(step + 1));
    rank_.transfer().wait(row_ready_, sites::inverse_row_ready);
    messages_.publish_parts(step.value(), offsets);
    rank_.transfer().record(messages_.arrived(step.value()));
  }

  /// m2 on the rows of the next step: the panel queue goes on with them.
  void update_next_row(Step step) {
    if (step.value() + 1 < layout_.steps()) {
      rank_.panel().wait(next_row_ready_, sites::inverse_next_row_ready);
      update_below(rank_.panel(), step, layout_.rows(step + 1));
    }
  }

  void update_rest(Step step) {
    rank_.update().wait(row_ready_, sites::inverse_rest_row_ready);
    // first the rows that the panel queue needs next
    if (step.value() + 2 < layout_.steps()) {
      update_below(rank_.update(), step, layout_.rows(step + 2));
    }
    rank_.update().record(next_row_ready_);
    for (const RowRun& run : layout_.rows_from(later(step, 3))) {
      update_below(rank_.update(), step, run.rows);
    }
    rank_.update().wait(messages_.arrived(step.value()), sites::inverse_row_arrived);
    const std::int64_t block = before(step) / layout_.tile();
    if (owns(step)) {
      update_above(step, 0, block, Real{1});
      update_above(step, block, block + 1, Real{0});
    } else {
      update_above(step, 0, (before(step) + layout_.tile() - 1) / layout_.tile(), Real{1});
    }
    rank_.update().record(messages_.done(step.value()));
  }

  /// m2 -= l21 m1 on some rows.
  void update_below(runtime::Queue& queue, Step step, GlobalRange rows) {
    if (rows.empty()) {
      return;
    }
    const MatrixView<T> l21 = column(step, rows);
    const MatrixView<T> m1 = row(step, rank_.index());
    const MatrixView<T> m2 = slab_.block(rows.begin.value(), 0, rows.size(), m1.columns());
    const auto subtract = [&](std::int64_t first, std::int64_t count, T keep) {
      kernels_.gemm(queue, Op::conjugate_transpose, Op::none, T{-1}, l21,
                    m1.columns_from(first, count), keep, m2.columns_from(first, count));
    };
    subtract(0, before(step), T{1});
    if (owns(step)) {
      subtract(before(step), size(step), T{0});
    }
  }

  /// x = m1^H m1 + keep x on and above the diagonal, in blocks [first, last) of the slab.
  void update_above(Step step, std::int64_t first, std::int64_t last, Real keep) {
    const MatrixView<T> own = row(step, rank_.index());
    for (const Piece& piece : layout::upper_staircase(layout_, rank_.index(), first, last)) {
      const MatrixView<T> x =
          slab_.block(piece.rows.begin.value(), piece.columns.begin.value(), piece.rows.size(),
                      piece.columns.size());
      const MatrixView<T> right =
          own.columns_from(piece.columns.begin.value(), piece.columns.size());
      if (piece.diagonal) {
        kernels_.herk(rank_.update(), Triangle::upper, Op::conjugate_transpose, Real{1}, right,
                      keep, x);
      } else {
        const std::int64_t begin = piece.rows.begin - layout_.segment(piece.segment).begin;
        const MatrixView<T> left =
            row(step, piece.segment).columns_from(begin, piece.rows.size());
        kernels_.gemm(rank_.update(), Op::conjugate_transpose, Op::none, T{1}, left, right, T{keep},
                      x);
      }
    }
  }

  void report(Step step) {
    rank_.report("invert", static_cast<double>(layout_.eliminated(step)) /
                               static_cast<double>(layout_.size()));
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  const runtime::Kernels<T>& kernels_;
  StepFlags flags_;
  MessageRing<T> messages_;          // l and, behind it, m1
  runtime::Event& column_arrived_;   // l of the step is on this rank
  runtime::Event& packed_;           // the owner's l is packed
  runtime::Event& row_ready_;        // this rank's m1 is computed
  runtime::Event& next_row_ready_;   // the step after next has its updates but the last
};

}  // namespace

template <Scalar T>
void inverse(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab) {
  Inverse<T>(rank, layout, slab).run();
}

template void inverse(mesh::Rank&, const SlabLayout&, MatrixView<float>);
template void inverse(mesh::Rank&, const SlabLayout&, MatrixView<double>);
template void inverse(mesh::Rank&, const SlabLayout&, MatrixView<std::complex<float>>);
template void inverse(mesh::Rank&, const SlabLayout&, MatrixView<std::complex<double>>);

}  // namespace shardsolve::dense
