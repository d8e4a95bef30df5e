#include "mesh/cuda_choice.hpp"

#include <fmt/format.h>

#include <dlfcn.h>

#include <algorithm>

namespace shardsolve::mesh {
namespace {

constexpr int oldest_for_12 = 12000;
constexpr int oldest_for_13 = 13000;
constexpr int least_for_12 = 70;
constexpr int least_for_13 = 80;
/// GPUs that the library of CUDA 12 has no code for.
constexpr int first_too_new_for_12 = 100;

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string capability_text(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

std::string library_missing(int major, const std::string& why) {
  return major == 12 ? fmt::format(
                           "{}, and the library for CUDA 12 is not in this build of "
                           "shardsolve: put libshardsolve_cuda12.so beside it, which "
                           "scripts/cuda12.sh builds",
                           why)
                     : fmt::format(
                           "{}, and the library for CUDA 13 (libshardsolve_cuda.so) is not "
                           "in this build of shardsolve: build it where nvcc and cuBLAS of "
                           "CUDA 13 are",
                           why);
}

/// Why the library of that CUDA cannot be used with this driver and these GPUs; empty if it can.
std::string against(int major, const CudaSurroundings& s) {
  const int oldest = major == 12 ? oldest_for_12 : oldest_for_13;
  if (s.driver != 0 && s.driver < oldest) {
    return fmt::format("the NVIDIA driver knows CUDA up to {}, too old for the library for CUDA {}",
                       version_text(s.driver), major);
  }
  const int least = major == 12 ? least_for_12 : least_for_13;
  const int greatest = s.gpus.empty() ? least : *std::max_element(s.gpus.begin(), s.gpus.end());
  if (greatest < least) {
    return fmt::format("the newest GPU has compute capability {}, the library for CUDA {} needs {}",
                       capability_text(greatest), major, capability_text(least));
  }
  if (major == 12 && greatest >= first_too_new_for_12 &&
      *std::min_element(s.gpus.begin(), s.gpus.end()) >= first_too_new_for_12) {
    return fmt::format("GPUs of compute capability {} are too new for the library for CUDA 12",
                       capability_text(greatest));
  }
  return "";
}

CudaChoice choose_with_jax(const CudaSurroundings& s) {
  const std::string why = fmt::format("the JAX of this process is for CUDA {}", s.jax);
  if (s.jax != 12 && s.jax != 13) {
    return {0, fmt::format("{}; this shardsolve has libraries for CUDA 12 and 13: install "
                           "'jax[cuda13]' or 'jax[cuda12]'",
                           why)};
  }
  if (!(s.jax == 12 ? s.has_12 : s.has_13)) {
    return {0, fmt::format("{}; or install 'jax[cuda{}]'", library_missing(s.jax, why),
                           s.jax == 12 ? 13 : 12)};
  }
  if (const std::string failure = against(s.jax, s); !failure.empty()) {
    return {0,
            fmt::format("{}, but {}: install 'jax[cuda{}]'", why, failure, s.jax == 12 ? 13 : 12)};
  }
  return {s.jax, why};
}

}  // namespace

CudaChoice choose_cuda(const CudaSurroundings& s) {
  if (s.driver != 0 && s.driver < oldest_for_12) {
    return {0,
            fmt::format("the NVIDIA driver knows CUDA up to {}: update it to 525.60 or newer for "
                        "our library for CUDA 12, to 580.65 or newer for that for CUDA 13",
                        version_text(s.driver))};
  }
  if (!s.gpus.empty() && *std::max_element(s.gpus.begin(), s.gpus.end()) < least_for_12) {
    return {0,
            fmt::format("the newest GPU has compute capability {}; our kernels need {} (V100) with "
                        "CUDA 12, {} (A100) with CUDA 13: use other GPUs or CPU devices",
                        capability_text(*std::max_element(s.gpus.begin(), s.gpus.end())),
                        capability_text(least_for_12), capability_text(least_for_13))};
  }
  if (s.jax != 0) {
    return choose_with_jax(s);
  }
  if (!s.has_12 || !s.has_13) {
    const int only = s.has_12 ? 12 : 13;
    if (const std::string failure = against(only, s); !failure.empty() && s.has_12 != s.has_13) {
      return {0, library_missing(only == 12 ? 13 : 12, failure)};
    }
    return {only, s.has_12 ? "it is the only one in this build" : ""};
  }
  const std::string not_13 = against(13, s);
  if (not_13.empty()) {
    return {13, s.driver == 0
                    ? "there is no driver to choose by"
                    : fmt::format("the NVIDIA driver knows CUDA up to {}", version_text(s.driver))};
  }
  const std::string not_12 = against(12, s);
  return not_12.empty() ? CudaChoice{12, not_13} : CudaChoice{0, not_13 + "; " + not_12};
}

CudaSurroundings look_at_driver(bool with_gpus) {
  CudaSurroundings found;
  void* const driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    return found;
  }
  const auto function = [driver](const char* name) { return ::dlsym(driver, name); };
  auto* const version = reinterpret_cast<int (*)(int*)>(function("cuDriverGetVersion"));
  auto* const init = reinterpret_cast<int (*)(unsigned)>(function("cuInit"));
  auto* const count = reinterpret_cast<int (*)(int*)>(function("cuDeviceGetCount"));
  auto* const ask = reinterpret_cast<int (*)(int*, int, int)>(function("cuDeviceGetAttribute"));
  if (version == nullptr || version(&found.driver) != 0) {
    found.driver = 0;
    return found;
  }
  int gpus = 0;
  if (!with_gpus || init == nullptr || count == nullptr || ask == nullptr || init(0) != 0 ||
      count(&gpus) != 0) {
    return found;
  }
  constexpr int major_attribute = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
  for (int gpu = 0; gpu < gpus; ++gpu) {
    int major = 0;
    int minor = 0;
    if (ask(&major, major_attribute, gpu) == 0 && ask(&minor, major_attribute + 1, gpu) == 0) {
      found.gpus.push_back(10 * major + minor);
    }
  }
  return found;
}

}  // namespace shardsolve::mesh
