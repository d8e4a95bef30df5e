/// Messages by MPI, which are a library of its own.
#pragma once

#include "comm/mpi_facts.hpp"
#include "comm/transport.hpp"

#include <memory>
#include <optional>

namespace shardsolve::mesh {

/// Loads the library at the first call. `communicator`: the Fortran handle of one, or nothing for
/// MPI_COMM_WORLD. Throws Error(device) if it, or the MPI that it was built with, is not there, and
/// Error(unsupported) as comm::mpi::start_mpi.
std::unique_ptr<comm::Transport> make_mpi_transport(std::optional<int> communicator);

/// What there is; never throws, and does not start MPI.
comm::MpiFacts mpi_facts();

}  // namespace shardsolve::mesh
