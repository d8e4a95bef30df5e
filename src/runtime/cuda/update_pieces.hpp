/// What one launch of the kernels for updates does.
#pragma once

#include "runtime/cuda/element.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// Rectangles c_i -= left_i^H right_i of equal size: columns of packed panels and a part of the
/// matrix, each so much further than the one before.
template <class E>
struct UpdatePiece {
  E* c;
  std::int64_t stride;   ///< of c
  std::int64_t c_apart;  ///< elements
  std::int32_t left;     ///< first column in the left panel
  std::int32_t right;
  std::int32_t apart;  ///< columns of the panels
  std::int32_t rows;
  std::int32_t columns;
  std::uint32_t tiles;  ///< of one rectangle
  std::uint32_t first_tile;
  bool lower;  ///< of c, only the lower triangle
};

/// Rows and columns of c that a block of threads makes.
inline constexpr int update_rows = 128;
template <class E>
inline constexpr int update_columns = sizeof(RealPart<E>) == sizeof(float) ? 128 / parts<E> : 128;
struct UpdateTileSize {
  int rows;
  int columns;
};

/// They go with the launch, as a parameter of the kernel.
template <class E>
struct UpdatePieces {
  static constexpr std::int32_t most = 32;

  UpdateTileSize size{update_rows, update_columns<E>};
  UpdatePiece<E> pieces[most];
  std::int32_t count = 0;
  std::uint32_t tiles = 0;
};

}  // namespace shardsolve::runtime::cuda
