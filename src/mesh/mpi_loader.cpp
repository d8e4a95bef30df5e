#include "mesh/mpi_loader.hpp"

#include "mesh/plugin.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::mesh {

namespace {

const Plugin& mpi_library() {
  static const Plugin library("mpi");
  return library;
}

/// Why it cannot be used, and what to do; empty if it can.
std::string mpi_failure(const Plugin& library) {
  return library.failure().empty()
             ? ""
             : fmt::format(
                   "the MPI library of shardsolve could not be loaded: {}. It is built "
                   "where CMake finds an MPI (Debian: libopenmpi-dev), and needs the same "
                   "one to run (Debian: openmpi-bin)",
                   library.failure());
}

}  // namespace

std::unique_ptr<comm::Transport> make_mpi_transport(std::optional<int> communicator) {
  const Plugin& library = mpi_library();
  if (!library.failure().empty()) {
    throw Error(ErrorKind::device, mpi_failure(library));
  }
  auto* const make =
      library.function<comm::Transport*(const int*)>("shardsolve_make_mpi_transport");
  return std::unique_ptr<comm::Transport>(make(communicator ? &*communicator : nullptr));
}

comm::MpiFacts mpi_facts() {
  const Plugin& library = mpi_library();
  comm::MpiFacts facts{.library = library.path(), .failure = mpi_failure(library)};
  if (facts.failure.empty()) {
    library.function<void(comm::MpiFacts*)>("shardsolve_mpi_facts")(&facts);
  }
  return facts;
}

}  // namespace shardsolve::mesh
