#include "runtime/cuda/tridiagonal_kernels.hpp"

#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/tridiagonal_device_kernels.hpp"

namespace shardsolve::runtime::cuda {
namespace {

/// The kernels of our own.
template <Scalar Real>
using OwnTridiagonal = TridiagonalDeviceKernels<Real>;

static_assert(OwnTridiagonal<double>::max_small == TridiagonalKernels<double>::max_small);

}  // namespace

template <Scalar Real>
void CudaTridiagonalKernels<Real>::do_solve_small(Queue& queue, const WorkInfo& info,
                                                  const Tridiagonal<Real>& t,
                                                  const SmallParts& parts, Real* values,
                                                  Out vectors, std::int64_t* infos) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnTridiagonal<Real>::solve_small(cuda.stream(), t, parts, values, vectors, infos);
  });
}

template <Scalar Real>
void CudaTridiagonalKernels<Real>::do_secular_roots(Queue& queue, const WorkInfo& info,
                                                    const SecularEquation<Real>& equation,
                                                    std::int64_t first, std::int64_t count,
                                                    Root* roots) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnTridiagonal<Real>::secular_roots(cuda.stream(), equation, first, count, roots);
  });
}

template <Scalar Real>
void CudaTridiagonalKernels<Real>::do_secular_weights(Queue& queue, const WorkInfo& info,
                                                      const SecularEquation<Real>& equation,
                                                      const Root* roots, Real* weights) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnTridiagonal<Real>::secular_weights(cuda.stream(), equation, roots, weights);
  });
}

template <Scalar Real>
void CudaTridiagonalKernels<Real>::do_secular_vectors(Queue& queue, const WorkInfo& info,
                                                      const SecularEquation<Real>& equation,
                                                      const Root* roots, const std::int64_t* rows,
                                                      std::int64_t first, Out u) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnTridiagonal<Real>::secular_vectors(cuda.stream(), equation, roots, rows, first, u);
  });
}

template <Scalar Real>
void CudaTridiagonalKernels<Real>::do_rotate_columns(Queue& queue, const WorkInfo& info,
                                                     const ColumnRotation<Real>* rotations,
                                                     std::int64_t count, Out z) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info,
              [&] { OwnTridiagonal<Real>::rotate_columns(cuda.stream(), rotations, count, z); });
}

template <Scalar Real>
void CudaTridiagonalKernels<Real>::do_copy_columns(Queue& queue, const WorkInfo& info,
                                                   std::int64_t count, In source,
                                                   const std::int64_t* from, Out target,
                                                   const std::int64_t* to) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnTridiagonal<Real>::copy_columns(cuda.stream(), count, source, from, target, to);
  });
}

template <Scalar Real>
void CudaTridiagonalKernels<Real>::do_count_eigenvalues(Queue& queue, const WorkInfo& info,
                                                        const Tridiagonal<Real>& t,
                                                        const Real* points, std::int64_t count,
                                                        std::int64_t* below) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnTridiagonal<Real>::count_eigenvalues(cuda.stream(), t, points, count, below);
  });
}

template <Scalar Real>
void CudaTridiagonalKernels<Real>::do_bisect(Queue& queue, const WorkInfo& info,
                                             const Tridiagonal<Real>& t, Real low, Real high,
                                             Real width, std::int64_t first, std::int64_t count,
                                             Real* values) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnTridiagonal<Real>::bisect(cuda.stream(), t, low, high, width, first, count, values);
  });
}

template class CudaTridiagonalKernels<float>;
template class CudaTridiagonalKernels<double>;

}  // namespace shardsolve::runtime::cuda
