/// The processes that the tests of this tier run in: started by mpirun, all run all tests together.
#pragma once

#include "mesh/mesh_state.hpp"
#include "mesh/mpi_loader.hpp"
#include "mesh/process_backend.hpp"
#include "mpi/other_hosts.hpp"
#include "reference/dense_matrix.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/mesh.hpp>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

namespace shardsolve::testing {

/// Fortran handle of the communicator of the tests; nothing for MPI_COMM_WORLD.
inline std::optional<int>& test_communicator() {
  static std::optional<int> handle;
  return handle;
}

/// With SHARDSOLVE_TEST_HOSTS=<count> in the environment, as if it were on so many hosts.
inline const char* pretended_hosts() { return std::getenv("SHARDSOLVE_TEST_HOSTS"); }

inline Mesh make_process_mesh() {
  const char* hosts = pretended_hosts();
  if (hosts == nullptr) {
    return Mesh::mpi(test_communicator());
  }
  return Mesh(
      mesh::MeshState::start(std::make_unique<mesh::ProcessBackend>(std::make_unique<OtherHosts>(
          mesh::make_mpi_transport(test_communicator()), std::stoi(hosts)))));
}

/// The rank that this process is.
inline std::int64_t own_rank(const Mesh& mesh) {
  std::int64_t rank = 0;
  while (!mesh.is_here(rank)) {
    ++rank;
  }
  return rank;
}

/// This process's share of `a`, a copy.
template <Scalar T>
ShardedMatrix<T> share_of(Mesh& mesh, const DenseMatrix<T>& a, const SlabLayout& layout) {
  const ShardedMatrix<T> sharded = make_matrix<T>(mesh, layout);
  const GlobalRange columns = layout.segment(own_rank(mesh));
  copy_entries<T>(a.view().columns_from(columns.begin.value(), columns.size()),
                  sharded.slab(own_rank(mesh)));
  return sharded;
}

template <Scalar T>
RightHandSides<T> share_of_rows(Mesh& mesh, const DenseMatrix<T>& b, const SlabLayout& layout) {
  const RightHandSides<T> sharded = make_right_hand_sides<T>(mesh, layout, b.columns());
  const GlobalRange rows = layout.segment(own_rank(mesh));
  copy_entries<T>(b.view().block(rows.begin.value(), 0, rows.size(), b.columns()),
                  sharded.block(own_rank(mesh)));
  return sharded;
}

/// A copy of a view as a matrix of its own.
template <Scalar T>
DenseMatrix<T> copy_of(MatrixView<T> view) {
  DenseMatrix<T> copy(view.rows(), view.columns());
  copy_entries<T>(view, copy.view());
  return copy;
}

}  // namespace shardsolve::testing
