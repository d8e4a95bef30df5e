/// A whole matrix in the memory of one process.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::reference {

/// An owning column-major matrix without gaps between its columns.
template <Scalar T>
class DenseMatrix {
 public:
  DenseMatrix() = default;
  /// All zero.
  DenseMatrix(std::int64_t rows, std::int64_t columns)
      : rows_(rows), columns_(columns), data_(static_cast<std::size_t>(rows * columns)) {}
  /// A copy of what somebody else owns.
  explicit DenseMatrix(MatrixView<const T> from) : DenseMatrix(from.rows(), from.columns()) {
    for (std::int64_t j = 0; j < columns_; ++j) {
      for (std::int64_t i = 0; i < rows_; ++i) {
        (*this)(i, j) = from(i, j);
      }
    }
  }

  static DenseMatrix identity(std::int64_t n) {
    DenseMatrix one(n, n);
    for (std::int64_t i = 0; i < n; ++i) {
      one(i, i) = T{1};
    }
    return one;
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }

  T& operator()(std::int64_t row, std::int64_t column) { return data_[place(row, column)]; }
  const T& operator()(std::int64_t row, std::int64_t column) const {
    return data_[place(row, column)];
  }

  T* data() { return data_.data(); }
  const T* data() const { return data_.data(); }
  MatrixView<T> view() { return {data(), rows_, columns_}; }
  MatrixView<const T> view() const { return {data(), rows_, columns_}; }

  friend bool operator==(const DenseMatrix&, const DenseMatrix&) = default;

 private:
  std::size_t place(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(row + column * rows_);
  }

  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::vector<T> data_;
};

}  // namespace shardsolve::reference
