/// The triangular solve of a panel in one kernel, for doubles on GPUs from sm_90 on.
///
/// Rows of a panel do not depend on each other: a warp has 16 of them, and two blocks of 64 columns
/// at a time in its registers. With L's blocks (j, i), a the rows of the panel and x those of the
/// result, block by block
///
///     r = a(j) - sum of x(i) L(j, i)^H over i < j
///     x(j) = r W(j)^H,   x(j) += (r - x(j) L(j, j)^H) W(j)^H          W(j) = inv(L(j, j))
///
/// where the correction makes products with inverses as stable as a solve.
///
/// What comes out of a product goes into the next one where it lies (tensor_core.cuh), so rows
/// never leave their thread: x(i) is read again by who wrote it. The right factors, L^H and W^H, go
/// through shared memory for the four warps of a block of threads. Two such blocks fit on a
/// multiprocessor, and one works while the other waits.
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/tensor_core.cuh"

#include <cuda_pipeline_primitives.h>

#include <climits>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int lanes = 32;
constexpr int warps = 4;
constexpr int rows_a_warp = 16;
constexpr int side = 64;  // of a block
constexpr int blocks_a_group = 2;
constexpr int group = blocks_a_group * side;
constexpr int tile_columns = 8;
constexpr int tiles = side / tile_columns;  // of a block
constexpr int half = side / 2;
constexpr int depth = 16;             // of one product
constexpr int slices = half / depth;  // of half a block

/// Rows from which on it pays. Up to 8448 rows, a block of threads on each multiprocessor of an
/// H200, all of them take as long as one: 0.35 ms for 1024 columns.
constexpr std::int64_t least_rows = 3072;

/// Half of a right factor, k from 0 or from 32 on; [n][k]. Columns n are apart by so much that
/// eight lanes' 16 bytes meet no bank twice.
constexpr int padded = half + 8;
using Half = double[side][padded];

/// What one step takes: two blocks' first or second halves, or both halves of one block.
using Pair = Half[2];

/// One pair in use, one on its way.
struct PanelShared {
  Pair pairs[2];
};

/// 16 rows of a block.
using Rows = Tile16x8[tiles];

struct Panel {
  DeviceMatrix<const double> adjoint;  // L^H
  DeviceMatrix<const double> inverse;  // W^H in its diagonal blocks
  DeviceMatrix<double> a21;
  DeviceMatrix<double> packed;
};

/// By integers: the units for doubles are those of the products, which are busy.
__device__ double negative(double x) {
  return __hiloint2double(__double2hiint(x) ^ INT_MIN, __double2loint(x));
}

__device__ Tile16x8 negative(const Tile16x8& x) {
  return {{negative(x.low[0]), negative(x.low[1])}, {negative(x.high[0]), negative(x.high[1])}};
}

/// Brings the pairs in the order in which they are needed. Called by all threads of the block.
class Schedule {
 public:
  explicit __device__ Schedule(const Panel& panel)
      : panel_(panel), blocks_(static_cast<int>(panel.a21.columns) / side) {}

  /// Nothing comes after the last.
  __device__ void fetch(Pair& pair) {
    if (first_ == blocks_) {
      return;
    }
    const int before = 2 * first_;
    if (step_ < before) {
      copy(panel_.adjoint, step_ * half, first_, pair[0]);
      copy(panel_.adjoint, step_ * half, first_ + 1, pair[1]);
    } else {
      fetch_of_group(step_ - before, pair);
    }
    if (++step_ == before + steps_of_group) {
      step_ = 0;
      first_ += blocks_a_group;
    }
  }

 private:
  /// The first block is solved for, subtracted from the second, and that solved for.
  static constexpr int steps_of_group = 3 + 1 + 3;

  __device__ void fetch_of_group(int step, Pair& pair) const {
    const int row = step <= 3 ? first_ : first_ + 1;
    const int column = step < 3 ? first_ : first_ + 1;
    const bool inverted = step % 2 == 0;
    const DeviceMatrix<const double> from = choose(inverted, panel_.inverse, panel_.adjoint);
    copy(from, row * side, column, pair[0]);
    copy(from, row * side + half, column, pair[1]);
  }

  static __device__ void copy(const DeviceMatrix<const double>& from, int row, int block,
                              Half& to) {
    constexpr int run = 2;  // elements of one copy
    constexpr int runs = half / run;
    constexpr int columns = warps * lanes / runs;  // at a time
    const int n = static_cast<int>(threadIdx.x) / runs;
    const int k = static_cast<int>(threadIdx.x) % runs * run;
    const double* const begin = &from(row + k, block * side + n);
    double* const target = &to[n][k];
#pragma unroll
    for (int i = 0; i < side; i += columns) {
      __pipeline_memcpy_async(target + i * padded, begin + i * from.stride, run * sizeof(double));
    }
  }

  const Panel& panel_;
  int blocks_;
  int first_ = 0;  // block of the group
  int step_ = 0;
};

/// The work of a warp.
class Solve {
 public:
  __device__ Solve(const Panel& panel, PanelShared& shared)
      : shared_(shared), schedule_(panel), a21_(panel.a21), packed_(panel.packed) {}

  __device__ void run() {
    fetch();
    const int blocks = static_cast<int>(a21_.columns) / side;
    Rows r[blocks_a_group];
    load(r[0], 0);
    for (int first = 0; first < blocks; first += blocks_a_group) {
      load(r[1], first + 1);
      subtract_before(r, first);
      Rows x;
      solve(r[0], x);
      store(x, first);
      if (first + blocks_a_group < blocks) {
        load(r[0], first + blocks_a_group);
      }
      add_product<false, true>(r[1], x, next());
      solve(r[1], x);
      store(x, first + 1);
    }
  }

 private:
  /// Two tiles side by side.
  struct Left {
    Tile16x8 of[2];
  };

  __device__ void fetch() {
    schedule_.fetch(shared_.pairs[coming_]);
    __pipeline_commit();
  }

  /// The pair of the next step; the one before is given up.
  const __device__ Pair& next() {
    __pipeline_wait_prior(0);
    __syncthreads();
    const Pair& here = shared_.pairs[coming_];
    coming_ ^= 1;
    fetch();
    return here;
  }

  static __device__ void multiply_add(Tile16x8& c, const Left& a, const Half& half, int tile,
                                      int slice) {
    const double* const from = &half[tile * tile_columns + lane() / 4][slice * depth + place()];
    const double2 b[] = {*reinterpret_cast<const double2*>(from),
                         *reinterpret_cast<const double2*>(from + tile_columns)};
    multiply_add_16x8x16(c, a.of, b);
  }

  /// sum += or -= rows block; of a triangle only the part that is not zero.
  template <bool triangle, bool minus>
  static __device__ void add_product(Rows& sum, const Rows& rows, const Pair& block) {
#pragma unroll
    for (int s = 0; s < 2 * slices; ++s) {
      const Left plus{{rows[2 * s], rows[2 * s + 1]}};
      const Left a = minus ? Left{{negative(plus.of[0]), negative(plus.of[1])}} : plus;
#pragma unroll
      for (int n = triangle ? 2 * s : 0; n < tiles; ++n) {
        multiply_add(sum[n], a, block[s / slices], n, s % slices);
      }
    }
  }

  /// r is lost.
  __device__ void solve(Rows& r, Rows& x) {
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      x[n] = {};
    }
    add_product<true, false>(x, r, next());
    add_product<true, true>(r, x, next());
    add_product<true, false>(x, r, next());
  }

  /// Subtracts the products with all blocks before the group.
  __device__ void subtract_before(Rows (&r)[blocks_a_group], int first) {
    if (first == 0) {
      return;
    }
    const int steps = 2 * first;
    Left ahead[slices];
#pragma unroll
    for (int s = 0; s < slices; ++s) {
      ahead[s] = load_result(s);
    }
    for (int i = 0; i < steps; ++i) {
      const Pair& pair = next();
#pragma unroll
      for (int s = 0; s < slices; ++s) {
        const Left a{{negative(ahead[s].of[0]), negative(ahead[s].of[1])}};
        ahead[s] = load_result(min(i + 1, steps - 1) * slices + s);
        // The compiler would put these loads off until their numbers are needed.
        __syncwarp();
#pragma unroll
        for (int b = 0; b < blocks_a_group; ++b) {
#pragma unroll
          for (int n = 0; n < tiles; ++n) {
            multiply_add(r[b][n], a, pair[b], n, s);
          }
        }
      }
    }
  }

  /// 16 columns of x, which this thread has written.
  __device__ Left load_result(int slice) const {
    Left a;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t column = slice * depth + i * tile_columns;
      const double2 low = *reinterpret_cast<const double2*>(packed_low_ + column);
      const double2 high = *reinterpret_cast<const double2*>(packed_high_ + column);
      a.of[i] = {{low.x, low.y}, {high.x, high.y}};
    }
    return a;
  }

  __device__ void load(Rows& r, int block) const {
    const double* const low = a_low_ + std::int64_t{block * side} * stride_;
    const double* const high = a_high_ + std::int64_t{block * side} * stride_;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const std::int64_t column = (n * tile_columns + c) * stride_;
        r[n].low[c] = low[column];
        r[n].high[c] = high[column];
      }
    }
  }

  __device__ void store(const Rows& x, int block) const {
    if (has_low_) {
      store(x, &Tile16x8::low, block, a_low_, packed_low_);
    }
    if (has_high_) {
      store(x, &Tile16x8::high, block, a_high_, packed_high_);
    }
  }

  __device__ void store(const Rows& x, double (Tile16x8::*row)[2], int block, double* a,
                        double* packed) const {
    a += std::int64_t{block * side} * stride_;
    packed += block * side;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      const double(&from)[2] = x[n].*row;
      a[n * tile_columns * stride_] = from[0];
      a[(n * tile_columns + 1) * stride_] = from[1];
      *reinterpret_cast<double2*>(packed + n * tile_columns) = {from[0], from[1]};
    }
  }

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % lanes; }
  /// Of this thread's columns in a tile the first.
  static __device__ int place() { return lane() % 4 * 2; }

  PanelShared& shared_;
  Schedule schedule_;
  const DeviceMatrix<double>& a21_;
  const DeviceMatrix<double>& packed_;
  /// Of a21; as an int it takes registers of which there are none to spare.
  int stride_ = static_cast<int>(a21_.stride);
  int coming_ = 0;
  // The two rows of this thread. Where there is none it computes with the last one, whatever that
  // holds, and stores nothing.
  std::int64_t row_ =
      (std::int64_t{blockIdx.x} * warps + threadIdx.x / lanes) * rows_a_warp + lane() / 4;
  bool has_low_ = row_ < a21_.rows;
  bool has_high_ = row_ + rows_a_warp / 2 < a21_.rows;
  std::int64_t low_ = has_low_ ? row_ : a21_.rows - 1;
  std::int64_t high_ = has_high_ ? row_ + rows_a_warp / 2 : a21_.rows - 1;
  double* a_low_ = &a21_(low_, place());
  double* a_high_ = &a21_(high_, place());
  double* packed_low_ = &packed_(place(), low_);
  double* packed_high_ = &packed_(place(), high_);
};

__global__ void __launch_bounds__(warps* lanes, 2) solve_rows(const __grid_constant__ Panel panel) {
  Solve(panel, dynamic_shared<PanelShared>()).run();
}

bool is_aligned(MatrixView<const double> matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.data()) % sizeof(double2) == 0 &&
         matrix.stride() % 2 == 0;
}

}  // namespace

template <class E>
bool DeviceKernels<E>::solves_panel(In adjoint, In inverse, In a21, In packed) {
  if constexpr (std::is_same_v<E, double>) {
    return a21.columns() % group == 0 && a21.rows() >= least_rows && a21.stride() <= INT_MAX &&
           is_aligned(adjoint) && is_aligned(inverse) && is_aligned(packed) &&
           is_for_sm_90(&solve_rows);
  } else {
    return false;
  }
}

template <class E>
void DeviceKernels<E>::solve_panel(cudaStream_t stream, In adjoint, In inverse, Out a21,
                                   Out packed) {
  if constexpr (std::is_same_v<E, double>) {
    allow_shared(&solve_rows, sizeof(PanelShared));
    launch(stream, &solve_rows, divide_up(a21.rows(), warps * rows_a_warp),
           {dim3(warps * lanes), sizeof(PanelShared)},
           Panel{device(adjoint), device(inverse), device(a21), device(packed)});
  }
}

template bool DeviceKernels<float>::solves_panel(In, In, In, In);
template bool DeviceKernels<double>::solves_panel(In, In, In, In);
template bool DeviceKernels<Complex<float>>::solves_panel(In, In, In, In);
template bool DeviceKernels<Complex<double>>::solves_panel(In, In, In, In);

template void DeviceKernels<float>::solve_panel(cudaStream_t, In, In, Out, Out);
template void DeviceKernels<double>::solve_panel(cudaStream_t, In, In, Out, Out);
template void DeviceKernels<Complex<float>>::solve_panel(cudaStream_t, In, In, Out, Out);
template void DeviceKernels<Complex<double>>::solve_panel(cudaStream_t, In, In, Out, Out);

}  // namespace shardsolve::runtime::cuda
