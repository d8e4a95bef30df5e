#include "sparse/csr_checks.hpp"

#include "core/each_dtype.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <functional>
#include <string>

namespace shardsolve::sparse {

namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

void require_shape(std::int64_t rows, std::int64_t columns) {
  if (rows < 0 || columns < 0) {
    refuse(fmt::format("a sparse matrix of {} x {} was given: sizes are 0 or more", rows, columns));
  }
}

void require_in_range(std::int64_t row, std::int64_t column, std::int64_t rows,
                      std::int64_t columns, std::int64_t entry) {
  if (row < 0 || row >= rows || column < 0 || column >= columns) {
    refuse(
        fmt::format("entry {} of the sparse matrix is at ({}, {}), outside of {} x {}: indices "
                    "count from 0",
                    entry, row, column, rows, columns));
  }
}

}  // namespace

template <Scalar T>
void require_valid(const CooMatrix<T>& matrix) {
  require_shape(matrix.rows, matrix.columns);
  if (matrix.row_indices.size() != matrix.values.size() ||
      matrix.column_indices.size() != matrix.values.size()) {
    refuse(
        fmt::format("a sparse matrix of {} row indices, {} column indices and {} values was "
                    "given: they must be as many",
                    matrix.row_indices.size(), matrix.column_indices.size(), matrix.values.size()));
  }
  for (std::size_t k = 0; k < matrix.values.size(); ++k) {
    require_in_range(matrix.row_indices[k], matrix.column_indices[k], matrix.rows, matrix.columns,
                     static_cast<std::int64_t>(k));
  }
}

template <Scalar T>
void require_valid(const CsrMatrix<T>& matrix) {
  require_shape(matrix.rows, matrix.columns);
  const auto& pointers = matrix.row_pointers;
  if (static_cast<std::int64_t>(pointers.size()) != matrix.rows + 1) {
    refuse(fmt::format("a sparse matrix of {} rows with {} row pointers was given: {} are needed",
                       matrix.rows, pointers.size(), matrix.rows + 1));
  }
  if (matrix.column_indices.size() != matrix.values.size()) {
    refuse(
        fmt::format("a sparse matrix of {} column indices and {} values was given: they must be "
                    "as many",
                    matrix.column_indices.size(), matrix.values.size()));
  }
  if (pointers.front() != 0 || pointers.back() != matrix.entries()) {
    refuse(
        fmt::format("row pointers from {} to {} were given for {} entries: they go from 0 to "
                    "the number of entries",
                    pointers.front(), pointers.back(), matrix.entries()));
  }
  const auto falls = std::is_sorted_until(pointers.begin(), pointers.end());
  if (falls != pointers.end()) {
    refuse(fmt::format("the row pointers fall at row {}: they never do", falls - pointers.begin()));
  }
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int64_t k = pointers[static_cast<std::size_t>(row)];
         k < pointers[static_cast<std::size_t>(row) + 1]; ++k) {
      require_in_range(row, matrix.column_indices[static_cast<std::size_t>(k)], matrix.rows,
                       matrix.columns, k);
    }
  }
}

template <Scalar T>
void require_square_in_order(const CsrMatrix<T>& matrix, const char* use) {
  if (matrix.rows != matrix.columns) {
    refuse(fmt::format("the matrix for {} is {} x {}; it must be square", use, matrix.rows,
                       matrix.columns));
  }
  require_valid(matrix);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    const auto begin =
        matrix.column_indices.begin() + matrix.row_pointers[static_cast<std::size_t>(row)];
    const auto end =
        matrix.column_indices.begin() + matrix.row_pointers[static_cast<std::size_t>(row) + 1];
    const auto found = std::adjacent_find(begin, end, std::greater_equal<>{});
    if (found != end) {
      refuse(
          fmt::format("row {} of the matrix for {} has column {} behind column {}: columns of a "
                      "row ascend and none comes twice. sorted() sorts them and adds entries "
                      "of the same place",
                      row, use, *(found + 1), *found));
    }
  }
}

#define SHARDSOLVE_INSTANTIATE(T)                   \
  template void require_valid(const CooMatrix<T>&); \
  template void require_valid(const CsrMatrix<T>&); \
  template void require_square_in_order(const CsrMatrix<T>&, const char*);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::sparse
