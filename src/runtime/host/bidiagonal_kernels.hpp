/// Singular values by a bidiagonal form on the CPU.
#pragma once

#include "runtime/bidiagonal_kernels.hpp"

namespace shardsolve::runtime::host {

template <Scalar T>
class HostBidiagonalKernels : public BidiagonalKernels<T> {
 public:
  using typename BidiagonalKernels<T>::Wide;
  using typename BidiagonalKernels<T>::In;
  using typename BidiagonalKernels<T>::Out;
  using typename BidiagonalKernels<T>::InWide;
  using typename BidiagonalKernels<T>::OutWide;
  using typename BidiagonalKernels<T>::Panel;

 protected:
  void do_take_columns(Queue& queue, const WorkInfo& info, In source, const std::int64_t* columns,
                       OutWide target) const override;
  void do_take_rows(Queue& queue, const WorkInfo& info, MatrixView<const double> source,
                    bool transposed, const std::int64_t* rows,
                    MatrixView<double> target) const override;
  void do_open_column(Queue& queue, const WorkInfo& info, const Panel& panel,
                      Wide* share) const override;
  void do_close_column(Queue& queue, const WorkInfo& info, const Panel& panel,
                       InWide shares) const override;
  void do_bidiagonal_values(Queue& queue, const WorkInfo& info, MatrixView<double> diagonal,
                            double* off_diagonal, MatrixView<double> u, MatrixView<double> vt,
                            std::int64_t* verdict) const override;
  void do_multiply_reflectors(Queue& queue, const WorkInfo& info, InWide v, InWide c,
                              OutWide share) const override;
  void do_apply_reflectors(Queue& queue, const WorkInfo& info, InWide v, const Wide* tau,
                           InWide shares, OutWide c) const override;
  void do_largest_entries(Queue& queue, const WorkInfo& info, InWide c, std::int64_t* rows,
                          Wide* entries) const override;
  void do_turn_columns(Queue& queue, const WorkInfo& info, InWide c, const Wide* factors,
                       const std::int64_t* real_rows, Out target) const override;
};

}  // namespace shardsolve::runtime::host
