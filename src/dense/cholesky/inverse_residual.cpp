#include "dense/cholesky/inverse_residual.hpp"

#include "dense/cholesky/certified_solve.hpp"
#include "dense/shared/check_input.hpp"
#include "dense/shared/diagonal_of.hpp"
#include "dense/shared/hermitian_multiply.hpp"
#include "programs/gather.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

namespace shardsolve::dense::cholesky {
namespace {

/// v is multiplied by 2^exponent, so that neither w = A v nor X w leaves the range: about 1 /
/// sqrt(||A||).
template <Scalar T>
int probe_exponent(Scaled norm) {
  using Limits = std::numeric_limits<RealOf<T>>;
  return std::clamp(-norm.normalised().exponent / 2, Limits::min_exponent / 2,
                    Limits::max_exponent / 2);
}

/// This rank's rows of 2^exponent v.
template <Scalar T>
std::vector<T> probe(const mesh::Rank& rank, const FactorPart<T>& factor) {
  const std::vector<double> signs = probe_signs(factor.layout.size());
  const double scale = std::ldexp(1.0, probe_exponent<T>(factor.norm));
  const GlobalRange rows = factor.layout.segment(rank.index());
  std::vector<T> v;
  for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
    v.push_back(static_cast<RealOf<T>>(scale * signs[static_cast<std::size_t>(i)]));
  }
  return v;
}

/// This rank's rows of A x, for A as in `factor`.
template <Scalar T>
std::vector<T> multiply(mesh::Rank& rank, const FactorPart<T>& factor, const T* x) {
  const std::int64_t rows = factor.slab.columns();
  const MatrixView<T> out = rank.workspace<T>(rows, 1);
  HermitianMultiply<T> product(rank, factor.layout, factor.slab, factor.diagonal, 1);
  product.run({rank.upload(rank.update(), x, rows), rows, 1}, out);
  return rank.fetch(rank.update(), out.data(), rows);
}

}  // namespace

template <Scalar T>
void InverseResidual<T>::before(mesh::Rank& rank, const FactorPart<T>& factor) {
  const std::vector<T> v = probe(rank, factor);
  const std::vector<T> w = multiply(rank, factor, v.data());
  std::copy(w.begin(), w.end(),
            product_.begin() + factor.layout.segment(rank.index()).begin.value());
}

template <Scalar T>
Outcome InverseResidual<T>::after(mesh::Rank& rank, const FactorPart<T>& inverse) {
  Outcome outcome;
  const InputCheck check = check_finite<T>(rank, inverse.layout, inverse.slab);
  if (!check.outcome.ok()) {
    outcome.status = Status::overflow;  // Hermitian by construction: an entry is not finite
    return outcome;
  }
  const std::int64_t first = inverse.layout.segment(rank.index()).begin.value();
  const auto diagonal = diagonal_of(rank, inverse.layout, inverse.slab);
  const FactorPart<T> x{inverse.layout, inverse.slab, diagonal.data(), check.norm};
  const std::vector<T> v = probe(rank, inverse);
  const std::vector<T> back = multiply(rank, x, product_.data() + first);

  double mine = 0.0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    mine = programs::largest(mine, double{std::abs(back[i] - v[i])});
  }
  const double worst = programs::largest_of_all(rank, mine);
  if (inverse.layout.size() > 0) {
    const Scaled size = inverse.norm * check.norm;
    outcome.backward_error = ratio(Scaled{worst, -probe_exponent<T>(inverse.norm)}, size);
    outcome.rcond = ratio(Scaled{1.0, 0}, size);
    if (!(*outcome.backward_error <= given_up_from * unit_roundoff<T>)) {
      outcome.status = Status::inaccurate;  // it is below the range, or of a damaged factor
    }
  } else {
    outcome.backward_error = 0.0;
    outcome.rcond = 1.0;
  }
  return outcome;
}

template class InverseResidual<float>;
template class InverseResidual<double>;
template class InverseResidual<std::complex<float>>;
template class InverseResidual<std::complex<double>>;

}  // namespace shardsolve::dense::cholesky
