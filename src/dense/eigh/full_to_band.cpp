// One step, with b the bandwidth and the panel the columns of the owner's next block; rows lie in
// elimination order, so those that remain are one run:
//
//   p -= l r^H               the panel: updates put off so far     owner, panel queue
//   p  = [top; V-part]       top rows belong to the band as they are
//   V-part = Q [R; 0]        Q = I - V t V^H                       likewise
//   top, R, t, V             -> all ranks                          transfer queue
//   x  = A^H V - r (l^H V)   each rank its own columns of A        update queue
//   x  -> all ranks                                                transfer queue
//   y  = x t, in the caller's order of rows, then in ours          update queue, all ranks alike
//   w  = y - 1/2 V (t^H (V^H y))
//   l  = [l V w]             all rows
//   r  = [r w V]             those with the numbers of this rank's columns
//
// so that Q^H A Q = A - V w^H - w V^H. After so many columns of V as are to be put off, the update
// queue brings the rest of the slab up to date,
//
//   A -= l r^H               below the diagonal, each rank its own columns, first those of the
//                            next panel
//   above = below^H          the upper triangle from its owners    update and transfer queue
//
// one product in which V and w of several panels stand side by side: a product of twice their
// columns is faster than many of twice b. Or the product is of all rows, and nothing is mirrored.
// As both triangles are there, x needs no sum over ranks, and nothing is computed on the way
// between them.

#include "dense/eigh/full_to_band.hpp"

#include "dense/eigh/wait_sites.hpp"
#include "dense/shared/multiply_adjoint.hpp"
#include "layout/staircase.hpp"
#include "programs/bytes_of.hpp"
#include "programs/gather.hpp"
#include "programs/message_ring.hpp"
#include "programs/step_flags.hpp"
#include "runtime/band_kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numeric>
#include <utility>
#include <vector>

namespace shardsolve::dense::eigh {

Panel::Panel(const SlabLayout& layout, Step step)
    : first(layout.eliminated(step)),
      columns(layout.columns(step).size()),
      begin(std::min(first + layout.tile(), layout.size())),
      rows(layout.size() - begin),
      reflectors(std::min(rows, columns)) {}

namespace {

using runtime::Op;

template <Scalar T>
class FullToBand {
 public:
  FullToBand(mesh::Rank& rank, const SlabLayout& layout, const RowOrder<T>& order,
             MatrixView<T> slab, const SlabUpdates<T>& updates, const BandForm<T>& form)
      : rank_(rank),
        layout_(layout),
        order_(order),
        slab_(slab),
        deferred_(updates.deferred),
        mirror_(updates.mirror),
        form_(form),
        kernels_(rank.kernels<T>()),
        band_kernels_(rank.kernels<runtime::BandKernels<T>>()),
        tuning_(band_kernels_.tuning({layout.size(), layout.tile(), is_complex<T>})),
        flags_(rank),
        messages_(rank, 1, largest_message()),
        left_(rank.workspace<T>(layout.size(), 2 * max_deferred())),
        right_(rank.workspace<T>(slab.columns(), 2 * max_deferred())),
        sums_(rank.workspace<T>(2 * max_deferred(), bandwidth())),
        x_(rank.workspace<T>(layout.size(), bandwidth())),
        y_(rank.workspace<T>(layout.size(), bandwidth())),
        small_{rank.workspace<T>(bandwidth(), bandwidth()),
               rank.workspace<T>(bandwidth(), bandwidth())},
        r_(rank.workspace<T>(bandwidth(), bandwidth())),
        scratch_(rank.workspace<std::byte>(band_kernels_.scratch(bandwidth()), 1)),
        panel_updated_(rank.event()),
        panel_made_(rank.event()),
        products_made_(rank.event()),
        products_gathered_(rank.event()) {}

  void run() {
    shift_ = shift_of_diagonal();
    kernels_.fill(rank_.update(), T{0}, form_.band);
    kernels_.fill(rank_.update(), T{0}, form_.t);
    for (Step step(0); step.value() < layout_.steps() && flags_.may_enqueue(step.value()); ++step) {
      rank_.set_step(step.value());
      report(step);
      const Panel panel(layout_, step);
      if (owns(step)) {
        make_panel(step, panel);
      }
      send_panel(step);
      take_panel(step, panel);
      if (panel.reflectors > 0) {
        multiply(step, panel);
      }
      gather_products(step, panel);
      if (panel.reflectors > 0) {
        make_w(step, panel);
      }
      update_slab(step);
    }
    flags_.finish(layout_.steps());
    flags_.throw_if_cancelled();
    rank_.finish(rank_.panel());
    rank_.finish(rank_.update());
  }

 private:
  std::int64_t bandwidth() const { return layout_.tile(); }
  /// Columns of V that are put off at most.
  std::int64_t max_deferred() const {
    return std::min(deferred_ - 1 + bandwidth(), layout_.size());
  }
  bool owns(Step step) const {
    return step.value() < layout_.steps() && layout_.owner(step) == rank_.index();
  }
  std::int64_t largest_message() const {
    std::int64_t largest = 0;
    for (Step step(0); step.value() < layout_.steps(); ++step) {
      const Panel panel(layout_, step);
      largest = std::max(largest, v_offset(panel) + panel.rows * panel.reflectors);
    }
    return largest;
  }

  // A message: columns of the band, t, V.
  static std::int64_t band_rows(const SlabLayout& layout) { return layout.tile() + 1; }
  std::int64_t t_offset(const Panel& panel) const { return band_rows(layout_) * panel.columns; }
  std::int64_t v_offset(const Panel& panel) const {
    return t_offset(panel) + panel.reflectors * panel.reflectors;
  }
  MatrixView<T> payload(Step step, std::int64_t offset, std::int64_t rows,
                        std::int64_t columns) const {
    return messages_.payload(step.value(), layout_.owner(step), offset, rows, columns);
  }
  MatrixView<T> band_columns(Step step, const Panel& panel) const {
    return payload(step, 0, band_rows(layout_), panel.columns);
  }
  MatrixView<T> t(Step step, const Panel& panel) const {
    return payload(step, t_offset(panel), panel.reflectors, panel.reflectors);
  }
  MatrixView<T> sent_v(Step step, const Panel& panel) const {
    return payload(step, v_offset(panel), panel.rows, panel.reflectors);
  }

  /// Columns of l and r that are in use.
  std::int64_t held() const { return 2 * put_off_; }
  /// Rows from a position on.
  static MatrixView<T> from(MatrixView<T> a, std::int64_t position) {
    return a.block(position, 0, a.rows() - position, a.columns());
  }
  static MatrixView<T> rows_of(MatrixView<T> a, LocalRange rows) {
    return a.block(rows.begin.value(), 0, rows.size(), a.columns());
  }
  MatrixView<T> left() const { return left_.columns_from(0, held()); }
  /// Of some of this rank's columns.
  MatrixView<T> right(LocalRange columns) const {
    return rows_of(right_.columns_from(0, held()), columns);
  }
  // Of the newest panel, which stands behind those.
  MatrixView<T> v(const Panel& panel) const { return left_.columns_from(held(), panel.reflectors); }
  MatrixView<T> w(const Panel& panel) const {
    return left_.columns_from(held() + panel.reflectors, panel.reflectors);
  }
  MatrixView<T> own_w(const Panel& panel, LocalRange columns) const {
    return rows_of(right_.columns_from(held(), panel.reflectors), columns);
  }
  MatrixView<T> own_v(const Panel& panel, LocalRange columns) const {
    return rows_of(right_.columns_from(held() + panel.reflectors, panel.reflectors), columns);
  }
  /// The rows with the numbers of some of this rank's columns.
  void take_own(MatrixView<T> source, LocalRange columns, MatrixView<T> target) {
    band_kernels_.permute_rows(rank_.update(), order_.positions(rank_.index(), columns.begin),
                               source, target);
  }

  void make_panel(Step step, const Panel& panel) {
    if (step.value() > 0) {
      rank_.panel().wait(panel_updated_, sites::panel_updated);
    }
    // p -= l r^H
    const LocalRange columns = layout_.columns(step);
    if (held() > 0) {
      kernels_.gemm(rank_.panel(), Op::none, Op::conjugate_transpose, T{-1},
                    from(left(), panel.first), right(columns), T{1}, slab(panel.first, columns));
    }
    messages_.stamp(rank_.panel(), step.value());
    // V-part = Q [R; 0]
    const MatrixView<T> p = slab(panel.first, columns);
    const MatrixView<T> v_part = from(p, panel.top());
    const MatrixView<T> r = r_.block(0, 0, panel.reflectors, panel.columns);
    band_kernels_.panel_qr(rank_.panel(), v_part, r, t(step, panel), scratch_.data());
    band_kernels_.store_band(rank_.panel(), p.block(0, 0, panel.top(), panel.columns), r,
                             band_columns(step, panel));
    kernels_.copy(rank_.panel(), v_part.columns_from(0, panel.reflectors), sent_v(step, panel));
    rank_.panel().record(panel_made_);
  }

  /// The ring's one slot is free, and no more is to be waited for: before its next message is made,
  /// the products that this one was needed for have come from all ranks. Behind the last
  /// reflectors, where there are no products, each owner has one step.
  void send_panel(Step step) {
    messages_.begin(step.value(), owns(step));
    if (owns(step)) {
      rank_.transfer().wait(panel_made_, sites::panel_made);
    }
    const Panel panel(layout_, step);
    messages_.publish(step.value(), layout_.owner(step),
                      v_offset(panel) + panel.rows * panel.reflectors);
    flags_.receive(step.value(), messages_.header(step.value(), layout_.owner(step)));
    rank_.transfer().record(messages_.arrived(step.value()));
  }

  void take_panel(Step step, const Panel& panel) {
    runtime::Queue& queue = rank_.update();
    queue.wait(messages_.arrived(step.value()), sites::panel_arrived);
    kernels_.copy(queue, band_columns(step, panel),
                  form_.band.block(0, panel.first, band_rows(layout_), panel.columns));
    kernels_.copy(queue, t(step, panel),
                  form_.t.block(0, panel.first, panel.reflectors, panel.reflectors));
    const std::int64_t behind = panel.first + panel.columns;
    if (panel.begin > behind) {  // rows between the panel's columns and its reflectors
      kernels_.fill(queue, T{0}, v(panel).block(behind, 0, panel.begin - behind, panel.reflectors));
    }
    kernels_.copy(queue, sent_v(step, panel), from(v(panel), panel.begin));
    const LocalRange columns = columns_after(step);
    take_own(v(panel), columns, own_v(panel, columns));
  }

  /// A multiple of the identity is in no update: V w^H + w V^H is the same with and without it.
  /// Without it what is rounded is smaller where the diagonal is about that multiple, and the
  /// eigenvalues of a matrix near a multiple of the identity do not drift. Elsewhere it would be an
  /// error of the size of the largest entries in the rows of the smallest.
  RealOf<T> shift_of_diagonal() {
    const std::int64_t width = slab_.columns();
    const MatrixView<RealOf<T>> diagonal = rank_.workspace<RealOf<T>>(width, 1);
    for (Step step = layout_.next_owned(rank_.index(), Step(0)); step.value() < layout_.steps();
         step = layout_.next_owned(rank_.index(), step + 1)) {
      const LocalRange columns = layout_.columns(step);
      kernels_.diagonal(
          rank_.update(),
          slab(layout_.eliminated(step), columns).block(0, 0, columns.size(), columns.size()),
          diagonal.data() + columns.begin.value());
    }
    const std::vector<RealOf<T>> own = rank_.fetch(rank_.update(), diagonal.data(), width);
    const double sum = programs::sum_of_all(rank_, std::accumulate(own.begin(), own.end(), 0.0));
    const double mean = sum / static_cast<double>(std::max<std::int64_t>(slab_.rows(), 1));
    double spread = 0.0;
    for (const RealOf<T> entry : own) {
      spread = std::max(spread, std::abs(entry - mean));
    }
    return programs::largest_of_all(rank_, spread) < std::abs(mean) / 2
               ? static_cast<RealOf<T>>(mean)
               : RealOf<T>{0};
  }

  void multiply_adjoint(MatrixView<T> a, MatrixView<T> b, MatrixView<T> c) const {
    dense::multiply_adjoint(kernels_, rank_.update(), tuning_.rows_at_once, a, b, c);
  }
  /// x = (A - shift I)^H V - r (l^H V) in the rows of this rank's columns that remain.
  void multiply(Step step, const Panel& panel) {
    runtime::Queue& queue = rank_.update();
    const LocalRange columns = columns_after(step);
    const MatrixView<T> x = products(step, panel, rank_.index());
    const MatrixView<T> v_part = from(v(panel), panel.begin);
    multiply_adjoint(slab(panel.begin, columns), v_part, x);
    if (held() > 0) {
      const MatrixView<T> sums = sums_.block(0, 0, held(), panel.reflectors);
      multiply_adjoint(from(left(), panel.begin), v_part, sums);
      kernels_.gemm(queue, Op::none, Op::none, T{-1}, right(columns), sums, T{1}, x);
    }
    kernels_.add(queue, T{-shift_}, own_v(panel, columns), x);
  }
  /// x in the rows of one rank's columns.
  MatrixView<T> products(Step step, const Panel& panel, std::int64_t of) const {
    const RowRun run = layout_.rows_from(step + 1)[static_cast<std::size_t>(of)];
    return {x_.data() + run.packed * panel.reflectors, run.rows.size(), panel.reflectors};
  }
  void gather_products(Step step, const Panel& panel) {
    rank_.update().record(products_made_);
    rank_.transfer().wait(products_made_, sites::products_made);
    if (panel.reflectors == 0) {
      return;
    }
    std::vector<comm::Bytes> pieces;
    for (std::int64_t r = 0; r < rank_.count(); ++r) {
      pieces.push_back(programs::bytes_of(products(step, panel, r)));
    }
    rank_.communicator().all_gather(rank_.transfer(), std::move(pieces));
    rank_.transfer().record(products_gathered_);
  }

  /// w = y - 1/2 V (t^H (V^H y)), y = x t
  void make_w(Step step, const Panel& panel) {
    runtime::Queue& queue = rank_.update();
    const std::int64_t k = panel.reflectors;
    const MatrixView<T> t = form_.t.block(0, panel.first, k, k);
    queue.wait(products_gathered_, sites::products_gathered);
    const MatrixView<T> y = y_.columns_from(0, k);  // rows in the caller's order
    for (const RowRun& run : layout_.rows_from(step + 1)) {
      kernels_.gemm(queue, Op::none, Op::none, T{1}, products(step, panel, run.rank), t, T{0},
                    y.block(run.rows.begin.value(), 0, run.rows.size(), k));
    }
    const std::int64_t behind = panel.first + panel.columns;
    band_kernels_.permute_rows(queue, order_.rows(behind), y, from(w(panel), behind));
    const MatrixView<T> v_part = from(v(panel), panel.begin);
    const MatrixView<T> w_part = from(w(panel), panel.begin);
    const MatrixView<T> vy = small_[0].block(0, 0, k, k);
    const MatrixView<T> tvy = small_[1].block(0, 0, k, k);
    multiply_adjoint(v_part, w_part, vy);
    kernels_.gemm(queue, Op::conjugate_transpose, Op::none, T{1}, t, vy, T{0}, tvy);
    kernels_.gemm(queue, Op::none, Op::none, T{-0.5}, v_part, tvy, T{1}, w_part);
    const LocalRange columns = columns_after(step);
    take_own(w(panel), columns, own_w(panel, columns));
    put_off_ += k;
  }

  void update_slab(Step step) {
    const bool now = put_off_ >= deferred_;
    if (now && owns(step + 1)) {
      update(layout_.eliminated(step + 1), layout_.columns(step + 1));
    }
    rank_.update().record(panel_updated_);
    if (now && mirror_ != nullptr) {
      update_below(step + 2);
      mirror_->run(step + 2);  // no product has to do with the next panel's rows
    } else if (now) {
      update(layout_.eliminated(step + 2), columns_after(step + 1));
    }
    put_off_ = now ? 0 : put_off_;
  }
  /// A -= l r^H in rows from a position on.
  void update(std::int64_t position, LocalRange columns) const {
    kernels_.gemm(rank_.update(), Op::none, Op::conjugate_transpose, T{-1}, from(left(), position),
                  right(columns), T{1}, slab(position, columns));
  }

  /// A -= l r^H on and below the diagonal from a step on; above it where a larger product is faster
  /// than several, which the mirror then puts right. Of several ranks a block at a time, at least.
  void update_below(Step first) const {
    if (rank_.count() == 1 && tuning_.blocks_at_once == 0) {
      update_staircase(first);
      return;
    }
    const std::int64_t at_once = std::max<std::int64_t>(tuning_.blocks_at_once, 1) * layout_.tile();
    const LocalIndex end(slab_.columns());
    for (LocalIndex begin = layout_.eliminated(rank_.index(), first); begin < end;) {
      const LocalIndex behind = std::min(begin + at_once, end);
      update(layout_.position(layout_.global(rank_.index(), begin)).value(), {begin, behind});
      begin = behind;
    }
  }
  /// Of one rank, whose rows have the same numbers in both orders.
  void update_staircase(Step first) const {
    for (const layout::Batch& batch :
         layout::in_batches(layout::lower_staircase(layout_, 0, first.value(), layout_.steps()))) {
      const std::int64_t row = batch.first.rows.begin.value();
      const LocalRange columns = batch.first.columns;
      const std::int64_t rows = batch.first.rows.size();
      kernels_.gemm_batch(
          rank_.update(), Op::none, Op::conjugate_transpose, T{-1},
          left().block(row, 0, rows, held()), right(columns), T{1},
          slab_.block(row, columns.begin.value(), rows, columns.size()),
          {batch.count, batch.distance, batch.distance, batch.distance * (slab_.stride() + 1)});
    }
  }

  /// Some of this rank's columns, in rows from a position on.
  MatrixView<T> slab(std::int64_t position, LocalRange columns) const {
    return from(slab_.columns_from(columns.begin.value(), columns.size()), position);
  }
  /// Columns of this rank that are left after a step.
  LocalRange columns_after(Step step) const {
    return {layout_.eliminated(rank_.index(), step + 1), LocalIndex(slab_.columns())};
  }

  void report(Step step) {
    const double left =
        1.0 - static_cast<double>(layout_.eliminated(step)) / static_cast<double>(layout_.size());
    rank_.report("reduce to band", 1.0 - left * left * left);
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  const RowOrder<T>& order_;
  MatrixView<T> slab_;
  std::int64_t deferred_;
  Mirror<T>* mirror_;
  RealOf<T> shift_{0};
  BandForm<T> form_;
  const runtime::Kernels<T>& kernels_;
  const runtime::BandKernels<T>& band_kernels_;
  runtime::BandTuning tuning_;
  programs::StepFlags flags_;
  programs::MessageRing<T> messages_;
  std::int64_t put_off_ = 0;            // columns of V in l and r
  MatrixView<T> left_;                  // l: V and w of each panel put off
  MatrixView<T> right_;                 // r: w and V
  MatrixView<T> sums_;                  // l^H V
  MatrixView<T> x_;                     // of each rank without gaps, in rank order
  MatrixView<T> y_;                     // rows in the caller's order
  std::array<MatrixView<T>, 2> small_;  // V^H y, t^H (V^H y)
  MatrixView<T> r_;
  MatrixView<std::byte> scratch_;
  runtime::Event& panel_updated_;  // the next panel, but for what is put off
  runtime::Event& panel_made_;     // the owner's message is
  runtime::Event& products_made_;  // and the message was read
  runtime::Event& products_gathered_;
};

}  // namespace

template <Scalar T>
BandForm<T> make_band_form(mesh::Rank& rank, const SlabLayout& layout) {
  return {rank.workspace<T>(2 * layout.tile() + 1, layout.size()),
          rank.workspace<T>(layout.tile(), layout.size())};
}

template <Scalar T>
void full_to_band(mesh::Rank& rank, const SlabLayout& layout, const RowOrder<T>& order,
                  MatrixView<T> slab, const SlabUpdates<T>& updates, const BandForm<T>& form) {
  FullToBand<T>(rank, layout, order, slab, updates, form).run();
}

#define SHARDSOLVE_INSTANTIATE(T)                                                               \
  template BandForm<T> make_band_form(mesh::Rank&, const SlabLayout&);                          \
  template void full_to_band(mesh::Rank&, const SlabLayout&, const RowOrder<T>&, MatrixView<T>, \
                             const SlabUpdates<T>&, const BandForm<T>&);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(std::complex<float>)
SHARDSOLVE_INSTANTIATE(std::complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::eigh
