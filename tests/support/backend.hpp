/// The devices that the tests of the distributed tier run on: CPU devices, or GPUs if the
/// environment variable SHARDSOLVE_TEST_GPUS lists some ("0" or "0,1,2"). Ranks take them in turn,
/// so that meshes of six ranks are tested on one GPU too.
#pragma once

#include "mesh/backend.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/sharded.hpp>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

namespace shardsolve::testing {

/// The GPUs listed; none for CPU devices.
const std::vector<int>& test_gpus();

/// Ranks on these GPUs. `delays`: see mesh::CudaOptions.
std::unique_ptr<mesh::Backend> make_gpus(std::int64_t ranks,
                                         std::optional<std::uint64_t> delays = std::nullopt);

/// `delays`: likewise; CPU devices have none.
Mesh make_mesh(std::int64_t ranks, std::optional<std::uint64_t> delays = std::nullopt);

/// A mesh for what tests move to the devices and back.
Mesh& transfer_mesh(std::int64_t ranks);

/// What lies on the host, where the devices compute.
template <class Object>
Object to_devices(const Object& object) {
  if (test_gpus().empty()) {
    return object;
  }
  Mesh& mesh = transfer_mesh(object.layout().ranks());
  const Object target = [&] {
    if constexpr (requires { object.columns(); }) {
      return make_right_hand_sides<std::remove_pointer_t<decltype(object.block(0).data())>>(
          mesh, object.layout(), object.columns());
    } else {
      return make_matrix<std::remove_pointer_t<decltype(object.slab(0).data())>>(mesh,
                                                                                 object.layout());
    }
  }();
  copy(mesh, object, target);
  return target;
}

/// The reverse: a copy on the host, or the object itself if it lies there.
template <Scalar T>
ShardedMatrix<T> to_host(const ShardedMatrix<T>& matrix) {
  if (matrix.memory() == Memory::host) {
    return matrix;
  }
  const ShardedMatrix<T> target(matrix.layout());
  copy(transfer_mesh(matrix.layout().ranks()), matrix, target);
  return target;
}
template <Scalar T>
RightHandSides<T> to_host(const RightHandSides<T>& sides) {
  if (sides.memory() == Memory::host) {
    return sides;
  }
  const RightHandSides<T> target(sides.layout(), sides.columns());
  copy(transfer_mesh(sides.layout().ranks()), sides, target);
  return target;
}

}  // namespace shardsolve::testing
