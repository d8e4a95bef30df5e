/// Kernels on the CPU: BLAS and LAPACK for the cubic work, plain loops for the rest.
#pragma once

#include "runtime/kernels.hpp"

namespace shardsolve::runtime::host {

template <Scalar T>
class HostKernels : public Kernels<T> {
 public:
  using typename Kernels<T>::Real;
  using typename Kernels<T>::In;
  using typename Kernels<T>::Out;

  void gemm(Queue& queue, Op op_a, Op op_b, T alpha, In a, In b, T beta, Out c) const override;
  void herk(Queue& queue, Triangle triangle, Op op, Real alpha, In a, Real beta,
            Out c) const override;
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

}  // namespace shardsolve::runtime::host
