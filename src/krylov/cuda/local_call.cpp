// What libshardsolve looks up for parts of Krylov solves that each device makes by itself:
// cuda_loader.cpp.

#include "core/each_dtype.hpp"
#include "krylov/enqueue_local_call.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/krylov_device_kernels.hpp"

#include <cstddef>
#include <vector>

namespace shardsolve::krylov::cuda {
namespace {

using runtime::cuda::check;
using runtime::cuda::CurrentDevice;
using runtime::cuda::Element;
using runtime::cuda::elements;
using runtime::cuda::in_turn;

/// What a LocalSolve enqueues with, on a stream of the caller's.
template <Scalar T>
class StreamSteps {
  using Own = runtime::cuda::KrylovDeviceKernels<Element<T>>;

 public:
  explicit StreamSteps(cudaStream_t stream) : stream_(stream) {}

  void scan(MatrixView<const T> x, runtime::Scan* result, void* work) const {
    Own::scan(stream_, elements(x), result, work);
  }
  void run(const krylov::Program& program, const krylov::Vectors<T>& vectors,
           const krylov::State* state, const krylov::StateRoom& room,
           const krylov::SumTable<T>& sums, const std::int32_t* rank) const {
    Own::run(stream_, program, elements(vectors), state, room, elements(sums), rank);
  }
  void finish(const krylov::Problem& problem, int reduction, const krylov::SumTable<T>& sums,
              krylov::State* state, const krylov::StateRoom& room) const {
    Own::finish(stream_, problem, reduction, elements(sums), state, room);
  }
  bool run_part(const krylov::Problem& problem, const krylov::Part& part,
                const krylov::Vectors<T>& vectors, const std::vector<krylov::SumTable<T>>& sums,
                krylov::State* state, const krylov::StateRoom& room) const {
    std::vector<krylov::SumTable<Element<T>>> tables;
    for (const krylov::SumTable<T>& one : sums) {
      tables.push_back(elements(one));
    }
    if (!Own::fits_part(part, elements(vectors), tables.front())) {
      if (tables.front().layout.ranks > 1) {
        return false;
      }
      in_turn(part, elements(vectors), tables.data(), room,
              InTurn{*this, problem, vectors, sums, tables, state, room});
      return true;
    }
    Own::run_part(stream_, problem, part, elements(vectors), tables.data(),
                  static_cast<int>(tables.size()), state, room);
    return true;
  }
  void clear(void* memory, std::int64_t bytes) const {
    if (bytes > 0) {
      check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), stream_), "clearing");
    }
  }
  void begin(const krylov::Problem& problem, const runtime::Scan* of_b, const runtime::Scan* of_x,
             const std::int64_t* boundaries, std::int64_t ranks, krylov::SolveState* solve) const {
    Own::begin_solve(stream_, problem, of_b, of_x, boundaries, ranks, solve);
  }
  void end(const krylov::Problem& problem, const runtime::Scan* of_x, std::int64_t ranks,
           krylov::SolveState* solve, krylov::Report* report, RealOf<T>* figures) const {
    Own::end_solve(stream_, problem, of_x, ranks, solve, report, figures);
  }
  void scale(krylov::Way way, const krylov::SolveState* solve, MatrixView<const T> source,
             MatrixView<T> target) const {
    Own::scale_for(stream_, way, solve, elements(source), elements(target));
  }

 private:
  /// A part kernel by kernel.
  struct InTurn {
    const StreamSteps& steps;
    const krylov::Problem& problem;
    const krylov::Vectors<T>& vectors;
    const std::vector<krylov::SumTable<T>>& sums;
    const std::vector<krylov::SumTable<Element<T>>>& tables;
    krylov::State* state;
    const krylov::StateRoom& room;

    void program(const krylov::Program& program, int reduction) const {
      steps.run(program, vectors, state, room, sums[static_cast<std::size_t>(reduction)], nullptr);
    }
    void end(int reduction) const {
      steps.finish(problem, reduction, sums[static_cast<std::size_t>(reduction)], state, room);
    }
    void to_end(const krylov::Program& program, int reduction) const {
      Own::run_to_end(steps.stream_, problem, program, elements(vectors), reduction,
                      tables[static_cast<std::size_t>(reduction)], state, room);
    }
  };

  cudaStream_t stream_;
};

}  // namespace
}  // namespace shardsolve::krylov::cuda

#define SHARDSOLVE_LOOKED_UP extern "C" __attribute__((visibility("default")))

SHARDSOLVE_LOOKED_UP void shardsolve_cuda_krylov(int device, void* stream,
                                                 const shardsolve::krylov::LocalCall* call) {
  using namespace shardsolve::krylov::cuda;
  const CurrentDevice scope(device);
  shardsolve::with_dtype(call->dtype, [&]<class T>() {
    shardsolve::krylov::enqueue<T>(StreamSteps<T>(static_cast<cudaStream_t>(stream)), *call);
  });
  check(cudaGetLastError(), "a part of a Krylov solve");
}
