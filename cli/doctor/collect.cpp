#include "collect.hpp"

#include "io/tile_table_file.hpp"
#include "launch.hpp"
#include "mesh/cuda_loader.hpp"
#include "mesh/device_kind.hpp"
#include "mesh/mpi_loader.hpp"
#include "program.hpp"
#include "runtime/host/blas.hpp"
#include "text.hpp"

#include <fmt/format.h>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

namespace shardsolve::cli::doctor {
namespace {

constexpr std::string_view blas_linkage = SHARDSOLVE_BLAS_LINKAGE;

/// The path of a library that is in this process, by the beginning of its file name.
std::string loaded_library(const std::string& beginning) {
  struct Search {
    const std::string& beginning;
    std::string path;
  } search{beginning, ""};
  ::dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* data) {
        auto& [wanted, path] = *static_cast<Search*>(data);
        const std::filesystem::path file(library->dlpi_name);
        if (file.filename().string().compare(0, wanted.size(), wanted) == 0) {
          path = file.string();
        }
        return path.empty() ? 0 : 1;
      },
      &search);
  return search.path;
}

Blas look_at_blas() {
  const auto [version, kernels] = runtime::host::blas::describe();
  return {SHARDSOLVE_BLAS_LIBRARY, blas_linkage == "shared", version, kernels};
}

/// Libraries of CUDA in the directories of LD_LIBRARY_PATH.
std::vector<std::string> cuda_libraries(const Environment& environment) {
  std::vector<std::string> libraries;
  const std::string path = value_of(environment, "LD_LIBRARY_PATH");
  for (const std::string& directory : split(path, ':')) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
      const std::string name = entry.path().filename().string();
      for (const std::string_view wanted : {"libcublas.so.", "libcudart.so.", "libcudnn.so."}) {
        // one for each major version: "libcublas.so.12", not "libcublas.so.12.4.5.8"
        if (name.compare(0, wanted.size(), wanted) == 0 &&
            name.find('.', wanted.size()) == std::string::npos) {
          libraries.push_back(entry.path().string());
        }
      }
    }
  }
  return libraries;
}

Launcher look_for_mpirun(const Environment& environment) {
  Launcher mpirun{find_program("mpirun", value_of(environment, "PATH")), ""};
  if (!mpirun.path.empty()) {
    const std::string says = ask_program({mpirun.path, "--version"}, std::chrono::seconds(20)).out;
    mpirun.says = trimmed(says.substr(0, says.find('\n')));
  }
  return mpirun;
}

std::optional<std::string> contents_of(const std::string& path) {
  std::ifstream file(path);
  std::error_code error;
  if (path.empty() || !std::filesystem::is_regular_file(path, error) || !file) {
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string nccl_version(void* library) {
  auto* const ask = reinterpret_cast<int (*)(int*)>(::dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (ask == nullptr || ask(&version) != 0) {
    return "";
  }
  // 2.9 and later: 22703 is 2.27.3
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// Lines "NAME=value" of one of NCCL's files; what a file before it has set stays.
void read_nccl_file(const std::string& path, Nccl& nccl) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::string text = trimmed(line);
    const std::size_t equals = text.find('=');
    if (!text.empty() && text.front() != '#' && equals != std::string::npos) {
      const std::string name = trimmed(text.substr(0, equals));
      if (nccl.settings.emplace(name, trimmed(text.substr(equals + 1))).second) {
        nccl.file_of.emplace(name, path);
      }
    }
  }
}

void add_variable(std::string_view text, Environment& environment) {
  const std::size_t equals = text.find('=');
  if (equals != std::string_view::npos) {
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
}

/// What the process that has started this one was itself started with, if that is a Python: what
/// its program has changed since is in this process's environment. Empty where /proc does not say.
Environment environment_of_python_parent() {
  const std::filesystem::path parent = fmt::format("/proc/{}", ::getppid());
  std::error_code error;
  const auto program = std::filesystem::read_symlink(parent / "exe", error).filename().string();
  Environment environment;
  if (!error && program.compare(0, 6, "python") == 0) {
    std::ifstream file(parent / "environ");
    for (std::string text; std::getline(file, text, '\0');) {
      add_variable(text, environment);
    }
  }
  return environment;
}

}  // namespace

Environment own_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    add_variable(*entry, environment);
  }
  return environment;
}

Nccl look_for_nccl(const Environment& environment) {
  Nccl nccl;
  if (void* const library = ::dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL)) {
    nccl.path = loaded_library("libnccl.so");
    nccl.version = nccl_version(library);
  }
  // In this order: what the user has set goes before what the machine has.
  const std::string named = value_of(environment, "NCCL_CONF_FILE");
  read_nccl_file(named.empty() ? value_of(environment, "HOME") + "/.nccl.conf" : named, nccl);
  read_nccl_file("/etc/nccl.conf", nccl);
  return nccl;
}

std::optional<Links> look_at_links(const mesh::CudaFacts& cuda, const std::vector<int>& wanted) {
  Links links;
  for (std::size_t i = 0; i < cuda.gpus.size(); ++i) {
    if (cuda.gpus[i].free_memory) {
      links.gpus.push_back(static_cast<int>(i));
    }
  }
  const auto is_usable = [&, usable = links.gpus](int gpu) {
    return std::find(usable.begin(), usable.end(), gpu) != usable.end();
  };
  if (wanted.size() > 1 && std::all_of(wanted.begin(), wanted.end(), is_usable)) {
    links.gpus = wanted;
  }
  if (links.gpus.size() < 2) {
    return std::nullopt;
  }
  try {
    links.topology = mesh::cuda_topology(links.gpus);
  } catch (const Error&) {
    return std::nullopt;  // whoever uses them is told why
  }
  return links;
}

Tiles look_for_tiles(const std::string& option, const std::string& device) {
  const io::TilePath place = io::tile_table_path(option);
  Tiles tiles{.path = place.path, .failure = "", .entries = {}, .device = device};
  try {
    const TileTable table = io::read_tile_table(place);
    tiles.found = !table.path().empty();
    tiles.entries = table.entries();
  } catch (const Error& error) {
    tiles.failure = error.what();
    std::error_code unknown;
    tiles.missing = !std::filesystem::exists(place.path, unknown) && !unknown;
  }
  return tiles;
}

/// What tables of tile sizes know the devices of the job by; empty where there is none of them.
std::string device_kind(const Job& job, const mesh::CudaFacts& cuda) {
  if (!job.cuda) {
    return mesh::host_kind();
  }
  std::set<std::string> names;
  if (job.gpus.empty()) {  // each process chooses its own
    for (const auto& gpu : cuda.gpus) {
      names.insert(gpu.name);
    }
  }
  for (const int gpu : job.gpus) {
    if (static_cast<std::size_t>(gpu) < cuda.gpus.size()) {
      names.insert(cuda.gpus[static_cast<std::size_t>(gpu)].name);
    }
  }
  return mesh::gpu_kind(names);
}

Surroundings look_around(const Job& job, std::int64_t processes) {
  Surroundings s;
  s.environment = own_environment();
  s.job = job;
  s.launch = launch_of(s.environment, processes);
  s.host = look_at_host();
  s.blas = look_at_blas();
  s.driver = look_at_driver();
  s.cuda = mesh::cuda_facts();
  s.links = look_at_links(s.cuda, s.gpus_of_job());
  s.cublas = loaded_library("libcublas.so");
  s.cuda_libraries = cuda_libraries(s.environment);
  s.mpi = mesh::mpi_facts();
  s.mpirun = look_for_mpirun(s.environment);
  s.nccl = look_for_nccl(s.environment);
  s.tiles = look_for_tiles(job.tile_table, device_kind(job, s.cuda));
  const std::string flags = trimmed(value_of(s.environment, "XLA_FLAGS"));
  s.python = look_at_python(s.environment, !flags.empty());
  s.xla_flags_file = contents_of(flags);
  s.xla_flags_of_parent = value_of(environment_of_python_parent(), "XLA_FLAGS");
  return s;
}

}  // namespace shardsolve::cli::doctor
