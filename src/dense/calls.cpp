// The public calls of cholesky.hpp: each checks its arguments and runs rank programs.

#include "core/compensated_sum.hpp"
#include "dense/call.hpp"
#include "dense/certified_solve.hpp"
#include "dense/check_input.hpp"
#include "dense/cholesky.hpp"
#include "dense/condition.hpp"
#include "dense/gather.hpp"
#include "dense/inverse.hpp"
#include "dense/inverse_residual.hpp"
#include "dense/mirror.hpp"
#include "mesh/require_part.hpp"

#include <shardsolve/cholesky.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve {
namespace {

template <Scalar T>
void require_usable(const CholeskyFactor<T>& factor) {
  if (!factor.diagonal || std::ssize(*factor.diagonal) != factor.layout().size()) {
    throw Error(ErrorKind::invalid_argument,
                "the factor was consumed by cholesky_inverse: factor the matrix again");
  }
  if (!factor.outcome.ok()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("there is no factor to work with: {}", factor.outcome.message()));
  }
}

template <Scalar T>
dense::FactorPart<T> part_of(const CholeskyFactor<T>& factor, const mesh::Rank& rank) {
  return {factor.layout(), factor.slabs.slab(rank.index()),
          factor.diagonal->data() + factor.layout().segment(rank.index()).begin.value(),
          factor.norm};
}

bool has_empty_segment(const SlabLayout& layout) {
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    if (layout.width(rank) == 0) {
      return true;
    }
  }
  return false;
}

/// Throws Error(invalid_argument) unless this rank's part is in this process and its device
/// computes on its memory.
template <Scalar T>
void require_reachable(const mesh::Rank& rank, const ShardedMatrix<T>& a, const char* what) {
  mesh::require_part(rank, a, what);
  if (const MatrixView<T> slab = a.slab(rank.index()); !slab.empty()) {
    rank.require_device_memory(slab.data(), a.memory(), what);
  }
}

/// Likewise for right-hand sides. A process that has no rows of them may have been told of none, or
/// of others than those that the rest will wait for.
template <Scalar T>
void require_reachable(mesh::Rank& rank, const RightHandSides<T>& b) {
  constexpr const char* what = "the right-hand sides";
  mesh::require_part(rank, b, what);
  if (const MatrixView<T> block = b.block(rank.index()); !block.empty()) {
    rank.require_device_memory(block.data(), b.memory(), what);
  }
  if (!has_empty_segment(b.layout())) {
    return;
  }
  for (const auto& columns : dense::gather_from_all(rank, std::vector{b.columns()})) {
    if (columns.front() != b.columns()) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("{} right-hand sides given in one process and {} in another: a "
                              "process without rows of them gives a block of 0 x k",
                              columns.front(), b.columns()));
    }
  }
}

/// The real diagonal of what stands in the slab of this rank, in the rows of its segment.
template <Scalar T>
std::vector<RealOf<T>> diagonal_of(mesh::Rank& rank, const ShardedMatrix<T>& a) {
  const MatrixView<const T> slab = a.slab(rank.index());
  const std::int64_t first = a.layout().segment(rank.index()).begin.value();
  const std::int64_t columns = slab.columns();
  const MatrixView<RealOf<T>> values = rank.workspace<RealOf<T>>(columns, 1);
  rank.kernels<T>().diagonal(rank.update(), slab.block(first, 0, columns, columns), values.data());
  return rank.fetch(rank.update(), values.data(), columns);
}

/// 2 sum log(L_ii): sums of the ranks, added in their order.
template <Scalar T>
double sum_of_logs(mesh::Rank& rank, const ShardedMatrix<T>& l) {
  core::CompensatedSum mine;
  for (const RealOf<T> pivot : diagonal_of(rank, l)) {
    mine.add(std::log(double{pivot}));
  }
  core::CompensatedSum all;
  for (const auto& one : dense::gather_from_all(rank, std::vector{mine})) {
    all.add(one[0]);
  }
  return 2.0 * all.value();
}

/// The outcome has rcond and what it took to find it.
template <Scalar T>
Outcome estimate_condition(Mesh& mesh, const CholeskyFactor<T>& factor, const RunOptions& options) {
  require_usable(factor);
  const Plan plan = plan_cholesky_solve(factor.layout(), dtype_of<T>, 1);
  return dense::run_call(
      mesh, factor.layout(), plan, "condition_estimate", options, [factor](mesh::Rank& rank) {
        require_reachable(rank, factor.slabs, "the factor");
        Outcome outcome;
        rank.report("condition", 0.0);
        outcome.rcond = dense::reciprocal_condition<T>(rank, part_of(factor, rank));
        return outcome;
      });
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

/// cholesky_factor() as a part of `job`; `check_more` runs when A has been looked at and nothing
/// has been written.
template <Scalar T>
CholeskyFactor<T> factor_for(Mesh& mesh, const ShardedMatrix<T>& a, const RunOptions& options,
                             const Plan& plan, const char* job,
                             const std::function<Outcome(mesh::Rank&)>& check_more) {
  CholeskyFactor<T> factor{a, std::make_shared<std::vector<RealOf<T>>>(a.layout().size()), {}, {}};
  const auto norm = std::make_shared<Scaled>();
  factor.outcome = dense::run_call(
      mesh, a.layout(), plan, job, options,
      [a, diagonal = factor.diagonal, norm, check_more](mesh::Rank& rank) {
        require_reachable(rank, a, "the matrix");
        rank.report("check", 0.0);
        const dense::InputCheck check =
            dense::check_input<T>(rank, a.layout(), a.slab(rank.index()));
        if (check.outcome.ok()) {
          // A's diagonal, before L replaces it
          const auto all = dense::gather_rows(rank, a.layout(), diagonal_of(rank, a));
          if (rank.leads()) {
            *diagonal = all;
          }
        }
        if (rank.leads()) {
          *norm = check.norm;
        }
        return check.outcome.ok() ? check_more(rank) : check.outcome;
      });
  factor.norm = *norm;
  if (!factor.outcome.ok()) {
    return factor;
  }
  const Outcome checked = factor.outcome;
  const auto logs = std::make_shared<double>(factor.log_determinant);
  factor.outcome =
      dense::run_call(mesh, a.layout(), plan, job, options, [a, logs](mesh::Rank& rank) {
        const Outcome outcome = dense::cholesky<T>(rank, a.layout(), a.slab(rank.index()));
        if (outcome.ok()) {
          const double sum = sum_of_logs(rank, a);
          if (rank.leads()) {
            *logs = sum;
          }
        }
        return outcome;
      });
  if (factor.outcome.status == Status::overflow) {
    factor.outcome.status = reason_of_overflow<T>(*factor.diagonal);
  }
  factor.log_determinant = *logs;
  dense::add_cost(factor.outcome, checked);
  return factor;
}

}  // namespace

template <Scalar T>
CholeskyFactor<T> cholesky_factor(Mesh& mesh, ShardedMatrix<T> a, const RunOptions& options) {
  return factor_for<T>(mesh, a, options, plan_cholesky_factor(a.layout(), dtype_of<T>),
                       "cholesky_factor", [](mesh::Rank&) { return Outcome{}; });
}

template <Scalar T>
Outcome cholesky_solve(Mesh& mesh, const CholeskyFactor<T>& factor, RightHandSides<T> b,
                       const RunOptions& options) {
  require_usable(factor);
  if (!(b.layout() == factor.layout())) {
    throw Error(ErrorKind::invalid_argument,
                "the right-hand sides lie on another layout than the factor: use factor.layout()");
  }
  const Plan plan = plan_cholesky_solve(factor.layout(), dtype_of<T>, b.columns());
  return dense::run_call(mesh, factor.layout(), plan, "cholesky_solve", options,
                         [factor, b](mesh::Rank& rank) {
                           const dense::FactorPart<T> part = part_of(factor, rank);
                           require_reachable(rank, factor.slabs, "the factor");
                           require_reachable(rank, b);
                           return dense::certified_solve<T>(rank, part, b.block(rank.index()));
                         });
}

template <Scalar T>
Outcome cholesky_inverse(Mesh& mesh, CholeskyFactor<T>&& factor, const RunOptions& options) {
  require_usable(factor);
  const CholeskyFactor<T> used = factor;
  const SlabLayout& layout = used.layout();
  const Plan plan = plan_cholesky_inverse(layout, dtype_of<T>);
  const auto residual = std::make_shared<dense::InverseResidual<T>>(layout.size());
  const auto call = [&](std::function<Outcome(mesh::Rank&)> program) {
    return dense::run_call(mesh, layout, plan, "cholesky_inverse", options, std::move(program));
  };
  const Outcome before = call([used, residual](mesh::Rank& rank) {
    require_reachable(rank, used.slabs, "the factor");
    residual->before(rank, part_of(used, rank));
    return Outcome{};
  });
  used.diagonal->clear();  // of all copies: from here on the slabs hold no factor
  factor.diagonal = nullptr;
  const Outcome inverted = call([used](mesh::Rank& rank) {
    dense::inverse<T>(rank, used.layout(), used.slabs.slab(rank.index()));
    return Outcome{};
  });
  const Outcome mirrored = call([used](mesh::Rank& rank) {
    dense::mirror<T>(rank, used.layout(), used.slabs.slab(rank.index()));
    return Outcome{};
  });
  Outcome outcome = call([used, residual](mesh::Rank& rank) {
    return residual->after(rank,
                           {used.layout(), used.slabs.slab(rank.index()), nullptr, used.norm});
  });
  dense::add_cost(outcome, before);
  dense::add_cost(outcome, inverted);
  dense::add_cost(outcome, mirrored);
  return outcome;
}

template <Scalar T>
double log_determinant(const CholeskyFactor<T>& factor) {
  require_usable(factor);
  return factor.log_determinant;
}

template <Scalar T>
double condition_estimate(Mesh& mesh, const CholeskyFactor<T>& factor, const RunOptions& options) {
  const Outcome outcome = estimate_condition(mesh, factor, options);
  return *outcome.rcond;  // NOLINT(bugprone-unchecked-optional-access): always there
}

template <Scalar T>
Outcome solve(Mesh& mesh, ShardedMatrix<T> a, RightHandSides<T> b, const RunOptions& options,
              Rcond rcond, Assume assume) {
  if (assume != Assume::positive_definite) {
    throw Error(ErrorKind::unsupported,
                "solve() was given a value of Assume that this version does not have: "
                "Assume::positive_definite is accepted");
  }
  if (!(a.layout() == b.layout())) {
    throw Error(ErrorKind::invalid_argument,
                "matrix and right-hand sides lie on different layouts: use the matrix's for both");
  }
  // What is wrong with b, or too large for the memory there is, is to be said before A is gone.
  const CholeskyFactor<T> factor = factor_for<T>(
      mesh, a, options,
      std::max(plan_cholesky_factor(a.layout(), dtype_of<T>),
               plan_cholesky_solve(a.layout(), dtype_of<T>, b.columns()),
               [](const Plan& one, const Plan& other) {
                 return one.workspace_bytes < other.workspace_bytes;
               }),
      "solve", [b](mesh::Rank& rank) {
        require_reachable(rank, b);
        return dense::check_right_hand_sides<T>(rank, b.layout(), b.block(rank.index())).outcome;
      });
  if (!factor.outcome.ok()) {
    return factor.outcome;
  }
  Outcome outcome = cholesky_solve(mesh, factor, b, options);
  dense::add_cost(outcome, factor.outcome);
  if (outcome.ok() && rcond == Rcond::estimated) {
    const Outcome condition = estimate_condition(mesh, factor, options);
    outcome.rcond = condition.rcond;
    dense::add_cost(outcome, condition);
  }
  return outcome;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                              \
  template CholeskyFactor<T> cholesky_factor(Mesh&, ShardedMatrix<T>, const RunOptions&);      \
  template Outcome cholesky_solve(Mesh&, const CholeskyFactor<T>&, RightHandSides<T>,          \
                                  const RunOptions&);                                          \
  template Outcome cholesky_inverse(Mesh&, CholeskyFactor<T>&&, const RunOptions&);            \
  template double log_determinant(const CholeskyFactor<T>&);                                   \
  template double condition_estimate(Mesh&, const CholeskyFactor<T>&, const RunOptions&);      \
  template Outcome solve(Mesh&, ShardedMatrix<T>, RightHandSides<T>, const RunOptions&, Rcond, \
                         Assume);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(std::complex<float>)
SHARDSOLVE_INSTANTIATE(std::complex<double>)

}  // namespace shardsolve
