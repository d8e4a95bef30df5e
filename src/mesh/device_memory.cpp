#include "core/each_dtype.hpp"
#include "core/right_hand_sides.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/require_part.hpp"
#include "mesh/require_ranks.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <memory>
#include <vector>

namespace shardsolve {
namespace {

/// `rows(rank)` x `columns(rank)` elements on the device of each rank of this process.
template <Scalar T, class Rows, class Columns>
std::vector<MatrixView<T>> allocate(Mesh& mesh, std::vector<runtime::Buffer>& owner, Rows rows,
                                    Columns columns) {
  std::vector<MatrixView<T>> views;
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    if (!mesh.is_here(rank)) {
      views.emplace_back();
      continue;
    }
    const std::size_t bytes = static_cast<std::size_t>(rows(rank) * columns(rank)) * sizeof(T);
    owner.push_back(mesh.state().device(rank).allocate(bytes));
    views.emplace_back(static_cast<T*>(owner.back().data()), rows(rank), columns(rank));
  }
  return views;
}

/// Columns without gaps in one piece, others one by one.
template <Scalar T>
void copy_view(runtime::Queue& queue, MatrixView<const T> source, MatrixView<T> target) {
  const bool whole = source.stride() == source.rows() && target.stride() == target.rows();
  const std::int64_t step = whole ? std::max<std::int64_t>(source.columns(), 1) : 1;
  for (std::int64_t j = 0; j < source.columns() && source.rows() > 0; j += step) {
    queue.copy(target.columns_from(j, step).data(), source.columns_from(j, step).data(),
               static_cast<std::size_t>(source.rows() * step) * sizeof(T));
  }
}

/// `view(object, rank)`: what each rank copies.
template <class Object, class View>
void copy_all(Mesh& mesh, const Object& source, const Object& target, View view) {
  mesh::require_ranks(mesh, source.layout());
  if (!(source.layout() == target.layout())) {
    throw Error(ErrorKind::invalid_argument,
                "source and target of a copy lie on different layouts: use the same for both");
  }
  const bool on_gpus = source.memory() == Memory::device || target.memory() == Memory::device;
  if (on_gpus && mesh.memory() == Memory::host) {
    throw Error(ErrorKind::invalid_argument,
                "a copy from or to GPUs by a mesh of CPU devices: use the mesh of these GPUs");
  }
  mesh.state().run({}, [source, target, view](mesh::Rank& rank) {
    mesh::require_part(rank, source, "the source of a copy");
    mesh::require_part(rank, target, "the target of a copy");
    const auto from = view(source, rank.index());
    const auto to = view(target, rank.index());
    if (from.columns() != to.columns() && !(from.empty() && to.empty())) {
      throw Error(
          ErrorKind::invalid_argument,
          fmt::format("{} right-hand sides cannot be copied to {}", from.columns(), to.columns()));
    }
    copy_view<std::remove_pointer_t<decltype(from.data())>>(rank.update(), from, to);
    rank.update().synchronize();
  });
}

}  // namespace

template <Scalar T>
ShardedMatrix<T> make_matrix(Mesh& mesh, const SlabLayout& layout) {
  mesh::require_ranks(mesh, layout);
  const auto owner = std::make_shared<std::vector<runtime::Buffer>>();
  auto slabs = allocate<T>(
      mesh, *owner, [&](std::int64_t) { return layout.size(); },
      [&](std::int64_t rank) { return layout.width(rank); });
  return ShardedMatrix<T>(layout, std::move(slabs), mesh.memory(), owner);
}

template <Scalar T>
RightHandSides<T> make_right_hand_sides(Mesh& mesh, const SlabLayout& layout,
                                        std::int64_t columns) {
  mesh::require_ranks(mesh, layout);
  core::require_columns(columns);
  const auto owner = std::make_shared<std::vector<runtime::Buffer>>();
  auto blocks = allocate<T>(
      mesh, *owner, [&](std::int64_t rank) { return layout.width(rank); },
      [&](std::int64_t) { return columns; });
  return RightHandSides<T>(layout, std::move(blocks), mesh.memory(), owner);
}

template <Scalar T>
void copy(Mesh& mesh, const ShardedMatrix<T>& source, const ShardedMatrix<T>& target) {
  copy_all(mesh, source, target,
           [](const ShardedMatrix<T>& a, std::int64_t rank) { return a.slab(rank); });
}

template <Scalar T>
void copy(Mesh& mesh, const RightHandSides<T>& source, const RightHandSides<T>& target) {
  copy_all(mesh, source, target,
           [](const RightHandSides<T>& b, std::int64_t rank) { return b.block(rank); });
}

#define SHARDSOLVE_INSTANTIATE(T)                                                              \
  template ShardedMatrix<T> make_matrix<T>(Mesh&, const SlabLayout&);                          \
  template RightHandSides<T> make_right_hand_sides<T>(Mesh&, const SlabLayout&, std::int64_t); \
  template void copy(Mesh&, const ShardedMatrix<T>&, const ShardedMatrix<T>&);                 \
  template void copy(Mesh&, const RightHandSides<T>&, const RightHandSides<T>&);

SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
