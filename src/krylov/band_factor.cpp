#include "krylov/band_factor.hpp"

#include "core/each_dtype.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <utility>

namespace shardsolve::krylov {
namespace band {
namespace {

template <Scalar T>
T conjugate(T x) {
  if constexpr (is_complex<T>) {
    return std::conj(x);
  } else {
    return x;
  }
}

/// a b without what std::complex does about infinities.
template <Scalar T>
T product(T a, T b) {
  if constexpr (is_complex<T>) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  } else {
    return a * b;
  }
}

template <Scalar T>
bool is_hermitian(MatrixView<const T> block) {
  for (std::int64_t j = 0; j < block.columns(); ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      if (block(i, j) != conjugate(block(j, i))) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace
}  // namespace band

template <Scalar T>
BandFactor<T>::BandFactor(MatrixView<const T> block) : n_(block.rows()) {
  std::int64_t below = 0;
  std::int64_t above = 0;
  for (std::int64_t j = 0; j < n_; ++j) {
    for (std::int64_t i = 0; i < n_; ++i) {
      if (block(i, j) != T{0}) {
        below = std::max(below, i - j);
        above = std::max(above, j - i);
      }
    }
  }
  lower_ = below;
  if (band::is_hermitian(block)) {
    upper_ = 0;
    load(block);
    is_cholesky_ = factor_cholesky();
  }
  if (!is_cholesky_) {
    upper_ = std::min(above + below, std::max<std::int64_t>(n_ - 1, 0));  // rows change places
    load(block);
    factor_lu();
  }
}

template <Scalar T>
void BandFactor<T>::load(MatrixView<const T> block) {
  height_ = lower_ + upper_ + 1;
  band_.assign(static_cast<std::size_t>(n_ * height_), T{0});
  for (std::int64_t j = 0; j < n_; ++j) {
    for (std::int64_t i = std::max<std::int64_t>(j - upper_, 0); i <= std::min(j + lower_, n_ - 1);
         ++i) {
      at(i, j) = block(i, j);
    }
  }
}

template <Scalar T>
bool BandFactor<T>::factor_cholesky() {
  for (std::int64_t k = 0; k < n_; ++k) {
    const RealOf<T> pivot = std::real(at(k, k));
    if (!(pivot > 0) || !std::isfinite(pivot)) {
      return false;
    }
    const RealOf<T> root = std::sqrt(pivot);
    const std::int64_t end = std::min(k + lower_ + 1, n_);
    at(k, k) = root;
    for (std::int64_t i = k + 1; i < end; ++i) {
      at(i, k) /= root;
    }
    // a22 -= l21 * l21^H
    for (std::int64_t j = k + 1; j < end; ++j) {
      const T factor = band::conjugate(at(j, k));
      for (std::int64_t i = j; i < end; ++i) {
        at(i, j) -= band::product(at(i, k), factor);
      }
    }
  }
  return true;
}

template <Scalar T>
void BandFactor<T>::factor_lu() {
  pivots_.resize(static_cast<std::size_t>(n_));
  for (std::int64_t k = 0; k < n_; ++k) {
    const std::int64_t end = std::min(k + lower_ + 1, n_);
    std::int64_t pivot = k;
    for (std::int64_t i = k + 1; i < end; ++i) {
      if (std::abs(at(i, k)) > std::abs(at(pivot, k))) {
        pivot = i;
      }
    }
    pivots_[static_cast<std::size_t>(k)] = pivot;
    const std::int64_t last = std::min(k + upper_ + 1, n_);
    if (pivot != k) {
      for (std::int64_t j = k; j < last; ++j) {
        std::swap(at(k, j), at(pivot, j));
      }
    }
    for (std::int64_t i = k + 1; i < end; ++i) {
      at(i, k) /= at(k, k);
    }
    // a22 -= l21 * u12
    for (std::int64_t j = k + 1; j < last; ++j) {
      const T factor = at(k, j);
      for (std::int64_t i = k + 1; i < end; ++i) {
        at(i, j) -= band::product(at(i, k), factor);
      }
    }
  }
}

template <Scalar T>
void BandFactor<T>::solve(T* x) const {
  for (std::int64_t k = 0; k < n_; ++k) {  // L
    if (!is_cholesky_) {
      std::swap(x[k], x[pivots_[static_cast<std::size_t>(k)]]);
    } else {
      x[k] /= std::real(at(k, k));
    }
    const std::int64_t end = std::min(k + lower_ + 1, n_);
    for (std::int64_t i = k + 1; i < end; ++i) {
      x[i] -= band::product(at(i, k), x[k]);
    }
  }
  for (std::int64_t k = n_ - 1; k >= 0; --k) {  // L^H, or U
    if (is_cholesky_) {
      const std::int64_t end = std::min(k + lower_ + 1, n_);
      for (std::int64_t i = k + 1; i < end; ++i) {
        x[k] -= band::product(band::conjugate(at(i, k)), x[i]);
      }
      x[k] /= std::real(at(k, k));
    } else {
      x[k] /= at(k, k);
      for (std::int64_t i = std::max<std::int64_t>(k - upper_, 0); i < k; ++i) {
        x[i] -= band::product(at(i, k), x[k]);
      }
    }
  }
}

#define SHARDSOLVE_INSTANTIATE(T) template class BandFactor<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
