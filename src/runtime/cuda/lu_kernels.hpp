/// The LU factorisation's kernels on a GPU: pivots of a panel are found by blocks of threads that
/// meet, all else is products.
#pragma once

#include "runtime/lu_kernels.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {

template <Scalar T>
class CudaLuKernels final : public LuKernels<T> {
 public:
  using typename LuKernels<T>::Real;
  using typename LuKernels<T>::In;
  using typename LuKernels<T>::Out;
  using LuKernels<T>::LuKernels;

  std::int64_t eliminate_scratch(std::int64_t width, std::int64_t rows,
                                 std::int64_t columns) const override;
  std::int64_t rows_to_solve(Op op, std::int64_t columns) const override;

 protected:
  /// Throws Error(unsupported) for more rows than the GPU has registers for: some 68,000 times 8.
  void do_panel(Queue& queue, const WorkInfo& work, std::int64_t first, Out a, std::int64_t* places,
                std::int64_t* info) const override;
  void do_swap_rows(Queue& queue, const WorkInfo& info, std::int64_t first,
                    const std::int64_t* places, std::int64_t count, Out a) const override;
  void do_eliminate(Queue& queue, In panel, Out a, Out scratch) const override;
  void do_eliminate_above(Queue& queue, In panel, Out a) const override;
  void do_solve_tile(Queue& queue, const WorkInfo& info, Triangle triangle, Op op, In tile,
                     Out b) const override;
  void do_upper_max(Queue& queue, const WorkInfo& info, std::int64_t first, In a,
                    double* target) const override;
  void do_transpose(Queue& queue, const WorkInfo& info, In source, Out target) const override;
  void do_choose_columns(Queue& queue, const WorkInfo& info, In source, const std::int64_t* columns,
                         Out target) const override;
  void do_choose_rows(Queue& queue, const WorkInfo& info, In source, const std::int64_t* rows,
                      Out target) const override;
  void do_order_rows(Queue& queue, const WorkInfo& info, const std::int64_t* rows, Out a,
                     Out scratch) const override;
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

}  // namespace shardsolve::runtime::cuda
