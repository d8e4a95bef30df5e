#include "reference/eigh.hpp"

#include "core/each_dtype.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace shardsolve::reference {
namespace {

/// W is Wide<T>. Column by column, so that a rotation meets contiguous memory.
template <class W>
using WideColumns = std::vector<std::vector<W>>;

/// A of Jacobi's method, both triangles, and the product Z of the rotations so far.
template <Scalar T>
class Jacobi {
 public:
  /// Of Hermitian `a`: its lower triangle and the real part of its diagonal.
  explicit Jacobi(const DenseMatrix<T>& a)
      : n_(static_cast<std::size_t>(a.rows())), a_(zeros()), z_(zeros()) {
    Real squares = 0;
    for (std::size_t j = 0; j < n_; ++j) {
      z_[j][j] = 1;
      for (std::size_t i = j; i < n_; ++i) {
        const Value entry = widen(a(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j)));
        a_[j][i] = i == j ? Value(std::real(entry)) : entry;
        a_[i][j] = conjugate(a_[j][i]);
        squares += (i == j ? 1 : 2) * std::norm(a_[j][i]);
      }
    }
    // n entries of this size in a row change no eigenvalue by more than roundoff.
    negligible_ = std::numeric_limits<Real>::epsilon() * std::sqrt(squares) /
                  static_cast<Real>(std::max<std::size_t>(1, n_));
    if (!std::isfinite(negligible_)) {
      throw Error(ErrorKind::invalid_argument,
                  "matrix with an entry that is not finite given; the reference finds eigenvalues "
                  "of finite ones only");
    }
  }

  /// One rotation for each entry below the diagonal that is not negligible. False if there is none.
  bool sweep() {
    bool rotated = false;
    for (std::size_t p = 0; p < n_; ++p) {
      for (std::size_t q = p + 1; q < n_; ++q) {
        if (std::abs(a_[q][p]) > negligible_) {
          annihilate(p, q);
          rotated = true;
        }
      }
    }
    return rotated;
  }

  /// The diagonal in ascending order, and the columns of Z that belong to it.
  Eigenpairs<T> pairs() const {
    std::vector<std::size_t> order(n_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto value = [this](std::size_t k) { return std::real(a_[k][k]); };
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t k, std::size_t l) { return value(k) < value(l); });
    const auto n = static_cast<std::int64_t>(n_);
    Eigenpairs<T> result{{}, DenseMatrix<T>(n, n)};
    for (const std::size_t k : order) {
      const auto j = static_cast<std::int64_t>(result.values.size());
      result.values.push_back(static_cast<RealOf<T>>(value(k)));
      for (std::int64_t i = 0; i < n; ++i) {
        result.vectors(i, j) = narrow<T>(z_[k][static_cast<std::size_t>(i)]);
      }
    }
    return result;
  }

 private:
  using Value = Wide<T>;
  using Real = WideReal<T>;

  WideColumns<Value> zeros() const { return WideColumns<Value>(n_, std::vector<Value>(n_)); }

  /// A = J^H A J and Z = Z J with J = [c, s phase; -s conj(phase), c] in rows and columns p and q,
  /// where phase is that of a_pq and t = s / c the smaller root of t^2 + 2 tau t - 1.
  void annihilate(std::size_t p, std::size_t q) {
    const Real size = std::abs(a_[q][p]);
    const Value phase = a_[q][p] / size;
    const Real a_pp = std::real(a_[p][p]);
    const Real a_qq = std::real(a_[q][q]);
    const Real tau = (a_qq - a_pp) / (2 * size);
    const Real t = std::copysign(Real{1}, tau) / (std::abs(tau) + std::hypot(Real{1}, tau));
    const Real c = 1 / std::hypot(Real{1}, t);
    rotate(z_[p], z_[q], c, c * t * phase);
    rotate(a_[p], a_[q], c, c * t * phase);
    for (std::size_t k = 0; k < n_; ++k) {
      a_[k][p] = conjugate(a_[p][k]);
      a_[k][q] = conjugate(a_[q][k]);
    }
    a_[p][p] = a_pp - t * size;
    a_[q][q] = a_qq + t * size;
    a_[q][p] = a_[p][q] = 0;
  }

  static void rotate(std::vector<Value>& p, std::vector<Value>& q, Real c, Value s) {
    for (std::size_t k = 0; k < p.size(); ++k) {
      const Value old = p[k];
      p[k] = c * old - product(conjugate(s), q[k]);
      q[k] = product(s, old) + c * q[k];
    }
  }

  std::size_t n_;
  WideColumns<Value> a_;
  WideColumns<Value> z_;
  Real negligible_ = 0;
};

}  // namespace

template <Scalar T>
Eigenpairs<T> eigh(const DenseMatrix<T>& a) {
  constexpr int max_sweeps = 60;  // convergence is quadratic: about 10 are made
  Jacobi<T> jacobi(a);
  for (int sweep = 0; jacobi.sweep(); ++sweep) {
    if (sweep == max_sweeps) {
      throw Error(ErrorKind::internal,
                  fmt::format("Jacobi's method did not converge in {} sweeps", max_sweeps));
    }
  }
  return jacobi.pairs();
}

template <Scalar T>
  requires(!is_complex<T>)
std::int64_t sturm_count(const std::vector<T>& diagonal, const std::vector<T>& off_diagonal,
                         WideReal<T> x) {
  if (off_diagonal.size() + 1 != std::max<std::size_t>(1, diagonal.size())) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("diagonal of {} and off-diagonal of {} elements given; the "
                            "off-diagonal has one element fewer",
                            diagonal.size(), off_diagonal.size()));
  }
  std::int64_t below = 0;
  WideReal<T> pivot = 1;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    // pivot = d_i - x - e_(i-1)^2 / pivot of before
    const WideReal<T> e = i == 0 ? T{0} : off_diagonal[i - 1];
    pivot = diagonal[i] - x - e * e / pivot;
    if (pivot == 0) {
      // As for an x that is smaller by next to nothing: an eigenvalue at x is not below it.
      pivot = std::numeric_limits<WideReal<T>>::min();
    }
    below += pivot < 0 ? 1 : 0;
  }
  return below;
}

#define SHARDSOLVE_INSTANTIATE(T) template Eigenpairs<T> eigh<T>(const DenseMatrix<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE
template std::int64_t sturm_count<float>(const std::vector<float>&, const std::vector<float>&,
                                         double);
template std::int64_t sturm_count<double>(const std::vector<double>&, const std::vector<double>&,
                                          long double);

}  // namespace shardsolve::reference
