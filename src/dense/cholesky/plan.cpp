#include "core/right_hand_sides.hpp"
#include "dense/shared/persistent_solve.hpp"
#include "programs/plan_parts.hpp"

#include <shardsolve/plan.hpp>

#include <algorithm>

namespace shardsolve {

Plan plan_cholesky_factor(const SlabLayout& layout, Dtype dtype) {
  Plan plan = programs::begin_plan(layout, dtype);
  const auto n = static_cast<double>(layout.size());
  const std::int64_t element = element_size(dtype);
  // Three panels, the largest of which has so many columns and the rows below them, and what GPUs
  // keep beside the factors of two tiles. The check of the input, which is over by then, takes a
  // few vectors.
  const std::int64_t columns = std::min(plan.tile, layout.size() / 2);
  const std::int64_t panel = element * columns * (layout.size() - columns) + programs::header_bytes;
  const std::int64_t tile_scratch = element * plan.tile * 2 * plan.tile;
  plan.workspace_bytes = std::max(3 * panel + 2 * tile_scratch, programs::small_change(layout, 1));
  if (programs::is_split(dtype)) {
    plan.workspace_bytes += 3 * programs::split_bytes * layout.size();
  }
  plan.flops = programs::multiply_add(dtype) * n * n * n / 6.0;
  plan.bytes_moved = 0.5 * n * n * static_cast<double>(element_size(dtype)) *
                     static_cast<double>(layout.ranks() - 1);
  return plan;
}

Plan plan_cholesky_solve(const SlabLayout& layout, Dtype dtype, std::int64_t columns) {
  core::require_columns(columns);
  Plan plan = programs::begin_plan(layout, dtype);
  const auto n = static_cast<double>(layout.size());
  const auto k = static_cast<double>(columns);
  const std::int64_t element = element_size(dtype);
  const std::int64_t some = std::min(columns, plan.tile);
  const std::int64_t width = layout.max_width();
  plan.right_hand_side_bytes = width * columns * element;
  // a copy of B; then, for some columns at a time: X, B and the residual, X of all rows, sums of
  // products and the shares of all ranks of them, twofold, and tiles on their way
  plan.workspace_bytes =
      plan.right_hand_side_bytes +
      element * (some * (4 * layout.size() + width * (2 * layout.ranks() + 5) + plan.tile) +
                 3 * plan.tile * some * (layout.ranks() + 2)) +
      programs::small_change(layout, columns);
  // the certificate of one column
  plan.workspace_bytes += element * (7 * layout.size() + width * (2 * layout.ranks() + 3));
  if (columns > 1) {
    plan.workspace_bytes += element * plan.tile * plan.tile;
  }
  if (columns == 1) {
    plan.workspace_bytes +=
        dense::persistent_solve_bytes(dense::Factors::l_and_adjoint, layout, element);
  }
  plan.flops = 2.0 * programs::multiply_add(dtype) * n * n * k;
  plan.bytes_moved =
      4.0 * n * k * static_cast<double>(element) * static_cast<double>(layout.ranks() - 1);
  return plan;
}

Plan plan_cholesky_half(const SlabLayout& layout, Dtype dtype, std::int64_t columns) {
  core::require_columns(columns);
  Plan plan = programs::begin_plan(layout, dtype);
  const auto n = static_cast<double>(layout.size());
  const auto k = static_cast<double>(columns);
  const std::int64_t element = element_size(dtype);
  const std::int64_t some = std::min(columns, plan.tile);
  const std::int64_t width = layout.max_width();
  plan.right_hand_side_bytes = width * columns * element;
  // for some columns at a time, of a solve: sums of products, and tiles on their way; of a product:
  // those of all rows, the shares of all ranks of one's own, a tile
  const std::int64_t solve = some * layout.size() + 3 * plan.tile * some * (layout.ranks() + 1) +
                             3 * programs::header_bytes;
  const std::int64_t product =
      some * (layout.size() + width * layout.ranks()) + plan.tile * plan.tile;
  plan.workspace_bytes =
      element * std::max(solve, product) + programs::small_change(layout, columns);
  plan.flops = programs::multiply_add(dtype) * n * n * k / 2.0;
  plan.bytes_moved = n * k * static_cast<double>(element) * static_cast<double>(layout.ranks() - 1);
  return plan;
}

Plan plan_cholesky_inverse(const SlabLayout& layout, Dtype dtype) {
  Plan plan = programs::begin_plan(layout, dtype);
  const auto n = static_cast<double>(layout.size());
  const std::int64_t element = element_size(dtype);
  const std::int64_t width = layout.max_width();
  // three columns of M, a row of L, tiles of X, two tiles more
  std::int64_t inverse = element * plan.tile * (3 * layout.size() + 2 * width + 2 * plan.tile);
  if (programs::is_split(dtype)) {  // two columns of M split
    inverse += 2 * (element * plan.tile + programs::split_bytes) * layout.size() +
               programs::split_bytes * (width + plan.tile);
  }
  // then blocks to and from all ranks, where X gets its other triangle
  const std::int64_t mirror = element * plan.tile * (layout.size() + width * layout.ranks() + 1);
  plan.workspace_bytes = std::max(inverse, mirror) + programs::small_change(layout, 1);
  plan.flops = programs::multiply_add(dtype) * n * n * n / 3.0;
  plan.bytes_moved =
      0.5 * n * n * static_cast<double>(element) * static_cast<double>(layout.ranks() - 1);
  return plan;
}

}  // namespace shardsolve
