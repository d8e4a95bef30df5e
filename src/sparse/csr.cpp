// Sparse matrices on the host: sparse.hpp.

#include "core/each_dtype.hpp"
#include "sparse/csr_checks.hpp"

#include <shardsolve/sparse.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <utility>

namespace shardsolve {
namespace sparse {
namespace {

template <Scalar T>
CooMatrix<T> with_row_indices(const CsrMatrix<T>& matrix) {
  CooMatrix<T> result{matrix.rows, matrix.columns, {}, matrix.column_indices, matrix.values};
  result.row_indices.reserve(matrix.values.size());
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    result.row_indices.resize(
        static_cast<std::size_t>(matrix.row_pointers[static_cast<std::size_t>(row) + 1]), row);
  }
  return result;
}

/// Brings entries into the order of their rows; those of a row keep their order. Indices are valid.
template <Scalar T>
CsrMatrix<T> by_rows(const CooMatrix<T>& matrix) {
  CsrMatrix<T> result{matrix.rows, matrix.columns, {}, {}, {}};
  result.row_pointers.assign(static_cast<std::size_t>(matrix.rows) + 1, 0);
  for (const std::int64_t row : matrix.row_indices) {
    ++result.row_pointers[static_cast<std::size_t>(row) + 1];
  }
  for (std::size_t row = 0; row < static_cast<std::size_t>(matrix.rows); ++row) {
    result.row_pointers[row + 1] += result.row_pointers[row];
  }
  std::vector<std::int64_t> next(result.row_pointers.begin(), result.row_pointers.end() - 1);
  result.column_indices.resize(matrix.values.size());
  result.values.resize(matrix.values.size());
  for (std::size_t k = 0; k < matrix.values.size(); ++k) {
    const auto to =
        static_cast<std::size_t>(next[static_cast<std::size_t>(matrix.row_indices[k])]++);
    result.column_indices[to] = matrix.column_indices[k];
    result.values[to] = matrix.values[k];
  }
  return result;
}

/// Adds neighbours of the same place.
template <Scalar T>
void add_equal(CsrMatrix<T>& matrix) {
  std::size_t to = 0;
  std::size_t from = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(matrix.rows); ++row) {
    const auto end = static_cast<std::size_t>(matrix.row_pointers[row + 1]);
    const std::size_t begin = to;
    for (; from < end; ++from) {
      if (to > begin && matrix.column_indices[to - 1] == matrix.column_indices[from]) {
        matrix.values[to - 1] += matrix.values[from];
      } else {
        matrix.column_indices[to] = matrix.column_indices[from];
        matrix.values[to] = matrix.values[from];
        ++to;
      }
    }
    matrix.row_pointers[row + 1] = static_cast<std::int64_t>(to);
  }
  matrix.column_indices.resize(to);
  matrix.values.resize(to);
}

/// Entries row after row -> A^T, entries row after row, rows of A ascending in each.
template <Scalar T>
CsrMatrix<T> turned(CooMatrix<T> matrix) {
  std::swap(matrix.rows, matrix.columns);
  std::swap(matrix.row_indices, matrix.column_indices);
  return by_rows(matrix);
}

}  // namespace
}  // namespace sparse

// By columns, then by rows: two passes that keep the order of equals sort by both.
template <Scalar T>
CsrMatrix<T> sorted(const CooMatrix<T>& matrix) {
  sparse::require_valid(matrix);
  CsrMatrix<T> result = sparse::turned(sparse::with_row_indices(sparse::turned(matrix)));
  sparse::add_equal(result);
  return result;
}

template <Scalar T>
CsrMatrix<T> sorted(const CsrMatrix<T>& matrix) {
  sparse::require_valid(matrix);
  return sorted(sparse::with_row_indices(matrix));
}

template <Scalar T>
CsrMatrix<T> transposed(const CsrMatrix<T>& matrix) {
  sparse::require_valid(matrix);
  CsrMatrix<T> result = sparse::turned(sparse::with_row_indices(matrix));
  sparse::add_equal(result);
  return result;
}

template <Scalar T>
std::optional<EntryPlace> first_nonfinite(const CsrMatrix<T>& matrix) {
  const auto found = std::find_if(matrix.values.begin(), matrix.values.end(), [](const T& value) {
    return !std::isfinite(std::real(value)) || !std::isfinite(std::imag(value));
  });
  if (found == matrix.values.end()) {
    return std::nullopt;
  }
  const std::int64_t k = found - matrix.values.begin();
  const auto behind = std::upper_bound(matrix.row_pointers.begin(), matrix.row_pointers.end(), k);
  return EntryPlace{behind - matrix.row_pointers.begin() - 1,
                    matrix.column_indices[static_cast<std::size_t>(k)]};
}

#define SHARDSOLVE_INSTANTIATE(T)                        \
  template CsrMatrix<T> sorted(const CooMatrix<T>&);     \
  template CsrMatrix<T> sorted(const CsrMatrix<T>&);     \
  template CsrMatrix<T> transposed(const CsrMatrix<T>&); \
  template std::optional<EntryPlace> first_nonfinite(const CsrMatrix<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
