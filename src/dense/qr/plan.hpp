/// What qr() takes, by the way that it goes.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>

namespace shardsolve::dense::qr {

/// As plan_qr(): CholeskyQR, with R on the first rank.
Plan plan_by_passes(const SlabLayout& layout, Dtype dtype, std::int64_t columns);
/// Likewise, reflections with columns dealt to the ranks. The workspace has room for R on its way
/// to the host, 64 columns a rank at a time.
Plan plan_dealt(const SlabLayout& layout, Dtype dtype, std::int64_t columns);

}  // namespace shardsolve::dense::qr
