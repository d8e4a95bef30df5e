/// What the plans of all families are made of.
#pragma once

#include "programs/step_flags.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>

namespace shardsolve::programs {

/// Bytes in front of every message of a MessageRing.
inline constexpr auto header_bytes = static_cast<std::int64_t>(sizeof(StepHeader));

/// A plan with ranks, tile and the bytes of the matrix.
inline Plan begin_plan(const SlabLayout& layout, Dtype dtype) {
  Plan plan;
  plan.ranks = layout.ranks();
  plan.tile = layout.tile();
  plan.matrix_bytes = layout.size() * layout.max_width() * element_size(dtype);
  return plan;
}

/// Bytes of headers, norms, gathered scalars and vectors of a few doubles a row, or a column of
/// `columns` right-hand sides.
inline std::int64_t small_change(const SlabLayout& layout, std::int64_t columns) {
  return 8 * (8 * layout.size() + 2 * layout.max_width() * layout.ranks() +
              4 * columns * (layout.ranks() + 1)) +
         1024 * layout.ranks() + 16 * header_bytes;
}

/// Whether GPUs split columns of panels for their updates, and what they then keep beside each.
inline bool is_split(Dtype dtype) { return dtype == Dtype::float32 || dtype == Dtype::complex64; }
inline constexpr std::int64_t split_bytes = 16;

/// Real operations of a product that is added to a sum.
inline double multiply_add(Dtype dtype) {
  return dtype == Dtype::complex64 || dtype == Dtype::complex128 ? 8.0 : 2.0;
}

}  // namespace shardsolve::programs
