/// The GPU kernels of our own behind TridiagonalKernels, as nvcc compiles them.
#pragma once

#include "runtime/secular_equation.hpp"
#include "runtime/tridiagonal.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// As DeviceKernels: enqueued on a stream of the current device, shapes checked by the caller. What
/// they compute is said in runtime/tridiagonal_kernels.hpp. Roots, weights, rotations, counts and
/// bisection have the bits of the CPU; solve_small and the norms of secular_vectors add in an order
/// of their own, which depends on the number of rows alone.
template <class Real>
struct TridiagonalDeviceKernels {
  using In = MatrixView<const Real>;
  using Out = MatrixView<Real>;
  using Root = SecularRoot<Real>;

  /// Rows of a part of solve_small, at most.
  static constexpr int max_small = 32;

  /// By implicit QL iterations.
  static void solve_small(cudaStream_t stream, const Tridiagonal<Real>& t, const SmallParts& parts,
                          Real* values, Out vectors, std::int64_t* infos);

  static void secular_roots(cudaStream_t stream, const SecularEquation<Real>& equation,
                            std::int64_t first, std::int64_t count, Root* roots);
  static void secular_weights(cudaStream_t stream, const SecularEquation<Real>& equation,
                              const Root* roots, Real* weights);
  static void secular_vectors(cudaStream_t stream, const SecularEquation<Real>& equation,
                              const Root* roots, const std::int64_t* rows, std::int64_t first,
                              Out u);

  static void rotate_columns(cudaStream_t stream, const ColumnRotation<Real>* rotations,
                             std::int64_t count, Out z);
  static void copy_columns(cudaStream_t stream, std::int64_t count, In source,
                           const std::int64_t* from, Out target, const std::int64_t* to);

  static void count_eigenvalues(cudaStream_t stream, const Tridiagonal<Real>& t, const Real* points,
                                std::int64_t count, std::int64_t* below);
  static void bisect(cudaStream_t stream, const Tridiagonal<Real>& t, Real low, Real high,
                     Real width, std::int64_t first, std::int64_t count, Real* values);
};

}  // namespace shardsolve::runtime::cuda
