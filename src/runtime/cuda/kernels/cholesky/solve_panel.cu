/// The triangular solve of a panel in one kernel, on GPUs from sm_90 on.
///
/// Rows of a panel do not depend on each other: 16 of them at a time are solved for, block of
/// columns by block. With L's blocks (j, i), a the rows of the panel and x those of the result
///
///     r = a(j) - sum of x(i) L(j, i)^H over i < j
///     x(j) = r W(j)^H,   x(j) += (r - x(j) L(j, j)^H) W(j)^H          W(j) = inv(L(j, j))
///
/// (factor_tile.cu's W is this W^H), where the correction makes products with inverses as stable as
/// a solve.
#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/kernels/cholesky/panel_by_blocks.cuh"
#include "runtime/cuda/kernels/cholesky/panel_by_warps.cuh"
#include "runtime/cuda/kernels/launch.cuh"

#include <climits>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {
namespace {

/// From which on a warp for 16 rows is better than a block. On an H200, for 1024 columns in
/// float64: blocks of threads take 0.10 ms while there is a multiprocessor for each, for 2112 rows,
/// and as much again for as many more; warps take 0.36 ms for up to 8448, but, two blocks of them
/// on a multiprocessor, half of the multiprocessors' time, which there is other work for.
constexpr std::int64_t many_rows = 3072;

/// Offsets inside a block of columns are ints.
constexpr std::int64_t max_stride = INT_MAX / by_blocks::side;

template <class E>
bool is_aligned(MatrixView<const E> matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.data()) % bytes_a_copy == 0 &&
         matrix.stride() * sizeof(E) % bytes_a_copy == 0;
}

/// The rows of complex doubles do not fit into the registers of a block.
template <class E>
constexpr bool has_blocks = !std::is_same_v<E, Complex<double>>;

static_assert(by_blocks::max_columns == CholeskyDeviceKernels<float>::largest_tile);

template <class E>
bool is_for_blocks(std::int64_t columns) {
  if constexpr (has_blocks<E>) {
    return columns % by_blocks::side == 0 && columns <= by_blocks::max_columns &&
           sizeof(by_blocks::Shared<E>) <= max_shared();
  }
  return false;
}

template <class E>
bool is_for_warps(std::int64_t columns) {
  return columns % (by_warps::blocks_a_group * by_warps::PanelShape<E>::side) == 0;
}

}  // namespace

template <class E>
PanelSolver CholeskyDeviceKernels<E>::panel_solver(In adjoint, In inverse, In a21, In packed) {
  if (a21.stride() > max_stride || !is_aligned(adjoint) || !is_aligned(inverse) ||
      !is_aligned(packed) || !is_for_sm_90(&by_warps::solve_rows<E>)) {
    return PanelSolver::products;
  }
  if (a21.rows() >= many_rows && is_for_warps<E>(a21.columns())) {
    return PanelSolver::warps;
  }
  return is_for_blocks<E>(a21.columns()) ? PanelSolver::blocks : PanelSolver::products;
}

template <class E>
void CholeskyDeviceKernels<E>::solve_panel(cudaStream_t stream, PanelSolver solver, In adjoint,
                                           In inverse, Out a21, Out packed) {
  const PanelSystem<E> panel{device(adjoint), device(inverse), device(a21), device(packed)};
  if (solver == PanelSolver::warps) {
    using Shared = by_warps::Shared<E>;
    constexpr std::size_t least_limit = std::size_t{99} << 10U;  // that of sm_120
    static_assert(sizeof(Shared) <= least_limit);
    allow_shared(&by_warps::solve_rows<E>, sizeof(Shared));
    launch(stream, &by_warps::solve_rows<E>, divide_up(a21.rows(), by_warps::warps * tile_rows),
           {dim3(by_warps::warps * lanes), sizeof(Shared)}, panel);
  }
  if constexpr (has_blocks<E>) {
    if (solver == PanelSolver::blocks) {
      using Shared = by_blocks::Shared<E>;
      allow_shared(&by_blocks::solve_rows<E>, sizeof(Shared));
      launch(stream, &by_blocks::solve_rows<E>, divide_up(a21.rows(), tile_rows),
             {dim3(by_blocks::warps * lanes), sizeof(Shared)}, panel);
    }
  }
}

#define SHARDSOLVE_INSTANTIATE(E)                                              \
  template PanelSolver CholeskyDeviceKernels<E>::panel_solver(In, In, In, In); \
  template void CholeskyDeviceKernels<E>::solve_panel(cudaStream_t, PanelSolver, In, In, Out, Out);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
