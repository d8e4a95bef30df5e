#include "dense/eigh/solve_columns.hpp"

#include "core/each_dtype.hpp"
#include "dense/eigh/wait_sites.hpp"
#include "programs/message_ring.hpp"
#include "programs/step_flags.hpp"

#include <vector>

namespace shardsolve::dense::eigh {
namespace {

using runtime::Op;

/// While one column block of L is used, the next one travels.
constexpr std::int64_t slots_of_factor = 2;

template <Scalar T>
class SolveColumns {
 public:
  SolveColumns(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> l, Op op,
               MatrixView<T> x)
      : rank_(rank),
        layout_(layout),
        l_(l),
        op_(op),
        x_(x),
        kernels_(rank.kernels<T>()),
        flags_(rank),
        messages_(rank, slots_of_factor, layout.size() * layout.tile()) {}

  void run() {
    std::int64_t turn = 0;
    for (; turn < layout_.steps() && flags_.may_enqueue(turn); ++turn) {
      const Step step(op_ == Op::none ? turn : layout_.steps() - 1 - turn);
      rank_.set_step(step.value());
      rank_.report("solve with a factor",
                   static_cast<double>(turn) / static_cast<double>(layout_.steps()));
      send(turn, step);
      rank_.update().wait(messages_.arrived(turn), sites::factor_arrived);
      if (op_ == Op::none) {
        forward(turn, step);
      } else {
        backward(turn, step);
      }
      rank_.update().record(messages_.done(turn));
    }
    flags_.finish(layout_.steps());
    flags_.throw_if_cancelled();
    rank_.finish(rank_.update());
  }

 private:
  // A message: the rows of L's column block that are not eliminated before it, packed as
  // rows_from() packs them.
  MatrixView<T> message(std::int64_t turn, Step step) const {
    const std::int64_t rows = layout_.size() - layout_.eliminated(step);
    return messages_.payload(turn, layout_.owner(step), 0, rows, layout_.columns(step).size());
  }
  static MatrixView<T> part(MatrixView<T> message, std::int64_t first, GlobalRange rows) {
    return message.block(first, 0, rows.size(), message.columns());
  }

  void send(std::int64_t turn, Step step) {
    const std::int64_t owner = layout_.owner(step);
    const bool owns = owner == rank_.index();
    messages_.await_done(turn, sites::factor_used);
    messages_.begin(turn, owns);
    const MatrixView<T> target = message(turn, step);
    if (owns) {
      messages_.stamp(rank_.transfer(), turn);
      const LocalRange columns = layout_.columns(step);
      for (const RowRun& run : layout_.rows_from(step)) {
        kernels_.copy(rank_.transfer(),
                      l_.block(run.rows.begin.value(), columns.begin.value(), run.rows.size(),
                               columns.size()),
                      part(target, run.packed, run.rows));
      }
    }
    messages_.publish(turn, owner, target.rows() * target.columns());
    flags_.receive(turn, messages_.header(turn, owner));
    rank_.transfer().record(messages_.arrived(turn));
  }

  MatrixView<T> rows_of_x(GlobalRange rows) const {
    return x_.block(rows.begin.value(), 0, rows.size(), x_.columns());
  }
  /// Calls use(L's rows below the diagonal block, the same rows of x) for each run of them.
  template <class Use>
  void below(std::int64_t turn, Step step, Use use) const {
    const std::vector<RowRun> first = layout_.rows_from(step);
    for (const RowRun& run : layout_.rows_from(step + 1)) {
      // The owner's run of the block's own rows begins one block earlier.
      const std::int64_t skipped =
          run.rank == layout_.owner(step) ? layout_.columns(step).size() : 0;
      if (!run.rows.empty()) {
        const RowRun& whole = first[static_cast<std::size_t>(run.rank)];
        use(part(message(turn, step), whole.packed + skipped, run.rows), rows_of_x(run.rows));
      }
    }
  }
  MatrixView<T> diagonal(std::int64_t turn, Step step) const {
    const RowRun whole = layout_.rows_from(step)[static_cast<std::size_t>(layout_.owner(step))];
    return part(message(turn, step), whole.packed, layout_.rows(step));
  }

  /// x_s = L_ss^-1 x_s, and x_i -= L_is x_s for all i that follow.
  void forward(std::int64_t turn, Step step) {
    const MatrixView<T> solved = rows_of_x(layout_.rows(step));
    kernels_.trsm(rank_.update(), runtime::Side::left, runtime::Triangle::lower, Op::none,
                  diagonal(turn, step), solved);
    below(turn, step, [&](MatrixView<T> l, MatrixView<T> x) {
      kernels_.gemm(rank_.update(), Op::none, Op::none, T{-1}, l, solved, T{1}, x);
    });
  }
  /// x_s = L_ss^-H (x_s - the sum of L_is^H x_i over all i that follow).
  void backward(std::int64_t turn, Step step) {
    const MatrixView<T> solved = rows_of_x(layout_.rows(step));
    below(turn, step, [&](MatrixView<T> l, MatrixView<T> x) {
      kernels_.gemm(rank_.update(), Op::conjugate_transpose, Op::none, T{-1}, l, x, T{1}, solved);
    });
    kernels_.trsm(rank_.update(), runtime::Side::left, runtime::Triangle::lower,
                  Op::conjugate_transpose, diagonal(turn, step), solved);
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<const T> l_;
  Op op_;
  MatrixView<T> x_;
  const runtime::Kernels<T>& kernels_;
  programs::StepFlags flags_;
  programs::MessageRing<T> messages_;
};

}  // namespace

template <Scalar T>
void solve_columns(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> l, Op op,
                   MatrixView<T> x) {
  SolveColumns<T>(rank, layout, l, op, x).run();
}

std::int64_t solve_columns_elements(const SlabLayout& layout) {
  return slots_of_factor * layout.size() * layout.tile();
}

#define SHARDSOLVE_INSTANTIATE(T)                                                      \
  template void solve_columns(mesh::Rank&, const SlabLayout&, MatrixView<const T>, Op, \
                              MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::eigh
