/// Kernels on a GPU: cuBLAS for the cubic work, kernels of our own for the rest.
#pragma once

#include "runtime/kernels.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {

template <Scalar T>
class CudaKernels final : public Kernels<T> {
 public:
  using typename Kernels<T>::Real;
  using typename Kernels<T>::In;
  using typename Kernels<T>::Out;

  void gemm(Queue& queue, Op op_a, Op op_b, T alpha, In a, In b, T beta, Out c) const override;
  void herk(Queue& queue, Triangle triangle, Op op, Real alpha, In a, Real beta,
            Out c) const override;
  void gemm_batch(Queue& queue, Op op_a, Op op_b, T alpha, In a, In b, T beta, Out c,
                  const Steps& steps) const override;
  void herk_batch(Queue& queue, Triangle triangle, Op op, Real alpha, In a, Out c,
                  const Steps& steps) const override;
  void trsm(Queue& queue, Side side, Triangle triangle, Op op, In a, Out b) const override;
  void copy(Queue& queue, In source, Out target) const override;
  void conjugate_transpose(Queue& queue, In source, Out target) const override;
  void fill(Queue& queue, T value, Out target) const override;
  void identity(Queue& queue, Out target) const override;
  void lower_triangle(Queue& queue, In source, Out target) const override;
  void scale_rows(Queue& queue, In scales, bool inverted, In source, Out target) const override;
  void add(Queue& queue, T alpha, In source, Out target) const override;
  void scale(Queue& queue, Real factor, Out target) const override;
  void diagonal(Queue& queue, In a, Real* target) const override;
  void hermitian_tile(Queue& queue, In upper, const Real* diagonal, Out target) const override;
  void column_max(Queue& queue, In a, double* target) const override;
  void inspect(Queue& queue, In a, std::int64_t first, const double* weights, double scale,
               Inspection result) const override;
};

}  // namespace shardsolve::runtime::cuda
