#include "krylov/band_factor.hpp"

#include "core/each_dtype.hpp"
#include "krylov/band_arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <utility>

namespace shardsolve::krylov {
namespace band {
namespace {

/// A block of a dense matrix.
template <Scalar T>
struct DenseBlock {
  MatrixView<const T> view;

  std::int64_t size() const { return view.rows(); }
  /// use(i, j, value) for all that is not 0.
  template <class Use>
  void for_each(Use use) const {
    for (std::int64_t j = 0; j < size(); ++j) {
      for (std::int64_t i = 0; i < size(); ++i) {
        if (view(i, j) != T{0}) {
          use(i, j, view(i, j));
        }
      }
    }
  }
  T at(std::int64_t i, std::int64_t j) const { return view(i, j); }
};

/// Of a sparse one.
template <Scalar T>
struct SparseBlock {
  const CsrMatrix<T>& a;
  std::int64_t first;
  std::int64_t count;

  std::int64_t size() const { return count; }
  template <class Use>
  void for_each(Use use) const {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto end = place(i + 1);
      for (auto k = place(i); k < end; ++k) {
        const std::int64_t j = a.column_indices[k] - first;
        if (j >= 0 && j < count && a.values[k] != T{0}) {
          use(i, j, a.values[k]);
        }
      }
    }
  }
  T at(std::int64_t i, std::int64_t j) const {
    const auto begin = a.column_indices.begin() + static_cast<std::ptrdiff_t>(place(i));
    const auto end = a.column_indices.begin() + static_cast<std::ptrdiff_t>(place(i + 1));
    const auto found = std::lower_bound(begin, end, first + j);
    return found != end && *found == first + j
               ? a.values[static_cast<std::size_t>(found - a.column_indices.begin())]
               : T{0};
  }

 private:
  std::size_t place(std::int64_t i) const {
    return static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(first + i)]);
  }
};

template <class Block>
bool is_hermitian(const Block& block) {
  bool hermitian = true;
  block.for_each([&](std::int64_t i, std::int64_t j, auto value) {
    hermitian = hermitian && value == conjugate(block.at(j, i));
  });
  return hermitian;
}

}  // namespace
}  // namespace band

template <Scalar T>
BandFactor<T>::BandFactor(MatrixView<const T> block) : n_(block.rows()) {
  factor(band::DenseBlock<T>{block});
}

template <Scalar T>
BandFactor<T>::BandFactor(const CsrMatrix<T>& a, GlobalRange rows) : n_(rows.size()) {
  factor(band::SparseBlock<T>{a, rows.begin.value(), rows.size()});
}

template <Scalar T>
template <class Block>
void BandFactor<T>::factor(const Block& block) {
  std::int64_t below = 0;
  std::int64_t above = 0;
  block.for_each([&](std::int64_t i, std::int64_t j, T) {
    below = std::max(below, i - j);
    above = std::max(above, j - i);
  });
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
template <class Block>
void BandFactor<T>::load(const Block& block) {
  height_ = lower_ + upper_ + 1;
  band_.assign(static_cast<std::size_t>(n_ * height_), T{0});
  block.for_each([&](std::int64_t i, std::int64_t j, T value) {
    if (j - upper_ <= i) {
      at(i, j) = value;
    }
  });
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
void BandFactor<T>::add_to(BlockTables<T>& tables) const {
  tables.begin_block(n_);
  std::vector<T> diagonal;
  for (std::int64_t k = 0; k < n_; ++k) {
    diagonal.push_back(is_cholesky_ ? T{std::real(at(k, k))} : at(k, k));
  }
  // Entry (i, j) of the factor as it is to be subtracted from row i, or 0 outside of the block.
  const auto entries_of = [&](std::int64_t width, bool is_backward, auto entry) {
    std::vector<T> entries;
    entries.reserve(static_cast<std::size_t>(n_ * width));
    for (std::int64_t j = 0; j < n_; ++j) {
      const std::int64_t first = is_backward ? j - width : j + 1;
      for (std::int64_t i = first; i < first + width; ++i) {
        entries.push_back(i >= 0 && i < n_ ? entry(i, j) : T{0});
      }
    }
    return entries;
  };
  const auto lower = [&](std::int64_t i, std::int64_t j) { return at(i, j); };
  const auto conjugate_lower = [&](std::int64_t i, std::int64_t j) {
    return band::conjugate(at(j, i));
  };
  tables.add_band_sweep(false, lower_, entries_of(lower_, false, lower),
                        is_cholesky_ ? diagonal : std::vector<T>(), pivots_);
  if (is_cholesky_) {
    tables.add_band_sweep(true, lower_, entries_of(lower_, true, conjugate_lower), diagonal, {});
  } else {
    tables.add_band_sweep(true, upper_, entries_of(upper_, true, lower), diagonal, {});
  }
}

#define SHARDSOLVE_INSTANTIATE(T) template class BandFactor<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
