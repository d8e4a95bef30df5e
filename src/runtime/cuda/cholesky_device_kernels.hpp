/// The GPU kernels of our own behind CholeskyKernels, as nvcc compiles them.
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/cuda/update_pieces.hpp"
#include "runtime/kernel_arguments.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cuda_runtime_api.h>

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// How a panel is solved: by products of large matrices; in one kernel, where a warp takes some
/// rows and reads again what it has solved for; or where a block of threads does and keeps it.
enum class PanelSolver { products, warps, blocks };

/// As DeviceKernels: enqueued on a stream of the current device, shapes checked by the caller. What
/// they compute is said in runtime/cholesky_kernels.hpp. Sums are added in an order that depends on
/// shapes alone, and in panels on whether memory begins at multiples of 16 bytes, as all workspace
/// does.
template <class E>
struct CholeskyDeviceKernels {
  using In = MatrixView<const E>;
  using Out = MatrixView<E>;

  /// Columns that a tile may have.
  static constexpr std::int64_t largest_tile = 1024;

  /// Cholesky factor of a tile of any size up to largest_tile: the lower triangle of `a` becomes L,
  /// what is above is not touched. `adjoint` (same size) receives L^H with zeros below the
  /// diagonal, `inverse` the adjoint inverses, likewise, of L's diagonal blocks of `inverted`
  /// columns (a multiple of 64; in the other blocks it is not written). `info` receives 0, or the
  /// 1-based number of the column whose pivot was not positive, negated if it was not finite; then
  /// the rest of L and the inverse are of no use, but finding it takes no longer.
  static void factor_tile(cudaStream_t stream, Out a, Out adjoint, Out inverse,
                          std::int64_t inverted, std::int64_t* info);

  /// Inverses of the diagonal squares of so many columns of strides.count lower triangular tiles
  /// (strides.a is those of l, strides.c of m), and zeros above the diagonal of m. What is below
  /// the squares is not written. Of l the lower triangles of the squares are read.
  static constexpr std::int64_t inverted_square = sizeof(E) == 16 ? 32 : 64;
  static void invert_squares(cudaStream_t stream, In l, Out m, const BatchStrides& strides);

  /// l21 = a21 L^-H in place of a21, and packed = l21^H, with what factor_tile left of L, by a
  /// solver that is no `products`: panel_solver tells which one the current device has for such a
  /// panel, if it pays.
  static PanelSolver panel_solver(In adjoint, In inverse, In a21, In packed);
  static void solve_panel(cudaStream_t stream, PanelSolver solver, In adjoint, In inverse, Out a21,
                          Out packed);

  /// Whether panels of such tiles are split for tensor cores: in float32 and complex64, where
  /// columns are slices of so many reals, and not too long for the registers of a warp.
  static constexpr bool splits_panels(std::int64_t tile) {
    const std::int64_t reals = tile * parts<E>;
    return sizeof(RealPart<E>) == sizeof(float) && reals % split_slice == 0 && reals <= max_split;
  }
  static constexpr int split_slice = 32;
  static constexpr int max_split = 2048;
  /// A split column of k reals has, in the place of those, their k high parts and their k low
  /// parts, then, in so many rows more, the factor that undoes the power of two that they were
  /// multiplied by. Columns begin at multiples of 16 bytes.
  static constexpr std::int64_t split_rows = 16 / sizeof(E);
  /// In place. Here and below the rows of the tile are named, and there is memory for the others.
  static void split_panel(cudaStream_t stream, Out packed);
  /// Whether there is a kernel for the updates with this packed panel: split ones, and on the
  /// current device, from sm_90 on, such in float64 whose columns are slices of 16 numbers and
  /// begin at multiples of 16 bytes.
  static bool updates_panels(In panel);
  /// How an update is to be cut that would be so many tiles of the largest size. What an entry
  /// becomes does not depend on it.
  static UpdateTileSize update_size(std::int64_t tiles);
  /// Each c_i -= left_i^H right_i. Of what is `lower` the lower triangle alone, whose diagonal is
  /// made real.
  static void update(cudaStream_t stream, In left, In right, const UpdatePieces<E>& pieces);
};

template <>
bool CholeskyDeviceKernels<float>::updates_panels(In panel);
template <>
bool CholeskyDeviceKernels<double>::updates_panels(In panel);
template <>
bool CholeskyDeviceKernels<Complex<float>>::updates_panels(In panel);
template <>
bool CholeskyDeviceKernels<Complex<double>>::updates_panels(In panel);
template <class E>
UpdateTileSize CholeskyDeviceKernels<E>::update_size(std::int64_t /*tiles*/) {
  return {update_rows, update_columns<E>};
}
template <>
UpdateTileSize CholeskyDeviceKernels<double>::update_size(std::int64_t tiles);
template <>
void CholeskyDeviceKernels<float>::update(cudaStream_t, In, In, const UpdatePieces<float>&);
template <>
void CholeskyDeviceKernels<double>::update(cudaStream_t, In, In, const UpdatePieces<double>&);
template <>
void CholeskyDeviceKernels<Complex<float>>::update(cudaStream_t, In, In,
                                                   const UpdatePieces<Complex<float>>&);
template <>
void CholeskyDeviceKernels<Complex<double>>::update(cudaStream_t, In, In,
                                                    const UpdatePieces<Complex<double>>&);

}  // namespace shardsolve::runtime::cuda
