/// The triangular solve of a panel in one kernel, on GPUs from sm_90 on.
///
/// Rows of a panel do not depend on each other: a warp has 16 of them, and two blocks of 64 columns
/// (complex: 32) at a time in its registers. With L's blocks (j, i), a the rows of the panel and x
/// those of the result, block by block
///
///     r = a(j) - sum of x(i) L(j, i)^H over i < j
///     x(j) = r W(j)^H,   x(j) += (r - x(j) L(j, j)^H) W(j)^H          W(j) = inv(L(j, j))
///
/// (factor_tile.cu's W is this W^H), where the correction makes products with inverses as stable as
/// a solve.
///
/// What comes out of a product goes into the next one where it lies (tensor_core.cuh), so rows
/// never leave their thread: x(i) is read again by who wrote it. The right factors, L^H and W^H, go
/// through shared memory for the four warps of a block of threads, where floats are split for the
/// tensor cores. Two such blocks fit on a multiprocessor, and one works while the other waits.
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/panel_tile.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cuda_pipeline_primitives.h>

#include <climits>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int lanes = 32;
constexpr int warps = 4;
constexpr int rows_a_warp = 16;
constexpr int blocks_a_group = 2;
constexpr int tile_columns = 8;
constexpr int tiles_at_once = 2;
constexpr int depth = 16;              // of one product
constexpr int strip = 32;              // rows of a right factor that are in shared memory
constexpr int slices = strip / depth;  // of a strip
constexpr std::size_t bytes_a_copy = 16;

/// Rows from which on it pays. Up to 8448 rows, a block of threads on each multiprocessor of an
/// H200, all of them take as long as one: 0.35 ms for 1024 columns.
constexpr std::int64_t least_rows = 3072;

/// Whether factors are split.
template <class E>
inline constexpr bool splits = std::is_same_v<RealPart<E>, float>;

template <class E>
struct PanelShape {
  static constexpr int side = 64 / parts<E>;  // of a block
  static constexpr int tiles = side / tile_columns;
  static constexpr int strips = side / strip;
  /// Columns n are apart by so much that what eight lanes load for a product meets no bank twice.
  static constexpr int padded = strip + (splits<E> ? 0 : parts<E> == 1 ? 8 : 1);
  static constexpr int padded_split = strip / 2 * parts<E> + (parts<E> == 1 ? 4 : 1);
  /// Slices of x that are on their way while one is in use.
  static constexpr int ahead = slices / parts<E>;
};

/// Some rows of a right factor; [n][k].
template <class E>
using Strip = E[PanelShape<E>::side][PanelShape<E>::padded];

/// Likewise split: [n], and two consecutive k, a part after the other.
template <class E>
using SplitStrip = SplitTwo[PanelShape<E>::side][PanelShape<E>::padded_split];

/// What one step takes: a strip of two blocks, or the strips of one block.
template <class E>
using Pair = Strip<E>[2];
template <class E>
using SplitPair = SplitStrip<E>[2];

/// One pair in use, one on its way.
template <class E>
struct PanelShared {
  Pair<E> pairs[2];

  __device__ Pair<E>& arriving(int pair) { return pairs[pair]; }
};

/// One in use; one on its way, and from there to its place.
template <class E>
struct SplitShared {
  Pair<E> on_its_way;
  SplitPair<E> pairs[2];

  __device__ Pair<E>& arriving(int /*pair*/) { return on_its_way; }
};

template <class E>
using Shared = std::conditional_t<splits<E>, SplitShared<E>, PanelShared<E>>;
template <class E>
using RightStrip = std::conditional_t<splits<E>, SplitStrip<E>, Strip<E>>;
template <class E>
using RightPair = std::conditional_t<splits<E>, SplitPair<E>, Pair<E>>;

/// 16 rows of a block.
template <class E>
using Rows = Tile<E>[PanelShape<E>::tiles];

template <class E>
struct Panel {
  DeviceMatrix<const E> adjoint;  // L^H
  DeviceMatrix<const E> inverse;  // W^H in its diagonal blocks
  DeviceMatrix<E> a21;
  DeviceMatrix<E> packed;
};

/// Brings the pairs in the order in which they are needed. Called by all threads of the block.
template <class E>
class Schedule {
 public:
  using Shape = PanelShape<E>;

  explicit __device__ Schedule(const Panel<E>& panel)
      : panel_(panel), blocks_(static_cast<int>(panel.a21.columns) / Shape::side) {}

  /// Nothing comes after the last.
  __device__ void fetch(Pair<E>& pair) {
    if (first_ == blocks_) {
      return;
    }
    const int before = Shape::strips * first_;
    if (step_ < before) {
      copy(panel_.adjoint, step_ * strip, first_, pair[0]);
      copy(panel_.adjoint, step_ * strip, first_ + 1, pair[1]);
    } else {
      fetch_of_group(step_ - before, pair);
    }
    if (++step_ == before + steps_of_group) {
      step_ = 0;
      first_ += blocks_a_group;
    }
  }

  /// What this thread has copied of a pair that has arrived.
  static __device__ void split(const Pair<E>& pair, SplitPair<E>& to) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      each_piece([&](int n, int k) {
#pragma unroll
        for (int i = 0; i < run; i += 2) {
          const Two<E> two = Two<E>::load(&pair[s][n][k + i]);
#pragma unroll
          for (int p = 0; p < parts<E>; ++p) {
            to[s][n][(k + i) / 2 * parts<E> + p] = as_factor(two.part[p]);
          }
        }
      });
    }
  }

 private:
  /// Numbers that are copied at once.
  static constexpr int run = bytes_a_copy / sizeof(E);

  /// The first block is solved for, subtracted from the second, and that solved for.
  static constexpr int steps_of_group = 3 + 1 + 3;

  __device__ void fetch_of_group(int step, Pair<E>& pair) const {
    const int row = step <= 3 ? first_ : first_ + 1;
    const int column = step < 3 ? first_ : first_ + 1;
    const bool inverted = step % 2 == 0;
    const DeviceMatrix<const E> from = choose(inverted, panel_.inverse, panel_.adjoint);
#pragma unroll
    for (int s = 0; s < Shape::strips; ++s) {
      copy(from, row * Shape::side + s * strip, column, pair[s]);
    }
  }

  static __device__ void copy(const DeviceMatrix<const E>& from, int row, int block, Strip<E>& to) {
    const E* const begin = &from(row, block * Shape::side);
    each_piece([&](int n, int k) {
      __pipeline_memcpy_async(&to[n][k], begin + n * from.stride + k, bytes_a_copy);
    });
  }

  /// work(n, k) for what this thread copies of a strip.
  template <class Work>
  static __device__ void each_piece(Work work) {
    constexpr int runs = strip / run;
    constexpr int columns = warps * lanes / runs;  // at a time
    const int n = static_cast<int>(threadIdx.x) / runs;
    const int k = static_cast<int>(threadIdx.x) % runs * run;
#pragma unroll
    for (int i = 0; i < Shape::side; i += columns) {
      work(n + i, k);
    }
  }

  const Panel<E>& panel_;
  int blocks_;
  int first_ = 0;  // block of the group
  int step_ = 0;
};

/// The work of a warp.
template <class E>
class Solve {
 public:
  using Shape = PanelShape<E>;

  __device__ Solve(const Panel<E>& panel, Shared<E>& shared)
      : shared_(shared), schedule_(panel), a21_(panel.a21), packed_(panel.packed) {}

  __device__ void run() {
    fetch();
    const int blocks = static_cast<int>(a21_.columns) / Shape::side;
    Rows<E> r[blocks_a_group];
    load(r[0], 0);
    for (int first = 0; first < blocks; first += blocks_a_group) {
      load(r[1], first + 1);
      subtract_before(r, first);
      Rows<E> x;
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
  using Numbers = Tile16x8<RealPart<E>>;
  /// Which of the two rows of a tile.
  using Row = RealPart<E> (Numbers::*)[2];

  __device__ void fetch() {
    schedule_.fetch(shared_.arriving(coming_));
    __pipeline_commit();
  }

  /// The pair of the next step; the one before is given up.
  const __device__ RightPair<E>& next() {
    __pipeline_wait_prior(0);
    if constexpr (splits<E>) {
      Schedule<E>::split(shared_.on_its_way, shared_.pairs[coming_]);
    }
    __syncthreads();
    const RightPair<E>& here = shared_.pairs[coming_];
    coming_ ^= 1;
    fetch();
    return here;
  }

  static __device__ Right<E> right(const RightStrip<E>& strip, int tile, int slice) {
    const auto& column = strip[tile * tile_columns + lane() / 4];
    Right<E> b;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int k = slice * depth + i * tile_columns + place();
      if constexpr (splits<E>) {
#pragma unroll
        for (int p = 0; p < parts<E>; ++p) {
          b.part[p][i] = column[k / 2 * parts<E> + p];
        }
      } else {
        const Two<E> two = Two<E>::load(&column[k]);
#pragma unroll
        for (int p = 0; p < parts<E>; ++p) {
          b.part[p][i] = two.part[p];
        }
      }
    }
    return b;
  }

  /// sum += or -= rows block; of a triangle only the part that is not zero.
  template <bool triangle, bool minus>
  static __device__ void add_product(Rows<E>& sum, const Rows<E>& rows, const RightPair<E>& block) {
#pragma unroll
    for (int s = 0; s < Shape::side / depth; ++s) {
      const Left<E> plus = side_by_side(rows[2 * s], rows[2 * s + 1]);
      const Left<E> a = minus ? negative(plus) : plus;
#pragma unroll
      for (int n = triangle ? 2 * s : 0; n < Shape::tiles; n += tiles_at_once) {
        add_tiles(&sum[n], a, block[s / slices], n, s % slices);
      }
    }
  }

  /// c += a times so many columns of a slice, from tile n on.
  static __device__ void add_tiles(Tile<E>* c, const Left<E>& a, const RightStrip<E>& strip, int n,
                                   int slice) {
    static_assert(tiles_at_once == 2);
    if constexpr (splits<E>) {
      multiply_add(c, a, {right(strip, n, slice), right(strip, n + 1, slice)});
    } else {
      multiply_add(c[0], a, right(strip, n, slice));
      multiply_add(c[1], a, right(strip, n + 1, slice));
    }
  }

  /// r is lost.
  __device__ void solve(Rows<E>& r, Rows<E>& x) {
#pragma unroll
    for (int n = 0; n < Shape::tiles; ++n) {
      x[n] = {};
    }
    if constexpr (splits<E>) {
      const RowScale low = scale_of(r, &Numbers::low);
      const RowScale high = scale_of(r, &Numbers::high);
      multiply(r, low.there, high.there);
      solve_near_one(r, x);
      multiply(x, low.back, high.back);
    } else {
      solve_near_one(r, x);
    }
  }

  __device__ void solve_near_one(Rows<E>& r, Rows<E>& x) {
    add_product<true, false>(x, r, next());
    add_product<true, true>(r, x, next());
    add_product<true, false>(x, r, next());
  }

  static __device__ RowScale scale_of(const Rows<E>& r, Row row) {
    float largest = 0.0F;
#pragma unroll
    for (int n = 0; n < Shape::tiles; ++n) {
#pragma unroll
      for (int p = 0; p < parts<E>; ++p) {
        const auto& two = r[n].part[p].*row;
        largest = fmaxf(largest, fmaxf(fabsf(two[0]), fabsf(two[1])));
      }
    }
    // Four lanes share a row.
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, distance));
    }
    return RowScale::of(largest);
  }

  static __device__ void multiply(Rows<E>& rows, float low, float high) {
#pragma unroll
    for (int n = 0; n < Shape::tiles; ++n) {
#pragma unroll
      for (int p = 0; p < parts<E>; ++p) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          rows[n].part[p].low[c] *= low;
          rows[n].part[p].high[c] *= high;
        }
      }
    }
  }

  /// Subtracts the products with all blocks before the group.
  __device__ void subtract_before(Rows<E> (&r)[blocks_a_group], int first) {
    if (first == 0) {
      return;
    }
    const int steps = Shape::strips * first;
    Left<E> coming[Shape::ahead];
#pragma unroll
    for (int s = 0; s < Shape::ahead; ++s) {
      coming[s] = load_result(s);
    }
    for (int i = 0; i < steps; ++i) {
      const RightPair<E>& pair = next();
#pragma unroll
      for (int s = 0; s < slices; ++s) {
        Left<E>& here = coming[s % Shape::ahead];
        const Left<E> a = negative(here);
        here = load_result(min(i * slices + s + Shape::ahead, steps * slices - 1));
        // The compiler would put these loads off until their numbers are needed.
        __syncwarp();
#pragma unroll
        for (int b = 0; b < blocks_a_group; ++b) {
#pragma unroll
          for (int n = 0; n < Shape::tiles; n += tiles_at_once) {
            add_tiles(&r[b][n], a, pair[b], n, s);
          }
        }
      }
    }
  }

  /// 16 columns of x, which this thread has written as conj(x).
  __device__ Left<E> load_result(int slice) const {
    Left<E> a;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t column = slice * depth + i * tile_columns;
      const Two<E> low = Two<E>::load(packed_low_ + column);
      const Two<E> high = Two<E>::load(packed_high_ + column);
#pragma unroll
      for (int p = 0; p < parts<E>; ++p) {
        const Numbers tile{{low.part[p].x, low.part[p].y}, {high.part[p].x, high.part[p].y}};
        a.part[p][i] = as_factor(p == 0 ? tile : negative(tile));
      }
    }
    return a;
  }

  __device__ void load(Rows<E>& r, int block) const {
    const E* const low = a_low_ + std::int64_t{block * Shape::side} * stride_;
    const E* const high = a_high_ + std::int64_t{block * Shape::side} * stride_;
#pragma unroll
    for (int n = 0; n < Shape::tiles; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = (n * tile_columns + c) * stride_;
        set(r[n], &Numbers::low, c, low[column]);
        set(r[n], &Numbers::high, c, high[column]);
      }
    }
  }

  __device__ void store(const Rows<E>& x, int block) const {
    if (has_low_) {
      store(x, &Numbers::low, block, a_low_, packed_low_);
    }
    if (has_high_) {
      store(x, &Numbers::high, block, a_high_, packed_high_);
    }
  }

  __device__ void store(const Rows<E>& x, Row row, int block, E* a, E* packed) const {
    a += std::int64_t{block * Shape::side} * stride_;
    packed += block * Shape::side;
#pragma unroll
    for (int n = 0; n < Shape::tiles; ++n) {
      const E two[] = {get(x[n], row, 0), get(x[n], row, 1)};
      a[n * tile_columns * stride_] = two[0];
      a[(n * tile_columns + 1) * stride_] = two[1];
      Two<E>::store(packed + n * tile_columns, conjugate(two[0]), conjugate(two[1]));
    }
  }

  static __device__ void set(Tile<E>& tile, Row row, int column, E value) {
    (tile.part[0].*row)[column] = real(value);
    if constexpr (parts<E> == 2) {
      (tile.part[1].*row)[column] = value.im;
    }
  }

  static __device__ E get(const Tile<E>& tile, Row row, int column) {
    if constexpr (parts<E> == 2) {
      return {(tile.part[0].*row)[column], (tile.part[1].*row)[column]};
    } else {
      return (tile.part[0].*row)[column];
    }
  }

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % lanes; }
  /// Of this thread's columns in a tile the first.
  static __device__ int place() { return lane() % 4 * 2; }

  Shared<E>& shared_;
  Schedule<E> schedule_;
  const DeviceMatrix<E>& a21_;
  const DeviceMatrix<E>& packed_;
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
  E* a_low_ = &a21_(low_, place());
  E* a_high_ = &a21_(high_, place());
  E* packed_low_ = &packed_(place(), low_);
  E* packed_high_ = &packed_(place(), high_);
};

template <class E>
__global__ void __launch_bounds__(warps* lanes, 2)
    solve_rows(const __grid_constant__ Panel<E> panel) {
  Solve<E>(panel, dynamic_shared<Shared<E>>()).run();
}

/// For copies of 16 bytes.
template <class E>
bool is_aligned(MatrixView<const E> matrix) {
  return reinterpret_cast<std::uintptr_t>(matrix.data()) % bytes_a_copy == 0 &&
         matrix.stride() * sizeof(E) % bytes_a_copy == 0;
}

}  // namespace

template <class E>
bool DeviceKernels<E>::solves_panel(In adjoint, In inverse, In a21, In packed) {
  constexpr int side = PanelShape<E>::side;
  return a21.columns() % (blocks_a_group * side) == 0 && a21.rows() >= least_rows &&
         a21.stride() <= INT_MAX / side && is_aligned(adjoint) && is_aligned(inverse) &&
         is_aligned(packed) && is_for_sm_90(&solve_rows<E>);
}

template <class E>
void DeviceKernels<E>::solve_panel(cudaStream_t stream, In adjoint, In inverse, Out a21,
                                   Out packed) {
  constexpr std::size_t most_shared = std::size_t{99} << 10U;  // of sm_120, which has the least
  static_assert(sizeof(Shared<E>) <= most_shared);
  allow_shared(&solve_rows<E>, sizeof(Shared<E>));
  launch(stream, &solve_rows<E>, divide_up(a21.rows(), warps * rows_a_warp),
         {dim3(warps * lanes), sizeof(Shared<E>)},
         Panel<E>{device(adjoint), device(inverse), device(a21), device(packed)});
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
