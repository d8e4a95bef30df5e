/// What a solve is given, from what was asked for.
#pragma once

#include "runtime/krylov/state.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>

namespace shardsolve::krylov {

/// See Options of krylov.hpp.
struct Asked {
  Method method = Method::cg;
  std::int64_t n = 0;
  std::int64_t restart = 0;
  double rtol = 0.0;
  double atol = 0.0;
  std::int64_t max_iterations = 0;
  bool log = false;
  bool is_twofold = false;  ///< whether A heeds runtime::twofold_product
  bool has_bounds = false;  ///< and runtime::product_rounding
};

/// With the thresholds of a dtype.
Problem problem_of(const Asked& asked, Dtype dtype);

}  // namespace shardsolve::krylov
