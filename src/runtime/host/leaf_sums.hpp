/// Sums of whole leaves of runtime/fixed_dot.hpp on the CPU, by its vector units.
#pragma once

#include "runtime/fixed_dot.hpp"

#include <cstdint>

namespace shardsolve::runtime::host {

/// sums[l] = <x, y> of leaf l, of 64 rows each. Real is float or double, and width 2 for complex
/// numbers.
template <class Real, int width>
void leaf_sums(const Real* x, const Real* y, std::int64_t leaves, DotSum<Real, width>* sums);

/// Whether the processor multiplies and adds at once, four doubles or eight floats at a time.
bool has_fma();

}  // namespace shardsolve::runtime::host
