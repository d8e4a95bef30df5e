/// Where a block of threads is among the tiles of an update.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/update_pieces.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// Rows of tiles that are made column by column, so that what they read stays in the GPU's cache.
inline constexpr unsigned rows_of_tiles = 16;

/// The tile of a rectangle.
template <class E, int tile_rows = update_rows>
struct UpdatePlace {
  E* c;  ///< the rectangle's
  std::int64_t stride;
  int rows;  ///< of the rectangle
  int columns;
  int row;  ///< of the tile, in the rectangle
  int column;
  int left;  ///< column of the left panel that belongs to the rectangle's first row
  int right;
  bool lower;

  /// Whether some of it is to change.
  __device__ bool counts() const { return !lower || row + tile_rows > column; }
  /// Whether the rectangle has the entry, and changes it.
  __device__ bool changes(int at_row, int at_column) const {
    return at_row < rows && at_column < columns && (!lower || at_row >= at_column);
  }
};

template <class E, int tile_rows = update_rows, int tile_columns = update_columns<E>>
__device__ UpdatePlace<E, tile_rows> place_of_block(const UpdatePieces<E>& all) {
  int number = 0;
  while (number + 1 < all.count && blockIdx.x >= all.pieces[number + 1].first_tile) {
    ++number;
  }
  const UpdatePiece<E>& piece = all.pieces[number];
  const unsigned tile = (blockIdx.x - piece.first_tile) % piece.tiles;
  const int rectangle = static_cast<int>((blockIdx.x - piece.first_tile) / piece.tiles);
  const unsigned down = (static_cast<unsigned>(piece.rows) + tile_rows - 1) / tile_rows;
  const unsigned group = rows_of_tiles * (piece.tiles / down);
  const unsigned first = tile / group * rows_of_tiles;
  const unsigned height = min(down - first, rows_of_tiles);
  return {piece.c + rectangle * piece.c_apart,
          piece.stride,
          piece.rows,
          piece.columns,
          static_cast<int>(first + tile % group % height) * tile_rows,
          static_cast<int>(tile % group / height) * tile_columns,
          piece.left + rectangle * piece.apart,
          piece.right + rectangle * piece.apart,
          piece.lower};
}

}  // namespace shardsolve::runtime::cuda
