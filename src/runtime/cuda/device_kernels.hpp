/// The GPU kernels of our own. Their definitions are what nvcc compiles; the C++ compiler sees only
/// this.
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/cuda/update_pieces.hpp"
#include "runtime/kernel_arguments.hpp"
#include "runtime/persistent_solve.hpp"
#include "runtime/upper_part.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// How a panel is solved: by products of large matrices; in one kernel, where a warp takes some
/// rows and reads again what it has solved for; or where a block of threads does and keeps it.
enum class PanelSolver { products, warps, blocks };

/// Enqueued on a stream of the current device; shapes were checked by the caller, every pointer is
/// device memory. A view may be empty, and its stride any. What they compute is said in
/// runtime/kernels.hpp. Sums are added in an order that depends on shapes alone, and in panels on
/// whether memory begins at multiples of 16 bytes, as all workspace does. Launch errors are left
/// for cudaGetLastError.
template <class E>
struct DeviceKernels {
  using Real = RealPart<E>;
  using In = MatrixView<const E>;
  using Out = MatrixView<E>;

  static void copy(cudaStream_t stream, In source, Out target);
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
  /// One triangle of each of steps.count Hermitian tiles += that of its source; diagonals count as
  /// real and become so. The rest of the targets is not touched. steps.a is the sources', steps.c
  /// the targets'.
  static void add_triangles(cudaStream_t stream, Triangle triangle, In source, Out target,
                            const Steps& steps);

  static void column_max(cudaStream_t stream, In a, double* target);
  /// `adds`: the partial product is added to what is there.
  static void inspect(cudaStream_t stream, In a, std::int64_t first, const double* weights,
                      double scale, Inspection result, bool adds, void* scratch);
  /// Bytes of scratch that inspect takes for a matrix of so many rows and columns.
  static std::size_t inspect_scratch(std::int64_t rows, std::int64_t columns);

  /// Whether panels of such tiles are split for tensor cores: in float32 and complex64, where
  /// columns are slices of so many reals, and not too long for the registers of a warp.
  static constexpr bool splits_panels(std::int64_t tile) {
    const std::int64_t reals = tile * parts<E>;
    return sizeof(RealPart<E>) == sizeof(float) && reals % split_slice == 0 && reals <= most_split;
  }
  static constexpr int split_slice = 32;
  static constexpr int most_split = 2048;
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

  /// Inverses of the diagonal squares of so many columns of steps.count lower triangular tiles
  /// (steps.a is those of l, steps.c of m), and zeros above the diagonal of m. What is below the
  /// squares is not written. Of l the lower triangles of the squares are read.
  static constexpr std::int64_t inverted_square = sizeof(E) == 16 ? 32 : 64;
  static void invert_squares(cudaStream_t stream, In l, Out m, const Steps& steps);

  /// l21 = a21 L^-H in place of a21, and packed = l21^H, with what factor_tile left of L, by a
  /// solver that is no `products`: panel_solver tells which one the current device has for such a
  /// panel, if it pays.
  static PanelSolver panel_solver(In adjoint, In inverse, In a21, In packed);
  static void solve_panel(cudaStream_t stream, PanelSolver solver, In adjoint, In inverse, Out a21,
                          Out packed);

  /// Solves op(a) X = b (triangular `a` of up to largest_tile columns, one triangle of it is read)
  /// for few right-hand sides, at most most_columns; X replaces b. By substitution, so as stable as
  /// trsm. False, and nothing is enqueued, on a GPU with too little shared memory.
  static constexpr std::int64_t most_columns = 256;
  static bool solve_tile(cudaStream_t stream, Triangle triangle, Op op, In a, Out b);

  /// y = A x, for vectors of as many elements as the matrix has rows: of the columns that are here
  /// and, as A is Hermitian, of the rows of the same numbers.
  using Upper = UpperPart<E, Real>;
  static void hermitian_multiply(cudaStream_t stream, const Upper& a, const E* x, E* y,
                                 void* scratch);
  static std::size_t hermitian_multiply_scratch(const Upper& a);
  static void add_twofold(cudaStream_t stream, In source, Out sums);

  /// Columns and rows of its blocks.
  static constexpr std::int64_t solve_block = 64;
  /// Not on a GPU with too little shared memory.
  static bool has_persistent_solve();
  /// Waits end when `failed` is not 0.
  static void persistent_solve(cudaStream_t stream, const PersistentSolve<E>& solve,
                               const volatile std::uint32_t* failed);
};

template <>
bool DeviceKernels<float>::updates_panels(In panel);
template <>
bool DeviceKernels<double>::updates_panels(In panel);
template <>
bool DeviceKernels<Complex<float>>::updates_panels(In panel);
template <>
bool DeviceKernels<Complex<double>>::updates_panels(In panel);
template <class E>
UpdateTileSize DeviceKernels<E>::update_size(std::int64_t /*tiles*/) {
  return {update_rows, update_columns<E>};
}
template <>
UpdateTileSize DeviceKernels<double>::update_size(std::int64_t tiles);
template <>
void DeviceKernels<float>::update(cudaStream_t, In, In, const UpdatePieces<float>&);
template <>
void DeviceKernels<double>::update(cudaStream_t, In, In, const UpdatePieces<double>&);
template <>
void DeviceKernels<Complex<float>>::update(cudaStream_t, In, In,
                                           const UpdatePieces<Complex<float>>&);
template <>
void DeviceKernels<Complex<double>>::update(cudaStream_t, In, In,
                                            const UpdatePieces<Complex<double>>&);

/// In `count` consecutive places, at most a block of threads.
void store(cudaStream_t stream, std::int64_t* target, std::int64_t value, std::int64_t count);
/// Keeps the stream busy for so long.
void delay(cudaStream_t stream, std::int64_t nanoseconds);

}  // namespace shardsolve::runtime::cuda
