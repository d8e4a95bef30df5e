#include "comm/cuda/nccl_library.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <vector>

namespace shardsolve::comm::cuda {
namespace {

std::vector<std::string> candidates() {
  const std::string name = "libnccl.so.2";
  std::vector<std::string> paths = {name};
  static const int here = 0;
  Dl_info info{};
  if (::dladdr(&here, &info) != 0 && info.dli_fname != nullptr) {
    const auto packages = std::filesystem::path(info.dli_fname).parent_path() / ".." / "..";
    paths.push_back((packages / "nvidia" / "nccl" / "lib" / name).string());
  }
  return paths;
}

}  // namespace

NcclLibrary::NcclLibrary() {
  for (const std::string& path : candidates()) {
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      break;
    }
    const char* reason = ::dlerror();
    failure_ = failure_.empty() && reason != nullptr ? reason : failure_;
  }
  if (handle_ == nullptr) {
    failure_ = fmt::format(
        "NCCL could not be loaded: {0}. Install it for CUDA {1} (Debian: libnccl2; pip: "
        "nvidia-nccl-cu{1}) where the system looks for libraries, or on LD_LIBRARY_PATH",
        failure_, CUDART_VERSION / 1000);
    return;
  }
  failure_.clear();
  int (*get_version)(int*) = nullptr;
  find(get_version, "ncclGetVersion");
  find(get_unique_id, "ncclGetUniqueId");
  find(init_rank, "ncclCommInitRank");
  find(abort, "ncclCommAbort");
  find(group_start, "ncclGroupStart");
  find(group_end, "ncclGroupEnd");
  find(broadcast, "ncclBroadcast");
  find(send, "ncclSend");
  find(receive, "ncclRecv");
  find(error_string_, "ncclGetErrorString");
  find(last_error_, "ncclGetLastError");
  if (failure_.empty() && get_version(&version_) != 0) {
    failure_ = "NCCL does not tell its version: install another one";
  }
}

template <class Function>
void NcclLibrary::find(Function& function, const char* symbol) {
  function = reinterpret_cast<Function>(::dlsym(handle_, symbol));
  if (function == nullptr && failure_.empty()) {
    failure_ = fmt::format("NCCL has no function {}: install NCCL 2.13 or newer", symbol);
  }
}

void NcclLibrary::check(int result, const char* doing) const {
  if (result != 0) {
    const char* details = last_error_(nullptr);
    throw Error(ErrorKind::communication,
                fmt::format("NCCL failed while {}: {}{}{}", doing, error_string_(result),
                            details != nullptr && *details != '\0' ? ": " : "",
                            details == nullptr ? "" : details));
  }
}

const NcclLibrary& nccl() {
  static const NcclLibrary library;
  return library;
}

}  // namespace shardsolve::comm::cuda
