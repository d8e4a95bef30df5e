// The public call of eigh.hpp: checks its arguments and goes step by step.

#include "core/each_dtype.hpp"
#include "dense/eigh/back_transform.hpp"
#include "dense/eigh/band_to_tridiagonal.hpp"
#include "dense/eigh/bisection.hpp"
#include "dense/eigh/call_sizes.hpp"
#include "dense/eigh/certificate.hpp"
#include "dense/eigh/divide_and_conquer.hpp"
#include "dense/eigh/full_to_band.hpp"
#include "dense/eigh/look.hpp"
#include "dense/eigh/mirror.hpp"
#include "dense/eigh/row_order.hpp"
#include "dense/eigh/rows_to_columns.hpp"
#include "dense/eigh/solve_columns.hpp"
#include "dense/eigh/store_adjoint.hpp"
#include "dense/shared/check_input.hpp"
#include "dense/shared/usable_factor.hpp"
#include "programs/apart.hpp"
#include "programs/public_call.hpp"
#include "programs/require_reachable.hpp"
#include "runtime/band_kernels.hpp"

#include <shardsolve/eigh.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/scaled.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

namespace shardsolve::dense::eigh {
namespace {

void require_valid(const EighRequest& request, std::int64_t n) {
  if (request.indices && request.values) {
    throw Error(ErrorKind::invalid_argument,
                "eigh was given a range of indices and one of values: give one of them");
  }
  if (request.indices) {
    const auto [first, last] = *request.indices;
    if (first < 0 || last < first || last > n) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("eigenvalues {} to {} (excluded) of {} were asked for: "
                              "0 <= first <= last <= n is accepted",
                              first, last, n));
    }
  }
  if (request.values && (std::isnan(request.values->low) || std::isnan(request.values->high))) {
    throw Error(ErrorKind::invalid_argument,
                "eigenvalues in a range with a bound that is a NaN were asked for: numbers and "
                "infinities are accepted");
  }
}

/// A times 2^exponent is what is worked on: 0 unless squares or products of its entries might leave
/// the range.
template <Scalar T>
int safe_exponent(const Scaled& norm) {
  constexpr int limit = std::is_same_v<RealOf<T>, float> ? 30 : 300;
  const Scaled size = norm.normalised();
  return std::abs(size.exponent) > limit ? -size.exponent : 0;
}

/// Likewise where A becomes L^-1 A L^-H with the factor L of a matrix B: A is then about as far
/// above 1 as L^-1 A L^-H is below, or the other way round.
template <Scalar T>
int safe_exponent(const Scaled& norm, const Scaled& norm_of_b) {
  const int of_a = norm.normalised().exponent;
  const int of_b = norm_of_b.normalised().exponent;
  const bool is_safe = safe_exponent<T>(norm) == 0 && safe_exponent<T>(norm_of_b) == 0 &&
                       safe_exponent<T>(Scaled{1.0, of_a - of_b}) == 0;
  return is_safe ? 0 : of_b / 2 - of_a;
}

/// A *= 2^exponent, in two steps: one factor alone may not be in the range.
template <Scalar T>
void scale(mesh::Rank& rank, int exponent, MatrixView<T> slab) {
  if (exponent == 0) {
    return;
  }
  const int half = exponent / 2;
  for (const int part : {half, exponent - half}) {
    rank.kernels<T>().scale(rank.update(), std::ldexp(RealOf<T>{1}, part), slab);
  }
  rank.finish(rank.update());
}

/// T on the host.
template <class Real>
struct HostTridiagonal {
  std::vector<Real> diagonal;
  std::vector<Real> off_diagonal;
};

template <class Real>
HostTridiagonal<Real> fetch(mesh::Rank& rank, MatrixView<Real> tridiagonal) {
  const std::int64_t n = tridiagonal.rows();
  return {
      rank.fetch(rank.update(), tridiagonal.data(), n),
      rank.fetch(rank.update(), tridiagonal.data() + n, std::max<std::int64_t>(n - 1, 0)),
  };
}

/// The numbers of the eigenvalues of T that were asked for, where A times 2^exponent became T.
template <class Real>
IndexRange wanted_of(mesh::Rank& rank, const EighRequest& request, int exponent,
                     const HostTridiagonal<Real>& t) {
  if (request.indices) {
    return {request.indices->first, request.indices->last};
  }
  if (request.values) {
    const auto bound = [&](double value) {
      constexpr double most = std::numeric_limits<Real>::max();
      return static_cast<Real>(std::clamp(std::ldexp(value, exponent), -most, most));
    };
    return eigenvalues_between(rank, t.diagonal, t.off_diagonal, bound(request.values->low),
                               bound(request.values->high));
  }
  return {0, static_cast<std::int64_t>(t.diagonal.size())};
}

Outcome outcome_of(TridiagonalStatus status) {
  Outcome outcome;
  // Of a matrix of finite numbers in a safe range T is finite.
  outcome.status = status == TridiagonalStatus::ok ? Status::ok : Status::not_converged;
  return outcome;
}

/// What has been found, for the caller; written by the first rank of a process.
template <Scalar T>
struct Found {
  Scaled norm;  // ||A||_1
  std::vector<RealOf<T>> values;
};

/// Of B, if there is one.
template <Scalar T>
using Factor = std::optional<CholeskyFactor<T>>;

template <Scalar T>
FactorPart<T> part_of(const CholeskyFactor<T>& factor, const mesh::Rank& rank) {
  return {factor.layout(), factor.slabs.slab(rank.index()),
          factor.diagonal->data() + factor.layout().segment(rank.index()).begin.value(),
          factor.norm};
}

/// A = L^-1 A L^-H as the mean of what comes out for it and of its adjoint. Where L^-1 is graded,
/// the two have errors that are large beside the small entries, and cancel each other for the most
/// part: with one triangle alone, residuals are hundreds of times larger.
template <Scalar T>
void to_standard_form(mesh::Rank& rank, const FactorPart<T>& b, MatrixView<T> a) {
  const MatrixView<T> copy = rank.workspace<T>(a.rows(), a.columns());
  solve_columns<T>(rank, b.layout, b.slab, runtime::Op::none, a);
  rank.kernels<T>().copy(rank.update(), a, copy);
  store_adjoint<T>(rank, b.layout, a.rows(), copy, a);
  solve_columns<T>(rank, b.layout, b.slab, runtime::Op::none, a);
  rank.kernels<T>().scale(rank.update(), RealOf<T>{0.5}, a);
  rank.kernels<T>().copy(rank.update(), a, copy);
  store_adjoint<T>(rank, b.layout, a.rows(), copy, a);
  rank.kernels<T>().add(rank.update(), T{1}, copy, a);
}

/// What one rank does once A is known to be Hermitian.
template <Scalar T>
class Eigh {
 public:
  using Real = RealOf<T>;

  /// `b`: the factor of B, null for I.
  Eigh(mesh::Rank& rank, const CallSizes& sizes, MatrixView<T> slab, const FactorPart<T>* b,
       const EighRequest& request, const Scaled& norm)
      : rank_(rank),
        sizes_(sizes),
        layout_(sizes.layout),
        slab_(slab),
        b_(b),
        request_(request),
        norm_(norm),
        tuning_(rank.kernels<runtime::BandKernels<T>>().tuning(sizes.chase(is_complex<T>))),
        groups_(sizes.groups(is_complex<T>, tuning_.group)),
        order_(rank, layout_) {
    if (mirrors()) {
      mirror_.emplace(rank, layout_, order_, slab);
    }
  }

  Outcome run() {
    rescale(b_ == nullptr ? safe_exponent<T>(norm_) : safe_exponent<T>(norm_, b_->norm));
    if (request_.vectors) {
      // W = A G
      certificate_.emplace(rank_, layout_, slab_,
                           Scaled{norm_.fraction, norm_.exponent + exponent_}.value(), b_);
    }
    exponent_of_a_ = exponent_;
    if (b_ != nullptr) {
      // A = L^-1 A L^-H
      to_standard_form(rank_, *b_, slab_);
    }
    order_.to_elimination_order(slab_);
    if (b_ != nullptr) {
      rank_.finish(rank_.update());
      const InputCheck check = check_finite<T>(rank_, layout_, slab_);
      if (!check.outcome.ok()) {
        return Outcome{.status = Status::overflow};
      }
      const Scaled norm = check.norm.normalised();
      is_below_range_ = norm.fraction > 0.0 &&
                        norm.exponent - exponent_ < std::numeric_limits<Real>::min_exponent;
      rescale(safe_exponent<T>(norm));
    }
    return request_.vectors ? find_pairs() : find_values();
  }

  const std::vector<Real>& values() const { return values_; }

 private:
  bool mirrors() const { return rank_.count() == 1 || tuning_.mirrors_between_ranks; }

  /// Q^H A Q = T, where Q is what `form_`, the slab and the reflectors hold.
  HostTridiagonal<Real> reduce(std::optional<MatrixView<T>> reflectors) {
    full_to_band(rank_, layout_, order_, slab_, {sizes_.deferred, mirrors() ? &*mirror_ : nullptr},
                 form_);
    const MatrixView<Real> tridiagonal = rank_.workspace<Real>(layout_.size(), 2);
    band_to_tridiagonal<T>(rank_, groups_, form_.band, reflectors, tridiagonal);
    return fetch(rank_, tridiagonal);
  }

  Outcome find_values() {
    form_ = make_band_form<T>(rank_, layout_);
    const HostTridiagonal<Real> t = reduce(std::nullopt);
    const auto found =
        bisect(rank_, t.diagonal, t.off_diagonal, wanted_of(rank_, request_, exponent_, t));
    return keep(outcome_of(found.status), found.values);
  }

  /// Multiplies what is worked on by a power of two, if it has to be.
  void rescale(int exponent) {
    scale(rank_, exponent, slab_);
    exponent_ += exponent;
  }

  Outcome find_pairs() {
    // Q^H A Q = T
    form_ = make_band_form<T>(rank_, layout_);
    const MatrixView<T> reflectors = make_reflectors<T>(rank_, groups_);
    const HostTridiagonal<Real> t = reduce(reflectors);
    const IndexRange wanted = wanted_of(rank_, request_, exponent_, t);
    // T Z = Z diag(w)
    const MatrixView<Real> rows = rank_.workspace<Real>(slab_.columns(), layout_.size());
    auto found = divide_and_conquer<Real>(
        rank_, {t.diagonal, t.off_diagonal, layout_.boundaries(), wanted}, rows);
    if (!found.ok()) {
      return outcome_of(found.status);
    }
    const std::vector<Real> values(found.values.begin() + wanted.first,
                                   found.values.begin() + wanted.last);
    const MatrixView<T> z = rows_to_columns<T>(rank_, layout_, rows, wanted.size());
    // Z = Q Z
    apply_sweeps(rank_, groups_, reflectors, z);
    apply_panels(rank_, layout_, slab_, form_.t, sizes_.merged, z);
    order_.to_caller_order(z);
    if (b_ != nullptr) {
      // Z = L^-H Z
      solve_columns<T>(rank_, b_->layout, b_->slab, runtime::Op::conjugate_transpose, z);
    }
    rank_.kernels<runtime::BandKernels<T>>().fix_phases(rank_.update(), z);
    // G^H (A Z - B Z diag(w)) and (Z^H B Z - I) G
    const Outcome outcome = certificate_->check(z, of_a(values));
    if (request_.adjoint) {
      store_adjoint<T>(rank_, layout_, wanted.size(), z,
                       slab_.block(0, 0, wanted.size(), slab_.columns()));
    } else {
      rank_.kernels<T>().copy(rank_.update(), z, slab_.columns_from(0, z.columns()));
      rank_.finish(rank_.update());
    }
    return keep(outcome, values);
  }

  /// Eigenvalues of A as the certificate has seen it, rounded as those that are returned: near the
  /// end of the range that costs digits.
  std::vector<double> of_a(const std::vector<Real>& values) const {
    std::vector<double> all;
    for (const Real value : values) {
      const double returned{std::ldexp(value, -exponent_)};
      all.push_back(std::isfinite(returned)
                        ? std::ldexp(returned, exponent_of_a_)
                        : std::ldexp(double{value}, exponent_of_a_ - exponent_));
    }
    return all;
  }

  /// Eigenvalues of A from those of A times 2^exponent.
  Outcome keep(Outcome outcome, const std::vector<Real>& values) {
    if (!outcome.ok()) {
      return outcome;
    }
    for (const Real value : values) {
      values_.push_back(std::ldexp(value, -exponent_));
      if (!std::isfinite(values_.back())) {
        outcome.status = Status::overflow;
      }
    }
    if (is_below_range_) {
      outcome.status = Status::underflow;
    }
    if (!outcome.ok()) {
      values_.clear();
    }
    return outcome;
  }

  mesh::Rank& rank_;
  const CallSizes& sizes_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  const FactorPart<T>* b_;
  const EighRequest& request_;
  Scaled norm_;                  // of A as it was given
  int exponent_ = 0;             // what is worked on was multiplied by 2^exponent
  int exponent_of_a_ = 0;        // before L^-1 and L^-H
  bool is_below_range_ = false;  // L^-1 A L^-H, and so all eigenvalues
  std::optional<Certificate<T>> certificate_;
  runtime::BandTuning tuning_;
  SweepGroups groups_;
  RowOrder<T> order_;
  std::optional<Mirror<T>> mirror_;
  BandForm<T> form_;
  std::vector<Real> values_;
};

/// Refuses what eigh() does not take; A is intact.
template <Scalar T>
Outcome look_at(const programs::PublicCall& call, const ShardedMatrix<T>& a,
                const std::shared_ptr<Found<T>>& found) {
  return call.run([a, found](mesh::Rank& rank) {
    programs::require_reachable(rank, a, "the matrix");
    rank.report("check", 0.0);
    const InputCheck check = check_hermitian<T>(rank, a.layout(), a.slab(rank.index()));
    if (rank.leads()) {
      found->norm = check.norm;
    }
    return check.outcome;
  });
}

/// Eigenvalues, and eigenvectors in A's memory.
template <Scalar T>
Outcome find_in_place(const programs::PublicCall& call, const ShardedMatrix<T>& a,
                      const Factor<T>& b, const CallSizes& sizes, const EighRequest& request,
                      const std::shared_ptr<Found<T>>& found) {
  return call.run([a, b, sizes, request, norm = found->norm, found](mesh::Rank& rank) {
    std::optional<FactorPart<T>> part;
    if (b) {
      programs::require_reachable(rank, b->slabs, "the factor");
      programs::Apart().reads("the factor", b->slabs).writes("A", a).require(rank);
      part.emplace(part_of(*b, rank));
    }
    Eigh<T> eigh(rank, sizes, a.slab(rank.index()), part ? &*part : nullptr, request, norm);
    const Outcome outcome = eigh.run();
    if (rank.leads()) {
      found->values = eigh.values();
    }
    return outcome;
  });
}

/// Throws Error(invalid_argument).
template <Scalar T>
void require_factor_for(const SlabLayout& layout, const CholeskyFactor<T>& b) {
  require_usable(b);
  if (b.layout().boundaries() != layout.boundaries()) {
    throw Error(
        ErrorKind::invalid_argument,
        "A and the factor of B are cut at different columns: give both the same boundaries");
  }
}

/// The public calls.
template <Scalar T>
Eigenvalues<T> find(Mesh& mesh, const ShardedMatrix<T>& a, const Factor<T>& b,
                    const EighRequest& request, const RunOptions& options) {
  require_valid(request, a.layout().size());
  const CallSizes sizes(a.layout());
  const auto tile = b ? std::optional(b->layout().tile()) : std::nullopt;
  const programs::PublicCall call{"eigh", mesh, sizes.layout,
                                  plan_eigh(a.layout(), dtype_of<T>, request.vectors, tile),
                                  options};
  const auto found = std::make_shared<Found<T>>();
  Eigenvalues<T> result;
  result.outcome = look_at<T>(call, a, found);
  if (!result.outcome.ok()) {
    return result;
  }
  const Outcome looked = result.outcome;
  result.outcome = find_in_place<T>(call, a, b, sizes, request, found);
  programs::add_cost(result.outcome, looked);
  if (result.outcome.ok()) {
    result.values = found->values;
    result.vectors = request.vectors ? static_cast<std::int64_t>(result.values.size()) : 0;
  }
  return result;
}

}  // namespace

template <Scalar T>
Outcome look_at(Mesh& mesh, const ShardedMatrix<T>& a, const RunOptions& options) {
  return look_at<T>({"eigh", mesh, a.layout(), plan_eigh(a.layout(), dtype_of<T>, false), options},
                    a, std::make_shared<Found<T>>());
}

}  // namespace shardsolve::dense::eigh

namespace shardsolve {

template <Scalar T>
Eigenvalues<T> eigh(Mesh& mesh, ShardedMatrix<T> a, const EighRequest& request,
                    const RunOptions& options) {
  return dense::eigh::find<T>(mesh, a, std::nullopt, request, options);
}

template <Scalar T>
Eigenvalues<T> eigh(Mesh& mesh, ShardedMatrix<T> a, const CholeskyFactor<T>& b,
                    const EighRequest& request, const RunOptions& options) {
  dense::eigh::require_factor_for(a.layout(), b);
  return dense::eigh::find<T>(mesh, a, b, request, options);
}

#define SHARDSOLVE_INSTANTIATE(T)                                                               \
  template Outcome dense::eigh::look_at(Mesh&, const ShardedMatrix<T>&, const RunOptions&);     \
  template Eigenvalues<T> eigh(Mesh&, ShardedMatrix<T>, const EighRequest&, const RunOptions&); \
  template Eigenvalues<T> eigh(Mesh&, ShardedMatrix<T>, const CholeskyFactor<T>&,               \
                               const EighRequest&, const RunOptions&);

SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
