/// The kernels of tall QR factorisations and of least squares on a GPU: cuBLAS for products and
/// quotients, kernels of our own for the rest.
#pragma once

#include "runtime/cuda/cuda_kernels.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/qr_kernels.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {

template <Scalar T>
class CudaQrKernels final : public QrKernels<T> {
 public:
  using typename QrKernels<T>::Wide;
  using typename QrKernels<T>::In;
  using typename QrKernels<T>::Out;
  using typename QrKernels<T>::InWide;
  using typename QrKernels<T>::OutWide;

 protected:
  void do_scale_columns(Queue& queue, const WorkInfo& info, In source,
                        const std::int64_t* exponents, Out target) const override;
  void do_adjoint_product(Queue& queue, const WorkInfo& info, In a, In b,
                          OutWide target) const override;
  void do_gram(Queue& queue, const WorkInfo& info, In a, OutWide g) const override;
  /// Factors both with and without the shift: which one counts is decided on the device.
  void do_gram_factor(Queue& queue, const WorkInfo& info, double shift, OutWide g,
                      std::int64_t* verdict) const override;
  void do_divide(Queue& queue, const WorkInfo& info, InWide r, Out q) const override;
  void do_reflect(Queue& queue, const WorkInfo& info, Out a, OutWide r) const override;
  void do_singular_values(Queue& queue, const WorkInfo& info, OutWide a, double* s, OutWide u,
                          OutWide vh, std::int64_t* verdict) const override;
  void do_column_sizes(Queue& queue, const WorkInfo& info, In a, double* target) const override;

 private:
  /// The upper triangle of `g`, with zeros below, becomes its Cholesky factor. `infos` receives 0
  /// of each block, or not, as of DeviceKernels::factor_tile.
  void factor(CudaQueue& queue, OutWide g, Wide* scratch, std::int64_t* infos) const;

  CudaKernels<T> base_;
  CudaKernels<Wide> wide_;
};

}  // namespace shardsolve::runtime::cuda
