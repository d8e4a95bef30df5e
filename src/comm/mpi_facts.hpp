/// What the MPI library of shardsolve is, told without starting MPI.
#pragma once

#include <string>

namespace shardsolve::comm {

struct MpiFacts {
  std::string library;  ///< path of libshardsolve_mpi.so; empty if it was not found
  std::string failure;  ///< why it cannot be used, and what to do; empty if it can
  std::string version;  ///< MPI_Get_library_version: "Open MPI v4.1.4, ..."
  std::string mpi;      ///< path of the MPI library that it uses
};

}  // namespace shardsolve::comm
