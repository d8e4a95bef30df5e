#include "mesh/cuda_loader.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::mesh {
namespace {

constexpr const char* library_name = "libshardsolve_cuda.so";

/// Where this code is, a library or a program.
std::filesystem::path own_directory() {
  static const int here = 0;
  Dl_info info{};
  if (::dladdr(&here, &info) == 0 || info.dli_fname == nullptr) {
    return ".";
  }
  std::error_code error;
  const auto path = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path(".") : path.parent_path();
}

/// Beside us; beside bin/; one up, as the tests of a build tree are; then where the system looks.
std::vector<std::string> candidates() {
  const std::filesystem::path here = own_directory();
  std::vector<std::string> paths;
  for (const auto& directory : {here, here / ".." / "lib", here / ".."}) {
    if (std::filesystem::exists(directory / library_name)) {
      paths.push_back((directory / library_name).string());
    }
  }
  paths.emplace_back(library_name);
  return paths;
}

struct Library {
  Backend* (*make_backend)(const CudaOptions*) = nullptr;
  void (*copy)(int, void*, void*, const void*, std::size_t) = nullptr;
  void (*synchronize)(int, void*) = nullptr;
  std::string failure;
};

template <class Function>
void look_up(void* handle, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(handle, name));
}

Library load() {
  Library library;
  void* handle = nullptr;
  for (const std::string& path : candidates()) {
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) {
      break;
    }
    library.failure = library.failure.empty() ? ::dlerror() : library.failure;
  }
  if (handle == nullptr) {
    return library;
  }
  const char* (*version)() = nullptr;
  look_up(handle, "shardsolve_cuda_version", version);
  if (version == nullptr || std::string_view(version()) != SHARDSOLVE_VERSION_STRING) {
    library.failure =
        fmt::format("{} is version {}, this is {}", library_name,
                    version == nullptr ? "unknown" : version(), SHARDSOLVE_VERSION_STRING);
    return library;
  }
  look_up(handle, "shardsolve_make_cuda_backend", library.make_backend);
  look_up(handle, "shardsolve_cuda_copy", library.copy);
  look_up(handle, "shardsolve_cuda_synchronize", library.synchronize);
  return library;
}

const Library& cuda_library() {
  static const Library library = load();
  if (library.make_backend == nullptr) {
    throw Error(ErrorKind::device,
                fmt::format("the CUDA library of shardsolve could not be loaded: {}. It needs "
                            "cuBLAS of CUDA 13 (pip: nvidia-cublas) where the system looks for "
                            "libraries, or on LD_LIBRARY_PATH",
                            library.failure));
  }
  return library;
}

}  // namespace

void require_cuda_library() { cuda_library(); }

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  return std::unique_ptr<Backend>(cuda_library().make_backend(&options));
}

void CudaStream::copy(void* target, const void* source, std::size_t bytes) const {
  cuda_library().copy(device, handle, target, source, bytes);
}

void CudaStream::synchronize() const { cuda_library().synchronize(device, handle); }

}  // namespace shardsolve::mesh
