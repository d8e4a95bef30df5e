/// Kernels on a GPU: cuBLAS for the cubic work, kernels of our own for the rest.
#pragma once

#include "runtime/cuda/device_kernels.hpp"
#include "runtime/kernels.hpp"

#include <cstdint>
#include <vector>

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
  void potrf(Queue& queue, Out a, Out aid, std::int64_t* info) const override;
  void invert(Queue& queue, In l, Out m, const Steps& steps) const override;
  void panel(Queue& queue, In l11, In aid, Out a21, Out packed) const override;
  void inverse_panel(Queue& queue, In l11, In m11, Out s21, Out packed) const override;
  std::int64_t packed_rows(std::int64_t tile) const override;
  /// In float32 and complex64 panels are split for tensor cores, where they are not too narrow.
  void prepare_updates(Queue& queue, Out packed) const override;
  void update(Queue& queue, In left, In right,
              const std::vector<PanelUpdate<T>>& updates) const override;
  /// L^H with zeros below its diagonal, and what panel() takes of its inverse.
  std::int64_t aid_columns(std::int64_t tile) const override { return 2 * tile; }
  /// With fewer a GPU does less at a time. In single precision updates leave it more of its time,
  /// and the next panel begins earlier (measured on two H200s).
  std::int64_t least_panel_rows() const override { return sizeof(RealOf<T>) == 4 ? 2048 : 4096; }
  /// Products, of which fewer take the host longer to enqueue than the GPU needs.
  std::int64_t least_inverse_panel_rows() const override { return 4096; }

  void hermitian_multiply(Queue& queue, const UpperPart<T, Real>& a, const T* x, T* y,
                          void* scratch) const override;
  std::int64_t hermitian_multiply_scratch(const UpperPart<T, Real>& a) const override;
  void add_twofold(Queue& queue, In source, Out sums) const override;
  std::int64_t solve_block_rows() const override {
    using Own = DeviceKernels<Element<T>>;
    return Own::has_persistent_solve() ? Own::solve_block : 0;
  }
  void persistent_solve(Queue& queue, const PersistentSolve<T>& solve, double flops) const override;

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
