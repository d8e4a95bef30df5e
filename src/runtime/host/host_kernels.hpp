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
  void potrf(Queue& queue, Out a, Out aid, std::int64_t* info) const override;
  void panel(Queue& queue, In l11, In aid, Out a21, Out packed) const override;
  void inverse_panel(Queue& queue, In l11, In m11, Out s21, Out packed) const override;
  /// None: a triangular solve is as quick as a product.
  std::int64_t aid_columns(std::int64_t) const override { return 0; }
  std::int64_t least_panel_rows() const override { return 1; }
  std::int64_t least_inverse_panel_rows() const override { return 1; }
  void hermitian_multiply(Queue& queue, const UpperPart<T, Real>& a, const T* x, T* y,
                          void* scratch) const override;
  std::int64_t hermitian_multiply_scratch(const UpperPart<T, Real>& a) const override;
  void add_twofold(Queue& queue, In source, Out sums) const override;
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
