/// The GPU kernels of our own behind LuKernels, as nvcc compiles them.
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/kernel_arguments.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// As DeviceKernels: enqueued on a stream of the current device, shapes checked by the caller. What
/// they compute is said in runtime/lu_kernels.hpp.
template <class E>
struct LuDeviceKernels {
  using Real = RealPart<E>;
  using In = MatrixView<const E>;
  using Out = MatrixView<E>;

  /// Columns of a panel of so many rows that narrow_panel takes on the current device: fewer, the
  /// more rows there are; 0 for more rows than it has registers for.
  static std::int64_t narrow_columns(std::int64_t rows);
  static std::size_t narrow_panel_scratch(std::int64_t rows);
  /// panel() of some columns of a wider panel that has `before` of them to the left: `info` counts
  /// from those, and keeps what it has of them.
  static void narrow_panel(cudaStream_t stream, std::int64_t first, std::int64_t before, Out a,
                           std::int64_t* places, std::int64_t* info, void* scratch);

  /// a22 -= l21 u12, for float32 and complex64, on tensor cores: each number is split in two of
  /// float16; see kernels/lu/split_operands.cu. Whether the width allows it, and it pays.
  static bool splits_update(std::int64_t width, std::int64_t rows, std::int64_t columns);
  /// Elements.
  static std::int64_t split_scratch(std::int64_t width, std::int64_t rows, std::int64_t columns);
  static void split_update(cudaStream_t stream, In l21, In u12, Out a22, E* scratch);

  /// Swaps that are made at once.
  static constexpr std::int64_t max_swaps = 512;
  static constexpr std::size_t swap_scratch = 2 * max_swaps * sizeof(std::uint32_t);
  static void swap_rows(cudaStream_t stream, std::int64_t first, const std::int64_t* places,
                        std::int64_t count, Out a, void* scratch);

  static void upper_max(cudaStream_t stream, std::int64_t first, In a, double* target);
  static void transpose(cudaStream_t stream, In source, Out target);
  static void choose_columns(cudaStream_t stream, In source, const std::int64_t* columns,
                             Out target);
  static void choose_rows(cudaStream_t stream, In source, const std::int64_t* rows, Out target);
  /// Whether the current device has shared memory for so many rows.
  static bool orders_rows(std::int64_t rows);
  static void order_rows(cudaStream_t stream, const std::int64_t* rows, Out a);
  static void order_columns(cudaStream_t stream, In source, const std::int64_t* columns,
                            Out target);

  static std::size_t multiply_scratch(Op op, In a);
  static void multiply(cudaStream_t stream, Op op, In a, In x, Out y, MatrixView<double> sizes,
                       void* scratch);
  static void moduli(cudaStream_t stream, In source, MatrixView<Real> target);
  static std::size_t row_sums_scratch(In a);
  static void row_sums(cudaStream_t stream, double scale, In a, double* sums, double* largest,
                       void* scratch);
  static void component_errors(cudaStream_t stream, double least, In r,
                               MatrixView<const double> sizes, In b, double* target);
};

}  // namespace shardsolve::runtime::cuda
