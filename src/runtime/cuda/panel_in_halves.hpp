/// A panel of an LU factorisation by narrower ones, which a backend has a kernel for.
#pragma once

#include "runtime/lu_kernels.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// LuKernels::panel in halves, most of which is products:
///   P1 [a11; a21] = [l11; l21] u11       the left half
///   a12 = l11^-1 P1 a12,   a22 = P1 a22 - l21 a12
///   P2 a22 = l22 u22                     the right half
///   l21 = P2 l21
/// down to `narrow` columns, of which factor(first, before, a, places) enqueues the panel, with
/// `before` columns of the whole one to their left.
template <Scalar T, class Factor>
void panel_in_halves(const LuKernels<T>& kernels, Queue& queue, std::int64_t first,
                     std::int64_t before, MatrixView<T> a, std::int64_t* places,
                     std::int64_t narrow, const Factor& factor) {
  const std::int64_t m = a.rows();
  const std::int64_t w = a.columns();
  if (w <= narrow) {
    factor(first, before, a, places);
    return;
  }
  const std::int64_t half = std::max(w / 2 / narrow, std::int64_t{1}) * narrow;
  const MatrixView<T> left = a.columns_from(0, half);
  const MatrixView<T> right = a.columns_from(half, w - half);
  panel_in_halves(kernels, queue, first, before, left, places, narrow, factor);
  kernels.swap_rows(queue, first, places, half, right);
  kernels.eliminate(queue, left, right);
  panel_in_halves(kernels, queue, first + half, before + half,
                  right.block(half, 0, m - half, w - half), places + half, narrow, factor);
  kernels.swap_rows(queue, first + half, places + half, w - half,
                    left.block(half, 0, m - half, half));
}

}  // namespace shardsolve::runtime::cuda
