// What doctor asks: MPI allows these calls before it is started.

#include "comm/mpi_facts.hpp"

#include <dlfcn.h>
#include <mpi.h>

#include <array>

extern "C" __attribute__((visibility("default"))) void shardsolve_mpi_facts(
    shardsolve::comm::MpiFacts* facts) {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  if (MPI_Get_library_version(version.data(), &length) == MPI_SUCCESS) {
    facts->version = version.data();
  }
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&MPI_Get_library_version), &info) != 0) {
    facts->mpi = info.dli_fname;
  }
}
