// lu_inverse() of lu.hpp, step by step.

#include "core/each_dtype.hpp"
#include "dense/lu/certified_solve.hpp"
#include "dense/lu/inverse.hpp"
#include "dense/lu/judge_inverse.hpp"
#include "dense/lu/order_inverse.hpp"
#include "dense/lu/sketch.hpp"
#include "dense/lu/solve.hpp"
#include "dense/lu/usable_factor.hpp"
#include "programs/memory_of_call.hpp"
#include "programs/public_call.hpp"
#include "programs/require_reachable.hpp"
#include "runtime/lu_kernels.hpp"

#include <shardsolve/lu.hpp>
#include <shardsolve/plan.hpp>

#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::dense::lu {
namespace {

/// What is left of a factor when its slabs are overwritten.
template <Scalar T>
struct Remains {
  ShardedMatrix<T> slabs;
  std::optional<ShardedMatrix<T>> matrix;  ///< A, where it is still there
  std::shared_ptr<const std::vector<std::int64_t>> rows;
  Scaled one_norm;
  Scaled inf_norm;
  std::optional<LuSketch<T>> sketch;
  bool transposed = false;  ///< whether rcond is that of A^T

  Remains(const LuFactor<T>& factor, bool of_transpose)
      : slabs(factor.slabs),
        rows(std::make_shared<const std::vector<std::int64_t>>(*factor.rows)),
        one_norm(factor.one_norm),
        inf_norm(factor.inf_norm),
        sketch(factor.sketch),
        transposed(of_transpose) {
    if (keeps_matrix(factor)) {
      matrix = factor.matrix;
    }
  }
};

/// From here on require_usable() says of every copy that the slabs hold no factor: they share the
/// list of its rows.
template <Scalar T>
void consume(LuFactor<T>& factor) {
  factor.rows->clear();
  factor.rows = nullptr;
}

/// Whether all that is read and written is where the ranks compute.
template <Scalar T>
Outcome look_at_memory(const programs::PublicCall& call, const Remains<T>& of) {
  return call.run([of](mesh::Rank& rank) {
    programs::require_reachable(rank, of.slabs, "the factor");
    if (of.matrix) {
      programs::require_reachable(rank, *of.matrix, "the matrix of the factor");
    }
    if (of.sketch) {
      programs::require_reachable(rank, of.sketch->sums);
    }
    return Outcome{};
  });
}

/// U^-1 L^-1 in the place of L and U.
template <Scalar T>
Outcome invert_in_place(const programs::PublicCall& call, const Remains<T>& of) {
  return call.run([slabs = of.slabs](mesh::Rank& rank) {
    invert_factor<T>(rank, slabs.layout(), slabs.slab(rank.index()));
    return Outcome{};
  });
}

template <Scalar T>
Outcome order_in_place(const programs::PublicCall& call, const Remains<T>& of) {
  return call.run([slabs = of.slabs, rows = of.rows](mesh::Rank& rank) {
    order_inverse<T>(rank, slabs.layout(), slabs.slab(rank.index()), *rows);
    return Outcome{};
  });
}

template <Scalar T>
Outcome judge(const programs::PublicCall& call, const Remains<T>& of) {
  return call.run([of](mesh::Rank& rank) {
    const SlabLayout& layout = of.slabs.layout();
    const MatrixView<const T> x = of.slabs.slab(rank.index());
    MatrixView<const T> half;
    if (of.sketch) {
      half = of.sketch->sums.block(rank.index()).columns_from(0, sketch_vectors);
    } else if (of.matrix) {
      const MatrixView<T> made = rank.workspace<T>(x.columns(), sketch_vectors);
      make_half_sketch<T>(rank, layout, of.matrix->slab(rank.index()), of.one_norm, made);
      half = made;
    }
    return judge_inverse<T>(rank, layout, x, {half, of.one_norm, of.inf_norm}, of.transposed);
  });
}

/// A^-1 of the factor that `of` has the rest of, in three sweeps, with its certificate.
template <Scalar T>
Outcome invert_by_sweeps(const programs::PublicCall& call, const Remains<T>& of) {
  const Outcome inverted = invert_in_place(call, of);
  const Outcome ordered = order_in_place(call, of);
  Outcome outcome = judge(call, of);
  for (const Outcome& earlier : {inverted, ordered}) {
    programs::add_cost(outcome, earlier);
  }
  return outcome;
}

/// The rank's rows of I, in memory of the call.
template <Scalar T>
RightHandSides<T> make_identity(const programs::PublicCall& call, Outcome& cost) {
  const programs::MemoryOfCall<T> memory(call.mesh);
  const auto run = [memory, layout = call.layout](mesh::Rank& rank) {
    const GlobalRange own = layout.segment(rank.index());
    const MatrixView<T> rows = memory.make(rank, own.size(), layout.size());
    rank.kernels<T>().fill(rank.update(), T{0}, rows);
    rank.kernels<T>().identity(rank.update(), rows.columns_from(own.begin.value(), own.size()));
    rank.finish(rank.update());
    return Outcome{};
  };
  programs::add_cost(cost, call.run(run));
  return memory.rows(call.layout);
}

/// A^-1 as A^T Y = I is solved, Y = A^-T: by refinement, and by QR where elimination has no answer.
/// What the slabs held is lost.
template <Scalar T>
Outcome invert_by_solves(const programs::PublicCall& call, const Remains<T>& of) {
  Outcome before;
  const LuFactor<T> factor =
      of_matrix_alone(lu_factor(call.mesh, *of.matrix, of.slabs, call.options));
  programs::add_cost(before, factor.outcome);
  Outcome outcome = factor.outcome;
  if (outcome.ok()) {
    const RightHandSides<T> y = make_identity<T>(call, before);
    outcome = lu_solve(call.mesh, factor, y, call.options, Transpose::transpose);
    if (outcome.ok()) {
      const Outcome stored = call.run([of, y](mesh::Rank& rank) {
        const MatrixView<T> x = of.slabs.slab(rank.index());
        rank.kernels<runtime::LuKernels<T>>().transpose(rank.update(), y.block(rank.index()), x);
        return condition_of_inverse<T>(rank, of.slabs.layout(), x, {{}, of.one_norm, of.inf_norm},
                                       of.transposed);
      });
      outcome.rcond = stored.rcond;
      programs::add_cost(before, stored);
    }
  }
  programs::add_cost(outcome, before);
  return outcome;
}

/// Whether A is there to be solved with, and memory for Y and for solves.
template <Scalar T>
bool may_solve(const programs::PublicCall& call, const Remains<T>& of) {
  if (!of.matrix) {
    return false;
  }
  const Plan solve = plan_lu_solve(call.layout, dtype_of<T>, call.layout.size());
  const std::int64_t bytes = solve.right_hand_side_bytes + solve.workspace_bytes;
  return programs::memory_for(call.mesh, bytes) >= bytes;
}

}  // namespace

template <Scalar T>
Outcome inverse(Mesh& mesh, LuFactor<T>&& factor, const RunOptions& options, Transpose transpose) {
  require_usable(factor);
  const Remains<T> of(factor, transpose != Transpose::none);
  const Plan plan = of.matrix ? plan_lu_inverse(of.slabs.layout(), dtype_of<T>)
                              : plan_lu_inverse_in_place(of.slabs.layout(), dtype_of<T>);
  const programs::PublicCall call{"lu_inverse", mesh, of.slabs.layout(), plan, options};
  const Outcome looked = look_at_memory(call, of);
  const double growth = factor.outcome.growth.value_or(1.0);
  consume(factor);
  Outcome outcome;
  const bool is_factor_of_a = growth <= largest_growth<T>();
  if (is_factor_of_a || !may_solve(call, of)) {
    outcome = invert_by_sweeps(call, of);
  }
  if ((!is_factor_of_a || !outcome.ok()) && may_solve(call, of)) {
    Outcome solved = invert_by_solves(call, of);
    programs::add_cost(solved, outcome);
    outcome = solved;
  }
  if (!outcome.growth) {
    outcome.growth = growth;
  }
  programs::add_cost(outcome, looked);
  return outcome;
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template Outcome inverse(Mesh&, LuFactor<T>&&, const RunOptions&, Transpose);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu

namespace shardsolve {

template <Scalar T>
Outcome lu_inverse(Mesh& mesh, LuFactor<T>&& factor, const RunOptions& options) {
  return dense::lu::inverse(mesh, std::move(factor), options, Transpose::none);
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template Outcome lu_inverse(Mesh&, LuFactor<T>&&, const RunOptions&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
