// The public calls of lu.hpp: each checks its arguments and goes step by step, and each step is a
// program that all ranks run.

#include "core/each_dtype.hpp"
#include "dense/lu/by_qr.hpp"
#include "dense/lu/certified_solve.hpp"
#include "dense/lu/factor.hpp"
#include "dense/lu/forward_error.hpp"
#include "dense/lu/matrix_sizes.hpp"
#include "dense/lu/sketch.hpp"
#include "dense/lu/solve.hpp"
#include "dense/lu/triangular_solve.hpp"
#include "dense/lu/usable_factor.hpp"
#include "dense/shared/check_input.hpp"
#include "dense/shared/one_norm_estimator.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "programs/apart.hpp"
#include "programs/gather.hpp"
#include "programs/memory_of_call.hpp"
#include "programs/public_call.hpp"
#include "programs/require_reachable.hpp"
#include "runtime/lu_kernels.hpp"

#include <shardsolve/lu.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::dense::lu {
namespace {

/// Looks at A, and at the right-hand sides if there are any. Leaves ||A||_1.
template <Scalar T>
Outcome look_at(const programs::PublicCall& call, const ShardedMatrix<T>& a,
                const std::optional<RightHandSides<T>>& b, const std::shared_ptr<Scaled>& norm) {
  return call.run([a, b, norm](mesh::Rank& rank) {
    static_cast<void>(rank.kernels<runtime::LuKernels<T>>());  // throws where there are none
    programs::require_reachable(rank, a, "the matrix");
    rank.report("check", 0.0);
    const MatrixView<const T> slab = a.slab(rank.index());
    const InputCheck check = check_finite<T>(rank, a.layout(), slab);
    if (!check.outcome.ok()) {
      return check.outcome;
    }
    if (rank.leads()) {
      *norm = check.norm;
    }
    if (!b) {
      return Outcome{};
    }
    programs::require_reachable(rank, *b);
    programs::Apart().reads("the matrix", a).writes("the right-hand sides", *b).require(rank);
    return check_right_hand_sides<T>(rank, b->layout(), b->block(rank.index())).outcome;
  });
}

template <Scalar T>
void require_apart(const mesh::Rank& rank, const LuFactor<T>& factor, const RightHandSides<T>& b) {
  programs::Apart()
      .reads("the factor", factor.slabs)
      .reads("the matrix of the factor", factor.matrix)
      .writes("the right-hand sides", b)
      .require(rank);
}

/// A sketch of A, if its factor is going to overwrite it: in any slab, as a process may have empty
/// ones alone. In memory of the call, or where `keep` says.
template <Scalar T>
std::optional<LuSketch<T>> sketch_if_overwritten(const programs::PublicCall& call,
                                                 const ShardedMatrix<T>& a,
                                                 const ShardedMatrix<T>& into, Scaled one_norm,
                                                 const SketchOf<T>& keep, Outcome& outcome) {
  const auto norm = std::make_shared<std::optional<Scaled>>();
  const programs::MemoryOfCall<T> memory(call.mesh);
  const auto run = [a, into, one_norm, keep, norm, memory](mesh::Rank& rank) {
    rank.report("sketch", 0.0);
    if (programs::largest_of_all(rank, overwrites(a, into) ? 1.0 : 0.0) == 0.0) {
      return Outcome{};
    }
    const MatrixView<const T> slab = a.slab(rank.index());
    const MatrixView<T> sums = keep.into ? keep.into->block(rank.index())
                                         : memory.make(rank, slab.columns(), sketch_columns);
    const Scaled found = make_sketch<T>(rank, a.layout(), slab, one_norm, sums);
    if (rank.leads()) {
      *norm = found;
    }
    return Outcome{};
  };
  programs::add_cost(outcome, call.run(run));
  if (!*norm) {
    return std::nullopt;
  }
  return LuSketch<T>{keep.into ? *keep.into : memory.rows(a.layout()), **norm};
}

/// L and U in the given memory, or in memory of the call, and what is found beside them.
template <Scalar T>
void factor_matrix(const programs::PublicCall& call, const std::optional<ShardedMatrix<T>>& into,
                   LuFactor<T>& made) {
  const auto found = std::make_shared<Factored<T>>();
  const auto sizes = std::make_shared<Sizes>();
  const programs::MemoryOfCall<T> memory(call.mesh);
  made.outcome = call.run([matrix = made.matrix, one_norm = made.one_norm, into, memory, found,
                           sizes](mesh::Rank& rank) {
    if (into) {
      programs::require_reachable(rank, *into, "the memory of the factor");
      if (!overwrites(matrix, *into)) {
        programs::Apart()
            .reads("the matrix", matrix)
            .writes("the memory of the factor", *into)
            .require(rank);
      }
    }
    const MatrixView<T> a = matrix.slab(rank.index());
    const MatrixView<T> slab =
        into ? into->slab(rank.index()) : memory.make(rank, a.rows(), a.columns());
    // In a queue that the factorisation has no use for.
    MatrixSizes<T> look(rank, matrix.layout(), a, one_norm, rank.panel_rest());
    if (into && overwrites(matrix, *into)) {
      rank.finish(rank.panel_rest());
    } else {
      rank.kernels<T>().copy(rank.update(), a, slab);
      rank.finish(rank.update());
    }
    Factored<T> factored = factor<T>(rank, matrix.layout(), slab);
    const Outcome outcome = factored.outcome;
    const Sizes of_a = look.get();
    if (rank.leads()) {
      *found = std::move(factored);
      *sizes = of_a;
    }
    return outcome;
  });
  made.slabs = into ? *into : memory.matrix(made.matrix.layout());
  made.inf_norm = sizes->inf_norm;
  const bool is_there = made.outcome.ok() || made.outcome.status == Status::singular;
  if (!is_there) {
    // A and its largest entry are finite, so what has left the range is growth.
    if (made.outcome.status == Status::overflow) {
      made.outcome.growth = std::numeric_limits<double>::infinity();
    }
    return;
  }
  made.rows = std::make_shared<std::vector<std::int64_t>>(std::move(found->rows));
  made.sign = found->sign;
  made.log_modulus = found->log;
  made.outcome.growth = sizes->largest > 0.0 ? found->largest / sizes->largest : 1.0;
}

/// Checks the arguments, looks at A and at `b`, if there is one, and factors.
template <Scalar T>
LuFactor<T> look_and_factor(const programs::PublicCall& call, const ShardedMatrix<T>& a,
                            const std::optional<ShardedMatrix<T>>& into,
                            const std::optional<RightHandSides<T>>& b,
                            const SketchOf<T>& keep = SketchOf<T>{}) {
  const auto one_norm = std::make_shared<Scaled>();
  Outcome outcome = look_at<T>(call, a, b, one_norm);
  LuFactor<T> made{a, a, nullptr, *one_norm, Scaled{}, outcome};
  if (!outcome.ok()) {
    return made;
  }
  if (keep.wanted && into) {
    made.sketch = sketch_if_overwritten<T>(call, a, *into, made.one_norm, keep, outcome);
  }
  factor_matrix(call, into, made);
  programs::add_cost(made.outcome, outcome);
  return made;
}

template <Scalar T>
programs::PublicCall factor_call(Mesh& mesh, const ShardedMatrix<T>& a, const RunOptions& options) {
  return {"lu_factor", mesh, a.layout(), plan_lu_factor(a.layout(), dtype_of<T>), options};
}

/// With room for a sketch, as the factor may overwrite A.
template <Scalar T>
programs::PublicCall factor_call_in_place(Mesh& mesh, const ShardedMatrix<T>& a,
                                          const RunOptions& options) {
  return {"lu_factor", mesh, a.layout(), plan_lu_factor_in_place(a.layout(), dtype_of<T>), options};
}

runtime::Op op_of(Transpose transpose) {
  switch (transpose) {
    case Transpose::none:
      return runtime::Op::none;
    case Transpose::transpose:
      return runtime::Op::transpose;
    case Transpose::adjoint:
      return runtime::Op::conjugate_transpose;
  }
  throw Error(ErrorKind::unsupported,
              "lu_solve was given a value of Transpose that this version does not have");
}

/// From which growth on somebody asks whether there is memory for QR, which takes as long as a
/// small solve. Less is made good by refinement.
constexpr double grown_from = 1e3;

/// Whether there is memory for QR beside what a plan takes. QR has kernels wherever LU has.
bool may_ask_qr(const Mesh& mesh, const SlabLayout& layout, const Plan& plan, Dtype dtype,
                std::int64_t columns) {
  const std::int64_t bytes = plan.workspace_bytes + by_qr_bytes(layout, dtype, columns);
  return programs::memory_for(mesh, bytes) >= bytes;
}

/// rcond of op(A), in the 1-norm; of its R where the factor is one of another matrix, or `by_qr`.
/// If there is a solution, the verdict on it.
template <Scalar T>
Outcome estimate_condition(Mesh& mesh, const LuFactor<T>& factor,
                           const std::optional<Solved<T>>& solved, const RunOptions& options,
                           Transpose transpose, bool by_qr) {
  const bool turned = op_of(transpose) != runtime::Op::none;
  const SlabLayout& layout = factor.layout();
  if (layout.size() == 0) {
    return {.rcond = 1.0};
  }
  const programs::PublicCall call{"condition_estimate", mesh, layout,
                                  plan_lu_solve(layout, dtype_of<T>, 1), options};
  const runtime::Op op = op_of(transpose);
  return call.run([factor, solved, turned, op, by_qr](mesh::Rank& rank) {
    programs::require_reachable(rank, factor.slabs, "the factor");
    Outcome outcome;
    rank.report("condition", 0.0);
    const FactorPart<T> part = part_of(factor, rank);
    if (by_qr) {
      programs::require_reachable(rank, factor.matrix, "the matrix of the factor");
      outcome.rcond =
          solve_by_qr<T>(rank, part, op, rank.workspace<T>(part.slab.columns(), 0)).rcond;
      if (solved) {
        programs::require_reachable(rank, solved->x);
        const double error = forward_error_by_qr<T>(rank, part, op, solved->x.block(rank.index()),
                                                    solved->component_error);
        // As a rule rcond says as much: then it is the figure that there is.
        constexpr double much = 100.0;
        const double usual = std::max(solved->component_error, unit_roundoff<T>) / *outcome.rcond;
        if (*outcome.rcond < 2.0 * unit_roundoff<T> || !(error < much * usual)) {
          outcome.forward_error = error;
          outcome.status = error < 1.0 ? Status::ok : Status::nearly_singular;
        }
      }
      return outcome;
    }
    TriangularSolve<T> solve(rank, part.layout, part.slab, part.rows, 1);
    // A^T and A^H have the same moduli: what serves for one does for the other.
    const auto run = [&](MatrixView<T> x, bool adjoint) {
      solve.run(adjoint != turned ? runtime::Op::conjugate_transpose : runtime::Op::none, x);
    };
    outcome.rcond =
        reciprocal_condition_by<T>(rank, part.layout, turned ? part.inf_norm : part.one_norm, run);
    if (solved && *outcome.rcond < 2.0 * unit_roundoff<T> && factor.sketch) {
      outcome.status = Status::nearly_singular;  // A, which could say more, is gone
    } else if (solved && *outcome.rcond < 2.0 * unit_roundoff<T>) {
      programs::require_reachable(rank, factor.matrix, "the matrix of the factor");
      programs::require_reachable(rank, solved->x);
      outcome.forward_error =
          forward_error<T>(rank, part, solve, op_of(solved->transpose),
                           solved->x.block(rank.index()), solved->component_error);
      if (!(*outcome.forward_error < 1.0)) {
        outcome.status = Status::nearly_singular;
      }
    }
    return outcome;
  });
}

/// Likewise by whichever has an answer. Solves with subnormal pivots leave the range of the dtype,
/// or do not, as the blocks of the layout are; QR scales columns.
template <Scalar T>
Outcome estimate_condition(Mesh& mesh, const LuFactor<T>& factor,
                           const std::optional<Solved<T>>& solved, const RunOptions& options,
                           Transpose transpose) {
  const auto may_ask = [&] {
    return keeps_matrix(factor) &&
           may_ask_qr(mesh, factor.layout(), plan_lu_solve(factor.layout(), dtype_of<T>, 1),
                      dtype_of<T>, 1);
  };
  const double growth = factor.outcome.growth.value_or(1.0);
  const bool by_qr = growth > largest_growth<T>() && may_ask();
  if (!(growth <= largest_growth<T>()) && !by_qr) {
    return {.status = Status::inaccurate};  // the matrix that L U is may be any other one
  }
  const Outcome found = estimate_condition(mesh, factor, solved, options, transpose, by_qr);
  // Whether 1 / ||A^-1||, of an rcond that is 0 where it is below the range of double, is one that
  // cannot be divided by.
  using Doubles = std::numeric_limits<double>;
  const Scaled norm = transpose == Transpose::none ? factor.one_norm : factor.inf_norm;
  const double rcond = std::max(found.rcond.value_or(1.0), Doubles::denorm_min());
  const double least = 1.0 / double{std::numeric_limits<RealOf<T>>::max()};
  if (by_qr || ratio(Scaled{rcond, 0} * norm, Scaled{1.0, 0}) >= least || !may_ask()) {
    return found;
  }
  Outcome again = estimate_condition(mesh, factor, solved, options, transpose, true);
  programs::add_cost(again, found);
  return again;
}

}  // namespace

template <Scalar T>
LuFactor<T> of_matrix_alone(LuFactor<T> factor) {
  if (factor.outcome.status == Status::overflow && keeps_matrix(factor)) {
    factor.outcome.status = Status::ok;
    factor.outcome.location.reset();
    factor.rows = std::make_shared<std::vector<std::int64_t>>(factor.layout().size());
    std::iota(factor.rows->begin(), factor.rows->end(), std::int64_t{0});
  }
  return factor;
}

template <Scalar T>
LuFactor<T> factor_in_place(Mesh& mesh, const ShardedMatrix<T>& a, const RunOptions& options,
                            const SketchOf<T>& keep) {
  return look_and_factor<T>(
      keep.wanted ? factor_call_in_place(mesh, a, options) : factor_call(mesh, a, options), a, a,
      std::nullopt, keep);
}

template <Scalar T>
Outcome judge(Mesh& mesh, const LuFactor<T>& factor, const Solved<T>& solved,
              const RunOptions& options, Transpose transpose) {
  return estimate_condition<T>(mesh, factor, solved, options, transpose);
}

template <Scalar T>
Outcome solve(Mesh& mesh, const ShardedMatrix<T>& a, const RightHandSides<T>& b,
              const RunOptions& options, Rcond rcond, Transpose transpose, Leaves leaves) {
  const bool in_place = leaves == Leaves::factor;
  // What is wrong with b, or too large for the memory there is, is to be said before any work.
  programs::PublicCall call =
      in_place ? factor_call_in_place(mesh, a, options) : factor_call(mesh, a, options);
  const Plan plan = plan_lu_solve(a.layout(), dtype_of<T>, b.columns());
  call.name = "solve";
  call.plan.workspace_bytes = std::max(call.plan.workspace_bytes, plan.workspace_bytes);
  const LuFactor<T> factor = in_place
                                 ? look_and_factor<T>(call, a, a, b, {true, std::nullopt})
                                 : of_matrix_alone(look_and_factor<T>(call, a, std::nullopt, b));
  if (!factor.outcome.ok()) {
    return factor.outcome;
  }
  Outcome outcome = lu_solve(mesh, factor, b, options, transpose);
  programs::add_cost(outcome, factor.outcome);
  if (outcome.ok() && rcond == Rcond::estimated) {
    const Outcome judged = judge(
        mesh, factor, {b, transpose, outcome.component_error.value_or(0.0)}, options, transpose);
    outcome.status = judged.status;
    outcome.rcond = judged.rcond;
    outcome.forward_error = judged.forward_error;
    programs::add_cost(outcome, judged);
  }
  return outcome;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                         \
  template LuFactor<T> factor_in_place(Mesh&, const ShardedMatrix<T>&, const RunOptions&, \
                                       const SketchOf<T>&);                               \
  template LuFactor<T> of_matrix_alone(LuFactor<T>);                                      \
  template Outcome judge(Mesh&, const LuFactor<T>&, const Solved<T>&, const RunOptions&,  \
                         Transpose);                                                      \
  template Outcome solve(Mesh&, const ShardedMatrix<T>&, const RightHandSides<T>&,        \
                         const RunOptions&, Rcond, Transpose, Leaves);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu

namespace shardsolve {

namespace lu = dense::lu;

template <Scalar T>
LuFactor<T> lu_factor(Mesh& mesh, ShardedMatrix<T> a, const RunOptions& options) {
  return lu::look_and_factor<T>(lu::factor_call(mesh, a, options), a, std::nullopt, std::nullopt);
}

template <Scalar T>
LuFactor<T> lu_factor(Mesh& mesh, ShardedMatrix<T> a, ShardedMatrix<T> into,
                      const RunOptions& options) {
  if (!(a.layout() == into.layout())) {
    throw Error(ErrorKind::invalid_argument,
                "matrix and factor lie on different layouts: use the matrix's for both");
  }
  return lu::look_and_factor<T>(lu::factor_call_in_place(mesh, a, options), a, into, std::nullopt,
                                {true, std::nullopt});
}

template <Scalar T>
Outcome lu_solve(Mesh& mesh, const LuFactor<T>& factor, RightHandSides<T> b,
                 const RunOptions& options, Transpose transpose) {
  lu::require_usable(factor);
  if (!(b.layout() == factor.layout())) {
    throw Error(ErrorKind::invalid_argument,
                "the right-hand sides lie on another layout than the factor: use factor.layout()");
  }
  const runtime::Op op = lu::op_of(transpose);
  const programs::PublicCall call{"lu_solve", mesh, b.layout(),
                                  plan_lu_solve(b.layout(), dtype_of<T>, b.columns()), options};
  if (factor.sketch) {
    return call.run([factor, b, op](mesh::Rank& rank) {
      programs::require_reachable(rank, factor.slabs, "the factor");
      programs::require_reachable(rank, factor.sketch->sums);
      programs::require_reachable(rank, b);
      lu::require_apart(rank, factor, b);
      return lu::sketched_solve<T>(rank, lu::part_of(factor, rank), op, b.block(rank.index()));
    });
  }
  const auto may_ask = [&] {
    return lu::may_ask_qr(mesh, b.layout(), call.plan, dtype_of<T>, b.columns());
  };
  const bool asks_qr = factor.outcome.growth.value_or(1.0) > lu::grown_from && may_ask();
  const auto solved = std::make_shared<std::int64_t>(0);
  const auto run = [&](std::int64_t first, bool may_ask_qr) {
    return call.run([factor, b, op, solved, first, may_ask_qr](mesh::Rank& rank) {
      programs::require_reachable(rank, factor.slabs, "the factor");
      programs::require_reachable(rank, factor.matrix, "the matrix of the factor");
      programs::require_reachable(rank, b);
      lu::require_apart(rank, factor, b);
      const MatrixView<T> sides = b.block(rank.index()).columns_from(first, b.columns() - first);
      std::int64_t here = 0;
      const Outcome outcome =
          lu::certified_solve<T>(rank, lu::part_of(factor, rank), op, sides, may_ask_qr, here);
      if (rank.leads()) {
        *solved = here;
      }
      return outcome;
    });
  };
  const Outcome outcome = run(0, asks_qr);
  if (outcome.status == Status::overflow && !asks_qr && may_ask()) {
    Outcome rest = run(*solved, true);
    const auto take_larger = [](std::optional<double>& to, const std::optional<double>& other) {
      to = to && other ? std::max(*to, *other) : to;
    };
    take_larger(rest.backward_error, outcome.backward_error);
    take_larger(rest.component_error, outcome.component_error);
    programs::add_cost(rest, outcome);
    return rest;
  }
  return outcome;
}

template <Scalar T>
double condition_estimate(Mesh& mesh, const LuFactor<T>& factor, const RunOptions& options,
                          Transpose transpose) {
  lu::require_factor(factor);
  if (factor.outcome.status == Status::singular) {
    return 0.0;
  }
  const Outcome outcome = lu::estimate_condition<T>(mesh, factor, std::nullopt, options, transpose);
  if (!outcome.rcond) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("numbers have grown by a factor of {:.1e} in this factorisation, so that "
                    "its factor says nothing of the condition number: keep A, which QR "
                    "takes then (lu_factor(mesh, a)), and leave it the memory",
                    factor.outcome.growth.value_or(0.0)));
  }
  return *outcome.rcond;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                               \
  template LuFactor<T> lu_factor(Mesh&, ShardedMatrix<T>, const RunOptions&);                   \
  template LuFactor<T> lu_factor(Mesh&, ShardedMatrix<T>, ShardedMatrix<T>, const RunOptions&); \
  template Outcome lu_solve(Mesh&, const LuFactor<T>&, RightHandSides<T>, const RunOptions&,    \
                            Transpose);                                                         \
  template double condition_estimate(Mesh&, const LuFactor<T>&, const RunOptions&, Transpose);

SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
