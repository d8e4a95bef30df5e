/// The devices that work on one problem together.
#pragma once

#include <shardsolve/export.hpp>

#include <cstdint>
#include <memory>

namespace shardsolve {

namespace mesh {
class MeshState;
}

/// A fixed set of ranks, each one device with its queues. Calls on one mesh run one after another,
/// also when several threads make them; results do not depend on the load of the machine. A mesh
/// keeps the workspace of its calls (see Plan) for the next ones, until it is destroyed.
class SHARDSOLVE_EXPORT Mesh {
 public:
  /// `ranks` CPU devices inside this process: each rank has a few threads of its own that sleep
  /// when there is nothing to do, so more ranks than cores is fine. Throws Error(invalid_argument)
  /// unless 1 <= ranks <= max_host_ranks.
  static Mesh host(std::int64_t ranks);
  static constexpr std::int64_t max_host_ranks = 64;

  Mesh(Mesh&&) noexcept;
  Mesh& operator=(Mesh&&) noexcept;
  ~Mesh();

  std::int64_t ranks() const;

  /// Inside shardsolve only: ranks that were set up in another way, and what the algorithms need.
  explicit Mesh(std::shared_ptr<mesh::MeshState> state);
  mesh::MeshState& state() const { return *state_; }

 private:
  std::shared_ptr<mesh::MeshState> state_;
};

}  // namespace shardsolve
