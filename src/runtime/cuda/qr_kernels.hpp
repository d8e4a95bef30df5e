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
  void do_divide(Queue& queue, const WorkInfo& info, InWide r, Out q, bool is_near) const override;
  void do_reflect(Queue& queue, const WorkInfo& info, Out a, OutWide r) const override;
  void do_singular_values(Queue& queue, const WorkInfo& info, OutWide a, double* s, OutWide u,
                          OutWide vh, std::int64_t* verdict) const override;
  void do_column_sizes(Queue& queue, const WorkInfo& info, In a, double* target) const override;

 private:
  /// The upper triangle of `g`, with zeros below, becomes its Cholesky factor. `infos` receives 0
  /// of each block, or not, as of DeviceKernels::factor_tile.
  void factor(CudaQueue& queue, OutWide g, Wide* scratch, std::int64_t* infos) const;

  /// target += left^H right for tall matrices, what is at most `diagonal` rows below the target's
  /// diagonal: as products of pieces, which fill the GPU where one product would not, and their
  /// sum. `products`: room for as many as `bytes` are, at least for one.
  void add_tall_product(CudaQueue& queue, InWide left, InWide right, std::int64_t diagonal,
                        Wide* products, std::size_t bytes, OutWide target) const;
  /// work(rows of a, of b, scratch) with rows in double precision, in parts if they are not that
  /// already; b may have no columns. `scratch`: own_scratch bytes, or more if `least` is.
  template <class Work>
  void in_wide_parts(CudaQueue& queue, In a, In b, std::size_t least, Work work) const;

  /// q = q r^-1 by inverses of blocks on the diagonal of r; `corrected`: as good as a solve.
  void divide_by_blocks(CudaQueue& queue, In r, Out q, bool corrected) const;

  CudaKernels<T> base_;
  CudaKernels<Wide> wide_;
};

}  // namespace shardsolve::runtime::cuda
