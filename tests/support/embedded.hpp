/// A matrix inside a larger one: a kernel has to respect its stride and to write nowhere else.
#pragma once

#include "reference/dense_matrix.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::testing {

template <Scalar T>
class Embedded {
 public:
  explicit Embedded(const reference::DenseMatrix<T>& a)
      : memory_(a.rows() + before + after, a.columns() + 1),
        rows_(a.rows()),
        columns_(a.columns()) {
    for (std::int64_t j = 0; j < memory_.columns(); ++j) {
      for (std::int64_t i = 0; i < memory_.rows(); ++i) {
        memory_(i, j) = inside(i, j) ? a(i - before, j) : marker;
      }
    }
  }

  MatrixView<T> view() { return memory_.view().block(before, 0, rows_, columns_); }
  reference::DenseMatrix<T> value() const {
    return reference::DenseMatrix<T>(memory_.view().block(before, 0, rows_, columns_));
  }
  bool frame_intact() const {
    for (std::int64_t j = 0; j < memory_.columns(); ++j) {
      for (std::int64_t i = 0; i < memory_.rows(); ++i) {
        if (!inside(i, j) && memory_(i, j) != marker) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  static constexpr std::int64_t before = 1;  // also takes the alignment away
  static constexpr std::int64_t after = 2;
  static constexpr T marker{-77};
  bool inside(std::int64_t i, std::int64_t j) const {
    return i >= before && i < before + rows_ && j < columns_;
  }

  reference::DenseMatrix<T> memory_;
  std::int64_t rows_;
  std::int64_t columns_;
};

}  // namespace shardsolve::testing
