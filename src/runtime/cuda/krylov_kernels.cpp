#include "runtime/cuda/krylov_kernels.hpp"

#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/krylov/step.hpp"

#include <array>
#include <complex>
#include <cstddef>

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
void CudaKrylovKernels<T>::do_begin_solve(Queue& queue, const WorkInfo& info,
                                          const krylov::Problem& problem, const Scan* of_b,
                                          const Scan* of_x, const std::int64_t* boundaries,
                                          std::int64_t ranks, krylov::SolveState* solve) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnKrylov<T>::begin_solve(cuda.stream(), problem, of_b, of_x, boundaries, ranks, solve);
  });
}

template <Scalar T>
void CudaKrylovKernels<T>::do_end_solve(Queue& queue, const WorkInfo& info,
                                        const krylov::Problem& problem, const Scan* of_x,
                                        std::int64_t ranks, krylov::SolveState* solve,
                                        krylov::Report* report, RealOf<T>* figures) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnKrylov<T>::end_solve(cuda.stream(), problem, of_x, ranks, solve, report, figures);
  });
}

template <Scalar T>
void CudaKrylovKernels<T>::do_scale_for(Queue& queue, const WorkInfo& info, krylov::Way way,
                                        const krylov::SolveState* solve, MatrixView<const T> source,
                                        MatrixView<T> target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnKrylov<T>::scale_for(cuda.stream(), way, solve, elements(source), elements(target));
  });
}

template <Scalar T>
void CudaKrylovKernels<T>::do_run(Queue& queue, const WorkInfo& info,
                                  const krylov::Program& program, const krylov::Vectors<T>& vectors,
                                  const krylov::State* state, const krylov::StateRoom& room,
                                  const krylov::SumTable<T>& sums, const std::int32_t* rank) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnKrylov<T>::run(cuda.stream(), program, elements(vectors), state, room, elements(sums), rank);
  });
}

template <Scalar T>
bool CudaKrylovKernels<T>::do_run_part(Queue& queue, const krylov::Problem& problem,
                                       const krylov::Part& part, const krylov::Vectors<T>& vectors,
                                       const krylov::SumTable<T>* sums, krylov::State* state,
                                       const krylov::StateRoom& room,
                                       const std::int32_t* rank) const {
  CudaQueue& cuda = as_cuda(queue);
  const int reductions = krylov::reductions_of(problem.method);
  std::array<krylov::SumTable<Element<T>>, krylov::max_reductions> tables;
  for (int reduction = 0; reduction < reductions; ++reduction) {
    tables.at(static_cast<std::size_t>(reduction)) = elements(sums[reduction]);
  }
  const auto flops_of = [&](const krylov::Program& program) {
    return multiply_add<T> * static_cast<double>(vectors.rows) * (program.updates + program.dots);
  };
  if (!OwnKrylov<T>::fits_part(part, elements(vectors), tables.front())) {
    in_turn(
        part, elements(vectors), tables.data(), room,
        [&](const krylov::Program& program, int reduction) {
          this->run(queue, program, vectors, state, room, sums[reduction], rank);
        },
        [&](int reduction) {
          this->finish(queue, problem, reduction, sums[reduction], state, room);
        },
        [&](const krylov::Program& program, int reduction) {
          cuda.launch({.name = program.name, .flops = flops_of(program)}, [&] {
            OwnKrylov<T>::run_to_end(cuda.stream(), problem, program, elements(vectors), reduction,
                                     tables.at(static_cast<std::size_t>(reduction)), state, room);
          });
        });
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
                                           const std::int32_t* skip,
                                           const std::int32_t* rank) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnKrylov<T>::solve_blocks(cuda.stream(), elements(factors), elements(source), elements(work),
                               first, elements(target), skip, rank);
  });
}

template class CudaKrylovKernels<float>;
template class CudaKrylovKernels<double>;
template class CudaKrylovKernels<std::complex<float>>;
template class CudaKrylovKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::cuda
