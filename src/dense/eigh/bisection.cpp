#include "dense/eigh/bisection.hpp"

#include "dense/eigh/wait_sites.hpp"
#include "programs/bytes_of.hpp"
#include "runtime/tridiagonal_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace shardsolve::dense::eigh {
namespace {

template <class Real>
runtime::Tridiagonal<Real> upload(mesh::Rank& rank, const ScaledTridiagonal<Real>& t) {
  const auto order = static_cast<std::int64_t>(t.diagonal.size());
  return {rank.upload(rank.update(), t.diagonal.data(), order),
          rank.upload(rank.update(), t.off_diagonal.data(),
                      static_cast<std::int64_t>(t.off_diagonal.size())),
          order};
}

/// No eigenvalue is larger in magnitude (S. A. Gershgorin), rounding included.
template <class Real>
Real bound_of_eigenvalues(const ScaledTridiagonal<Real>& t) {
  const std::size_t n = t.diagonal.size();
  Real bound = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Real before = i > 0 ? std::abs(t.off_diagonal[i - 1]) : Real{0};
    const Real after = i + 1 < n ? std::abs(t.off_diagonal[i]) : Real{0};
    bound = std::max(bound, std::abs(t.diagonal[i]) + before + after);
  }
  const Real roundings = 4 * static_cast<Real>(n + 1) * std::numeric_limits<Real>::epsilon();
  return bound * (1 + roundings) + std::numeric_limits<Real>::min();
}

/// What stands alone on the diagonal is an eigenvalue as it is. It takes the place of what
/// bisection has found for it; `off`: how far that may be off. `values` are ascending.
template <class Real>
void take_lonely(const ScaledTridiagonal<Real>& t, Real off, std::vector<Real>& values) {
  std::vector<Real> lonely;
  for (std::size_t i = 0; i < t.diagonal.size(); ++i) {
    const bool follows = i > 0 && t.off_diagonal[i - 1] != 0;
    const bool leads = i + 1 < t.diagonal.size() && t.off_diagonal[i] != 0;
    if (!follows && !leads) {
      lonely.push_back(t.diagonal[i]);
    }
  }
  std::sort(lonely.begin(), lonely.end());
  auto next = values.begin();
  for (const Real value : lonely) {
    next = std::lower_bound(next, values.end(), value - off);
    if (next != values.end() && *next <= value + off) {
      *next++ = value;
    }
  }
  std::sort(values.begin(), values.end());
}

}  // namespace

template <class Real>
TridiagonalOutcome<Real> bisect(mesh::Rank& rank, const std::vector<Real>& diagonal,
                                const std::vector<Real>& off_diagonal, IndexRange wanted) {
  const ScaledTridiagonal<Real> t(diagonal, off_diagonal);
  if (!t.is_finite()) {
    return {.status = TridiagonalStatus::nonfinite_input};
  }
  const Real bound = bound_of_eigenvalues(t);
  // So wide that of the zero matrix nothing is halved.
  const Real width =
      bound * (std::numeric_limits<Real>::epsilon() / 2) + 2 * std::numeric_limits<Real>::min();
  const auto begin = [&](std::int64_t r) { return wanted.size() * r / rank.count(); };
  const MatrixView<Real> values = rank.workspace<Real>(wanted.size(), 1);
  const auto piece = [&](std::int64_t r) {
    return values.block(begin(r), 0, begin(r + 1) - begin(r), 1);
  };
  const MatrixView<Real> mine = piece(rank.index());
  rank.kernels<runtime::TridiagonalKernels<Real>>().bisect(
      rank.update(), upload(rank, t), -bound, bound, width, wanted.first + begin(rank.index()),
      mine.rows(), mine.data());

  std::vector<comm::Bytes> pieces;
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    pieces.push_back(programs::bytes_of(piece(r)));
  }
  runtime::Event& found = rank.event();
  rank.update().record(found);
  rank.transfer().wait(found, sites::bisected);
  rank.communicator().all_gather(rank.transfer(), std::move(pieces));
  TridiagonalOutcome<Real> outcome;
  const Real* const all = rank.fetch_later(rank.transfer(), values.data(), wanted.size());
  rank.finish(rank.transfer());
  outcome.values.assign(all, all + wanted.size());
  take_lonely(t, 4 * width, outcome.values);
  for (Real& value : outcome.values) {
    value = t.unscaled(value);
  }
  return outcome;
}

template <class Real>
IndexRange eigenvalues_between(mesh::Rank& rank, const std::vector<Real>& diagonal,
                               const std::vector<Real>& off_diagonal, Real low, Real high) {
  const ScaledTridiagonal<Real> t(diagonal, off_diagonal);
  if (!t.is_finite() || !(low < high)) {
    return {};
  }
  const std::vector<Real> points{t.scaled(low), t.scaled(high)};
  const MatrixView<std::int64_t> counts = rank.workspace<std::int64_t>(2, 1);
  rank.kernels<runtime::TridiagonalKernels<Real>>().count_eigenvalues(
      rank.update(), upload(rank, t), rank.upload(rank.update(), points.data(), 2), 2,
      counts.data());
  const std::int64_t* const below = rank.fetch_later(rank.update(), counts.data(), 2);
  rank.finish(rank.update());
  return {below[0], below[1]};
}

#define SHARDSOLVE_INSTANTIATE(Real)                                              \
  template TridiagonalOutcome<Real> bisect(mesh::Rank&, const std::vector<Real>&, \
                                           const std::vector<Real>&, IndexRange); \
  template IndexRange eigenvalues_between(mesh::Rank&, const std::vector<Real>&,  \
                                          const std::vector<Real>&, Real, Real);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::eigh
