/// The triangular solve of a panel of many rows (solve_panel.cu has the formulas): a warp has 16 of
/// them, and two blocks of 64 columns (complex: 32) at a time in its registers.
///
/// What comes out of a product goes into the next one where it lies (tensor_core.cuh), so rows
/// never leave their thread: x(i) is read again by who wrote it. The right factors, L^H and W^H, go
/// through shared memory for the four warps of a block of threads, where floats are split for the
/// tensor cores. Two such blocks fit on a multiprocessor, and one works while the other waits.
#pragma once

#include "runtime/cuda/kernels/cholesky/panel_rows.cuh"
#include "runtime/cuda/kernels/cholesky/panel_tile.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"

#include <cuda_pipeline_primitives.h>

#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda::by_warps {

constexpr int warps = 4;
constexpr int blocks_a_group = 2;
constexpr int tiles_at_once = 2;
constexpr int strip = 32;              // rows of a right factor that are in shared memory
constexpr int slices = strip / depth;  // of a strip

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

template <class E>
using TwoTiles = Tile<E>[2];

/// 16 rows of a block.
template <class E>
using Rows = Tile<E>[PanelShape<E>::tiles];

/// Brings the pairs in the order in which they are needed. Called by all threads of the block.
template <class E>
class Schedule {
 public:
  using Shape = PanelShape<E>;

  explicit __device__ Schedule(const PanelSystem<E>& panel)
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

  const PanelSystem<E>& panel_;
  int blocks_;
  int first_ = 0;  // block of the group
  int step_ = 0;
};

/// The work of a warp.
template <class E>
class Solve {
 public:
  using Shape = PanelShape<E>;

  __device__ Solve(const PanelSystem<E>& panel, Shared<E>& shared)
      : shared_(shared),
        schedule_(panel),
        blocks_(static_cast<int>(panel.a21.columns) / Shape::side),
        rows_(panel, (std::int64_t{blockIdx.x} * warps + threadIdx.x / lanes) * tile_rows) {}

  __device__ void run() {
    fetch();
    Rows<E> r[blocks_a_group];
    load(r[0], 0);
    for (int first = 0; first < blocks_; first += blocks_a_group) {
      load(r[1], first + 1);
      subtract_before(r, first);
      Rows<E> x;
      solve(r[0], x);
      store(x, first);
      if (first + blocks_a_group < blocks_) {
        load(r[0], first + blocks_a_group);
      }
      add_product<false, true>(r[1], x, next());
      solve(r[1], x);
      store(x, first + 1);
    }
  }

 private:
  using Numbers = Tile16x8<RealPart<E>>;

  __device__ void fetch() {
    schedule_.fetch(shared_.arriving(coming_));
    __pipeline_commit();
  }

  /// The pair of the next step; the one before is given up.
  const __device__ RightPair<E>& next() {
    await_copies<0>();
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
      const RowScales scales = RowScales::of(r);
      multiply(r, scales.low.there, scales.high.there);
      solve_near_one(r, x);
      multiply(x, scales.low.back, scales.high.back);
    } else {
      solve_near_one(r, x);
    }
  }

  __device__ void solve_near_one(Rows<E>& r, Rows<E>& x) {
    add_product<true, false>(x, r, next());
    add_product<true, true>(r, x, next());
    add_product<true, false>(x, r, next());
  }

  static __device__ void multiply(Rows<E>& rows, float low, float high) {
#pragma unroll
    for (int n = 0; n < Shape::tiles; ++n) {
      cuda::multiply(rows[n], low, high);
    }
  }

  /// Subtracts the products with all blocks before the group.
  __device__ void subtract_before(Rows<E> (&r)[blocks_a_group], int first) {
    if (first == 0) {
      return;
    }
    const int steps = Shape::strips * first;
    TwoTiles<E> coming[Shape::ahead];
#pragma unroll
    for (int s = 0; s < Shape::ahead; ++s) {
      load_result(coming[s], s);
    }
    for (int i = 0; i < steps; ++i) {
      const RightPair<E>& pair = next();
#pragma unroll
      for (int s = 0; s < slices; ++s) {
        TwoTiles<E>& here = coming[s % Shape::ahead];
        const Left<E> a = minus_conjugate(here);
        load_result(here, min(i * slices + s + Shape::ahead, steps * slices - 1));
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

  /// 16 columns of conj(x), as this thread has written them. Nothing here may wait for them.
  __device__ void load_result(TwoTiles<E>& to, int slice) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t column = slice * depth + i * tile_columns;
      const Two<E> low = rows_.packed(&Numbers::low, column);
      const Two<E> high = rows_.packed(&Numbers::high, column);
#pragma unroll
      for (int p = 0; p < parts<E>; ++p) {
        to[i].part[p] = {{low.part[p].x, low.part[p].y}, {high.part[p].x, high.part[p].y}};
      }
    }
  }

  static __device__ Left<E> minus_conjugate(const TwoTiles<E>& x) {
    Left<E> a;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a.part[0][i] = as_factor(negative(x[i].part[0]));
      if constexpr (parts<E> == 2) {
        a.part[1][i] = as_factor(x[i].part[1]);
      }
    }
    return a;
  }

  __device__ void load(Rows<E>& r, int block) const {
    rows_.template load<Shape::tiles>(r, block * Shape::side);
  }
  __device__ void store(const Rows<E>& x, int block) const {
    rows_.template store<Shape::tiles>(x, block * Shape::side);
  }

  Shared<E>& shared_;
  Schedule<E> schedule_;
  int blocks_;
  PanelRows<E> rows_;
  int coming_ = 0;
};

template <class E>
__global__ void __launch_bounds__(warps* lanes, 2)
    solve_rows(const __grid_constant__ PanelSystem<E> panel) {
  Solve<E>(panel, dynamic_shared<Shared<E>>()).run();
}

}  // namespace shardsolve::runtime::cuda::by_warps
