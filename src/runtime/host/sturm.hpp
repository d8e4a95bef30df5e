/// Sturm sequences of tridiagonal matrices.
#pragma once

#include "runtime/tridiagonal_kernels.hpp"

#include <cstdint>

namespace shardsolve::runtime::host {

/// See TridiagonalKernels::count_eigenvalues.
template <class Real>
void count_eigenvalues(const Tridiagonal<Real>& t, const Real* points, std::int64_t count,
                       std::int64_t* below);

/// See TridiagonalKernels::bisect.
template <class Real>
void bisect(const Tridiagonal<Real>& t, Real low, Real high, Real width, std::int64_t first,
            std::int64_t count, Real* values);

}  // namespace shardsolve::runtime::host
