// The public call of eigh.hpp: checks its arguments and goes step by step.

#include "dense/eigh/back_transform.hpp"
#include "dense/eigh/band_to_tridiagonal.hpp"
#include "dense/eigh/bisection.hpp"
#include "dense/eigh/call_sizes.hpp"
#include "dense/eigh/certificate.hpp"
#include "dense/eigh/divide_and_conquer.hpp"
#include "dense/eigh/full_to_band.hpp"
#include "dense/eigh/rows_to_columns.hpp"
#include "dense/eigh/store_adjoint.hpp"
#include "dense/shared/check_input.hpp"
#include "dense/shared/public_call.hpp"
#include "dense/shared/require_reachable.hpp"

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

/// What one rank does once A is known to be Hermitian.
template <Scalar T>
class Eigh {
 public:
  using Real = RealOf<T>;

  Eigh(mesh::Rank& rank, const CallSizes& sizes, MatrixView<T> slab, const EighRequest& request,
       const Scaled& norm)
      : rank_(rank),
        sizes_(sizes),
        layout_(sizes.layout),
        slab_(slab),
        request_(request),
        exponent_(safe_exponent<T>(norm)),
        norm_(Scaled{norm.fraction, norm.exponent + exponent_}.value()),
        groups_(sizes.groups(is_complex<T>)) {}

  Outcome run() {
    scale(rank_, exponent_, slab_);
    return request_.vectors ? find_pairs() : find_values();
  }

  const std::vector<Real>& values() const { return values_; }

 private:
  /// Q^H A Q = T, where Q is what `form_`, the slab and the reflectors hold.
  HostTridiagonal<Real> reduce(std::optional<MatrixView<T>> reflectors) {
    full_to_band(rank_, layout_, slab_, sizes_.deferred, form_);
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

  Outcome find_pairs() {
    // W = A G
    Certificate<T> certificate(rank_, layout_, slab_);
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
    to_caller_order(rank_, layout_, z);
    apply_panels(rank_, layout_, slab_, form_.t, sizes_.merged, z);
    rank_.kernels<runtime::BandKernels<T>>().fix_phases(rank_.update(), z);
    // G^H (A Z - Z diag(w)) and (Z^H Z - I) G
    const Outcome outcome = certificate.check(z, values, norm_);
    if (request_.adjoint) {
      store_adjoint<T>(rank_, layout_, wanted.size(), z,
                       slab_.block(0, 0, wanted.size(), slab_.columns()));
    } else {
      rank_.kernels<T>().copy(rank_.update(), z, slab_.columns_from(0, z.columns()));
      rank_.finish(rank_.update());
    }
    return keep(outcome, values);
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
    if (!outcome.ok()) {
      values_.clear();
    }
    return outcome;
  }

  mesh::Rank& rank_;
  const CallSizes& sizes_;
  const SlabLayout& layout_;
  MatrixView<T> slab_;
  const EighRequest& request_;
  int exponent_;
  double norm_;  // of A times 2^exponent
  SweepGroups groups_;
  BandForm<T> form_;
  std::vector<Real> values_;
};

/// Refuses what eigh() does not take; A is intact.
template <Scalar T>
Outcome look_at(const PublicCall& call, const ShardedMatrix<T>& a,
                const std::shared_ptr<Found<T>>& found) {
  return call.run([a, found](mesh::Rank& rank) {
    require_reachable(rank, a, "the matrix");
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
Outcome find_in_place(const PublicCall& call, const ShardedMatrix<T>& a, const CallSizes& sizes,
                      const EighRequest& request, const std::shared_ptr<Found<T>>& found) {
  return call.run([a, sizes, request, norm = found->norm, found](mesh::Rank& rank) {
    Eigh<T> eigh(rank, sizes, a.slab(rank.index()), request, norm);
    const Outcome outcome = eigh.run();
    if (rank.leads()) {
      found->values = eigh.values();
    }
    return outcome;
  });
}

}  // namespace
}  // namespace shardsolve::dense::eigh

namespace shardsolve {

template <Scalar T>
Eigenvalues<T> eigh(Mesh& mesh, ShardedMatrix<T> a, const EighRequest& request,
                    const RunOptions& options) {
  namespace steps = dense::eigh;
  steps::require_valid(request, a.layout().size());
  const steps::CallSizes sizes(a.layout());
  const dense::PublicCall call{"eigh", mesh, sizes.layout,
                               plan_eigh(a.layout(), dtype_of<T>, request.vectors), options};
  const auto found = std::make_shared<steps::Found<T>>();
  Eigenvalues<T> result;
  result.outcome = steps::look_at<T>(call, a, found);
  if (!result.outcome.ok()) {
    return result;
  }
  const Outcome looked = result.outcome;
  result.outcome = steps::find_in_place<T>(call, a, sizes, request, found);
  dense::add_cost(result.outcome, looked);
  if (result.outcome.ok()) {
    result.values = found->values;
    result.vectors = request.vectors ? static_cast<std::int64_t>(result.values.size()) : 0;
  }
  return result;
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template Eigenvalues<T> eigh(Mesh&, ShardedMatrix<T>, const EighRequest&, const RunOptions&);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(std::complex<float>)
SHARDSOLVE_INSTANTIATE(std::complex<double>)

}  // namespace shardsolve
