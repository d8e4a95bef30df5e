#include "core/right_hand_sides.hpp"
#include "dense/lu/certified_solve.hpp"
#include "dense/lu/order_inverse.hpp"
#include "dense/lu/sketch.hpp"
#include "dense/shared/persistent_solve.hpp"
#include "programs/plan_parts.hpp"

#include <shardsolve/plan.hpp>

#include <algorithm>

namespace shardsolve {
namespace {

/// What GeneralMultiply takes: X of all rows, shares of all rows and of all ranks, twofold, and
/// their sizes.
std::int64_t residual_bytes(const SlabLayout& layout, std::int64_t element, std::int64_t columns) {
  const std::int64_t n = layout.size();
  const std::int64_t width = layout.max_width();
  return columns * (element * (3 * n + 2 * width * (layout.ranks() + 1)) +
                    8 * (n + width * (layout.ranks() + 1)));
}

}  // namespace

Plan plan_lu_factor(const SlabLayout& layout, Dtype dtype) {
  Plan plan = programs::begin_plan(layout, dtype);
  const auto n = static_cast<double>(layout.size());
  const std::int64_t element = element_size(dtype);
  plan.matrix_bytes *= 2;  // A and its factor
  // Three panels with their places, which a rank that is alone does without, and one that is put in
  // order, with eight lists of its rows; of numbers that GPUs split for updates, two panels more;
  // of A sums of rows of all ranks.
  const std::int64_t columns = std::min(plan.tile, layout.size());
  const std::int64_t panel = (layout.ranks() > 1 ? element * columns * layout.size() : 0) +
                             8 * columns + 2 * programs::header_bytes;
  plan.workspace_bytes = 3 * panel + element * columns * (layout.size() - columns) +
                         programs::small_change(layout, 1) + 8 * 11 * layout.size() +
                         8 * layout.max_width() * (layout.ranks() + 3) +
                         element * (layout.size() + layout.max_width());
  if (dtype == Dtype::float32 || dtype == Dtype::complex64) {
    plan.workspace_bytes += element * ((columns + 4) * (layout.size() + layout.max_width()) + 1);
  }
  plan.flops = programs::multiply_add(dtype) * n * n * n / 3.0;
  plan.bytes_moved =
      0.5 * n * n * static_cast<double>(element) * static_cast<double>(layout.ranks() - 1);
  return plan;
}

Plan plan_lu_factor_in_place(const SlabLayout& layout, Dtype dtype) {
  Plan plan = plan_lu_factor(layout, dtype);
  const std::int64_t element = element_size(dtype);
  const std::int64_t width = layout.max_width();
  plan.matrix_bytes = plan.matrix_bytes / 2 + element * width * dense::lu::sketch_columns;
  // signs, zeros and rounded sums beside what multiplies
  const std::int64_t sketch = residual_bytes(layout, element, dense::lu::sketch_vectors) +
                              3 * element * width * dense::lu::sketch_vectors +
                              programs::small_change(layout, 1);
  plan.workspace_bytes = std::max(plan.workspace_bytes, sketch);
  return plan;
}

Plan plan_lu_solve(const SlabLayout& layout, Dtype dtype, std::int64_t columns) {
  core::require_columns(columns);
  Plan plan = programs::begin_plan(layout, dtype);
  const auto n = static_cast<double>(layout.size());
  const auto k = static_cast<double>(columns);
  const std::int64_t element = element_size(dtype);
  const std::int64_t some = std::max<std::int64_t>(std::min(columns, plan.tile), 1);
  const std::int64_t width = layout.max_width();
  plan.matrix_bytes *= 2;
  plan.right_hand_side_bytes = width * columns * element;
  // For some columns at a time: sums of the sweep, all rows to be put in order, slots of sums and
  // of solved rows, five copies; exact residuals of a few.
  plan.workspace_bytes = element * some * (2 * layout.size() + 5 * width) +
                         element * 3 * plan.tile * some * (layout.ranks() + 2) + 16 * width +
                         residual_bytes(layout, element, std::min(some, dense::lu::max_exact)) +
                         programs::small_change(layout, columns) / 2;
  if (some == 1) {
    plan.workspace_bytes += dense::persistent_solve_bytes(dense::Factors::l_and_u, layout, element);
  }
  if (some > dense::lu::max_exact) {
    // quick ones, with a product and its sizes, and moduli of a tile of A and of X
    plan.workspace_bytes += residual_bytes(layout, element, some) +
                            element * (2 * width * some + plan.tile * (width + some));
  }
  plan.flops = 4.0 * programs::multiply_add(dtype) * n * n * k;
  plan.bytes_moved =
      6.0 * n * k * static_cast<double>(element) * static_cast<double>(layout.ranks() - 1);
  return plan;
}

Plan plan_lu_inverse(const SlabLayout& layout, Dtype dtype) {
  Plan plan = programs::begin_plan(layout, dtype);
  const auto n = static_cast<double>(layout.size());
  const std::int64_t element = element_size(dtype);
  const std::int64_t width = layout.max_width();
  plan.matrix_bytes *= 2;
  // three panels, the diagonal blocks of U, rows of M
  const std::int64_t sweeps =
      element * plan.tile * (3 * layout.size() + 2 * width) + 3 * programs::header_bytes;
  // then some rows of all columns, twice, and lists of columns and of rows
  const std::int64_t order =
      2 * element * width * dense::lu::rows_at_once(layout) + 8 * (layout.size() + 2 * width);
  // then a product with some vectors, which with signs, sums and what is 0 take as much again
  const std::int64_t vectors = dense::lu::sketch_vectors;
  const std::int64_t certificate =
      residual_bytes(layout, element, vectors) + 5 * element * width * vectors + 8 * layout.size() +
      8 * width * (layout.ranks() + 2) + element * (layout.size() + width) +
      residual_bytes(layout, element, vectors);
  plan.workspace_bytes = std::max({sweeps, order, certificate}) + programs::small_change(layout, 1);
  plan.flops = programs::multiply_add(dtype) * 2.0 * n * n * n / 3.0;
  plan.bytes_moved = n * n * static_cast<double>(element) *
                     (1.5 * static_cast<double>(layout.ranks() - 1) +
                      (layout.ranks() > 1 ? 1.0 - 1.0 / static_cast<double>(layout.ranks()) : 0.0));
  return plan;
}

Plan plan_lu_inverse_in_place(const SlabLayout& layout, Dtype dtype) {
  Plan plan = plan_lu_inverse(layout, dtype);
  plan.matrix_bytes =
      plan.matrix_bytes / 2 + element_size(dtype) * layout.max_width() * dense::lu::sketch_columns;
  return plan;
}

}  // namespace shardsolve
