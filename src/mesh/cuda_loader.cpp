#include "mesh/cuda_loader.hpp"

#include "mesh/cuda_choice.hpp"
#include "mesh/gpu_seats.hpp"
#include "mesh/plugin.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <atomic>
#include <optional>
#include <utility>

namespace shardsolve::mesh {
namespace {

std::atomic<int> cuda_of_jax{0};

/// The library that was chosen; none where none fits.
struct Library {
  CudaChoice choice;
  std::optional<Plugin> plugin;
};

std::optional<Plugin> plugin_for(int major) {
  switch (major) {
    case 12:
      return Plugin("cuda12", "cuda");
    case 13:
      return Plugin("cuda");
    default:
      return std::nullopt;
  }
}

Library load() {
  const bool has_12 = plugin_lies_beside("cuda12");
  const bool has_13 = plugin_lies_beside("cuda");
  if (!has_12 && !has_13) {
    return {{13, ""}, plugin_for(13)};  // where the system looks
  }
  // The library for CUDA 13 says by itself which GPUs it does not fit.
  CudaSurroundings surroundings = look_at_driver(has_12);
  surroundings.jax = cuda_of_jax;
  surroundings.has_12 = has_12;
  surroundings.has_13 = has_13;
  Library library{choose_cuda(surroundings), std::nullopt};
  library.plugin = plugin_for(library.choice.major);
  // Without JAX it may be cuBLAS that decides: as a rule there is that of one CUDA alone.
  if (library.choice.major == 13 && !library.plugin->failure().empty() && surroundings.jax == 0) {
    surroundings.has_13 = false;
    const CudaChoice other = choose_cuda(surroundings);
    std::optional<Plugin> plugin = has_12 ? plugin_for(other.major) : std::nullopt;
    if (plugin && plugin->failure().empty()) {
      return {
          {12, fmt::format("that for CUDA 13 could not be loaded ({})", library.plugin->failure())},
          std::move(plugin)};
    }
  }
  return library;
}

const Library& loaded() {
  static const Library library = load();
  return library;
}

/// What to do where it could not be loaded.
std::string advice(const Library& library) {
  if (!library.plugin->lies_beside()) {
    return "This shardsolve was built where CUDA 13 was not found: build it where nvcc and cuBLAS "
           "of CUDA 13 are";
  }
  const int major = library.choice.major;
  const std::string package = in_python_package() ? fmt::format("'shardsolve[cuda{}]'", major)
                              : major == 12       ? "nvidia-cublas-cu12"
                                                  : "nvidia-cublas";
  return fmt::format(
      "It needs cuBLAS of CUDA {}: pip install {}, or have it where the system looks "
      "for libraries, or on LD_LIBRARY_PATH",
      major, package);
}

/// Why none can be used, and what to do; empty if one can.
std::string cuda_failure() {
  const Library& library = loaded();
  if (!library.plugin) {
    return fmt::format("no CUDA library of shardsolve fits: {}", library.choice.reason);
  }
  return library.plugin->failure().empty()
             ? ""
             : fmt::format("the CUDA library of shardsolve could not be loaded: {}. {}",
                           library.plugin->failure(), advice(library));
}

const Plugin& cuda_library() {
  if (const std::string failure = cuda_failure(); !failure.empty()) {
    throw Error(ErrorKind::device, failure);
  }
  return *loaded().plugin;
}

comm::Topology topology(const std::vector<int>& devices, bool measured) {
  using Make = comm::Topology*(const std::vector<int>*, bool);
  return *std::unique_ptr<comm::Topology>(
      cuda_library().function<Make>("shardsolve_cuda_topology")(&devices, measured));
}

}  // namespace

void set_cuda_of_jax(int major) { cuda_of_jax = major; }

void require_cuda_library() { cuda_library(); }

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  using Make = Backend*(const CudaOptions*);
  return std::unique_ptr<Backend>(
      cuda_library().function<Make>("shardsolve_make_cuda_backend")(&options));
}

/// A process without the library tells the others: they are not to wait for it.
std::unique_ptr<Backend> make_cuda_process_backend(std::unique_ptr<comm::Transport> transport,
                                                   const CudaProcessOptions& options) {
  const std::string failure = cuda_failure();
  if (!failure.empty()) {
    GpuSeat seat;
    seat.error = ErrorKind::device;
    seat.failure = failure;
    seat.communicator = options.communicator;
    require_seats(tell_seats(*transport, seat), options.may_share);  // throws
  }
  using Make = Backend*(comm::Transport*, const CudaProcessOptions*);
  return std::unique_ptr<Backend>(cuda_library().function<Make>(
      "shardsolve_make_cuda_process_backend")(transport.release(), &options));
}

comm::Topology cuda_topology(const std::vector<int>& devices) { return topology(devices, false); }

comm::Topology measure_cuda_topology(const std::vector<int>& devices) {
  return topology(devices, true);
}

CudaFacts cuda_facts() {
  const Library& library = loaded();
  CudaFacts facts{.library = library.plugin ? library.plugin->path() : "",
                  .reason = library.choice.reason,
                  .has_both = plugin_lies_beside("cuda12") && plugin_lies_beside("cuda"),
                  .failure = cuda_failure()};
  if (facts.failure.empty()) {
    library.plugin->function<void(CudaFacts*)>("shardsolve_cuda_facts")(&facts);
  }
  return facts;
}

void CudaStream::adopt(const Work& work, const CudaScratch& scratch) const {
  using Adopt = void(const CudaStream*, const CudaScratch*, const Work*);
  static Adopt* const adopt_stream = cuda_library().function<Adopt>("shardsolve_cuda_adopt");
  adopt_stream(this, &scratch, &work);
}

void CudaStream::copy(void* target, const void* source, std::size_t bytes) const {
  adopt([&](const runtime::KernelSource& /*gpu*/, runtime::Queue& queue) {
    queue.copy(target, source, bytes);
  });
}

void CudaStream::synchronize() const {
  adopt([](const runtime::KernelSource& /*gpu*/, runtime::Queue& queue) { queue.synchronize(); });
}

bool CudaStream::is_done() const {
  using IsDone = bool(int, void*);
  static IsDone* const is_done_on = cuda_library().function<IsDone>("shardsolve_cuda_is_done");
  return is_done_on(device, handle);
}

}  // namespace shardsolve::mesh
