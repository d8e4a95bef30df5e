/// The triangular solve of a panel of few rows (solve_panel.cu has the formulas): a block of
/// threads has 16 of them, and all their columns in its registers. Of each 64 columns a warp has
/// eight.
///
/// What is solved for goes through shared memory to all warps, which subtract its products from
/// the columns that remain. Each warp has right factors of its own for that: they are on their way
/// to shared memory, each number to the thread that takes it, long before they are needed.
#pragma once

#include "runtime/cuda/kernels/cholesky/panel_rows.cuh"
#include "runtime/cuda/kernels/cholesky/panel_tile.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"

#include <cuda_pipeline_primitives.h>

#include <cstdint>
#include <cstring>

namespace shardsolve::runtime::cuda::by_blocks {

constexpr int warps = 8;
constexpr int side = warps * tile_columns;  // of a block of columns
constexpr int slices = side / depth;
constexpr int max_blocks = 16;
constexpr int max_columns = max_blocks * side;
constexpr int products_a_piece = 4;
constexpr int pieces = 4;  // one in use, the others on their way
static_assert(slices <= products_a_piece && max_blocks % products_a_piece == 0);

/// 16 x 8 of a right factor: of each tile of 8 x 8 in it the two numbers that each thread takes.
template <class E>
using RightFactor = E[2][lanes][2];

/// 16 x 8 numbers of each warp. What a thread has is stored in parts that are loaded at once.
template <class E>
class SharedTile {
 public:
  __device__ void store(const Tile<E>& tile) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      std::memcpy(&parts_[i][lane()], reinterpret_cast<const char*>(&tile) + i * sizeof(float4),
                  sizeof(float4));
    }
  }

  __device__ Tile<E> load() const {
    Tile<E> tile;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      std::memcpy(reinterpret_cast<char*>(&tile) + i * sizeof(float4), &parts_[i][lane()],
                  sizeof(float4));
    }
    return tile;
  }

 private:
  static constexpr int count = sizeof(Tile<E>) / sizeof(float4);
  static_assert(sizeof(Tile<E>) % sizeof(float4) == 0);
  float4 parts_[count][lanes];
};

template <class E>
using Rows = SharedTile<E>[warps];

template <class E>
struct Shared {
  RightFactor<E> factors[warps][pieces][products_a_piece];
  Rows<E> rows[2];
};

/// Slices of an upper triangle, the first ones, that are not zero in that tile of columns.
inline __device__ int slices_of_triangle(int tile) { return tile / 2 + 1; }

/// Brings the right factors of a warp in the order in which they are needed, a piece at a time.
/// Each thread brings what it takes itself.
template <class E>
class Factors {
 public:
  using Piece = RightFactor<E>[products_a_piece];

  __device__ Factors(const PanelSystem<E>& panel, Piece* memory, int warp)
      : memory_(memory),
        adjoint_(&panel.adjoint(place(), warp * tile_columns + lane() / 4)),
        inverse_(&panel.inverse(place(), warp * tile_columns + lane() / 4)),
        adjoint_apart_(side * panel.adjoint.stride),
        inverse_apart_(side * panel.inverse.stride),
        slices_(slices_of_triangle(warp)),
        blocks_(static_cast<int>(panel.a21.columns) / side) {
    for (int i = 0; i < pieces; ++i) {
      fetch();
    }
  }

  const __device__ Piece& next() const {
    await_copies<pieces - 1>();
    return memory_[here_];
  }

  /// The piece is given up.
  __device__ void release() {
    __syncwarp();  // what was read there has been read
    fetch();
  }

 private:
  /// Into the place of the piece that was given up. Nothing comes after the last.
  __device__ void fetch() {
    if (block_ < blocks_) {
      const bool inverted = slice_ < 0 && slice_ != with_l;
      const std::int64_t apart = inverted ? inverse_apart_ : adjoint_apart_;
      const int column = slice_ < 0 ? block_ : right_;
      const E* const from = (inverted ? inverse_ : adjoint_) + block_ * side + column * apart;
      if (slice_ < 0) {
        copy(from, depth, slices_);
      } else {
        copy(from + slice_ * depth, apart, blocks_ - right_);
      }
      advance();
    }
    __pipeline_commit();
    here_ = (here_ + 1) % pieces;
  }

  __device__ void advance() {
    right_ += products_a_piece;
    if (slice_ >= 0 && right_ < blocks_) {
      return;
    }
    ++slice_;
    right_ = block_ + 1;
    if (slice_ == slices || (slice_ == 0 && right_ == blocks_)) {
      ++block_;
      slice_ = -solving;
    }
  }

  __device__ void copy(const E* from, std::int64_t apart, int count) const {
    auto& to = memory_[here_];
#pragma unroll
    for (int n = 0; n < products_a_piece; ++n) {
      if (n < count) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          __pipeline_memcpy_async(&to[n][i][lane()], from + i * tile_columns, 2 * sizeof(E));
        }
      }
      from += apart;
    }
  }

  Piece* memory_;
  // What this thread takes of the first block, and how far apart those beside each other are.
  const E* adjoint_;
  const E* inverse_;
  std::int64_t adjoint_apart_;
  std::int64_t inverse_apart_;
  int slices_;
  int blocks_;
  int here_ = 0;
  /// A block is solved for with W, L and W again: slices below zero. Then each of its slices is
  /// multiplied with the blocks of columns behind it.
  static constexpr int solving = 3;
  static constexpr int with_l = -2;
  // What comes next: of this block of rows this slice, from this block of columns on.
  int block_ = 0;
  int slice_ = -solving;
  int right_ = 0;
};

/// The work of a warp.
template <class E>
class Solve {
 public:
  __device__ Solve(const PanelSystem<E>& panel, Shared<E>& shared)
      : shared_(shared),
        factors_(panel, shared.factors[warp_], warp_),
        rows_(panel, std::int64_t{blockIdx.x} * tile_rows),
        blocks_(static_cast<int>(panel.a21.columns) / side) {}

  __device__ void run() {
    // Of the blocks that remain. The last one is there for products whose results nobody needs.
    Tile<E> r[max_blocks + 1] = {};
#pragma unroll
    for (int i = 0; i < max_blocks; ++i) {
      if (i < blocks_) {
        rows_.template load<1>(&r[i], column(i));
      }
    }
    for (int block = 0; block < blocks_; ++block) {
      const Tile<E> x = solve(r[0]);
      rows_.template store<1>(&x, column(block));
      subtract(r, blocks_ - 1 - block);
#pragma unroll
      for (int i = 1; i < max_blocks; ++i) {
        r[i - 1] = r[i];
      }
    }
  }

 private:
  using Piece = typename Factors<E>::Piece;

  /// The first one of this warp in a block.
  __device__ int column(int block) const { return block * side + warp_ * tile_columns; }

  /// r is lost. What was solved for is then in the second place for rows.
  __device__ Tile<E> solve(Tile<E>& r) {
    store(r, 0);
    __syncthreads();
    Tile<E> x{};
    if constexpr (splits<E>) {
      Tile<E> all[warps];
#pragma unroll
      for (int n = 0; n < warps; ++n) {
        all[n] = shared_.rows[0][n].load();
      }
      const RowScales scales = RowScales::of(all);
      __syncthreads();
      multiply(r, scales.low.there, scales.high.there);
      store(r, 0);
      __syncthreads();
      solve_near_one(r, x);
      multiply(x, scales.low.back, scales.high.back);
    } else {
      solve_near_one(r, x);
    }
    store(x, 1);
    factors_.release();
    __syncthreads();
    return x;
  }

  /// x = r W^H, x += (r - x L^H) W^H
  __device__ void solve_near_one(Tile<E>& r, Tile<E>& x) {
    add_triangle<false>(x, 0);
    store(x, 1);
    factors_.release();
    __syncthreads();
    add_triangle<true>(r, 1);
    store(r, 0);
    factors_.release();
    __syncthreads();
    add_triangle<false>(x, 0);
  }

  /// sum += or -= the shared rows times the next piece, of which the part that is not zero.
  template <bool minus>
  __device__ void add_triangle(Tile<E>& sum, int of) {
    const Piece& piece = factors_.next();
#pragma unroll
    for (int s = 0; s < slices; ++s) {
      if (s < slices_of_triangle(warp_)) {
        const Left<E> a = left(of, s);
        add_product(sum, minus ? negative(a) : a, piece[s]);
      }
    }
  }

  /// Of the blocks after the one that was solved for.
  __device__ void subtract(Tile<E> (&r)[max_blocks + 1], int count) {
    for (int s = 0; s < slices; ++s) {
      const Left<E> minus_x = negative(left(1, s));
#pragma unroll
      for (int first = 1; first < max_blocks; first += products_a_piece) {
        if (first <= count) {
          const Piece& piece = factors_.next();
          // Those after the last, too: with whatever is there.
#pragma unroll
          for (int i = 0; i < products_a_piece; ++i) {
            add_product(r[first + i], minus_x, piece[i]);
          }
          factors_.release();
        }
      }
    }
  }

  static __device__ void add_product(Tile<E>& c, const Left<E>& a, const RightFactor<E>& factor) {
    Right<E> b;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Two<E> two = Two<E>::load(factor[i][lane()]);
#pragma unroll
      for (int p = 0; p < parts<E>; ++p) {
        b.part[p][i] = as_factor(two.part[p]);
      }
    }
    if constexpr (splits<E>) {
      multiply_add(&c, a, {b});
    } else {
      multiply_add(c, a, b);
    }
  }

  /// Where all warps have read what was there.
  __device__ void store(const Tile<E>& tile, int where) { shared_.rows[where][warp_].store(tile); }

  __device__ Left<E> left(int where, int slice) const {
    const Rows<E>& rows = shared_.rows[where];
    return side_by_side(rows[2 * slice].load(), rows[2 * slice + 1].load());
  }

  int warp_ = static_cast<int>(threadIdx.x) / lanes;
  Shared<E>& shared_;
  Factors<E> factors_;
  PanelRows<E> rows_;
  int blocks_;
};

template <class E>
__global__ void __launch_bounds__(warps* lanes, 1)
    solve_rows(const __grid_constant__ PanelSystem<E> panel) {
  Solve<E>(panel, dynamic_shared<Shared<E>>()).run();
}

}  // namespace shardsolve::runtime::cuda::by_blocks
