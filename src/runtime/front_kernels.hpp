/// The kernels of a multifrontal Cholesky factorisation: many fronts at a time.
#pragma once

#include "runtime/device_fronts.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// float64. Sums are added in an order that depends on the fronts' sizes alone.
class FrontKernels {
 public:
  static constexpr KernelSet set = KernelSet::fronts;
  static constexpr Dtype dtype = Dtype::float64;

  virtual ~FrontKernels() = default;

  /// Adds what each front of the batch leaves to its parent, which no other one of the batch has.
  void add_to_parents(Queue& queue, const FrontBatch& children) const {
    if (children.count > 0 && children.max_outer > 0) {
      do_add_to_parents(queue, {.name = "add fronts"}, children);
    }
  }
  /// L11 of each front's own columns, L21 = A21 L11^-T, and rest -= L21 L21^T. failed: of all
  /// fronts, 0 before the first call; the 1-based column of a front whose pivot was not positive
  /// is stored there, and its factor is of no use then.
  void factor(Queue& queue, const FrontBatch& batch, std::int32_t* failed) const {
    if (batch.count > 0) {
      do_factor(queue, {.name = "fronts", .flops = batch.flops}, batch, failed);
    }
  }
  /// The own parts of x := L11^-1 (x + what the children leave), and what is left to the parents.
  void solve_forward(Queue& queue, const FrontBatch& batch, double* x) const {
    if (batch.count > 0) {
      do_solve_forward(queue, {.name = "solve", .flops = 2.0 * batch.entries}, batch, x);
    }
  }
  /// The own parts of x := L11^-T (x - L21^T times the outer part, which is final).
  void solve_back(Queue& queue, const FrontBatch& batch, double* x) const {
    if (batch.count > 0) {
      do_solve_back(queue, {.name = "solve", .flops = 2.0 * batch.entries}, batch, x);
    }
  }
  /// The columns of a move, from the matrix to packed memory.
  void pack_columns(Queue& queue, const ColumnMove& move) const {
    if (move.count > 0) {
      do_pack_columns(queue, {.name = "pack fronts"}, move);
    }
  }
  /// Adds them to the matrix, from packed memory.
  void add_columns(Queue& queue, const ColumnMove& move) const {
    if (move.count > 0) {
      do_add_columns(queue, {.name = "add fronts"}, move);
    }
  }

 protected:
  virtual void do_add_to_parents(Queue& queue, const WorkInfo& info,
                                 const FrontBatch& children) const = 0;
  virtual void do_factor(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                         std::int32_t* failed) const = 0;
  virtual void do_solve_forward(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                                double* x) const = 0;
  virtual void do_solve_back(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                             double* x) const = 0;
  virtual void do_pack_columns(Queue& queue, const WorkInfo& info,
                               const ColumnMove& move) const = 0;
  virtual void do_add_columns(Queue& queue, const WorkInfo& info, const ColumnMove& move) const = 0;
};

}  // namespace shardsolve::runtime
