#include "system.hpp"

#include "matgen/matrices.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/error.hpp>

#include <complex>
#include <memory>
#include <vector>

namespace shardsolve::cli::bench {
namespace {

/// Wherever the tile is of no concern: one block a rank.
SlabLayout plain_layout(const Mesh& mesh, std::int64_t n) {
  return SlabLayout::even(n, mesh.ranks(), std::max<std::int64_t>(n, 1));
}

void leave_if_stopped(const mesh::Rank& rank) {
  rank.leave_if_failed();
  if (rank.stop_requested()) {
    throw Error(ErrorKind::cancelled, "interrupted");
  }
}

template <Scalar T>
void make_slab(mesh::Rank& rank, const ShardedMatrix<T>& a, matgen::Kind kind) {
  const matgen::Recipe recipe{.kind = kind, .n = a.layout().size(), .seed = seed};
  const GlobalIndex begin = a.layout().segment(rank.index()).begin;
  for_each_piece(a, rank.index(), [&](std::int64_t first, MatrixView<T> piece, MatrixView<T> room) {
    leave_if_stopped(rank);
    const GlobalIndex column = begin + first;
    matgen::fill_columns<T>(recipe, {column, column + room.columns()}, room);
    if (room.data() != piece.data()) {
      rank.update().copy(piece.data(), room.data(),
                         static_cast<std::size_t>(room.rows() * room.columns()) * sizeof(T));
      rank.update().synchronize();
    }
  });
}

template <Scalar T>
void make_sides(mesh::Rank& rank, const RightHandSides<T>& b) {
  const GlobalRange rows = b.layout().segment(rank.index());
  const MatrixView<T> block = b.block(rank.index());
  std::vector<T> values(static_cast<std::size_t>(rows.size()));
  for (std::int64_t j = 0; j < b.columns(); ++j) {
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      values[static_cast<std::size_t>(i)] = matgen::rhs<T>(seed, rows.begin + i, j);
    }
    rank.update().copy(block.columns_from(j, 1).data(), values.data(), values.size() * sizeof(T));
    rank.update().synchronize();
  }
}

}  // namespace

template <Scalar T>
System<T>::System(Mesh& mesh, std::int64_t n, std::int64_t columns, const RunOptions& options,
                  matgen::Kind kind)
    : mesh_(mesh),
      a_(make_matrix<T>(mesh, plain_layout(mesh, n))),
      work_(make_matrix<T>(mesh, a_.layout())),
      b_(make_right_hand_sides<T>(mesh, a_.layout(), columns)),
      x_(make_right_hand_sides<T>(mesh, a_.layout(), columns)) {
  mesh.state().run(options, [a = a_, b = b_, kind](mesh::Rank& rank) {
    make_slab(rank, a, kind);
    make_sides(rank, b);
  });
}

template <Scalar T>
ShardedMatrix<T> System<T>::on_tile(const ShardedMatrix<T>& matrix, std::int64_t tile) const {
  std::vector<MatrixView<T>> slabs;
  for (std::int64_t rank = 0; rank < mesh_.ranks(); ++rank) {
    slabs.push_back(matrix.slab(rank));
  }
  return {SlabLayout::even(matrix.layout().size(), mesh_.ranks(), tile), std::move(slabs),
          mesh_.memory(), std::make_shared<ShardedMatrix<T>>(matrix)};
}

template <Scalar T>
ShardedMatrix<T> System<T>::fresh_matrix(std::int64_t tile) {
  copy(mesh_, a_, work_);
  return on_tile(work_, tile);
}

template <Scalar T>
RightHandSides<T> System<T>::fresh_sides(std::int64_t tile, std::int64_t columns) {
  copy(mesh_, b_, x_);
  std::vector<MatrixView<T>> blocks;
  for (std::int64_t rank = 0; rank < mesh_.ranks(); ++rank) {
    blocks.push_back(mesh_.is_here(rank) ? x_.block(rank).columns_from(0, columns)
                                         : MatrixView<T>());
  }
  return {SlabLayout::even(a_.layout().size(), mesh_.ranks(), tile), std::move(blocks),
          mesh_.memory(), std::make_shared<RightHandSides<T>>(x_)};
}

template class System<float>;
template class System<double>;
template class System<std::complex<float>>;
template class System<std::complex<double>>;

}  // namespace shardsolve::cli::bench
