// Two sweeps over the steps, with l11 the diagonal tile of a step, l21 the rows below it, both in
// the slab of the step's owner, and b1 the owner's rows of B:
//
//   forward   b1 = l11^-1 (b1 - sum_r z_r[rows of the step])   the owner gathers what every rank
//             z += l21 b1                                      has summed up for these rows
//   backward  b1 = l11^-H b1, to all ranks
//             b -= (row block of L)^H b1                       each rank its own rows
//
// What the next step needs is computed first, the rest while the next step is under way. One
// right-hand side goes another way where there is one: dense/shared/persistent_solve.hpp.

#include "dense/cholesky/triangular_solve.hpp"

#include "dense/cholesky/wait_sites.hpp"
#include "programs/bytes_of.hpp"
#include "programs/message_ring.hpp"
#include "programs/step_flags.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace shardsolve::dense::cholesky {
namespace {

using runtime::Op;
using runtime::Side;
using runtime::Triangle;

constexpr std::int64_t slots = 3;

/// What both sweeps share: views of the factor and of B.
template <Scalar T>
class Sweep {
 public:
  Sweep(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab, Step end)
      : rank_(rank), layout_(layout), slab_(slab), end_(end.value()), kernels_(rank.kernels<T>()) {}

 protected:
  bool owns(std::int64_t step) const {
    return step >= 0 && step < end_ && layout_.owner(Step(step)) == rank_.index();
  }
  static std::size_t slot(std::int64_t step) { return static_cast<std::size_t>(step % slots); }
  std::int64_t size(std::int64_t step) const { return layout_.columns(Step(step)).size(); }

  /// Rows of B that belong to a step of this rank.
  MatrixView<T> rows_of_b(std::int64_t step) const {
    return b_.block(layout_.columns(Step(step)).begin.value(), 0, size(step), b_.columns());
  }
  /// Rows of the slab in the columns of a step of this rank.
  MatrixView<const T> factor(std::int64_t step, GlobalRange rows) const {
    return slab_.block(rows.begin.value(), layout_.columns(Step(step)).begin.value(), rows.size(),
                       size(step));
  }
  MatrixView<const T> diagonal_tile(std::int64_t step) const {
    return factor(step, layout_.rows(Step(step)));
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<const T> slab_;
  std::int64_t end_;  // steps that there are
  MatrixView<T> b_;   // of the current run
  const runtime::Kernels<T>& kernels_;
};

template <Scalar T>
class Forward : Sweep<T> {
 public:
  /// For right-hand sides of up to `columns` columns.
  Forward(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab, Step end,
          std::int64_t columns)
      : Sweep<T>(rank, layout, slab, end), sums_(rank.workspace<T>(layout.size(), columns)) {
    const std::int64_t piece = layout.tile() * columns;
    for (std::int64_t i = 0; i < slots; ++i) {
      ready_.push_back(&rank.event());
      gathered_.push_back(&rank.event());
      used_.push_back(&rank.event());
      outgoing_.push_back(rank.workspace<T>(piece, 1));
      incoming_.push_back(rank.workspace<T>(piece, rank.count()));
    }
  }

  void run(MatrixView<T> b) {
    b_ = b;
    z_ = sums_.columns_from(0, b.columns());
    kernels_.fill(rank_.update(), T{0}, z_);
    for (std::int64_t step = 0; step < end_; ++step) {
      rank_.set_step(step);
      // At most three steps ahead. This also says that the slot's last sums have been sent.
      gathered_[slot(step)]->synchronize(sites::forward_ahead);
      rank_.leave_if_failed();
      send_sums(step);
      if (owns(step - 1)) {
        eliminate_rest(step - 1);
      }
      if (owns(step)) {
        solve_tile(step);
      }
    }
    if (owns(end_ - 1)) {
      eliminate_rest(end_ - 1);
    }
  }
  /// Behind run(): the rank's part of what its columns of L contribute to some rows.
  MatrixView<T> z_rows(GlobalRange rows) const {
    return z_.block(rows.begin.value(), 0, rows.size(), z_.columns());
  }

 private:
  using Sweep<T>::rank_;
  using Sweep<T>::layout_;
  using Sweep<T>::end_;
  using Sweep<T>::b_;
  using Sweep<T>::kernels_;
  using Sweep<T>::owns;
  using Sweep<T>::slot;
  using Sweep<T>::size;

  MatrixView<T> piece(MatrixView<T> memory, std::int64_t step, std::int64_t rank) const {
    return {memory.columns_from(rank, 1).data(), size(step), b_.columns()};
  }

  /// Everybody's sums for the rows of this step go to its owner.
  void send_sums(std::int64_t step) {
    const std::int64_t owner = layout_.owner(Step(step));
    std::vector<comm::Bytes> pieces(static_cast<std::size_t>(rank_.count()));
    const MatrixView<T> sums = piece(outgoing_[slot(step)], step, 0);
    if (owns(step)) {
      for (std::int64_t r = 0; r < rank_.count(); ++r) {
        pieces[static_cast<std::size_t>(r)] =
            programs::bytes_of(piece(incoming_[slot(step)], step, r));
      }
      rank_.transfer().wait(*used_[slot(step)], sites::forward_sums_used);
    } else {
      kernels_.copy(rank_.update(), z_rows(layout_.rows(Step(step))), sums);
      rank_.update().record(*ready_[slot(step)]);
      rank_.transfer().wait(*ready_[slot(step)], sites::forward_sums_ready);
    }
    rank_.communicator().gather(rank_.transfer(), programs::bytes_of(sums), pieces, owner);
    rank_.transfer().record(*gathered_[slot(step)]);
  }

  /// b1 = l11^-1 (b1 - the sums, in rank order), then z for the rows of the next step.
  void solve_tile(std::int64_t step) {
    const MatrixView<T> b1 = this->rows_of_b(step);
    rank_.update().wait(*gathered_[slot(step)], sites::forward_sums_gathered);
    for (std::int64_t r = 0; r < rank_.count(); ++r) {
      const MatrixView<T> sums = r == rank_.index() ? z_rows(layout_.rows(Step(step)))
                                                    : piece(incoming_[slot(step)], step, r);
      kernels_.add(rank_.update(), T{-1}, sums, b1);
    }
    rank_.update().record(*used_[slot(step)]);
    kernels_.trsm(rank_.update(), Side::left, Triangle::lower, Op::none, this->diagonal_tile(step),
                  b1);
    if (step + 1 < layout_.steps()) {
      eliminate(step, layout_.rows(Step(step + 1)));
    }
  }

  void eliminate_rest(std::int64_t step) {
    for (const RowRun& run : layout_.rows_from(Step(std::min(step + 2, layout_.steps())))) {
      eliminate(step, run.rows);
    }
  }

  /// z += l21 b1 on some rows.
  void eliminate(std::int64_t step, GlobalRange rows) {
    kernels_.gemm(rank_.update(), Op::none, Op::none, T{1}, this->factor(step, rows),
                  this->rows_of_b(step), T{1}, z_rows(rows));
  }

  MatrixView<T> sums_;
  MatrixView<T> z_;  // as many columns of it as B has
  std::vector<MatrixView<T>> outgoing_;
  std::vector<MatrixView<T>> incoming_;    // one column a rank
  std::vector<runtime::Event*> ready_;     // the sums to be sent are in their slot
  std::vector<runtime::Event*> gathered_;  // they have been taken
  std::vector<runtime::Event*> used_;      // the owner has added them
};

template <Scalar T>
class Backward : Sweep<T> {
 public:
  /// For right-hand sides of up to `columns` columns.
  Backward(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab, Step end,
           std::int64_t columns)
      : Sweep<T>(rank, layout, slab, end),
        flags_(rank),
        messages_(rank, slots, layout.tile() * columns),
        solved_(rank.event()) {}

  void run(MatrixView<T> b) {
    b_ = b;
    const std::int64_t last = end_ - 1;
    for (std::int64_t step = last; step >= 0 && flags_.may_enqueue(messages_sent_); --step) {
      rank_.set_step(step);
      messages_.await_done(step, sites::backward_used);
      messages_.begin(step, owns(step));
      if (owns(step)) {
        messages_.await_free(rank_.update(), sites::backward_slot_free);
        solve_tile(step);
      }
      send_tile(step);
      if (step < last) {
        substitute_rest(step + 1);
      }
      substitute_next(step);
    }
    flags_.finish(messages_sent_);
    flags_.throw_if_cancelled();
  }

 private:
  using Sweep<T>::rank_;
  using Sweep<T>::layout_;
  using Sweep<T>::slab_;
  using Sweep<T>::end_;
  using Sweep<T>::b_;
  using Sweep<T>::kernels_;
  using Sweep<T>::owns;
  using Sweep<T>::size;

  MatrixView<T> x1(std::int64_t step) const {
    return messages_.payload(step, layout_.owner(Step(step)), 0, size(step), b_.columns());
  }

  /// b1 = l11^-H b1, and a copy of it to be sent.
  void solve_tile(std::int64_t step) {
    const MatrixView<T> b1 = this->rows_of_b(step);
    kernels_.trsm(rank_.update(), Side::left, Triangle::lower, Op::conjugate_transpose,
                  this->diagonal_tile(step), b1);
    kernels_.copy(rank_.update(), b1, x1(step));
    rank_.update().record(solved_);
  }

  void send_tile(std::int64_t step) {
    if (owns(step)) {
      messages_.stamp(rank_.transfer(), step);
      rank_.transfer().wait(solved_, sites::backward_solved);
    }
    const std::int64_t owner = layout_.owner(Step(step));
    messages_.publish(step, owner, size(step) * b_.columns());
    flags_.receive(messages_sent_++, messages_.header(step, owner));
    rank_.transfer().record(messages_.arrived(step));
  }

  /// The rows of the step that comes next, if they are this rank's.
  void substitute_next(std::int64_t step) {
    rank_.update().wait(messages_.arrived(step), sites::backward_arrived);
    if (owns(step - 1)) {
      substitute(step, layout_.columns(Step(step - 1)));
    }
  }

  /// All other rows of this rank that were eliminated before.
  void substitute_rest(std::int64_t step) {
    const LocalIndex end = owns(step - 1) ? layout_.columns(Step(step - 1)).begin
                                          : layout_.eliminated(rank_.index(), Step(step));
    substitute(step, {LocalIndex(0), end});
    rank_.update().record(messages_.done(step));
  }

  /// b -= (rows of the step in these columns of L)^H b1.
  void substitute(std::int64_t step, LocalRange columns) {
    const GlobalRange rows = layout_.rows(Step(step));
    const MatrixView<const T> l =
        slab_.block(rows.begin.value(), columns.begin.value(), rows.size(), columns.size());
    kernels_.gemm(rank_.update(), Op::conjugate_transpose, Op::none, T{-1}, l, x1(step), T{1},
                  b_.block(columns.begin.value(), 0, columns.size(), b_.columns()));
  }

  programs::StepFlags flags_;
  std::int64_t messages_sent_ = 0;
  programs::MessageRing<T> messages_;
  runtime::Event& solved_;  // the owner's tile is in its slot
};

}  // namespace

template <Scalar T>
struct TriangularSolve<T>::Sweeps {
  Forward<T> forward;
  Backward<T> backward;
};

template <Scalar T>
TriangularSolve<T>::TriangularSolve(mesh::Rank& rank, const SlabLayout& layout,
                                    MatrixView<const T> slab, std::int64_t columns)
    : rank_(rank), width_(std::min(layout.tile(), columns)) {
  if (columns == 1) {
    persistent_ = PersistentSolve<T>::make(rank, layout, slab, Factors::l_and_adjoint);
  }
  if (persistent_) {
    return;
  }
  const Step end(layout.steps());
  sweeps_ = std::make_unique<Sweeps>(
      Sweeps{{rank, layout, slab, end, width_}, {rank, layout, slab, end, width_}});
}

template <Scalar T>
TriangularSolve<T>::~TriangularSolve() = default;

template <Scalar T>
void TriangularSolve<T>::run(MatrixView<T> b) {
  if (persistent_) {
    rank_.report("solve", 0.0);
    persistent_->run(Op::none, b);
    return;
  }
  for (std::int64_t first = 0; first < b.columns(); first += width_) {
    const MatrixView<T> some = b.columns_from(first, std::min(width_, b.columns() - first));
    rank_.report("solve", static_cast<double>(first) / static_cast<double>(b.columns()));
    sweeps_->forward.run(some);
    sweeps_->backward.run(some);
  }
}

template <Scalar T>
struct HalfSolve<T>::Sweep {
  std::optional<Forward<T>> forward;
  std::optional<Backward<T>> backward;
};

template <Scalar T>
HalfSolve<T>::HalfSolve(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                        std::int64_t columns, Half half)
    : sweep_(std::make_unique<Sweep>()) {
  const Step end(layout.steps());
  if (half == Half::solve) {
    sweep_->forward.emplace(rank, layout, slab, end, columns);
  } else {
    sweep_->backward.emplace(rank, layout, slab, end, columns);
  }
}

template <Scalar T>
HalfSolve<T>::~HalfSolve() = default;

template <Scalar T>
void HalfSolve<T>::run(MatrixView<T> b) {
  if (sweep_->forward) {
    sweep_->forward->run(b);
  } else {
    sweep_->backward->run(b);
  }
}

template <Scalar T>
struct PartialSolve<T>::Sweeps {
  Forward<T> forward;
  Backward<T> backward;
};

template <Scalar T>
PartialSolve<T>::PartialSolve(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                              Step end, std::int64_t columns)
    : rank_(rank),
      layout_(layout),
      slab_(slab),
      end_(end),
      sweeps_(std::make_unique<Sweeps>(
          Sweeps{{rank, layout, slab, end, columns}, {rank, layout, slab, end, columns}})) {}

template <Scalar T>
PartialSolve<T>::~PartialSolve() = default;

template <Scalar T>
void PartialSolve<T>::forward(MatrixView<T> b1, MatrixView<T> rest) {
  sweeps_->forward.run(b1);
  for (const RowRun& run : layout_.rows_from(end_)) {
    rank_.kernels<T>().copy(rank_.update(), sweeps_->forward.z_rows(run.rows),
                            rest.block(run.packed, 0, run.rows.size(), rest.columns()));
  }
}

template <Scalar T>
void PartialSolve<T>::back(MatrixView<T> b1, MatrixView<const T> x2) {
  // b1 -= l21^H x2
  for (const RowRun& run : layout_.rows_from(end_)) {
    rank_.kernels<T>().gemm(rank_.update(), Op::conjugate_transpose, Op::none, T{-1},
                            slab_.block(run.rows.begin.value(), 0, run.rows.size(), b1.rows()),
                            x2.block(run.packed, 0, run.rows.size(), x2.columns()), T{1}, b1);
  }
  sweeps_->backward.run(b1);
}

template class HalfSolve<float>;
template class HalfSolve<double>;
template class HalfSolve<std::complex<float>>;
template class HalfSolve<std::complex<double>>;
template class PartialSolve<float>;
template class PartialSolve<double>;
template class PartialSolve<std::complex<float>>;
template class PartialSolve<std::complex<double>>;
template class TriangularSolve<float>;
template class TriangularSolve<double>;
template class TriangularSolve<std::complex<float>>;
template class TriangularSolve<std::complex<double>>;

}  // namespace shardsolve::dense::cholesky
