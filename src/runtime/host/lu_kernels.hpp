/// The LU factorisation's kernels on the CPU.
#pragma once

#include "runtime/lu_kernels.hpp"

namespace shardsolve::runtime::host {

template <Scalar T>
class HostLuKernels : public LuKernels<T> {
 public:
  using typename LuKernels<T>::Real;
  using typename LuKernels<T>::In;
  using typename LuKernels<T>::Out;
  using LuKernels<T>::LuKernels;

 protected:
  void do_panel(Queue& queue, const WorkInfo& work, std::int64_t first, Out a, std::int64_t* places,
                std::int64_t* info) const override;
  void do_swap_rows(Queue& queue, const WorkInfo& info, std::int64_t first,
                    const std::int64_t* places, std::int64_t count, Out a) const override;
  void do_solve_tile(Queue& queue, const WorkInfo& info, Triangle triangle, Op op, In tile,
                     Out b) const override;
  void do_upper_max(Queue& queue, const WorkInfo& info, std::int64_t first, In a,
                    double* target) const override;
  void do_transpose(Queue& queue, const WorkInfo& info, In source, Out target) const override;
  void do_choose_columns(Queue& queue, const WorkInfo& info, In source, const std::int64_t* columns,
                         Out target) const override;
  void do_choose_rows(Queue& queue, const WorkInfo& info, In source, const std::int64_t* rows,
                      Out target) const override;
  void do_order_columns(Queue& queue, const WorkInfo& info, In source, const std::int64_t* columns,
                        Out target) const override;
  void do_multiply(Queue& queue, const WorkInfo& info, Op op, In a, In x, Out y,
                   MatrixView<double> sizes) const override;
  void do_moduli(Queue& queue, const WorkInfo& info, In source,
                 MatrixView<Real> target) const override;
  void do_row_sums(Queue& queue, const WorkInfo& info, double scale, In a, double* sums,
                   double* largest) const override;
  void do_component_errors(Queue& queue, const WorkInfo& info, double least, In r,
                           MatrixView<const double> sizes, In b, double* target) const override;
};

}  // namespace shardsolve::runtime::host
