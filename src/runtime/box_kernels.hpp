/// The kernels of networks in boxes: jets, orthonormal blocks, and products with them.
#pragma once

#include "runtime/device_boxes.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// float64. The same bits for the same numbers, whatever else is in the call.
class BoxKernels {
 public:
  static constexpr KernelSet set = KernelSet::boxes;
  static constexpr Dtype dtype = Dtype::float64;

  virtual ~BoxKernels() = default;

  /// Rows of the matrix that is linear in the last layers, as fbpinn::feature_rows has them, for
  /// some runs, none of more than `max_points`: of box b from rows + (begin[b] - first_slot)
  /// columns on, column-major.
  void feature_rows(Queue& queue, const BoxNetworks& networks, const BoxPoints& points,
                    const BoxRun* runs, std::int64_t count, std::int64_t max_points,
                    const double* derivatives, const BoxBlocks& blocks, std::int64_t first_slot,
                    double* rows) const {
    if (count > 0) {
      do_feature_rows(queue, {.name = "features"}, networks, points, runs, count, max_points,
                      derivatives, blocks, first_slot, rows);
    }
  }
  /// QR with column pivoting of the boxes [first, first + count), whose rows feature_rows has
  /// made, from rows on; overwrites those. Columns whose part beside the others is at most
  /// `tolerance` times the largest are left out.
  void orthonormalise(Queue& queue, const BoxBlocks& blocks, std::int64_t first, std::int64_t count,
                      double tolerance, double* rows) const {
    if (count > 0 && blocks.columns > 0) {
      do_orthonormalise(queue, {.name = "orthonormalise"}, blocks, first, count, tolerance, rows);
    }
  }
  /// Stores `count` blocks; of those on the diagonal the diagonal alone, 1 + shift.
  void gram(Queue& queue, const BoxBlocks& blocks, const GramBlock* wanted, std::int64_t count,
            double shift) const {
    if (count > 0) {
      do_gram(queue, {.name = "gram"}, blocks, wanted, count, shift);
    }
  }
  /// Of each slot its row of Q y; y has the boxes' parts from `offsets` on.
  void multiply(Queue& queue, const BoxBlocks& blocks, const std::int64_t* offsets, const double* y,
                double* slots) const {
    do_multiply(queue, {.name = "multiply"}, blocks, offsets, y, slots);
  }
  /// g = Q^T r; overwrites `slots`, one number each.
  void multiply_adjoint(Queue& queue, const BoxBlocks& blocks, const std::int64_t* offsets,
                        const double* r, double* slots, double* g) const {
    do_multiply_adjoint(queue, {.name = "multiply"}, blocks, offsets, r, slots, g);
  }
  /// The weights z of M's columns with M z = Q y; 0 for those left out. columns numbers a box.
  void weights_of(Queue& queue, const BoxBlocks& blocks, const std::int64_t* offsets,
                  const double* y, double* z) const {
    do_weights_of(queue, {.name = "weights"}, blocks, offsets, y, z);
  }
  /// Jets of window times network at each pair of some runs: fields x size numbers a pair.
  void network_jets(Queue& queue, const BoxNetworks& networks, const BoxPoints& points,
                    const BoxRun* runs, std::int64_t count, std::int64_t max_points,
                    const double* last_layer, double* jets) const {
    if (count > 0) {
      do_network_jets(queue, {.name = "networks"}, networks, points, runs, count, max_points,
                      last_layer, jets);
    }
  }
  /// Of each i, the sums of `width` numbers from values + which[k] width on, for k from begin[i] to
  /// begin[i + 1] in this order.
  void add_listed(Queue& queue, std::int64_t count, std::int64_t width, const std::int64_t* begin,
                  const std::int32_t* which, const double* values, double* sums) const {
    do_add_listed(queue, {.name = "sums"}, count, width, begin, which, values, sums);
  }
  /// Rows of what a residual's function gave. The least of the SeenByWarps::warps(part.numbers())
  /// numbers in `nonfinite` is the first point at which a number is not finite, or part.points.
  void pointwise_rows(Queue& queue, const PointwisePart& part, std::int64_t* nonfinite) const {
    do_pointwise_rows(queue, {.name = "residual"}, part, nonfinite);
  }
  /// The largest |a[i]| and |a[i] - b[i]|, 0 where b is null and NaN where one is, as the largest
  /// of the SeenByWarps::warps(count) pairs in `largest`.
  void largest(Queue& queue, const double* a, const double* b, std::int64_t count,
               double* largest) const {
    do_largest(queue, {.name = "residual"}, a, b, count, largest);
  }

 protected:
  virtual void do_feature_rows(Queue& queue, const WorkInfo& info, const BoxNetworks& networks,
                               const BoxPoints& points, const BoxRun* runs, std::int64_t count,
                               std::int64_t max_points, const double* derivatives,
                               const BoxBlocks& blocks, std::int64_t first_slot,
                               double* rows) const = 0;
  virtual void do_orthonormalise(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                                 std::int64_t first, std::int64_t count, double tolerance,
                                 double* rows) const = 0;
  virtual void do_gram(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                       const GramBlock* wanted, std::int64_t count, double shift) const = 0;
  virtual void do_multiply(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                           const std::int64_t* offsets, const double* y, double* slots) const = 0;
  virtual void do_multiply_adjoint(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                                   const std::int64_t* offsets, const double* r, double* slots,
                                   double* g) const = 0;
  virtual void do_weights_of(Queue& queue, const WorkInfo& info, const BoxBlocks& blocks,
                             const std::int64_t* offsets, const double* y, double* z) const = 0;
  virtual void do_network_jets(Queue& queue, const WorkInfo& info, const BoxNetworks& networks,
                               const BoxPoints& points, const BoxRun* runs, std::int64_t count,
                               std::int64_t max_points, const double* last_layer,
                               double* jets) const = 0;
  virtual void do_add_listed(Queue& queue, const WorkInfo& info, std::int64_t count,
                             std::int64_t width, const std::int64_t* begin,
                             const std::int32_t* which, const double* values,
                             double* sums) const = 0;
  virtual void do_pointwise_rows(Queue& queue, const WorkInfo& info, const PointwisePart& part,
                                 std::int64_t* nonfinite) const = 0;
  virtual void do_largest(Queue& queue, const WorkInfo& info, const double* a, const double* b,
                          std::int64_t count, double* largest) const = 0;
};

}  // namespace shardsolve::runtime
