// U^-1 L^-1 in three sweeps. With c rows before step t and q rows up to its end, the owner of the
// step sends a panel, and every rank works on its own columns:
//
//   M = L^-1, steps upwards, in the place of L
//     p = [l11; l21], rows from c on                             owner, panel queue
//     m1 = l11^-1 m1, m2 -= l21 m1  in the columns before c      each rank, update queue
//     m11 = l11^-1,   m21 = -l21 m11  in those of the step       owner, update queue
//
//   N = U^-1, steps downwards, in the place of U
//     p = [u01; u11], rows before q                              owner, panel queue
//     n1 = u11^-1 n1, n0 -= u01 n1  in the columns from q on     each rank, update queue
//     n11 = u11^-1,   n01 = -u01 n11  in those of the step       owner, update queue
//
//   X = N M, steps upwards
//     p = [n01; n11], rows before q                              owner, panel queue
//     x0 += n01 m1, x1 = n11 m1  in the columns before c;        each rank, update queue
//       m1 are the rows from c to q of M, x1 takes their place
//     x0 = n01 m11, x1 = n11 m11  in those of the step, x0 in    owner, update queue
//       the place of n01
//
// M takes all of the diagonal blocks in the slab, and those of U, later of N, wait in memory of
// their own. No panel depends on what the step before it computes, so panels are sent ahead as far
// as there are slots for them, from one sweep into the next; only the first one of N waits for all
// of N. All else is products.
//
// Both halves are such that the matrix times its inverse is I up to rounding, and so is A X; X A
// need not be, where A is nearly singular. With one half of the other kind neither would be.
// Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 14.3.4.

#include "dense/lu/inverse.hpp"

#include "core/each_dtype.hpp"
#include "dense/lu/wait_sites.hpp"
#include "programs/message_ring.hpp"
#include "programs/step_flags.hpp"
#include "runtime/lu_kernels.hpp"

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shardsolve::dense::lu {
namespace {

using runtime::Op;

template <Scalar T>
class InverseSweeps {
 public:
  InverseSweeps(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab)
      : rank_(rank),
        layout_(layout),
        slab_(slab),
        kernels_(rank.kernels<T>()),
        lu_(rank.kernels<runtime::LuKernels<T>>()),
        flags_(rank),
        panels_(rank, slots, layout.size() * layout.tile()),
        diagonal_blocks_(rank.workspace<T>(layout.tile(), slab.columns())),
        rows_of_m_(rank.workspace<T>(layout.tile() * slab.columns(), 1)),
        packed_(rank.event()),
        u_inverted_(rank.event()) {}

  void run() {
    save_diagonal_blocks();
    panels_.begin(0, owns(0));
    for (std::int64_t turn = 0; turn < turns() && flags_.may_enqueue(turn); ++turn) {
      rank_.set_step(step_of(turn).value());
      report(turn);
      if (owns(turn)) {
        pack(turn);
      }
      panels_.await_done(turn + 1, sites::inverse_panel_used);
      panels_.begin(turn + 1, owns(turn + 1));
      send(turn);
      rank_.update().wait(panels_.arrived(turn), sites::inverse_panel_arrived);
      apply(turn);
      rank_.update().record(panels_.done(turn));
    }
    flags_.finish(turns());
    flags_.throw_if_cancelled();
  }

 private:
  enum class Sweep : std::uint8_t { of_l, of_u, product };
  /// Panels in memory: one being used, one arriving, one being made.
  static constexpr std::int64_t slots = 3;

  /// Messages are numbered by turns, through all sweeps.
  std::int64_t turns() const { return 3 * layout_.steps(); }
  Sweep sweep_of(std::int64_t turn) const { return static_cast<Sweep>(turn / layout_.steps()); }
  Step step_of(std::int64_t turn) const {
    const std::int64_t of_sweep = turn % layout_.steps();
    return Step(sweep_of(turn) == Sweep::of_u ? layout_.steps() - 1 - of_sweep : of_sweep);
  }
  bool owns(std::int64_t turn) const { return turn < turns() && owns(step_of(turn)); }
  bool owns(Step step) const { return layout_.owner(step) == rank_.index(); }

  std::int64_t before(Step step) const { return layout_.eliminated(step); }
  std::int64_t up_to(Step step) const { return layout_.eliminated(step + 1); }
  std::int64_t width(Step step) const { return layout_.columns(step).size(); }
  /// Columns of this rank that are eliminated before the step; with it or before it.
  std::int64_t columns_before(Step step) const {
    return layout_.eliminated(rank_.index(), step).value();
  }
  std::int64_t columns_up_to(Step step) const {
    return layout_.eliminated(rank_.index(), step + 1).value();
  }
  /// Some rows of the columns of the step, which this rank owns.
  MatrixView<T> own_columns(Step step, std::int64_t first, std::int64_t rows) const {
    return slab_.block(first, layout_.columns(step).begin.value(), rows, width(step));
  }
  MatrixView<T> diagonal_block(Step step) const {
    return diagonal_blocks_.block(0, layout_.columns(step).begin.value(), width(step), width(step));
  }
  /// Some columns of a triangle, or rows, of which the part that is 0 is not multiplied with.
  struct Strip {
    std::int64_t begin;
    std::int64_t size;
  };
  static std::vector<Strip> strips(std::int64_t width) {
    constexpr std::int64_t widest = 128;
    std::vector<Strip> all;
    for (std::int64_t begin = 0; begin < width; begin += widest) {
      all.push_back({begin, std::min(widest, width - begin)});
    }
    return all;
  }
  MatrixView<T> panel(std::int64_t turn) const {
    const Step step = step_of(turn);
    const std::int64_t rows =
        sweep_of(turn) == Sweep::of_l ? layout_.size() - before(step) : up_to(step);
    return panels_.payload(turn, layout_.owner(step), 0, rows, width(step));
  }

  void save_diagonal_blocks() {
    for (Step step = layout_.next_owned(rank_.index(), Step(0)); step.value() < layout_.steps();
         step = layout_.next_owned(rank_.index(), step + 1)) {
      kernels_.copy(rank_.panel(), own_columns(step, before(step), width(step)),
                    diagonal_block(step));
    }
  }

  void pack(std::int64_t turn) {
    const Step step = step_of(turn);
    const MatrixView<T> target = panel(turn);
    panels_.await_free(rank_.panel(), sites::inverse_slot_free);
    panels_.stamp(rank_.panel(), turn);
    if (sweep_of(turn) == Sweep::of_l) {
      kernels_.copy(rank_.panel(), own_columns(step, before(step), target.rows()), target);
    } else {
      if (sweep_of(turn) == Sweep::product) {
        rank_.panel().wait(u_inverted_, sites::inverse_of_u_ready);
      }
      const std::int64_t above = before(step);
      kernels_.copy(rank_.panel(), own_columns(step, 0, above),
                    target.block(0, 0, above, width(step)));
      kernels_.copy(rank_.panel(), diagonal_block(step),
                    target.block(above, 0, width(step), width(step)));
    }
    rank_.panel().record(packed_);
  }

  void send(std::int64_t turn) {
    const std::int64_t owner = layout_.owner(step_of(turn));
    const MatrixView<T> sent = panel(turn);
    if (owns(turn)) {
      rank_.transfer().wait(packed_, sites::inverse_panel_packed);
    }
    panels_.publish(turn, owner, sent.rows() * sent.columns());
    flags_.receive(turn, panels_.header(turn, owner));
    rank_.transfer().record(panels_.arrived(turn));
  }

  void apply(std::int64_t turn) {
    switch (sweep_of(turn)) {
      case Sweep::of_l:
        return invert_l(step_of(turn), panel(turn));
      case Sweep::of_u:
        invert_u(step_of(turn), panel(turn));
        return rank_.update().record(u_inverted_);
      case Sweep::product:
        return multiply(step_of(turn), panel(turn));
    }
  }

  void invert_l(Step step, MatrixView<T> l) {
    // m1 = l11^-1 m1, m2 -= l21 m1
    const std::int64_t earlier = columns_before(step);
    lu_.eliminate(rank_.update(), l, slab_.block(before(step), 0, l.rows(), earlier));
    if (owns(step)) {
      // m11 = l11^-1, m21 = -l21 m11
      const std::int64_t w = width(step);
      const std::int64_t below = l.rows() - w;
      const MatrixView<T> m11 = own_columns(step, before(step), w);
      kernels_.identity(rank_.update(), m11);
      lu_.eliminate(rank_.update(), l.block(0, 0, w, w), m11);
      for (const Strip strip : strips(w)) {
        kernels_.gemm(rank_.update(), Op::none, Op::none, T{-1},
                      l.block(w, strip.begin, below, w - strip.begin),
                      m11.block(strip.begin, strip.begin, w - strip.begin, strip.size), T{0},
                      slab_.block(up_to(step), earlier + strip.begin, below, strip.size));
      }
    }
  }

  void invert_u(Step step, MatrixView<T> u) {
    // n1 = u11^-1 n1, n0 -= u01 n1
    const std::int64_t first = columns_up_to(step);
    lu_.eliminate_above(rank_.update(), u,
                        slab_.block(0, first, u.rows(), slab_.columns() - first));
    if (owns(step)) {
      // n11 = u11^-1, n01 = -u01 n11
      const std::int64_t w = width(step);
      const std::int64_t above = before(step);
      const MatrixView<T> n11 = diagonal_block(step);
      kernels_.identity(rank_.update(), n11);
      lu_.eliminate_above(rank_.update(), u.block(above, 0, w, w), n11);
      for (const Strip strip : strips(w)) {
        const std::int64_t end = strip.begin + strip.size;
        kernels_.gemm(rank_.update(), Op::none, Op::none, T{-1}, u.block(0, 0, above, end),
                      n11.block(0, strip.begin, end, strip.size), T{0},
                      slab_.block(0, columns_before(step) + strip.begin, above, strip.size));
      }
    }
  }

  void multiply(Step step, MatrixView<T> n) {
    const std::int64_t w = width(step);
    const std::int64_t above = before(step);
    const std::int64_t earlier = columns_before(step);
    const MatrixView<T> m1(rows_of_m_.data(), w, columns_up_to(step));
    kernels_.copy(rank_.update(), slab_.block(above, 0, w, m1.columns()), m1);
    // x0 += n01 m1
    const MatrixView<T> m10 = m1.columns_from(0, earlier);
    kernels_.gemm(rank_.update(), Op::none, Op::none, T{1}, n.block(0, 0, above, w), m10, T{1},
                  slab_.block(0, 0, above, earlier));
    for (const Strip strip : strips(w)) {
      // x1 = n11 m1, rows of it
      const std::int64_t left = w - strip.begin;
      kernels_.gemm(rank_.update(), Op::none, Op::none, T{1},
                    n.block(above + strip.begin, strip.begin, strip.size, left),
                    m10.block(strip.begin, 0, left, earlier), T{0},
                    slab_.block(above + strip.begin, 0, strip.size, earlier));
      if (owns(step)) {
        // [x0; x1] = [n01; n11] m11, columns of it
        kernels_.gemm(rank_.update(), Op::none, Op::none, T{1},
                      n.block(0, strip.begin, up_to(step), left),
                      m1.block(strip.begin, earlier + strip.begin, left, strip.size), T{0},
                      slab_.block(0, earlier + strip.begin, up_to(step), strip.size));
      }
    }
  }

  void report(std::int64_t turn) {
    static constexpr std::array<std::string_view, 3> phases{"invert L", "invert U", "multiply"};
    rank_.report(
        phases[static_cast<std::size_t>(sweep_of(turn))],
        static_cast<double>(turn % layout_.steps()) / static_cast<double>(layout_.steps()));
  }

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  const runtime::Kernels<T>& kernels_;
  const runtime::LuKernels<T>& lu_;
  programs::StepFlags flags_;
  programs::MessageRing<T> panels_;
  MatrixView<T> diagonal_blocks_;  // of U, then of N, side by side
  MatrixView<T> rows_of_m_;
  runtime::Event& packed_;
  runtime::Event& u_inverted_;  // all of this rank's columns of N are there
};

}  // namespace

template <Scalar T>
void invert_factor(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab) {
  InverseSweeps<T>(rank, layout, slab).run();
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template void invert_factor(mesh::Rank&, const SlabLayout&, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
