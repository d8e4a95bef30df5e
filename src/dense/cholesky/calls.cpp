// The public calls of cholesky.hpp: each checks its arguments and goes step by step, and each step
// is a program that all ranks run.

#include "core/compensated_sum.hpp"
#include "core/each_dtype.hpp"
#include "dense/cholesky/certified_solve.hpp"
#include "dense/cholesky/condition.hpp"
#include "dense/cholesky/factor.hpp"
#include "dense/cholesky/half.hpp"
#include "dense/cholesky/inverse.hpp"
#include "dense/cholesky/inverse_residual.hpp"
#include "dense/cholesky/mirror.hpp"
#include "dense/cholesky/solve.hpp"
#include "dense/shared/check_input.hpp"
#include "dense/shared/diagonal_of.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "dense/shared/usable_factor.hpp"
#include "programs/apart.hpp"
#include "programs/gather.hpp"
#include "programs/public_call.hpp"
#include "programs/require_reachable.hpp"

#include <shardsolve/cholesky.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace shardsolve::dense::cholesky {
namespace {

template <Scalar T>
void require_layout(const CholeskyFactor<T>& factor, const RightHandSides<T>& b) {
  if (!(b.layout() == factor.layout())) {
    throw Error(ErrorKind::invalid_argument,
                "the right-hand sides lie on another layout than the factor: use factor.layout()");
  }
}

/// From here on the slabs hold no factor, and require_usable() says so of every copy: they share
/// A's diagonal, without which no certificate can be found.
template <Scalar T>
void consume(CholeskyFactor<T>& factor) {
  factor.diagonal->clear();
  factor.diagonal = nullptr;
}

template <Scalar T>
FactorPart<T> part_of(const CholeskyFactor<T>& factor, const mesh::Rank& rank) {
  return {factor.layout(), factor.slabs.slab(rank.index()),
          factor.diagonal->data() + factor.layout().segment(rank.index()).begin.value(),
          factor.norm};
}

/// 2 sum log(L_ii): sums of the ranks, added in their order.
template <Scalar T>
double sum_of_logs(mesh::Rank& rank, const ShardedMatrix<T>& l) {
  core::CompensatedSum mine;
  for (const RealOf<T> pivot : diagonal_of<T>(rank, l.layout(), l.slab(rank.index()))) {
    mine.add(std::log(double{pivot}));
  }
  core::CompensatedSum all;
  for (const auto& one : programs::gather_from_all(rank, std::vector{mine})) {
    all.add(one[0]);
  }
  return 2.0 * all.value();
}

/// Of a positive definite matrix no number of the factor, nor any sum on the way to it, is larger
/// than the diagonal of A (Cauchy and Schwarz). So what left the range has not been positive
/// definite, but where pivots may be subnormal, which GPUs cannot invert: they are at least about
/// u times the diagonal.
template <Scalar T>
Status reason_of_overflow(const std::vector<RealOf<T>>& diagonal) {
  const bool invertible = std::all_of(diagonal.begin(), diagonal.end(), [](RealOf<T> value) {
    using Limits = std::numeric_limits<RealOf<T>>;
    return std::abs(value) >= Limits::min() / Limits::epsilon();
  });
  return invertible ? Status::not_positive_definite : Status::overflow;
}

/// Of a factor and of a solve with it.
template <Scalar T>
Plan plan_solve(const SlabLayout& layout, std::int64_t columns) {
  const Plan factor = plan_cholesky_factor(layout, dtype_of<T>);
  const Plan solve = plan_cholesky_solve(layout, dtype_of<T>, columns);
  return factor.workspace_bytes < solve.workspace_bytes ? solve : factor;
}

/// Looks at A, and at the right-hand sides if there are any. The factor that it returns has what
/// certificates need of A: its norm, and its diagonal, which L is to replace.
template <Scalar T>
CholeskyFactor<T> look_at(const programs::PublicCall& call, const ShardedMatrix<T>& a,
                          const std::optional<RightHandSides<T>>& b) {
  CholeskyFactor<T> factor{a, std::make_shared<std::vector<RealOf<T>>>(a.layout().size()), {}, {}};
  const auto norm = std::make_shared<Scaled>();
  factor.outcome = call.run([a, b, norm, diagonal = factor.diagonal](mesh::Rank& rank) {
    programs::require_reachable(rank, a, "the matrix");
    rank.report("check", 0.0);
    const MatrixView<const T> slab = a.slab(rank.index());
    const InputCheck check = check_hermitian<T>(rank, a.layout(), slab);
    if (rank.leads()) {
      *norm = check.norm;
    }
    if (!check.outcome.ok()) {
      return check.outcome;
    }
    const auto all =
        programs::gather_rows(rank, a.layout(), diagonal_of<T>(rank, a.layout(), slab));
    if (rank.leads()) {
      *diagonal = all;
    }
    if (!b) {
      return Outcome{};
    }
    programs::require_reachable(rank, *b);
    programs::Apart().writes("the matrix", a).writes("the right-hand sides", *b).require(rank);
    return check_right_hand_sides<T>(rank, b->layout(), b->block(rank.index())).outcome;
  });
  factor.norm = *norm;
  return factor;
}

/// P A P^T = L L^H in A's memory, and log(det(A)).
template <Scalar T>
void factor_in_place(const programs::PublicCall& call, CholeskyFactor<T>& factor) {
  const Outcome looked = factor.outcome;
  const auto logs = std::make_shared<double>(factor.log_determinant);
  factor.outcome = call.run([a = factor.slabs, logs](mesh::Rank& rank) {
    const Outcome outcome = cholesky::factor<T>(rank, a.layout(), a.slab(rank.index()));
    if (outcome.ok()) {
      const double sum = sum_of_logs(rank, a);
      if (rank.leads()) {
        *logs = sum;
      }
    }
    return outcome;
  });
  factor.log_determinant = *logs;
  if (factor.outcome.status == Status::overflow) {
    factor.outcome.status = reason_of_overflow<T>(*factor.diagonal);
  }
  programs::add_cost(factor.outcome, looked);
}

/// X = A^-1 B in B's memory, with its backward error.
template <Scalar T>
Outcome solve_in_place(const programs::PublicCall& call, const CholeskyFactor<T>& factor,
                       const RightHandSides<T>& b) {
  return call.run([factor, b](mesh::Rank& rank) {
    const FactorPart<T> part = part_of(factor, rank);
    programs::require_reachable(rank, factor.slabs, "the factor");
    programs::require_reachable(rank, b);
    programs::Apart()
        .reads("the factor", factor.slabs)
        .writes("the right-hand sides", b)
        .require(rank);
    return certified_solve<T>(rank, part, b.block(rank.index()));
  });
}

/// F^-1 B or the like in B's memory.
template <Scalar T>
Outcome half_in_place(const programs::PublicCall& call, const CholeskyFactor<T>& factor,
                      const RightHandSides<T>& b, Half half) {
  return call.run([slabs = factor.slabs, b, half](mesh::Rank& rank) {
    programs::require_reachable(rank, slabs, "the factor");
    programs::require_reachable(rank, b);
    programs::Apart().reads("the factor", slabs).writes("the right-hand sides", b).require(rank);
    const MatrixView<T> own = b.block(rank.index());
    Outcome outcome = check_right_hand_sides<T>(rank, b.layout(), own).outcome;
    if (!outcome.ok()) {
      return outcome;
    }
    apply_half<T>(rank, slabs.layout(), slabs.slab(rank.index()), half, own);
    if (!all_finite(column_maxima<T>(rank, own))) {
      outcome.status = Status::overflow;
    }
    return outcome;
  });
}

template <Scalar T>
using SharedResidual = std::shared_ptr<InverseResidual<T>>;

/// w = A v, with what the factor kept of A.
template <Scalar T>
Outcome multiply_probe(const programs::PublicCall& call, const CholeskyFactor<T>& factor,
                       const SharedResidual<T>& residual) {
  return call.run([factor, residual](mesh::Rank& rank) {
    programs::require_reachable(rank, factor.slabs, "the factor");
    residual->before(rank, part_of(factor, rank));
    return Outcome{};
  });
}

/// X = (L L^H)^-1 in the place of L and A, one triangle of it.
template <Scalar T>
Outcome invert_in_place(const programs::PublicCall& call, const ShardedMatrix<T>& slabs) {
  return call.run([slabs](mesh::Rank& rank) {
    inverse<T>(rank, slabs.layout(), slabs.slab(rank.index()));
    return Outcome{};
  });
}

/// The other triangle.
template <Scalar T>
Outcome mirror_in_place(const programs::PublicCall& call, const ShardedMatrix<T>& slabs) {
  return call.run([slabs](mesh::Rank& rank) {
    mirror<T>(rank, slabs.layout(), slabs.slab(rank.index()));
    return Outcome{};
  });
}

/// The certificate: X w beside v.
template <Scalar T>
Outcome compare_probe(const programs::PublicCall& call, const ShardedMatrix<T>& x,
                      const Scaled& norm_of_a, const SharedResidual<T>& residual) {
  return call.run([x, norm_of_a, residual](mesh::Rank& rank) {
    return residual->after(rank, {x.layout(), x.slab(rank.index()), nullptr, norm_of_a});
  });
}

}  // namespace
}  // namespace shardsolve::dense::cholesky

namespace shardsolve {

namespace cholesky = dense::cholesky;

template <Scalar T>
CholeskyFactor<T> cholesky_factor(Mesh& mesh, ShardedMatrix<T> a, const RunOptions& options) {
  const programs::PublicCall call{"cholesky_factor", mesh, a.layout(),
                                  plan_cholesky_factor(a.layout(), dtype_of<T>), options};
  CholeskyFactor<T> factor = cholesky::look_at<T>(call, a, std::nullopt);
  if (factor.outcome.ok()) {
    cholesky::factor_in_place(call, factor);
  }
  return factor;
}

template <Scalar T>
Outcome cholesky_solve(Mesh& mesh, const CholeskyFactor<T>& factor, RightHandSides<T> b,
                       const RunOptions& options) {
  dense::require_usable(factor);
  cholesky::require_layout(factor, b);
  const programs::PublicCall call{"cholesky_solve", mesh, b.layout(),
                                  plan_cholesky_solve(b.layout(), dtype_of<T>, b.columns()),
                                  options};
  return cholesky::solve_in_place(call, factor, b);
}

template <Scalar T>
Outcome cholesky_half(Mesh& mesh, const CholeskyFactor<T>& factor, RightHandSides<T> b, Half half,
                      const RunOptions& options) {
  dense::require_usable(factor);
  cholesky::require_layout(factor, b);
  if (half > Half::multiply_adjoint) {
    throw Error(ErrorKind::unsupported,
                fmt::format("half = {} is no value of Half: pass Half::solve, Half::solve_adjoint, "
                            "Half::multiply or Half::multiply_adjoint",
                            static_cast<int>(half)));
  }
  const programs::PublicCall call{"cholesky_half", mesh, b.layout(),
                                  plan_cholesky_half(b.layout(), dtype_of<T>, b.columns()),
                                  options};
  return cholesky::half_in_place(call, factor, b, half);
}

template <Scalar T>
Outcome cholesky_inverse(Mesh& mesh, CholeskyFactor<T>&& factor, const RunOptions& options) {
  dense::require_usable(factor);
  const ShardedMatrix<T> slabs = factor.slabs;
  const programs::PublicCall call{"cholesky_inverse", mesh, slabs.layout(),
                                  plan_cholesky_inverse(slabs.layout(), dtype_of<T>), options};
  const auto residual = std::make_shared<cholesky::InverseResidual<T>>(slabs.layout().size());
  const Outcome probed = cholesky::multiply_probe(call, factor, residual);
  cholesky::consume(factor);
  const Outcome inverted = cholesky::invert_in_place(call, slabs);
  const Outcome mirrored = cholesky::mirror_in_place(call, slabs);
  Outcome outcome = cholesky::compare_probe(call, slabs, factor.norm, residual);
  for (const Outcome& earlier : {probed, inverted, mirrored}) {
    programs::add_cost(outcome, earlier);
  }
  return outcome;
}

template <Scalar T>
double log_determinant(const CholeskyFactor<T>& factor) {
  dense::require_usable(factor);
  return factor.log_determinant;
}

template <Scalar T>
Outcome dense::cholesky::judge(Mesh& mesh, const CholeskyFactor<T>& factor,
                               const std::optional<Solved<T>>& solved, const RunOptions& options) {
  dense::require_usable(factor);
  const SlabLayout& layout = factor.layout();
  const programs::PublicCall call{"condition_estimate", mesh, layout,
                                  plan_cholesky_solve(layout, dtype_of<T>, 1), options};
  return call.run([factor, solved](mesh::Rank& rank) {
    programs::require_reachable(rank, factor.slabs, "the factor");
    constexpr double u = unit_roundoff<T>;
    Outcome outcome;
    rank.report("condition", 0.0);
    const auto part = cholesky::part_of(factor, rank);
    cholesky::TriangularSolve<T> solve(rank, part.layout, part.slab, 1);
    outcome.rcond = cholesky::reciprocal_condition<T>(rank, part, solve);
    if (solved && *outcome.rcond < 2.0 * u) {
      outcome.forward_error = cholesky::forward_error<T>(
          rank, part, solve, solved->x.block(rank.index()), solved->backward_error);
      if (!(*outcome.forward_error < 1.0)) {
        outcome.status = Status::nearly_singular;
      }
    }
    return outcome;
  });
}

template <Scalar T>
double condition_estimate(Mesh& mesh, const CholeskyFactor<T>& factor, const RunOptions& options) {
  const Outcome outcome = cholesky::judge<T>(mesh, factor, std::nullopt, options);
  return *outcome.rcond;  // NOLINT(bugprone-unchecked-optional-access): always there
}

template <Scalar T>
Outcome dense::cholesky::solve(Mesh& mesh, const ShardedMatrix<T>& a, const RightHandSides<T>& b,
                               const RunOptions& options, Rcond rcond) {
  // What is wrong with b, or too large for the memory there is, is to be said before A is gone.
  const programs::PublicCall call{"solve", mesh, a.layout(),
                                  cholesky::plan_solve<T>(a.layout(), b.columns()), options};
  CholeskyFactor<T> factor = cholesky::look_at<T>(call, a, b);
  if (factor.outcome.ok()) {
    cholesky::factor_in_place(call, factor);
  }
  if (!factor.outcome.ok()) {
    return factor.outcome;
  }
  Outcome outcome = cholesky_solve(mesh, factor, b, options);
  programs::add_cost(outcome, factor.outcome);
  if (outcome.ok() && rcond == Rcond::estimated) {
    const Outcome judged = cholesky::judge<T>(
        mesh, factor, cholesky::Solved<T>{b, outcome.backward_error.value_or(0.0)}, options);
    outcome.status = judged.status;
    outcome.rcond = judged.rcond;
    outcome.forward_error = judged.forward_error;
    programs::add_cost(outcome, judged);
  }
  return outcome;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                           \
  template CholeskyFactor<T> cholesky_factor(Mesh&, ShardedMatrix<T>, const RunOptions&);   \
  template Outcome cholesky_solve(Mesh&, const CholeskyFactor<T>&, RightHandSides<T>,       \
                                  const RunOptions&);                                       \
  template Outcome cholesky_half(Mesh&, const CholeskyFactor<T>&, RightHandSides<T>, Half,  \
                                 const RunOptions&);                                        \
  template Outcome cholesky_inverse(Mesh&, CholeskyFactor<T>&&, const RunOptions&);         \
  template double log_determinant(const CholeskyFactor<T>&);                                \
  template double condition_estimate(Mesh&, const CholeskyFactor<T>&, const RunOptions&);   \
  template Outcome dense::cholesky::judge(Mesh&, const CholeskyFactor<T>&,                  \
                                          const std::optional<dense::cholesky::Solved<T>>&, \
                                          const RunOptions&);                               \
  template Outcome dense::cholesky::solve(Mesh&, const ShardedMatrix<T>&,                   \
                                          const RightHandSides<T>&, const RunOptions&, Rcond);

SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
