/// Kernels for products with a Hermitian matrix of which half is there, in twice the precision:
/// what residuals are made of.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/queue.hpp"
#include "runtime/upper_part.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// As of Kernels: all matrices are column-major, a misfit of shapes throws Error(internal).
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
  virtual void hermitian_multiply(Queue& queue, const UpperPart<T, Real>& a, const T* x, T* y,
                                  void* scratch) const = 0;
  virtual std::int64_t hermitian_multiply_scratch(const UpperPart<T, Real>& a) const = 0;
  /// sums += source, where `sums` has k columns and behind them k of what rounding has taken from
  /// those; `source` has k columns, or 2 k likewise.
  virtual void add_twofold(Queue& queue, In source, Out sums) const = 0;
};

}  // namespace shardsolve::runtime
