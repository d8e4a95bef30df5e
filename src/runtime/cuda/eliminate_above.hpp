/// How a GPU solves with the diagonal block of a panel of U and subtracts: by what it is given, so
/// that the emulator takes the same way.
#pragma once

#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// a2 = u11^-1 a2, a1 -= u01 a2 for panel = [u01; u11] and [a1; a2], block row by block row from
/// the last one, so that most of the solve is products, too. `solve(u, b)`: b = u^-1 b, u upper
/// triangular; `subtract(u, x, b)`: b -= u x.
template <class T, class Solve, class Subtract>
void eliminate_above_in_blocks(MatrixView<const T> panel, MatrixView<T> a, Solve solve,
                               Subtract subtract) {
  constexpr std::int64_t block = 64;
  const std::int64_t w = panel.columns();
  const std::int64_t above = panel.rows() - w;
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return a.block(first, 0, count, a.columns());
  };
  for (std::int64_t end = w; end > 0;) {
    const std::int64_t begin = (end - 1) / block * block;
    const std::int64_t width = end - begin;
    const MatrixView<T> solved = rows(above + begin, width);
    solve(panel.block(above + begin, begin, width, width), solved);
    // What is above the panel's own rows takes all block rows at once, in the end.
    if (begin > 0) {
      subtract(panel.block(above, begin, begin, width), solved, rows(above, begin));
    }
    end = begin;
  }
  if (above > 0) {
    subtract(panel.block(0, 0, above, w), rows(above, w), rows(0, above));
  }
}

}  // namespace shardsolve::runtime::cuda
