#include "mesh/cuda_loader.hpp"

#include "mesh/gpu_seats.hpp"
#include "mesh/plugin.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::mesh {
namespace {

/// What to do where the library could not be loaded.
std::string advice(const Plugin& library) {
  if (!library.lies_beside()) {
    return "This shardsolve was built where CUDA 13 was not found: build it where nvcc and cuBLAS "
           "of CUDA 13 are";
  }
  return fmt::format(
      "It needs cuBLAS of CUDA 13{} where the system looks for libraries, or on LD_LIBRARY_PATH",
      in_python_package() ? ": pip install 'shardsolve[cuda13]', or have it"
                          : " (pip: nvidia-cublas)");
}

const Plugin& loaded_library() {
  static const Plugin library("cuda");
  return library;
}

/// Why it cannot be used, and what to do; empty if it can.
std::string cuda_failure(const Plugin& library) {
  return library.failure().empty()
             ? ""
             : fmt::format("the CUDA library of shardsolve could not be loaded: {}. {}",
                           library.failure(), advice(library));
}

const Plugin& cuda_library() {
  const Plugin& library = loaded_library();
  if (!library.failure().empty()) {
    throw Error(ErrorKind::device, cuda_failure(library));
  }
  return library;
}

comm::Topology topology(const std::vector<int>& devices, bool measured) {
  using Make = comm::Topology*(const std::vector<int>*, bool);
  return *std::unique_ptr<comm::Topology>(
      cuda_library().function<Make>("shardsolve_cuda_topology")(&devices, measured));
}

}  // namespace

void require_cuda_library() { cuda_library(); }

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  using Make = Backend*(const CudaOptions*);
  return std::unique_ptr<Backend>(
      cuda_library().function<Make>("shardsolve_make_cuda_backend")(&options));
}

/// A process without the library tells the others: they are not to wait for it.
std::unique_ptr<Backend> make_cuda_process_backend(std::unique_ptr<comm::Transport> transport,
                                                   const CudaProcessOptions& options) {
  const std::string failure = cuda_failure(loaded_library());
  if (!failure.empty()) {
    GpuSeat seat;
    seat.error = ErrorKind::device;
    seat.failure = failure;
    seat.communicator = options.communicator;
    require_seats(tell_seats(*transport, seat), options.may_share);  // throws
  }
  using Make = Backend*(comm::Transport*, const CudaProcessOptions*);
  return std::unique_ptr<Backend>(loaded_library().function<Make>(
      "shardsolve_make_cuda_process_backend")(transport.release(), &options));
}

comm::Topology cuda_topology(const std::vector<int>& devices) { return topology(devices, false); }

comm::Topology measure_cuda_topology(const std::vector<int>& devices) {
  return topology(devices, true);
}

CudaFacts cuda_facts() {
  const Plugin& library = loaded_library();
  CudaFacts facts{.library = library.path(), .failure = cuda_failure(library)};
  if (facts.failure.empty()) {
    library.function<void(CudaFacts*)>("shardsolve_cuda_facts")(&facts);
  }
  return facts;
}

void CudaStream::copy(void* target, const void* source, std::size_t bytes) const {
  using Copy = void(int, void*, void*, const void*, std::size_t);
  static Copy* const copy_on = cuda_library().function<Copy>("shardsolve_cuda_copy");
  copy_on(device, handle, target, source, bytes);
}

void CudaStream::synchronize() const {
  using Synchronize = void(int, void*);
  static Synchronize* const synchronize_on =
      cuda_library().function<Synchronize>("shardsolve_cuda_synchronize");
  synchronize_on(device, handle);
}

bool CudaStream::is_done() const {
  using IsDone = bool(int, void*);
  static IsDone* const is_done_on = cuda_library().function<IsDone>("shardsolve_cuda_is_done");
  return is_done_on(device, handle);
}

void CudaStream::fixed_dot(const runtime::DotCall& call) const {
  using Dot = void(int, void*, const runtime::DotCall*);
  static Dot* const dot_on = cuda_library().function<Dot>("shardsolve_cuda_fixed_dot");
  dot_on(device, handle, &call);
}

void CudaStream::run(const krylov::LocalCall& call) const {
  using Run = void(int, void*, const krylov::LocalCall*);
  static Run* const run_on = cuda_library().function<Run>("shardsolve_cuda_krylov");
  run_on(device, handle, &call);
}

void CudaStream::run(const sparse::LocalProduct& product) const {
  using Run = void(int, void*, const sparse::LocalProduct*);
  static Run* const run_on = cuda_library().function<Run>("shardsolve_cuda_sparse_product");
  run_on(device, handle, &product);
}

}  // namespace shardsolve::mesh
