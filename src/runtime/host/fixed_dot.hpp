/// The dot product of runtime/fixed_dot.hpp in the caller's thread.
#pragma once

#include "runtime/fixed_dot.hpp"

namespace shardsolve::runtime::host {

/// 2 n flops for each pair, of complex numbers 8 n; needs no work memory.
void fixed_dot(const DotCall& call);

}  // namespace shardsolve::runtime::host
