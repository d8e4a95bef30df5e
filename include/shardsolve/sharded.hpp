/// Matrices and right-hand sides that are spread over the ranks of a mesh.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve {

namespace detail {
template <Scalar T>
MatrixView<T> part(const std::vector<MatrixView<T>>& parts, std::int64_t rank) {
  const auto ranks = static_cast<std::int64_t>(parts.size());
  if (rank < 0 || rank >= ranks) {
    throw_bad_rank(rank, ranks);
  }
  return parts[static_cast<std::size_t>(rank)];
}
}  // namespace detail

/// An n x n matrix as slabs of whole columns, column-major: slab r has n rows and layout.width(r)
/// columns. Either owns its memory or adopts the caller's, which then outlives it. Copies share the
/// memory. On a mesh of several processes each has the slab of its own rank, and empty views
/// (MatrixView's default) in place of the others.
template <Scalar T>
class SHARDSOLVE_EXPORT ShardedMatrix {
 public:
  /// Own memory on the host for all slabs, not initialised (on GPUs and in several processes:
  /// make_matrix of device_memory.hpp). Throws Error(out_of_memory).
  explicit ShardedMatrix(SlabLayout layout);
  /// Adopts one slab a rank, empty for those of other processes; keeps `owner`, if any, as long as
  /// it is used. Throws Error(invalid_argument) if the shapes are not the layout's.
  ShardedMatrix(SlabLayout layout, std::vector<MatrixView<T>> slabs, Memory memory = Memory::host,
                std::shared_ptr<void> owner = nullptr);
  /// Adopts a matrix that lies in one piece: its slabs are consecutive columns.
  ShardedMatrix(SlabLayout layout, MatrixView<T> whole);

  const SlabLayout& layout() const { return layout_; }
  MatrixView<T> slab(std::int64_t rank) const { return detail::part(slabs_, rank); }
  Memory memory() const { return memory_; }

 private:
  SlabLayout layout_;
  Memory memory_ = Memory::host;
  std::shared_ptr<void> owner_;
  std::vector<MatrixView<T>> slabs_;
};

/// n x k right-hand sides cut by rows at the boundaries of a layout: block r has layout.width(r)
/// rows and k columns, column-major. Owns or adopts like ShardedMatrix.
template <Scalar T>
class SHARDSOLVE_EXPORT RightHandSides {
 public:
  RightHandSides(const SlabLayout& layout, std::int64_t columns);
  RightHandSides(const SlabLayout& layout, std::vector<MatrixView<T>> blocks,
                 Memory memory = Memory::host, std::shared_ptr<void> owner = nullptr);
  RightHandSides(const SlabLayout& layout, MatrixView<T> whole);

  const SlabLayout& layout() const { return layout_; }
  std::int64_t columns() const { return columns_; }
  MatrixView<T> block(std::int64_t rank) const { return detail::part(blocks_, rank); }
  Memory memory() const { return memory_; }

 private:
  SlabLayout layout_;
  std::int64_t columns_;
  Memory memory_ = Memory::host;
  std::shared_ptr<void> owner_;
  std::vector<MatrixView<T>> blocks_;
};

}  // namespace shardsolve
