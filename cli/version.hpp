/// What this build is.
#pragma once

#include <shardsolve/version.hpp>

#include <string>

namespace shardsolve::cli {

inline constexpr const char* version = SHARDSOLVE_VERSION_STRING;
/// File name of the BLAS and how it is linked.
inline constexpr const char* blas = SHARDSOLVE_BLAS_LIBRARY " (" SHARDSOLVE_BLAS_LINKAGE ")";

inline std::string version_text() {
  return std::string("shardsolve ") + version + "\nBLAS: " + blas + "\n";
}

}  // namespace shardsolve::cli
