/// Memory that a call makes for itself and that outlives its rank programs.
#pragma once

#include "mesh/mesh_state.hpp"
#include "mesh/rank.hpp"
#include "runtime/device.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/sharded.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace shardsolve::programs {

/// Each rank allocates its own part inside of a rank program: where one has no memory, all leave
/// together, in all processes. (make_matrix() of one process throws in that one alone.)
template <Scalar T>
class MemoryOfCall {
 public:
  explicit MemoryOfCall(const Mesh& mesh)
      : state_(&mesh.state()),
        parts_(std::make_shared<std::vector<Part>>(static_cast<std::size_t>(mesh.ranks()))),
        memory_(mesh.memory()) {}

  /// In a rank program: the rank's part. Throws Error(out_of_memory).
  MatrixView<T> make(mesh::Rank& rank, std::int64_t rows, std::int64_t columns) const {
    Part& part = (*parts_)[static_cast<std::size_t>(rank.index())];
    const auto bytes = static_cast<std::size_t>(rows * columns) * sizeof(T);
    part.owner = state_->device(rank.index()).allocate(bytes);
    part.view = {static_cast<T*>(part.owner->data()), rows, columns};
    return part.view;
  }

  /// After the program: parts of n rows, cut by columns.
  ShardedMatrix<T> matrix(const SlabLayout& layout) const {
    return {layout, views(), memory_, parts_};
  }
  /// Likewise, cut by rows.
  RightHandSides<T> rows(const SlabLayout& layout) const {
    return {layout, views(), memory_, parts_};
  }

 private:
  struct Part {
    std::optional<runtime::Buffer> owner;
    MatrixView<T> view;
  };

  std::vector<MatrixView<T>> views() const {
    std::vector<MatrixView<T>> all;
    for (const Part& part : *parts_) {
      all.push_back(part.view);
    }
    return all;
  }

  mesh::MeshState* state_;  // which the threads of its ranks keep
  std::shared_ptr<std::vector<Part>> parts_;
  Memory memory_;
};

/// As make_right_hand_sides(), but that all processes leave together.
template <Scalar T>
RightHandSides<T> make_rows_together(Mesh& mesh, const SlabLayout& layout, std::int64_t columns,
                                     const RunOptions& options) {
  const MemoryOfCall<T> memory(mesh);
  mesh.state().run(options, [memory, layout, columns](mesh::Rank& rank) {
    memory.make(rank, layout.width(rank.index()), columns);
  });
  return memory.rows(layout);
}

}  // namespace shardsolve::programs
