/// What kind of devices these are, for tables of tile sizes.
#pragma once

#include <set>
#include <string>

namespace shardsolve::mesh {

/// Model of the CPU and the kernels that the BLAS has for it: "AMD EPYC 9R14 (family 25, model 17),
/// OpenBLAS kernels Cooperlake". The same in every process on such a machine.
const std::string& host_kind();

/// From CUDA's names of the GPUs: "NVIDIA H200", "NVIDIA A100 and NVIDIA H200".
inline std::string gpu_kind(const std::set<std::string>& names) {
  std::string kind;
  for (const std::string& name : names) {
    kind += kind.empty() ? name : " and " + name;
  }
  return kind;
}

}  // namespace shardsolve::mesh
