/// The kernels of products with sparse matrices. How a row is summed: sparse_row_sum.hpp.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/operand_shapes.hpp"
#include "runtime/product_flag.hpp"
#include "runtime/queue.hpp"
#include "runtime/sparse_row_sum.hpp"
#include "runtime/sparse_rows.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

template <Scalar T>
class SparseKernels {
 public:
  static constexpr KernelSet set = KernelSet::sparse;
  static constexpr Dtype dtype = dtype_of<T>;

  virtual ~SparseKernels() = default;

  /// packed[i] = x[places[i]].
  void pack(Queue& queue, MatrixView<const std::int32_t> places, MatrixView<const T> x,
            MatrixView<T> packed) const {
    require(same_shape(places, packed), "pack");
    if (!packed.empty()) {
      do_pack(queue, {.name = "pack"}, places, x, packed);
    }
  }
  /// y = A x in the rows chosen, the others stay as they are. x: own x 1, and what follows it:
  /// halo x 1, or empty if no row chosen has an entry there; y: rows x 1. `done`: null, or points
  /// to a ProductFlag in device memory. `rank`: null; or, on GPUs, where in their memory it is said
  /// how many times as many rows as are chosen lie in front of those of y: then it has these alone,
  /// as far as there are so many.
  void multiply(Queue& queue, const SparseRows<T>& a, const RowChoice& chosen,
                MatrixView<const T> x, MatrixView<const T> halo, MatrixView<T> y,
                const std::int32_t* done, const std::int32_t* rank = nullptr) const {
    require(x.rows() == a.own && (halo.empty() || halo.rows() == a.halo) &&
                y.rows() == (rank == nullptr ? a.rows : chosen.count) &&
                (rank != nullptr || chosen.count <= a.rows) && a.lanes >= 1 &&
                a.lanes <= max_row_lanes && (a.lanes & (a.lanes - 1)) == 0,
            "sparse product");
    if (chosen.count > 0) {
      do_multiply(queue,
                  {.name = "sparse product",
                   .flops = multiply_add<T> * static_cast<double>(chosen.entries)},
                  a, chosen, x, halo, y, done, rank);
    }
  }

 protected:
  virtual void do_pack(Queue& queue, const WorkInfo& info, MatrixView<const std::int32_t> places,
                       MatrixView<const T> x, MatrixView<T> packed) const = 0;
  virtual void do_multiply(Queue& queue, const WorkInfo& info, const SparseRows<T>& a,
                           const RowChoice& chosen, MatrixView<const T> x, MatrixView<const T> halo,
                           MatrixView<T> y, const std::int32_t* done,
                           const std::int32_t* rank) const = 0;
};

}  // namespace shardsolve::runtime
