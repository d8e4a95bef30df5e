#include "runtime/cuda/krylov_kernels.hpp"

#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/krylov/step.hpp"

#include <complex>
#include <cstddef>
#include <functional>
#include <vector>

namespace shardsolve::runtime::cuda {
namespace {

/// The kernels of our own for T.
template <Scalar T>
using OwnKrylov = KrylovDeviceKernels<Element<T>>;

}  // namespace

template <Scalar T>
void CudaKrylovKernels<T>::do_scan(Queue& queue, const WorkInfo& info, MatrixView<const T> x,
                                   Scan* result) const {
  CudaQueue& cuda = as_cuda(queue);
  void* const scratch = cuda.scratch(OwnKrylov<T>::scan_scratch());
  cuda.launch(info, [&] { OwnKrylov<T>::scan(cuda.stream(), elements(x), result, scratch); });
}

template <Scalar T>
void CudaKrylovKernels<T>::do_scale_exactly(Queue& queue, const WorkInfo& info, int exponent,
                                            MatrixView<const T> source,
                                            MatrixView<T> target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnKrylov<T>::scale_exactly(cuda.stream(), exponent, elements(source), elements(target));
  });
}

template <Scalar T>
void CudaKrylovKernels<T>::do_run(Queue& queue, const WorkInfo& info,
                                  const krylov::Program& program, const krylov::Vectors<T>& vectors,
                                  const krylov::State* state, const krylov::StateRoom& room,
                                  const krylov::SumTable<T>& sums) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnKrylov<T>::run(cuda.stream(), program, elements(vectors), state, room, elements(sums));
  });
}

template <Scalar T>
bool CudaKrylovKernels<T>::do_run_part(Queue& queue, const krylov::Problem& problem,
                                       const krylov::Part& part, const krylov::Vectors<T>& vectors,
                                       const krylov::SumTable<T>* sums, krylov::State* state,
                                       const krylov::StateRoom& room) const {
  CudaQueue& cuda = as_cuda(queue);
  const int reductions = krylov::reductions_of(problem.method);
  std::vector<krylov::SumTable<Element<T>>> tables;
  for (int reduction = 0; reduction < reductions; ++reduction) {
    tables.push_back(elements(sums[reduction]));
  }
  const auto flops_of = [&](const krylov::Program& program) {
    return multiply_add<T> * static_cast<double>(vectors.rows) * (program.updates + program.dots);
  };
  if (!OwnKrylov<T>::fits_part(part, elements(vectors), tables.front())) {
    struct {
      std::function<void(const krylov::Program&, int)> program;
      std::function<void(int)> end;
      std::function<void(const krylov::Program&, int)> to_end;
    } const use{[&](const krylov::Program& program, int reduction) {
                  this->run(queue, program, vectors, state, room, sums[reduction]);
                },
                [&](int reduction) {
                  this->finish(queue, problem, reduction, sums[reduction], state, room);
                },
                [&](const krylov::Program& program, int reduction) {
                  cuda.launch({.name = program.name, .flops = flops_of(program)}, [&] {
                    OwnKrylov<T>::run_to_end(cuda.stream(), problem, program, elements(vectors),
                                             reduction, tables[static_cast<std::size_t>(reduction)],
                                             state, room);
                  });
                }};
    in_turn(part, elements(vectors), tables.data(), room, use);
    return true;
  }
  double flops = 0.0;
  for (int at = 0; at < part.programs; ++at) {
    flops += flops_of(part.program[at]);
  }
  cuda.launch({.name = "part", .flops = flops}, [&] {
    OwnKrylov<T>::run_part(cuda.stream(), problem, part, elements(vectors), tables.data(),
                           reductions, state, room);
  });
  return true;
}

template <Scalar T>
void CudaKrylovKernels<T>::do_finish(Queue& queue, const WorkInfo& info,
                                     const krylov::Problem& problem, int reduction,
                                     const krylov::SumTable<T>& sums, krylov::State* state,
                                     const krylov::StateRoom& room) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnKrylov<T>::finish(cuda.stream(), problem, reduction, elements(sums), state, room);
  });
}

template <Scalar T>
void CudaKrylovKernels<T>::do_divide_rows(Queue& queue, const WorkInfo& info,
                                          MatrixView<const T> diagonal, MatrixView<const T> source,
                                          MatrixView<T> target, const std::int32_t* skip) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnKrylov<T>::divide_rows(cuda.stream(), elements(diagonal), elements(source), elements(target),
                              skip);
  });
}

template <Scalar T>
void CudaKrylovKernels<T>::do_combine(Queue& queue, const WorkInfo& info, RealOf<T> a,
                                      MatrixView<const T> x, RealOf<T> b, MatrixView<T> y,
                                      const std::int32_t* skip) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info,
              [&] { OwnKrylov<T>::combine(cuda.stream(), a, elements(x), b, elements(y), skip); });
}

template <Scalar T>
void CudaKrylovKernels<T>::do_solve_blocks(Queue& queue, const WorkInfo& info,
                                           const krylov::BlockFactors<T>& factors,
                                           MatrixView<const T> source, MatrixView<T> work,
                                           std::int64_t first, MatrixView<T> target,
                                           const std::int32_t* skip) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnKrylov<T>::solve_blocks(cuda.stream(), elements(factors), elements(source), elements(work),
                               first, elements(target), skip);
  });
}

template class CudaKrylovKernels<float>;
template class CudaKrylovKernels<double>;
template class CudaKrylovKernels<std::complex<float>>;
template class CudaKrylovKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::cuda
