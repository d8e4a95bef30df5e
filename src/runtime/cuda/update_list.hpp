/// The updates that an algorithm names, as the pieces of a launch.
#pragma once

#include "runtime/cholesky_kernels.hpp"
#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/update_pieces.hpp"
#include "runtime/operand_shapes.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// Tiles of so many rows and columns that one of the rectangles has, and how many of them have
/// something to change.
struct TileCount {
  std::int64_t all;
  std::int64_t changed;
};
template <Scalar T>
TileCount tiles_of(const PanelUpdate<T>& update, UpdateTileSize size) {
  const std::int64_t down = (update.c.rows() + size.rows - 1) / size.rows;
  const std::int64_t across = (update.c.columns() + size.columns - 1) / size.columns;
  return {down * across, update.lower ? (down * across + down) / 2 : down * across};
}

template <Scalar T>
void add_piece(UpdatePieces<Element<T>>& pieces, const PanelUpdate<T>& update) {
  const auto small = [](std::int64_t count) { return static_cast<std::int32_t>(count); };
  const MatrixView<T> c = update.c;
  UpdatePiece<Element<T>>& piece = pieces.pieces[pieces.count++];
  piece = {.c = elements(c).data(),
           .stride = c.stride(),
           .c_apart = update.c_apart,
           .left = small(update.left),
           .right = small(update.right),
           .apart = small(update.apart),
           .rows = small(c.rows()),
           .columns = small(c.columns()),
           .tiles = static_cast<std::uint32_t>(tiles_of(update, pieces.size).all),
           .first_tile = pieces.tiles,
           .lower = update.lower};
  pieces.tiles += piece.tiles * static_cast<std::uint32_t>(update.count);
}

template <Scalar T>
double flops_of(const PanelUpdate<T>& update, std::int64_t k) {
  const std::int64_t rows = update.c.rows();
  const double entries =
      update.lower ? 0.5 * product(rows, rows + 1) : product(rows, update.c.columns());
  return multiply_add<T> * product(update.count, k) * entries;
}

/// Throws unless a panel has room for its factors and begins where kernels read it.
template <Scalar T>
void require_split(MatrixView<const T> packed) {
  constexpr std::size_t alignment = 16;
  require(packed.stride() >= packed.rows() + CholeskyDeviceKernels<Element<T>>::split_rows &&
              reinterpret_cast<std::uintptr_t>(packed.data()) % alignment == 0 &&
              static_cast<std::size_t>(packed.stride()) * sizeof(T) % alignment == 0,
          "split panel");
}

}  // namespace shardsolve::runtime::cuda
