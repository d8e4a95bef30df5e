/// What qr() takes, by the way that it goes.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/slab_layout.hpp>

#include <algorithm>
#include <cstdint>

namespace shardsolve::dense::qr {

/// As plan_qr(): CholeskyQR, with R on the first rank.
Plan plan_by_passes(const SlabLayout& layout, Dtype dtype, std::int64_t columns);
/// Likewise, reflections with columns dealt to the ranks. The workspace has room for R on its way
/// to the host, 64 columns a rank at a time.
Plan plan_dealt(const SlabLayout& layout, Dtype dtype, std::int64_t columns);

/// Bytes of what lstsq() of many columns does one after the other, on the rank that needs most.
struct StepBytes {
  std::int64_t factor = 0;  ///< workspace of prepare_rows()
  std::int64_t values = 0;  ///< of svd()
  std::int64_t solve = 0;   ///< of solve_rows()
  std::int64_t kept = 0;    ///< between them

  std::int64_t all() const { return kept + std::max({factor, values, solve}); }
};

/// `square`: how R is cut for svd().
StepBytes bytes_in_steps(const SlabLayout& layout, Dtype dtype, std::int64_t columns,
                         std::int64_t sides, const SlabLayout& square, Memory memory);
/// As plan_least_squares(), of calls that are one program.
Plan plan_at_once(const SlabLayout& layout, Dtype dtype, std::int64_t columns, std::int64_t sides);

}  // namespace shardsolve::dense::qr
