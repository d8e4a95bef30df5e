#include "mesh/mpi_loader.hpp"

#include "mesh/plugin.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::mesh {

std::unique_ptr<comm::Transport> make_mpi_transport(std::optional<int> communicator) {
  static const Plugin library("mpi");
  if (!library.failure().empty()) {
    throw Error(ErrorKind::device,
                fmt::format("the MPI library of shardsolve could not be loaded: {}. It is built "
                            "where CMake finds an MPI (Debian: libopenmpi-dev), and needs the same "
                            "one to run (Debian: openmpi-bin)",
                            library.failure()));
  }
  auto* const make =
      library.function<comm::Transport*(const int*)>("shardsolve_make_mpi_transport");
  return std::unique_ptr<comm::Transport>(make(communicator ? &*communicator : nullptr));
}

}  // namespace shardsolve::mesh
