/// What is asked of a product that a flag in device memory decides about.
#pragma once

#include <cstdint>

namespace shardsolve::runtime {

enum ProductFlag : std::int32_t {
  /// no product, but a bound of what rounding does to one: see Problem::has_bounds
  product_rounding = -2,
  twofold_product = -1,  ///< each row is summed with twice the digits and rounded once
  usual_product = 0,
  no_product = 1,
};

}  // namespace shardsolve::runtime
