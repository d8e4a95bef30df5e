/// The kernels of tall QR factorisations and least squares on the CPU.
#pragma once

#include "runtime/qr_kernels.hpp"

namespace shardsolve::runtime::host {

template <Scalar T>
class HostQrKernels : public QrKernels<T> {
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
  void do_gram_factor(Queue& queue, const WorkInfo& info, double shift, OutWide g,
                      std::int64_t* verdict) const override;
  void do_divide(Queue& queue, const WorkInfo& info, InWide r, Out q, bool is_near) const override;
  void do_reflect(Queue& queue, const WorkInfo& info, Out a, OutWide r) const override;
  void do_singular_values(Queue& queue, const WorkInfo& info, OutWide a, double* s, OutWide u,
                          OutWide vh, std::int64_t* verdict) const override;
  void do_column_sizes(Queue& queue, const WorkInfo& info, In a, double* target) const override;
};

}  // namespace shardsolve::runtime::host
