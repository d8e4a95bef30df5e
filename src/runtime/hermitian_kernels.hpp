/// Kernels for products with a Hermitian matrix of which half is there, in twice the precision:
/// what residuals are made of.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/operand_shapes.hpp"
#include "runtime/queue.hpp"
#include "runtime/upper_part.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// As of Kernels: all matrices are column-major, a misfit of shapes throws Error(internal), and a
/// backend has the protected part.
template <Scalar T>
class HermitianKernels {
 public:
  static constexpr KernelSet set = KernelSet::hermitian;
  static constexpr Dtype dtype = dtype_of<T>;
  using Real = RealOf<T>;
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;

  virtual ~HermitianKernels() = default;

  /// y = A x in twice the precision, what these columns and, A being Hermitian, the rows of the
  /// same numbers have to do with it. `x`: as many elements as A has rows. `y`: twice as many; of
  /// each rank's segment first the sums, rounded, then what rounding has taken from them.
  /// `scratch`: hermitian_multiply_scratch() bytes of device memory.
  void hermitian_multiply(Queue& queue, const UpperPart<T, Real>& a, const T* x, T* y,
                          void* scratch) const {
    require(a.slab.rows() == a.begin[a.ranks] &&
                a.slab.columns() == a.begin[a.rank + 1] - a.begin[a.rank],
            "hermitian_multiply");
    const double entries = product(a.slab.rows(), a.slab.columns());
    do_hermitian_multiply(queue, {.name = "multiply", .flops = multiply_add<T> * entries}, a, x, y,
                          scratch);
  }
  virtual std::int64_t hermitian_multiply_scratch(const UpperPart<T, Real>& a) const = 0;
  /// sums += source, where `sums` has k columns and behind them k of what rounding has taken from
  /// those; `source` has k columns, or 2 k likewise.
  void add_twofold(Queue& queue, In source, Out sums) const {
    const std::int64_t k = sums.columns() / 2;
    require(sums.columns() == 2 * k && source.rows() == sums.rows() &&
                (source.columns() == k || source.columns() == 2 * k),
            "add_twofold");
    do_add_twofold(queue, {.name = "add"}, source, sums);
  }

 protected:
  virtual void do_hermitian_multiply(Queue& queue, const WorkInfo& info,
                                     const UpperPart<T, Real>& a, const T* x, T* y,
                                     void* scratch) const = 0;
  virtual void do_add_twofold(Queue& queue, const WorkInfo& info, In source, Out sums) const = 0;
};

}  // namespace shardsolve::runtime
