/// What the CUDA library of shardsolve sees, told before anything is made of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::mesh {

struct GpuFacts {
  std::string name;
  std::string bus_id;                       ///< "0000:18:00.0"
  int major = 0;                            ///< of the compute capability
  int minor = 0;                            ///< of the compute capability
  std::int64_t memory = 0;                  ///< bytes
  std::optional<std::int64_t> free_memory;  ///< bytes; nothing if the GPU cannot be used: `failure`
  std::string failure;
};

/// Versions as CUDA counts them: 13020 is 13.2.
struct CudaFacts {
  std::string library;    ///< path of the library that was taken; empty if none was
  std::string reason;     ///< why this one of our two: a clause; empty where there was no choice
  bool has_both = false;  ///< whether there are libraries for CUDA 12 and for CUDA 13
  std::string failure;    ///< why it cannot be used, and what to do; empty if it can
  int runtime = 0;        ///< that the library was built with
  int driver = 0;         ///< the newest that the driver knows; 0 if there is no driver
  std::string
      architectures;  ///< that there are kernels for, as CMake lists them: "80-real 90-real"
  std::vector<GpuFacts> gpus;  ///< that CUDA shows to this process, by CUDA's numbers
  std::string nccl_failure;    ///< why NCCL cannot be used; empty if it can, or there is no GPU
};

}  // namespace shardsolve::mesh
