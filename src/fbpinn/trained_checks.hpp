/// What is looked at when training has ended: whether the answer can be believed.
#pragma once

#include "fbpinn/held_out.hpp"

#include <shardsolve/fbpinn.hpp>

#include <cstdint>

namespace shardsolve::fbpinn::training {

/// The loss between the points, what is left of the first loss, which coefficients are determined;
/// with warnings. Status overflow if something is not finite. `chunk`: as of pointwise_rows.
void check_trained(const HeldOutPoints& between, std::int64_t chunk, const sparse::Workers& workers,
                   Trained& result);

}  // namespace shardsolve::fbpinn::training
