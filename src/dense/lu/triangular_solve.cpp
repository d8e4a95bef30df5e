// P A Q^T = L U, so that
//
//   A x = b      L z = P b,         U (Q x) = z
//   A^T x = b    U^T z = Q b,       L^T (P x) = z
//
// and with A^H likewise. What is in the order of elimination lies where the columns of that order
// do: Q b is b as it lies. P moves rows across ranks (RowOrder).
//
// A sweep goes over the steps, upwards or downwards, with t11 the diagonal tile of a step, all
// other entries of L or U in the step's columns in t21, both in the slab of the step's owner, and
// b1 the owner's rows of B:
//
//   by columns   b1 = t11^-1 (b1 - sum_r z_r[rows of the step])   the owner gathers what every rank
//                z += t21 b1                                      has summed up for these rows
//   by rows      b1 = op(t11)^-1 b1, to all ranks
//                b -= op(row block of L or U) b1                  each rank its own rows
//
// What the next step needs is computed first, the rest while the next step is under way. One
// right-hand side goes another way where there is one: dense/shared/persistent_solve.hpp. A rank
// that is alone sends nothing, not even to itself: its host would wait for that longer than for the
// work. It takes several steps of the factor as one, where its device solves for more rows at once.

#include "dense/lu/triangular_solve.hpp"

#include "dense/lu/wait_sites.hpp"
#include "programs/bytes_of.hpp"
#include "programs/message_ring.hpp"
#include "programs/step_flags.hpp"
#include "runtime/lu_kernels.hpp"

#include <shardsolve/error.hpp>

#include <algorithm>
#include <complex>
#include <utility>
#include <vector>

namespace shardsolve::dense::lu {
namespace {

using runtime::Op;
using runtime::Triangle;

constexpr std::int64_t slots = 3;

/// Places in the order of elimination.
struct Places {
  std::int64_t begin;
  std::int64_t end;
};

/// What both kinds of sweeps share. Steps are counted in the order that the sweep takes them.
template <Scalar T>
class Sweep {
 public:
  Sweep(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab)
      : rank_(rank),
        layout_(layout),
        slab_(slab),
        base_(rank.kernels<T>()),
        kernels_(rank.kernels<runtime::LuKernels<T>>()) {}

 protected:
  void begin(Triangle triangle, Op op, bool upwards, MatrixView<T> b) {
    triangle_ = triangle;
    upwards_ = upwards;
    b_ = b;
    const std::int64_t at_once = is_alone() ? kernels_.rows_to_solve(op, b.columns()) : 0;
    together_ = std::max<std::int64_t>(at_once / layout_.tile(), 1);
    steps_ = (layout_.steps() + together_ - 1) / together_;
  }
  /// The layout's step, of which number `turn` of the sweep is, or the first of those.
  Step at(std::int64_t turn) const {
    return Step((upwards_ ? turn : steps_ - 1 - turn) * together_);
  }
  /// The one behind them.
  Step behind_those_of(std::int64_t turn) const {
    return Step(std::min(at(turn).value() + together_, layout_.steps()));
  }
  bool owns(std::int64_t turn) const {
    return turn >= 0 && turn < steps_ && layout_.owner(at(turn)) == rank_.index();
  }
  static std::size_t slot(std::int64_t turn) { return static_cast<std::size_t>(turn % slots); }
  LocalRange columns(std::int64_t turn) const {
    return {layout_.columns(at(turn)).begin, layout_.columns(behind_those_of(turn) - 1).end};
  }
  std::int64_t size(std::int64_t turn) const { return columns(turn).size(); }
  Places places(std::int64_t turn) const {
    return {layout_.eliminated(at(turn)), layout_.eliminated(behind_those_of(turn))};
  }

  /// Rows of B that belong to a step of this rank.
  MatrixView<T> rows_of_b(std::int64_t turn) const {
    return b_.block(columns(turn).begin.value(), 0, size(turn), b_.columns());
  }
  /// Rows of L and U in some columns of this rank.
  MatrixView<const T> factor(Places rows, LocalRange columns) const {
    return slab_.block(rows.begin, columns.begin.value(), rows.end - rows.begin, columns.size());
  }
  bool is_alone() const { return rank_.count() == 1; }
  /// Now and then, where no message does: whether the call is to go on.
  void look_up(std::int64_t turn) {
    constexpr std::int64_t turns = 16;
    if (turn % turns == turns - 1) {
      rank_.finish(rank_.update());
      if (rank_.stop_requested()) {
        throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
      }
    }
  }
  void solve_tile(std::int64_t turn, Op op) {
    kernels_.solve_tile(rank_.update(), triangle_, op, factor(places(turn), columns(turn)),
                        rows_of_b(turn));
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<const T> slab_;
  // of the current run
  std::int64_t steps_ = 0;
  std::int64_t together_ = 1;  // the layout's steps in one of these
  Triangle triangle_ = Triangle::lower;
  bool upwards_ = true;
  MatrixView<T> b_;
  const runtime::Kernels<T>& base_;
  const runtime::LuKernels<T>& kernels_;
};

template <Scalar T>
class ByColumns : Sweep<T> {
 public:
  /// For right-hand sides of up to `columns` columns.
  ByColumns(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
            std::int64_t columns)
      : Sweep<T>(rank, layout, slab), sums_(rank.workspace<T>(layout.size(), columns)) {
    const std::int64_t piece = layout.tile() * columns;
    for (std::int64_t i = 0; i < slots; ++i) {
      ready_.push_back(&rank.event());
      gathered_.push_back(&rank.event());
      used_.push_back(&rank.event());
      outgoing_.push_back(rank.workspace<T>(piece, 1));
      incoming_.push_back(rank.workspace<T>(piece, rank.count()));
    }
  }

  /// b = t^-1 b: L, upwards, or U, downwards.
  void run(Triangle triangle, MatrixView<T> b) {
    this->begin(triangle, Op::none, triangle == Triangle::lower, b);
    z_ = sums_.columns_from(0, b.columns());
    base_.fill(rank_.update(), T{0}, z_);
    for (std::int64_t turn = 0; turn < steps_; ++turn) {
      rank_.set_step(turn);
      if (this->is_alone()) {
        this->look_up(turn);
      } else {
        // At most three steps ahead. This also says that the slot's last sums have been sent.
        gathered_[slot(turn)]->synchronize(sites::sums_ahead);
        rank_.leave_if_failed();
        send_sums(turn);
      }
      if (!this->is_alone() && owns(turn - 1)) {
        eliminate(turn - 1, beyond(turn));
      }
      if (owns(turn)) {
        solve(turn);
      }
    }
  }

 private:
  using Sweep<T>::rank_;
  using Sweep<T>::layout_;
  using Sweep<T>::steps_;
  using Sweep<T>::triangle_;
  using Sweep<T>::b_;
  using Sweep<T>::base_;
  using Sweep<T>::owns;
  using Sweep<T>::slot;
  using Sweep<T>::size;
  using Sweep<T>::places;

  MatrixView<T> piece(MatrixView<T> memory, std::int64_t turn, std::int64_t rank) const {
    return {memory.columns_from(rank, 1).data(), size(turn), b_.columns()};
  }
  MatrixView<T> z_rows(Places rows) const {
    return z_.block(rows.begin, 0, rows.end - rows.begin, z_.columns());
  }
  /// All rows that come after those of a step.
  Places beyond(std::int64_t turn) const {
    return triangle_ == Triangle::lower ? Places{places(turn).end, layout_.size()}
                                        : Places{0, places(turn).begin};
  }

  /// Everybody's sums for the rows of this step go to its owner.
  void send_sums(std::int64_t turn) {
    std::vector<comm::Bytes> pieces(static_cast<std::size_t>(rank_.count()));
    const MatrixView<T> sums = piece(outgoing_[slot(turn)], turn, 0);
    if (owns(turn)) {
      for (std::int64_t r = 0; r < rank_.count(); ++r) {
        pieces[static_cast<std::size_t>(r)] =
            programs::bytes_of(piece(incoming_[slot(turn)], turn, r));
      }
      rank_.transfer().wait(*used_[slot(turn)], sites::sums_used);
    } else {
      base_.copy(rank_.update(), z_rows(places(turn)), sums);
      rank_.update().record(*ready_[slot(turn)]);
      rank_.transfer().wait(*ready_[slot(turn)], sites::sums_ready);
    }
    rank_.communicator().gather(rank_.transfer(), programs::bytes_of(sums), std::move(pieces),
                                layout_.owner(this->at(turn)));
    rank_.transfer().record(*gathered_[slot(turn)]);
  }

  /// b1 = t11^-1 (b1 - the sums, in rank order), then z for the rows of the next step, or of all.
  void solve(std::int64_t turn) {
    const MatrixView<T> b1 = this->rows_of_b(turn);
    if (!this->is_alone()) {
      rank_.update().wait(*gathered_[slot(turn)], sites::sums_gathered);
    }
    for (std::int64_t r = 0; r < rank_.count(); ++r) {
      const MatrixView<T> sums =
          r == rank_.index() ? z_rows(places(turn)) : piece(incoming_[slot(turn)], turn, r);
      base_.add(rank_.update(), T{-1}, sums, b1);
    }
    rank_.update().record(*used_[slot(turn)]);
    this->solve_tile(turn, Op::none);
    if (turn + 1 < steps_) {
      eliminate(turn, this->is_alone() ? beyond(turn) : places(turn + 1));
    }
  }

  /// z += t21 b1 on some rows.
  void eliminate(std::int64_t turn, Places rows) {
    base_.gemm(rank_.update(), Op::none, Op::none, T{1}, this->factor(rows, this->columns(turn)),
               this->rows_of_b(turn), T{1}, z_rows(rows));
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
class ByRows : Sweep<T> {
 public:
  /// For right-hand sides of up to `columns` columns.
  ByRows(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab, std::int64_t columns)
      : Sweep<T>(rank, layout, slab),
        flags_(rank),
        messages_(rank, slots, layout.tile() * columns),
        solved_(rank.event()) {}

  /// b = op(t)^-1 b: U, upwards, or L, downwards.
  void run(Triangle triangle, Op op, MatrixView<T> b) {
    this->begin(triangle, op, triangle == Triangle::upper, b);
    if (this->is_alone()) {
      run_alone(op);
      return;
    }
    for (std::int64_t turn = 0; turn < steps_ && flags_.may_enqueue(sent_); ++turn) {
      rank_.set_step(turn);
      messages_.await_done(sent_, sites::rows_used);
      messages_.begin(sent_, owns(turn));
      if (owns(turn)) {
        messages_.await_free(rank_.update(), sites::rows_slot_free);
        this->solve_tile(turn, op);
        base_.copy(rank_.update(), this->rows_of_b(turn), x1(turn, sent_));
        rank_.update().record(solved_);
      }
      send(turn);
      if (turn > 0) {
        substitute_rest(turn - 1, op);
      }
      rank_.update().wait(messages_.arrived(sent_), sites::rows_arrived);
      if (owns(turn + 1)) {
        substitute(turn, x1(turn, sent_), op, layout_.columns(this->at(turn + 1)));
      }
      ++sent_;
    }
    // The last message is read by nobody: no row comes after it.
    flags_.finish(sent_);
    flags_.throw_if_cancelled();
  }

 private:
  using Sweep<T>::rank_;
  using Sweep<T>::layout_;
  using Sweep<T>::steps_;
  using Sweep<T>::upwards_;
  using Sweep<T>::b_;
  using Sweep<T>::base_;
  using Sweep<T>::owns;
  using Sweep<T>::size;

  void run_alone(Op op) {
    for (std::int64_t turn = 0; turn < steps_; ++turn) {
      rank_.set_step(turn);
      this->look_up(turn);
      this->solve_tile(turn, op);
      substitute(turn, this->rows_of_b(turn), op, behind(turn));
    }
  }

  /// Own rows that come after those of a step.
  LocalRange behind(std::int64_t turn) const {
    if (upwards_) {
      return {layout_.eliminated(rank_.index(), this->behind_those_of(turn)),
              LocalIndex(b_.rows())};
    }
    return {LocalIndex(0), layout_.eliminated(rank_.index(), this->at(turn))};
  }

  /// The solved rows of a step, which travel as this message.
  MatrixView<T> x1(std::int64_t turn, std::int64_t message) const {
    return messages_.payload(message, layout_.owner(this->at(turn)), 0, size(turn), b_.columns());
  }

  void send(std::int64_t turn) {
    if (owns(turn)) {
      messages_.stamp(rank_.transfer(), sent_);
      rank_.transfer().wait(solved_, sites::rows_solved);
    }
    const std::int64_t owner = layout_.owner(this->at(turn));
    messages_.publish(sent_, owner, size(turn) * b_.columns());
    flags_.receive(sent_, messages_.header(sent_, owner));
    rank_.transfer().record(messages_.arrived(sent_));
  }

  /// All rows of this rank that come after those of the step, but those of the next step, which
  /// have it.
  void substitute_rest(std::int64_t turn, Op op) {
    const std::int64_t message = sent_ - 1;
    substitute(turn, x1(turn, message), op, behind(turn + 1));
    rank_.update().record(messages_.done(message));
  }

  /// b -= op(rows of the step in these columns) b1.
  void substitute(std::int64_t turn, MatrixView<const T> b1, Op op, LocalRange columns) {
    base_.gemm(rank_.update(), op, Op::none, T{-1}, this->factor(this->places(turn), columns), b1,
               T{1}, b_.block(columns.begin.value(), 0, columns.size(), b_.columns()));
  }

  programs::StepFlags flags_;
  std::int64_t sent_ = 0;  // messages, over all runs
  programs::MessageRing<T> messages_;
  runtime::Event& solved_;  // the owner's rows are in their slot
};

}  // namespace

template <Scalar T>
struct TriangularSolve<T>::Sweeps {
  ByColumns<T> by_columns;
  ByRows<T> by_rows;
};

template <Scalar T>
TriangularSolve<T>::TriangularSolve(mesh::Rank& rank, const SlabLayout& layout,
                                    MatrixView<const T> slab, const std::vector<std::int64_t>& rows,
                                    std::int64_t columns)
    : width_(std::max<std::int64_t>(std::min(layout.tile(), columns), 1)),
      order_(rank, layout, rows, width_) {
  if (columns == 1) {
    persistent_ = PersistentSolve<T>::make(rank, layout, slab, Factors::l_and_u);
  }
  if (!persistent_) {
    sweeps_ = std::make_unique<Sweeps>(
        Sweeps{{rank, layout, slab, width_}, {rank, layout, slab, width_}});
  }
}

template <Scalar T>
TriangularSolve<T>::~TriangularSolve() = default;

template <Scalar T>
void TriangularSolve<T>::run(Op op, MatrixView<T> b) {
  for (std::int64_t first = 0; first < b.columns(); first += width_) {
    const MatrixView<T> some = b.columns_from(first, std::min(width_, b.columns() - first));
    if (op == Op::none) {
      order_.to_pivots(some);
    }
    if (persistent_) {
      persistent_->run(op, some);
    } else if (op == Op::none) {
      sweeps_->by_columns.run(Triangle::lower, some);
      sweeps_->by_columns.run(Triangle::upper, some);
    } else {
      sweeps_->by_rows.run(Triangle::upper, op, some);
      sweeps_->by_rows.run(Triangle::lower, op, some);
    }
    if (op != Op::none) {
      order_.to_rows(some);
    }
  }
}

template class TriangularSolve<float>;
template class TriangularSolve<double>;
template class TriangularSolve<std::complex<float>>;
template class TriangularSolve<std::complex<double>>;

}  // namespace shardsolve::dense::lu
