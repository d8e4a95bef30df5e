/// A column-major matrix as kernels take it.
#pragma once

#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime::cuda {

template <class E>
struct DeviceMatrix {
  E* data;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t stride;

  __device__ E& operator()(std::int64_t row, std::int64_t column) const {
    return data[row + column * stride];
  }
};

/// One of two matrices of the same shape; by its parts, so that it is kept in registers.
template <class E>
__device__ DeviceMatrix<E> choose(bool first, const DeviceMatrix<E>& one,
                                  const DeviceMatrix<E>& other) {
  return {first ? one.data : other.data, one.rows, one.columns, first ? one.stride : other.stride};
}

template <class E>
DeviceMatrix<E> device(MatrixView<E> view) {
  return {view.data(), view.rows(), view.columns(), view.stride()};
}

}  // namespace shardsolve::runtime::cuda
