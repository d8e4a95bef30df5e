/// Singular values beside those that are known to more digits.
#pragma once

#include "reference/matmul.hpp"
#include "support/gates.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace shardsolve::testing {

/// The largest |s_i - exact_i|, in units of u times the largest.
template <Scalar T, class Values>
double off_by(const Values& s, const std::vector<reference::WideReal<T>>& exact) {
  double worst = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto rest = std::abs(static_cast<reference::WideReal<T>>(s[i]) - exact[i]);
    worst = std::max(worst, static_cast<double>(exact[0] > 0 ? rest / exact[0] : rest));
  }
  return worst / unit_roundoff<T>;
}

}  // namespace shardsolve::testing
