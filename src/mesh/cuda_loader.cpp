#include "mesh/cuda_loader.hpp"

#include "core/each_dtype.hpp"
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

void CudaStream::krylov_call(const krylov::LocalCall& call) const {
  using Call = void(int, void*, const krylov::LocalCall*);
  static Call* const call_on = cuda_library().function<Call>("shardsolve_cuda_krylov_call");
  call_on(device, handle, &call);
}

void CudaStream::fixed_dot(const runtime::DotCall& call) const {
  using Dot = void(int, void*, const runtime::DotCall*);
  static Dot* const dot_on = cuda_library().function<Dot>("shardsolve_cuda_fixed_dot");
  dot_on(device, handle, &call);
}

template <Scalar T>
void CudaStream::run(const krylov::Program& program, const krylov::Vectors<T>& vectors,
                     const krylov::State* state, const krylov::StateRoom& room,
                     const krylov::SumTable<T>& sums) const {
  using Run = void(int, void*, Dtype, const krylov::Program*, const void*, const krylov::State*,
                   const krylov::StateRoom*, const void*);
  static Run* const run_on = cuda_library().function<Run>("shardsolve_cuda_krylov_run");
  run_on(device, handle, dtype_of<T>, &program, &vectors, state, &room, &sums);
}

template <Scalar T>
void CudaStream::finish(const krylov::Problem& problem, int reduction,
                        const krylov::SumTable<T>& sums, krylov::State* state,
                        const krylov::StateRoom& room) const {
  using Finish = void(int, void*, Dtype, const krylov::Problem*, int, const void*, krylov::State*,
                      const krylov::StateRoom*);
  static Finish* const finish_on = cuda_library().function<Finish>("shardsolve_cuda_krylov_finish");
  finish_on(device, handle, dtype_of<T>, &problem, reduction, &sums, state, &room);
}

template <Scalar T>
void CudaStream::divide_rows(std::int64_t rows, const T* diagonal, const T* source, T* target,
                             const std::int32_t* skip) const {
  using Divide =
      void(int, void*, Dtype, std::int64_t, const void*, const void*, void*, const std::int32_t*);
  static Divide* const divide_on = cuda_library().function<Divide>("shardsolve_cuda_divide_rows");
  divide_on(device, handle, dtype_of<T>, rows, diagonal, source, target, skip);
}

template <Scalar T>
void CudaStream::multiply(const runtime::SparseRows<T>& a, const runtime::RowChoice& chosen,
                          const T* x, const T* halo, T* y, const std::int32_t* done) const {
  using Multiply = void(int, void*, Dtype, const void*, const runtime::RowChoice*, const void*,
                        const void*, void*, const std::int32_t*);
  static Multiply* const multiply_on =
      cuda_library().function<Multiply>("shardsolve_cuda_sparse_multiply");
  multiply_on(device, handle, dtype_of<T>, &a, &chosen, x, halo, y, done);
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                  \
  template void CudaStream::run(const krylov::Program&, const krylov::Vectors<T>&,                 \
                                const krylov::State*, const krylov::StateRoom&,                    \
                                const krylov::SumTable<T>&) const;                                 \
  template void CudaStream::finish(const krylov::Problem&, int, const krylov::SumTable<T>&,        \
                                   krylov::State*, const krylov::StateRoom&) const;                \
  template void CudaStream::divide_rows(std::int64_t, const T*, const T*, T*, const std::int32_t*) \
      const;                                                                                       \
  template void CudaStream::multiply(const runtime::SparseRows<T>&, const runtime::RowChoice&,     \
                                     const T*, const T*, T*, const std::int32_t*) const;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::mesh
