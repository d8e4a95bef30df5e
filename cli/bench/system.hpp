/// The system that tune and bench solve, and copies of it to overwrite.
#pragma once

#include "matgen/matrices.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/dtype.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/sharded.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardsolve::cli::bench {

inline constexpr std::uint64_t seed = 20240;

/// A random matrix, unless told otherwise Hermitian positive definite with a condition number below
/// 5, and random right-hand sides, the same on every mesh, twice in the memory of its devices: once
/// as they were.
template <Scalar T>
class System {
 public:
  /// Each rank makes its share. Throws Error(out_of_memory, cancelled, device).
  System(Mesh& mesh, std::int64_t n, std::int64_t columns, const RunOptions& options,
         matgen::Kind kind = matgen::Kind::random);

  const ShardedMatrix<T>& a() const { return a_; }
  /// A itself, on the layout with that tile.
  ShardedMatrix<T> matrix(std::int64_t tile) const { return on_tile(a_, tile); }
  /// A once more, to be overwritten; in the same memory each time.
  ShardedMatrix<T> fresh_matrix(std::int64_t tile);
  /// What has become of it.
  const ShardedMatrix<T>& last_matrix() const { return work_; }
  /// The first `columns` right-hand sides once more, likewise.
  RightHandSides<T> fresh_sides(std::int64_t tile, std::int64_t columns);

 private:
  ShardedMatrix<T> on_tile(const ShardedMatrix<T>& matrix, std::int64_t tile) const;

  Mesh& mesh_;
  ShardedMatrix<T> a_;
  ShardedMatrix<T> work_;
  RightHandSides<T> b_;
  RightHandSides<T> x_;
};

/// Calls body(first, piece, room) for pieces of whole columns of this rank's slab, `room` being as
/// large and on the host: the piece itself if that lies there.
template <Scalar T, class Body>
void for_each_piece(const ShardedMatrix<T>& matrix, std::int64_t rank, Body body) {
  constexpr std::int64_t piece_bytes = std::int64_t{16} << 20;
  const MatrixView<T> slab = matrix.slab(rank);
  const std::int64_t column_bytes = slab.rows() * std::int64_t{sizeof(T)};
  const std::int64_t step =
      std::max<std::int64_t>(1, piece_bytes / std::max<std::int64_t>(1, column_bytes));
  std::vector<T> staging;
  for (std::int64_t first = 0; first < slab.columns(); first += step) {
    const MatrixView<T> piece = slab.columns_from(first, std::min(step, slab.columns() - first));
    MatrixView<T> room = piece;
    if (matrix.memory() == Memory::device) {
      staging.resize(static_cast<std::size_t>(piece.rows() * piece.columns()));
      room = {staging.data(), piece.rows(), piece.columns()};
    }
    body(first, piece, room);
  }
}

}  // namespace shardsolve::cli::bench
