#include "mesh/cuda_loader.hpp"

#include "mesh/cuda_version.hpp"

#include <shardsolve/error.hpp>

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

/// The file that this code is in, a library or a program; empty if unknown.
std::filesystem::path own_file() {
  static const int here = 0;
  Dl_info info{};
  if (::dladdr(&here, &info) == 0 || info.dli_fname == nullptr) {
    return {};
  }
  std::error_code error;
  const auto path = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path() : path;
}

/// Beside us; beside bin/; one up, as the tests of a build tree are; then where the system looks.
std::vector<std::string> candidates() {
  const std::filesystem::path here = own_file().parent_path();
  std::vector<std::string> paths;
  for (const auto& directory : {here, here / ".." / "lib", here / ".."}) {
    if (std::filesystem::exists(directory / library_name)) {
      paths.push_back((directory / library_name).string());
    }
  }
  paths.emplace_back(library_name);
  return paths;
}

/// What to do where the last candidate could not be loaded either.
std::string advice(bool exists) {
  if (!exists) {
    return "This shardsolve was built where CUDA 13 was not found: build it where nvcc and cuBLAS "
           "of CUDA 13 are";
  }
  const bool python = own_file().filename() == "libshardsolve_jax.so";
  return fmt::format(
      "It needs cuBLAS of CUDA 13{} where the system looks for libraries, or on "
      "LD_LIBRARY_PATH",
      python ? ": pip install 'shardsolve[cuda13]', or have it" : " (pip: nvidia-cublas)");
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
  const std::vector<std::string> paths = candidates();
  for (const std::string& path : paths) {
    handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) {
      break;
    }
    library.failure = library.failure.empty() ? ::dlerror() : library.failure;
  }
  if (handle == nullptr) {
    library.failure += ". " + advice(paths.size() > 1);
    return library;
  }
  const char* (*version)() = nullptr;
  look_up(handle, "shardsolve_cuda_version", version);
  if (version == nullptr || std::string_view(version()) != cuda_library_version) {
    library.failure =
        fmt::format("{} is version {}, this is {}: install both from one build", library_name,
                    version == nullptr ? "unknown" : version(), cuda_library_version);
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
                "the CUDA library of shardsolve could not be loaded: " + library.failure);
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
