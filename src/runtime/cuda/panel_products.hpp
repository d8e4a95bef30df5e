/// Triangular solves as products with inverses of blocks, which a GPU does many times faster, each
/// with a correction that makes it as good as a solve.
#pragma once

#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/kernels.hpp"

#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// Width of the blocks of a panel; see panel(). Wide ones, which have an inverse too, make few
/// products one after another of few rows: of those that the next tile waits for.
inline constexpr std::int64_t panel_block = 256;
inline constexpr std::int64_t wide_panel_block = 512;
inline constexpr std::int64_t few_rows = 1024;

/// Rows of a panel that are taken at a time.
template <Scalar T>
std::int64_t panel_rows(std::int64_t tile) {
  const auto elements = static_cast<std::int64_t>(own_scratch / sizeof(T));
  return std::max<std::int64_t>(elements / tile, 1);
}

inline std::int64_t widest_block(std::int64_t rows) {
  return rows <= few_rows ? wide_panel_block : panel_block;
}

template <class T>
MatrixView<T> row_range(MatrixView<T> a, std::int64_t first, std::int64_t count) {
  return a.block(first, 0, count, a.columns());
}

/// work(residual, p) for parts of a21 that `scratch` has room for, with residual = a21^H; then p,
/// the columns of `packed` that belong to it, replaces a21^H.
template <Scalar T, class Work>
void in_parts(Queue& queue, const Kernels<T>& kernels, T* scratch, MatrixView<T> a21,
              MatrixView<T> packed, Work work) {
  const std::int64_t n = a21.columns();
  for (std::int64_t first = 0; first < a21.rows(); first += panel_rows<T>(n)) {
    const std::int64_t count = std::min(panel_rows<T>(n), a21.rows() - first);
    const MatrixView<T> rows = a21.block(first, 0, count, n);
    const MatrixView<T> residual(scratch, n, count);
    kernels.conjugate_transpose(queue, rows, residual);
    work(residual, packed.columns_from(first, count));
    kernels.conjugate_transpose(queue, packed.columns_from(first, count), rows);
  }
}

/// One block row p of a triangular solve, given the rows p0 that are solved, the blocks l0 of the
/// triangle that they are multiplied with, its diagonal block l and the inverse of that, all three
/// as their adjoints:
///   r -= l0 p0,   p = inv(l) r,   p += inv(l) (r - l p)
/// The first product alone is not backward stable (an ill-conditioned block costs what a solve
/// would have kept), the correction makes it so. Narrow blocks save operations: with one, three
/// products of the full width where a solve has half of one.
template <Scalar T>
void solve_block(Queue& queue, const Kernels<T>& kernels, MatrixView<const T> l0,
                 MatrixView<const T> p0, MatrixView<const T> l, MatrixView<const T> inverse,
                 MatrixView<T> r, MatrixView<T> p) {
  const auto add = [&](T factor, MatrixView<const T> adjoint, MatrixView<const T> x, T keep,
                       MatrixView<T> to) {
    kernels.gemm(queue, Op::conjugate_transpose, Op::none, factor, adjoint, x, keep, to);
  };
  if (!p0.empty()) {
    add(T{-1}, l0, p0, T{1}, r);
  }
  add(T{1}, inverse, r, T{0}, p);
  add(T{-1}, l, p, T{1}, r);
  add(T{1}, inverse, r, T{1}, p);
}

/// m = l^-1 where the diagonal squares of m, of so many columns, are that already: with the
/// inverses of two blocks side by side on the diagonal at hand, what is below the first one is
///   m21 = r m11,   m21 += (r - m21 l11) m11        r = -m22 l21
/// until one block is the tile. The correction is that of solve_block. Of strides.count tiles at
/// once, for which there has to be scratch memory of half a tile's columns squared each.
template <Scalar T>
void invert_below(Queue& queue, const Kernels<T>& kernels, MatrixView<const T> l, MatrixView<T> m,
                  T* scratch, std::int64_t square, const BatchStrides& strides) {
  const auto add = [&](T factor, MatrixView<const T> a, MatrixView<const T> b, T keep,
                       MatrixView<T> to, const BatchStrides& apart) {
    kernels.gemm_batch(queue, Op::none, Op::none, factor, a, b, keep, to, apart);
  };
  const std::int64_t n = l.rows();
  for (std::int64_t side = square; side < n; side *= 2) {
    for (std::int64_t top = 0; top + side < n; top += 2 * side) {
      const std::int64_t below = top + side;
      const std::int64_t left = std::min(side, n - below);
      const MatrixView<T> r(scratch, left, side);
      const std::int64_t r_apart = left * side;
      const MatrixView<const T> l11 = l.block(top, top, side, side);
      const MatrixView<const T> l21 = l.block(below, top, left, side);
      const MatrixView<const T> m11 = m.block(top, top, side, side);
      const MatrixView<const T> m22 = m.block(below, below, left, left);
      const MatrixView<T> m21 = m.block(below, top, left, side);
      add(T{-1}, m22, l21, T{0}, r, {strides.count, strides.c, strides.a, r_apart});
      add(T{1}, r, m11, T{0}, m21, {strides.count, r_apart, strides.c, strides.c});
      add(T{-1}, m21, l11, T{1}, r, {strides.count, strides.c, strides.a, r_apart});
      add(T{1}, r, m11, T{1}, m21, {strides.count, r_apart, strides.c, strides.c});
    }
  }
}

}  // namespace shardsolve::runtime::cuda
