// What libshardsolve looks up for the parts of Krylov solves that each device makes by itself:
// cuda_loader.cpp.

#include "core/each_dtype.hpp"
#include "krylov/enqueue_local_call.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/cuda/krylov_end_kernels.hpp"

#include <shardsolve/error.hpp>

#include <cstddef>

namespace {

using namespace shardsolve;
using runtime::cuda::check;
using runtime::cuda::Element;
using runtime::cuda::elements;

/// The steps of a local solve, on a stream of the current device.
template <Scalar T>
class StreamSteps {
 public:
  using E = Element<T>;
  using Kernels = runtime::cuda::KrylovDeviceKernels<E>;
  using Ends = runtime::cuda::KrylovEndKernels<E>;

  explicit StreamSteps(cudaStream_t stream) : stream_(stream) {}

  void scan(MatrixView<const T> x, runtime::Scan* result, void* work) const {
    if (Kernels::scan_scratch() > static_cast<std::size_t>(krylov::scan_work)) {
      throw Error(ErrorKind::internal, "internal: a scan needs more memory than it was given");
    }
    Kernels::scan(stream_, elements(x), result, work);
  }
  void run(const krylov::Program& program, const krylov::Vectors<T>& vectors,
           const krylov::State* state, const krylov::StateRoom& room,
           const krylov::SumTable<T>& sums) const {
    Kernels::run(stream_, program, elements(vectors), state, room, elements(sums));
  }
  void finish(const krylov::Problem& problem, int reduction, const krylov::SumTable<T>& sums,
              krylov::State* state, const krylov::StateRoom& room) const {
    Kernels::finish(stream_, problem, reduction, elements(sums), state, room);
  }
  void divide_rows(MatrixView<const T> diagonal, MatrixView<const T> source, MatrixView<T> target,
                   const std::int32_t* skip) const {
    Kernels::divide_rows(stream_, elements(diagonal), elements(source), elements(target), skip);
  }
  void clear(void* memory, std::int64_t bytes) const {
    if (bytes > 0) {
      check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), stream_),
            "clearing memory");
    }
  }
  void begin(const krylov::Problem& problem, const runtime::Scan* of_b, const runtime::Scan* of_x,
             const std::int64_t* boundaries, std::int64_t ranks, krylov::SolveState* solve) const {
    Ends::begin(stream_, problem, of_b, of_x, boundaries, ranks, solve);
  }
  void end(const krylov::Problem& problem, const runtime::Scan* of_x, std::int64_t ranks,
           krylov::SolveState* solve, krylov::Report* report, RealOf<T>* figures) const {
    Ends::end(stream_, problem, of_x, ranks, solve, report, figures);
  }
  void scale(krylov::Way way, const krylov::SolveState* solve, MatrixView<const T> source,
             MatrixView<T> target) const {
    Ends::scale(stream_, way, solve, elements(source).data(), elements(target).data(),
                target.rows());
  }

 private:
  cudaStream_t stream_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void shardsolve_cuda_krylov_call(
    int device, void* stream, const krylov::LocalCall* call) {
  const runtime::cuda::CurrentDevice scope(device);
  with_dtype(call->dtype, [&]<Scalar T>() {
    krylov::enqueue<T>(StreamSteps<T>(static_cast<cudaStream_t>(stream)), *call);
  });
  check(cudaGetLastError(), "a part of a Krylov solve");
}
