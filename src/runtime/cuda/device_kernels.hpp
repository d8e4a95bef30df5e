/// The GPU kernels of our own behind Kernels. Their definitions are what nvcc compiles; the C++
/// compiler sees only this.
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/kernel_arguments.hpp"
#include "runtime/persistent_solve.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// Thread blocks of a persistent solve that a GPU runs at the same time, in clusters; 0 where it
/// has too little shared memory.
struct SolveRoom {
  int clusters = 0;
  int cluster = 1;  ///< blocks of each
};

/// Enqueued on a stream of the current device; shapes were checked by the caller, every pointer is
/// device memory. A view may be empty, and its stride any. What they compute is said in
/// runtime/kernels.hpp. Sums are added in an order that depends on shapes alone. Launch
/// errors are left for cudaGetLastError.
template <class E>
struct DeviceKernels {
  using Real = RealPart<E>;
  using In = MatrixView<const E>;
  using Out = MatrixView<E>;

  static void copy(cudaStream_t stream, In source, Out target);
  static void convert(cudaStream_t stream, MatrixView<const OtherElement<E>> source, Out target);
  static void from_real(cudaStream_t stream, MatrixView<const Real> source, Out target);
  static void conjugate_transpose(cudaStream_t stream, In source, Out target);
  static void fill(cudaStream_t stream, E value, Out target);
  static void identity(cudaStream_t stream, Out target);
  static void lower_triangle(cudaStream_t stream, In source, Out target);
  static void scale_rows(cudaStream_t stream, In scales, bool inverted, In source, Out target);
  static void add(cudaStream_t stream, E alpha, In source, Out target);
  static void scale(cudaStream_t stream, Real factor, Out target);
  static void diagonal(cudaStream_t stream, In a, Real* target);
  /// `target` may be `upper` itself.
  static void hermitian_tile(cudaStream_t stream, In upper, const Real* diagonal, Out target);
  /// One triangle of each of strides.count Hermitian tiles += that of its source; diagonals count
  /// as real and become so. The rest of the targets is not touched. strides.a is the sources',
  /// strides.c the targets'.
  static void add_triangles(cudaStream_t stream, Triangle triangle, In source, Out target,
                            const BatchStrides& strides);

  static void column_max(cudaStream_t stream, In a, double* target);
  /// `adds`: the partial product is added to what is there.
  static void inspect(cudaStream_t stream, In a, std::int64_t first, const double* weights,
                      double scale, Inspection result, bool adds, void* scratch);
  /// Bytes of scratch that inspect takes for a matrix of so many rows and columns.
  static std::size_t inspect_scratch(std::int64_t rows, std::int64_t columns);

  /// Solves op(a) X = b (triangular `a` of up to largest_triangle columns, one triangle of it is
  /// read; op is no plain transpose) for at most max_columns right-hand sides; X replaces b. By
  /// substitution, as stable as trsm. `unit`: the diagonal counts as 1. False, enqueuing nothing,
  /// on a GPU short of shared memory.
  static constexpr std::int64_t largest_triangle = 1024;
  static constexpr std::int64_t max_columns = 256;
  static bool solve_tile(cudaStream_t stream, Triangle triangle, Op op, In a, Out b,
                         bool unit = false);

  /// Columns and rows of the blocks of persistent_solve.
  static constexpr std::int64_t solve_block = 64;
  /// On the current GPU; to be asked once before a solve there, which takes a while.
  static SolveRoom solve_room();
  /// Waits end when `failed` is not 0.
  static void persistent_solve(cudaStream_t stream, const SolveRoom& room,
                               const PersistentSolveArguments<E>& solve,
                               const volatile std::uint32_t* failed);
};

}  // namespace shardsolve::runtime::cuda
