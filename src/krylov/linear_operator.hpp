/// A product y = A x as part of a rank program.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <optional>

namespace shardsolve::krylov {

/// One rank's share of an operator or preconditioner during one call. All ranks make it at the same
/// point of their programs and apply it equally often.
template <Scalar T>
class LinearOperator {
 public:
  virtual ~LinearOperator() = default;

  /// Enqueues y = A x: x and y are this rank's rows, in device memory and apart from each other; x
  /// is made by what `queue` has so far. If *skip, in device memory, is not 0 when `queue` comes
  /// here, y stays as it is; it is the same on all ranks. Does not wait on the host.
  virtual void apply(mesh::Rank& rank, runtime::Queue& queue, const T* x, T* y,
                     const std::int32_t* skip) = 0;

  /// If y = D^-1 x, this rank's part of D in device memory, which is empty if D = I: the kernels
  /// beside it divide then.
  virtual std::optional<MatrixView<const T>> as_diagonal() const { return std::nullopt; }

  /// Whether *skip may be runtime::twofold_product and product_rounding, and is heeded.
  virtual bool is_twofold() const { return false; }
};

}  // namespace shardsolve::krylov
