/// The GPU kernels of our own behind QrKernels, as nvcc compiles them.
#pragma once

#include "runtime/cuda/element.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {

/// As DeviceKernels: enqueued on a stream of the current device, shapes checked by the caller. What
/// they compute is said in runtime/qr_kernels.hpp.
template <class E>
struct QrDeviceKernels {
  using Wide = std::conditional_t<parts<E> == 2, Complex<double>, double>;
  using In = MatrixView<const E>;
  using Out = MatrixView<E>;

  static void scale_columns(cudaStream_t stream, In source, const std::int64_t* exponents,
                            Out target);
  static std::size_t column_sizes_scratch(std::int64_t rows, std::int64_t columns);
  static void column_sizes(cudaStream_t stream, In a, double* target, void* scratch);

  /// `scales`: memory for a number a column.
  static void reflect(cudaStream_t stream, Out a, MatrixView<Wide> r, Wide* scales);
};

/// Those of the small matrices in double precision: E is double or Complex<double>.
template <class E>
struct SmallQrDeviceKernels {
  using Out = MatrixView<E>;

  /// Adds the sum of so many products, which lie one behind the other and are as large as the
  /// target, to it: what is at most `diagonal` rows below its diagonal.
  static void add_products(cudaStream_t stream, const E* products, std::int64_t count,
                           std::int64_t diagonal, Out target);

  /// What gram_factor() is made of, beside factorisations.
  struct GramChoice {
    double* sums;         ///< two for each column
    double* numbers;      ///< two: whether g is near I, and what is added to it else
    std::int64_t* infos;  ///< of the blocks of `plain`, then of those of `shifted`
    std::int64_t blocks;  ///< of either
  };
  /// What g differs from I by, of columns at length 1, from its upper triangle.
  static void compare_gram(cudaStream_t stream, Out g, Out difference);
  /// Whether the sum of the squares of that, or of its square, is below `least`; and the upper
  /// triangles of `plain` = g and `shifted` = g + s I, with zeros below.
  static void begin_gram(cudaStream_t stream, double shift, Out g, Out difference, double least,
                         Out plain, Out shifted, const GramChoice& choice);
  /// g = the one of both factors that counts, and the verdict.
  static void choose_factor(cudaStream_t stream, Out plain, Out shifted, const GramChoice& choice,
                            Out g, std::int64_t* verdict);

  static std::size_t singular_values_scratch(std::int64_t n);
  static void singular_values(cudaStream_t stream, Out a, double* s, Out u, Out vh,
                              std::int64_t* info, void* scratch);
};

}  // namespace shardsolve::runtime::cuda
