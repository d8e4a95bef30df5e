/// Kernels on a GPU: cuBLAS for the cubic work, kernels of our own for the rest.
#pragma once

#include "runtime/cuda/device_kernels.hpp"
#include "runtime/kernels.hpp"

#include <cstdint>
#include <mutex>

namespace shardsolve::runtime::cuda {

template <Scalar T>
class CudaKernels final : public Kernels<T> {
 public:
  using typename Kernels<T>::Real;
  using typename Kernels<T>::In;
  using typename Kernels<T>::Out;
  using typename Kernels<T>::InOther;
  using typename Kernels<T>::InReal;

  std::int64_t solve_block_rows() const override;

 protected:
  void do_gemm(Queue& queue, const WorkInfo& info, Op op_a, Op op_b, T alpha, In a, In b, T beta,
               Out c) const override;
  void do_herk(Queue& queue, const WorkInfo& info, Triangle triangle, Op op, Real alpha, In a,
               Real beta, Out c) const override;
  void do_gemm_batch(Queue& queue, const WorkInfo& info, Op op_a, Op op_b, T alpha, In a, In b,
                     T beta, Out c, const BatchStrides& strides) const override;
  void do_herk_batch(Queue& queue, const WorkInfo& info, Triangle triangle, Op op, Real alpha, In a,
                     Out c, const BatchStrides& strides) const override;
  void do_trsm(Queue& queue, const WorkInfo& info, Side side, Triangle triangle, Op op, In a,
               Out b) const override;
  void do_copy(Queue& queue, const WorkInfo& info, In source, Out target) const override;
  void do_convert(Queue& queue, const WorkInfo& info, InOther source, Out target) const override;
  void do_from_real(Queue& queue, const WorkInfo& info, InReal source, Out target) const override;
  void do_conjugate_transpose(Queue& queue, const WorkInfo& info, In source,
                              Out target) const override;
  void do_fill(Queue& queue, const WorkInfo& info, T value, Out target) const override;
  void do_identity(Queue& queue, const WorkInfo& info, Out target) const override;
  void do_lower_triangle(Queue& queue, const WorkInfo& info, In source, Out target) const override;
  void do_scale_rows(Queue& queue, const WorkInfo& info, In scales, bool inverted, In source,
                     Out target) const override;
  void do_add(Queue& queue, const WorkInfo& info, T alpha, In source, Out target) const override;
  void do_scale(Queue& queue, const WorkInfo& info, Real factor, Out target) const override;
  void do_diagonal(Queue& queue, const WorkInfo& info, In a, Real* target) const override;
  void do_hermitian_tile(Queue& queue, const WorkInfo& info, In upper, const Real* diagonal,
                         Out target) const override;
  void do_column_max(Queue& queue, const WorkInfo& info, In a, double* target) const override;
  void do_inspect(Queue& queue, const WorkInfo& info, In a, std::int64_t first,
                  const double* weights, double scale, Inspection result) const override;
  void do_persistent_solve(Queue& queue, const WorkInfo& info,
                           const PersistentSolveArguments<T>& solve) const override;

 private:
  const SolveRoom& solve_room() const;

  mutable std::once_flag asked_;
  mutable SolveRoom solve_room_;
};

}  // namespace shardsolve::runtime::cuda
