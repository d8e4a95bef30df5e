/// Windows of sweeps, applied by the vector instructions of CPUs that have AVX-512: to be called if
/// avx512::has_avx512().
///
/// A product with a window has few numbers to add up, so a BLAS spends much of its time with
/// copies. Here the reflectors of a window are applied by eight to as many columns as registers
/// hold sums for, and those columns stay in the first-level cache while windows slide over them.
#pragma once

#include "runtime/band_kernels.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <span>

namespace shardsolve::runtime::host {

/// What slide_windows takes for V and V t, in their memory; neither has gaps between its columns.
template <class Real>
void make_sliding_windows(const Chase& chase, const SweepGroup& sweeps,
                          MatrixView<const Real> reflectors, MatrixView<Real> v,
                          MatrixView<Real> vt);

/// See BandKernels::apply_windows.
template <class Real>
void slide_windows(const Chase& chase, std::span<const SweepWindows<Real>> groups,
                   MatrixView<Real> z);

}  // namespace shardsolve::runtime::host
