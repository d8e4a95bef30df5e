/// A layout and a mesh that belong together.
#pragma once

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

namespace shardsolve::mesh {

/// Throws Error(invalid_argument) unless the layout has as many slabs as the mesh has ranks.
inline void require_ranks(const Mesh& mesh, const SlabLayout& layout) {
  if (layout.ranks() != mesh.ranks()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("the layout has {} slabs and the mesh {} ranks; they must be as many",
                            layout.ranks(), mesh.ranks()));
  }
}

}  // namespace shardsolve::mesh
