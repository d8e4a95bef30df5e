#include "krylov/incomplete_factor.hpp"

#include "core/each_dtype.hpp"
#include "krylov/band_arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>

namespace shardsolve::krylov {
namespace incomplete {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// use(i, j, value) for the entries of a block, row after row.
template <Scalar T, class Use>
void for_each_of(const CsrMatrix<T>& a, GlobalRange rows, Use use) {
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    const std::int64_t row = rows.begin.value() + i;
    for (std::int64_t k = a.row_pointers[at(row)]; k < a.row_pointers[at(row + 1)]; ++k) {
      const std::int64_t j = a.column_indices[at(k)] - rows.begin.value();
      if (j >= 0 && j < rows.size()) {
        use(i, j, a.values[at(k)]);
      }
    }
  }
}

}  // namespace
}  // namespace incomplete

using incomplete::at;

template <Scalar T>
IncompleteLu<T>::IncompleteLu(const CsrMatrix<T>& a, GlobalRange rows) {
  const std::int64_t n = rows.size();
  row_pointers_.assign(at(n + 1), 0);
  diagonal_.resize(at(n));
  incomplete::for_each_of(a, rows, [&](std::int64_t i, std::int64_t j, T value) {
    if (i == j) {
      diagonal_[at(i)] = static_cast<std::int64_t>(values_.size());
    }
    columns_.push_back(j);
    values_.push_back(value);
    row_pointers_[at(i + 1)] = static_cast<std::int64_t>(values_.size());
  });
  // Where the row under way has each column; -1 where it has none.
  std::vector<std::int64_t> place(at(n), -1);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t end = row_pointers_[at(i + 1)];
    for (std::int64_t k = row_pointers_[at(i)]; k < end; ++k) {
      place[at(columns_[at(k)])] = k;
    }
    for (std::int64_t k = row_pointers_[at(i)]; k < diagonal_[at(i)]; ++k) {
      // l_ik = a_ik / u_kk,  a_i: -= l_ik u_k:
      const std::int64_t above = columns_[at(k)];
      const T factor = values_[at(k)] /= values_[at(diagonal_[at(above)])];
      for (std::int64_t m = diagonal_[at(above)] + 1; m < row_pointers_[at(above + 1)]; ++m) {
        const std::int64_t to = place[at(columns_[at(m)])];
        if (to >= 0) {
          values_[at(to)] -= band::product(factor, values_[at(m)]);
        }
      }
    }
    for (std::int64_t k = row_pointers_[at(i)]; k < end; ++k) {
      place[at(columns_[at(k)])] = -1;
    }
  }
}

template <Scalar T>
void IncompleteLu<T>::add_to(BlockTables<T>& tables) const {
  const auto n = static_cast<std::int64_t>(diagonal_.size());
  tables.begin_block(n);
  SweepRows<T> lower;
  SweepRows<T> upper;
  std::vector<T> diagonal;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t k = row_pointers_[at(i)]; k < row_pointers_[at(i + 1)]; ++k) {
      if (k == diagonal_[at(i)]) {
        diagonal.push_back(values_[at(k)]);
      } else {
        SweepRows<T>& rows = k < diagonal_[at(i)] ? lower : upper;
        rows.columns.push_back(columns_[at(k)]);
        rows.values.push_back(values_[at(k)]);
      }
    }
    lower.end_row();
    upper.end_row();
  }
  tables.add_sparse_sweep(false, lower, {}, false);
  tables.add_sparse_sweep(true, upper, diagonal, false);
}

template <Scalar T>
IncompleteCholesky<T>::IncompleteCholesky(const CsrMatrix<T>& a, GlobalRange rows) {
  const std::int64_t n = rows.size();
  row_pointers_.assign(at(n + 1), 0);
  given_diagonal_.assign(at(n), RealOf<T>{0});
  diagonal_.resize(at(n));
  std::vector<T> given;
  incomplete::for_each_of(a, rows, [&](std::int64_t i, std::int64_t j, T value) {
    if (i == j) {
      given_diagonal_[at(i)] = std::real(value);
    } else if (j < i) {
      columns_.push_back(j);
      given.push_back(value);
    }
    row_pointers_[at(i + 1)] = static_cast<std::int64_t>(given.size());
  });
  constexpr double first_shift = 1e-3;
  // A shift of that size leaves little but the diagonal; only a NaN gets there.
  constexpr double last_shift = 1e3;
  while (!factor(given) && shift_ < last_shift) {
    shift_ = shift_ == 0.0 ? first_shift : 2.0 * shift_;
  }
}

template <Scalar T>
bool IncompleteCholesky<T>::factor(const std::vector<T>& given) {
  const auto n = static_cast<std::int64_t>(diagonal_.size());
  const auto factor = static_cast<RealOf<T>>(1.0 + shift_);
  const auto least = static_cast<RealOf<T>>(64 * unit_roundoff<T>);
  values_ = given;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t begin = row_pointers_[at(i)];
    RealOf<T> pivot = given_diagonal_[at(i)] * factor;
    for (std::int64_t k = begin; k < row_pointers_[at(i + 1)]; ++k) {
      // l_ij d_j = a_ij - sum of l_im d_m conj(l_jm); row i holds l d until its end
      const std::int64_t j = columns_[at(k)];
      std::int64_t of_i = begin;
      std::int64_t of_j = row_pointers_[at(j)];
      T sum = values_[at(k)];
      while (of_i < k && of_j < row_pointers_[at(j + 1)]) {
        const std::int64_t difference = columns_[at(of_i)] - columns_[at(of_j)];
        if (difference == 0) {
          sum -= band::product(values_[at(of_i)], band::conjugate(values_[at(of_j)]));
        }
        of_i += difference <= 0 ? 1 : 0;
        of_j += difference >= 0 ? 1 : 0;
      }
      values_[at(k)] = sum;
    }
    for (std::int64_t k = begin; k < row_pointers_[at(i + 1)]; ++k) {
      // d_i = a_ii - sum of |l_ij|^2 d_j
      const T scaled = values_[at(k)];
      values_[at(k)] = scaled / diagonal_[at(columns_[at(k)])];
      pivot -= std::real(band::product(scaled, band::conjugate(values_[at(k)])));
    }
    if (!(pivot > least * given_diagonal_[at(i)]) || !std::isfinite(pivot)) {
      return false;
    }
    diagonal_[at(i)] = pivot;
  }
  return true;
}

template <Scalar T>
void IncompleteCholesky<T>::add_to(BlockTables<T>& tables) const {
  const auto n = static_cast<std::int64_t>(diagonal_.size());
  tables.begin_block(n);
  tables.add_sparse_sweep(false, {row_pointers_, columns_, values_}, {}, false);
  // Rows of L^H, their columns in the order in which the sweep has solved for them.
  SweepRows<T> upper;
  upper.pointers.assign(at(n + 1), 0);
  for (const std::int64_t column : columns_) {
    ++upper.pointers[at(column + 1)];
  }
  for (std::int64_t i = 0; i < n; ++i) {
    upper.pointers[at(i + 1)] += upper.pointers[at(i)];
  }
  upper.columns.resize(columns_.size());
  upper.values.resize(columns_.size());
  std::vector<std::int64_t> next(upper.pointers.begin(), upper.pointers.end() - 1);
  for (std::int64_t i = n - 1; i >= 0; --i) {
    for (std::int64_t k = row_pointers_[at(i)]; k < row_pointers_[at(i + 1)]; ++k) {
      const std::int64_t to = next[at(columns_[at(k)])]++;
      upper.columns[at(to)] = i;
      upper.values[at(to)] = band::conjugate(values_[at(k)]);
    }
  }
  // D^-1 before L^-H.
  tables.add_sparse_sweep(true, upper, std::vector<T>(diagonal_.begin(), diagonal_.end()), true);
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template class IncompleteLu<T>; \
  template class IncompleteCholesky<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
