/// What a job would run in, as values: collect.hpp fills them in, findings.hpp judges them.
#pragma once

#include "comm/mpi_facts.hpp"
#include "comm/ring.hpp"
#include "comm/topology.hpp"
#include "mesh/cuda_facts.hpp"

#include <shardsolve/mesh.hpp>
#include <shardsolve/tile_table.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace shardsolve::cli::doctor {

/// Variables by name.
using Environment = std::map<std::string, std::string>;

/// The value of a variable; empty if it is not set.
inline std::string value_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

/// The job that is meant: the devices that `shardsolve solve` would take with these options.
struct Job {
  bool cuda = false;
  std::int64_t devices = 1;  ///< of this process
  std::vector<int> gpus;     ///< CUDA's numbers of them
  std::string tile_table;    ///< --tile-table; empty for this user's
  bool chosen = false;       ///< by --devices
  bool mpi = false;          ///< each process is one device, by --mpi or as a launcher is there
  GpuCommunicator communicator = GpuCommunicator::automatic;  ///< between GPUs of processes
};

/// How the process was started.
struct Launch {
  std::int64_t processes = 1;  ///< started together
  std::int64_t on_host = 1;    ///< of them on this host, as far as the launcher tells
  std::int64_t rank = 0;
  std::string launcher;  ///< "Open MPI", "MPICH" (and its relatives), "Slurm"; empty if unknown
  bool connects = true;  ///< whether the launcher gave what an MPI needs to find the others
};

struct Host {
  std::string name;
  std::string cpu;  ///< model
  bool avx2 = false;
  std::int64_t cores = 1;                     ///< of the machine
  std::int64_t allowed_cores = 1;             ///< that the process may run on (affinity)
  std::optional<double> quota;                ///< cores' worth of CPU time, by the control group
  std::int64_t memory = 0;                    ///< bytes of the machine
  std::int64_t available_memory = 0;          ///< bytes, less what the control group forbids
  std::optional<std::int64_t> address_space;  ///< bytes, ulimit -v
  std::optional<std::int64_t> threads;        ///< of this user, ulimit -u
  std::int64_t threads_in_use = 0;            ///< of them, if there is a limit
  std::optional<std::int64_t> group_threads;  ///< that the control group still allows
  bool strict_commit = false;                 ///< vm.overcommit_memory = 2
  std::int64_t commit_left = 0;               ///< bytes that may still be reserved then
  std::optional<std::int64_t> shared_memory;  ///< bytes free in /dev/shm

  /// Cores that all threads of the process together can keep busy, at least 1.
  std::int64_t usable_cores() const {
    const double most = std::min(static_cast<double>(allowed_cores),
                                 quota.value_or(static_cast<double>(allowed_cores)));
    return std::max<std::int64_t>(1, std::llround(std::ceil(most)));
  }
};

struct Blas {
  std::string file;
  bool shared = false;  ///< with the rest of the process, its threads too
  std::string version;  ///< empty where it is no OpenBLAS
  std::string kernels;
};

/// NVIDIA's kernel driver, asked without CUDA: it shows what CUDA_VISIBLE_DEVICES hides.
struct Driver {
  std::string version;                       ///< "580.65.06"; empty if there is none
  std::int64_t gpus = 0;                     ///< of this machine or container
  std::map<std::string, std::string> uuids;  ///< by bus, in lower case: "GPU-5f3c..."
};

/// A program that starts processes.
struct Launcher {
  std::string path;  ///< of mpirun; empty if there is none on PATH
  std::string says;  ///< first line of --version
};

struct Nccl {
  std::string path;  ///< of the library that the system finds; empty if it finds none
  std::string version;
  /// Variables that its configuration files set, with the file that says so.
  std::map<std::string, std::string> file_of;
  Environment settings;  ///< of these files
};

/// The `python3` on PATH, by the metadata of its packages; nothing is imported.
struct Python {
  std::string path;     ///< empty if there is none
  std::string failure;  ///< why it did not answer
  std::string version;
  std::map<std::string, std::string> packages;  ///< version by name: jax..., nvidia-..., shardsolve
  std::string jaxlib;                           ///< its directory
  /// Flags that jaxlib knows, read from its library; nothing if that was not asked or found.
  std::optional<std::set<std::string>> xla_flags;

  /// Version of a package; empty if it is not there.
  std::string version_of(const std::string& package) const { return value_of(packages, package); }
};

/// What lies between GPUs that this process sees.
struct Links {
  std::vector<int> gpus;                   ///< CUDA's numbers; the ranks of the topologies
  comm::Topology topology{0};              ///< as a mesh sees it: bandwidths are nominal
  std::optional<comm::Topology> measured;  ///< the same with bandwidths measured

  /// GPUs of these ranks.
  std::vector<int> gpus_of(const std::vector<std::int64_t>& ranks) const {
    std::vector<int> numbers;
    for (const std::int64_t rank : ranks) {
      numbers.push_back(gpus[static_cast<std::size_t>(rank)]);
    }
    return numbers;
  }
  /// The order in which a mesh of all of them passes panels on.
  std::vector<int> ring() const { return gpus_of(comm::ring_order(topology)); }
};

/// The user's table of tile sizes.
struct Tiles {
  std::string path;     ///< where it is, or would be; empty for none
  std::string failure;  ///< why it cannot be used
  bool found = false;
  bool missing = false;  ///< it cannot be used because there is none of that name
  std::vector<TileEntry> entries;
  std::string device;  ///< what entries for the devices of the job are for

  /// Those for the devices of the job, however many of them share a matrix.
  std::int64_t for_device() const {
    return std::count_if(entries.begin(), entries.end(),
                         [this](const TileEntry& entry) { return entry.device == device; });
  }
};

struct Surroundings {
  Environment environment;
  Job job;
  Launch launch;
  Host host;
  Blas blas;
  Driver driver;
  mesh::CudaFacts cuda;
  /// Between the GPUs of the job, else between all that can be used; if there are several.
  std::optional<Links> links;
  std::string cublas;  ///< path of the one that was loaded with our library
  std::vector<std::string>
      cuda_libraries;  ///< found on LD_LIBRARY_PATH: "/opt/cuda/libcublas.so.12"
  comm::MpiFacts mpi;
  Launcher mpirun;
  Nccl nccl;
  Tiles tiles;
  Python python;
  /// Contents of the file that XLA_FLAGS names; nothing if it names none that can be read.
  std::optional<std::string> xla_flags_file;
  /// XLA_FLAGS as the Python program that runs this was started with; empty if none runs it.
  std::string xla_flags_of_parent;

  /// By which `nvidia-smi` and all processes know a GPU; empty if the driver does not tell.
  std::string uuid_of(const mesh::GpuFacts& gpu) const {
    std::string bus = gpu.bus_id;
    std::transform(bus.begin(), bus.end(), bus.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    return value_of(driver.uuids, bus);
  }
  bool has_gpu() const { return driver.gpus > 0 || !cuda.gpus.empty(); }
  /// CUDA's numbers of the GPUs that the processes of this host take; none if the job is for CPUs.
  /// Without a list there is one for each process, or one that its launcher has chosen.
  std::vector<int> gpus_of_job() const {
    if (!job.cuda) {
      return {};
    }
    std::vector<int> gpus = job.gpus;
    const auto processes = static_cast<std::size_t>(launch.on_host);
    if (gpus.empty()) {
      gpus.resize(cuda.gpus.size() == 1 ? 1 : processes);
      std::iota(gpus.begin(), gpus.end(), 0);
    } else if (job.mpi && gpus.size() > processes) {
      gpus.resize(processes);
    }
    return gpus;
  }
};

}  // namespace shardsolve::cli::doctor
