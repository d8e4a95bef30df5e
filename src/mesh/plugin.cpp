#include "mesh/plugin.hpp"

#include "core/plugin_version.hpp"

#include <fmt/format.h>

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

namespace shardsolve::mesh {
namespace {

/// The file that an address of this process is in, a library or a program; empty if unknown.
std::filesystem::path file_of(const void* address) {
  Dl_info info{};
  link_map* map = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0) {
    return {};
  }
  // A program has no name there, and that in `info` is what whoever started it calls it.
  const char* name = map->l_name;
  if (*name == '\0') {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as the kernel says it
    name = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  }
  std::error_code error;
  const auto path = std::filesystem::canonical(name, error);
  return error ? std::filesystem::path() : path;
}

/// The file that this code is in.
std::filesystem::path own_file() {
  static const int here = 0;
  return file_of(&here);
}

/// Beside us; beside bin/; one up, as the tests of a build tree are; then where the system looks.
std::vector<std::string> candidates(const std::string& file) {
  const std::filesystem::path here = own_file().parent_path();
  std::vector<std::string> paths;
  for (const auto& directory : {here, here / ".." / "lib", here / ".."}) {
    std::error_code error;  // where we may not look there is nothing for us
    if (!here.empty() && std::filesystem::exists(directory / file, error)) {
      paths.push_back((directory / file).string());
    }
  }
  paths.emplace_back(file);
  return paths;
}

std::string file_of_plugin(const std::string& name) {
  return fmt::format("libshardsolve_{}.so", name);
}

}  // namespace

Plugin::Plugin(const std::string& name, const std::string& prefix) {
  const std::string file = file_of_plugin(name);
  const std::vector<std::string> paths = candidates(file);
  lies_beside_ = paths.size() > 1;
  for (const std::string& path : paths) {
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      break;
    }
    failure_ = failure_.empty() ? ::dlerror() : failure_;
  }
  if (handle_ == nullptr) {
    return;
  }
  failure_.clear();
  auto* const version = function<const char*()>(
      fmt::format("shardsolve_{}_version", prefix.empty() ? name : prefix).c_str());
  path_ = file_of(reinterpret_cast<const void*>(version)).string();
  if (version == nullptr || std::string_view(version()) != core::plugin_version) {
    failure_ = fmt::format("{} is version {}, this is {}: install both from one build", file,
                           version == nullptr ? "unknown" : version(), core::plugin_version);
  }
}

bool plugin_lies_beside(const std::string& name) {
  return candidates(file_of_plugin(name)).size() > 1;
}

bool in_python_package() { return own_file().filename() == "libshardsolve_jax.so"; }

void* Plugin::find(const char* symbol) const { return ::dlsym(handle_, symbol); }

}  // namespace shardsolve::mesh
