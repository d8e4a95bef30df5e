"""Mistakes of LU and of what is solved with it."""

from mistakes.mistake import UNIT, Mistake

KERNELS = "Host/LuKernelsTest/float64."
RAW_FACTOR = "LuFamily/float64.RawFactor*"
RAW_SOLVES = "LuFamily/float64.RawSolves_OfEveryMatrix*"
SOLVE = "LuFamily/float64.Solve_OfEveryMatrix*"

PANEL = "src/runtime/host/panel_lu.cpp"
FACTOR = "src/dense/lu/factor.cpp"
TRIANGULAR_SOLVE = "src/dense/lu/triangular_solve.cpp"
CERTIFIED_SOLVE = "src/dense/lu/certified_solve.cpp"

SKETCH = "src/dense/lu/sketch.cpp"
IN_PLACE = "LuInPlace/float64.*"

SWEEPS = "src/dense/lu/inverse.cpp"
ORDER = "src/dense/lu/order_inverse.cpp"
JUDGE = "src/dense/lu/judge_inverse.cpp"
INVERSE_CALLS = "src/dense/lu/inverse_calls.cpp"
INVERSE = "LuInverse/float64.*"

SEARCH = "const std::int64_t pivot = j + largest_row(column + j, a.rows() - j);"

MISTAKES = (
    # The panel.
    Mistake(
        "no pivoting",
        PANEL,
        SEARCH,
        "const std::int64_t pivot = j;",
        RAW_FACTOR,
    ),
    Mistake(
        "the last row is not searched for a pivot",
        PANEL,
        "largest_row(column + j, a.rows() - j)",
        "largest_row(column + j, std::max<std::int64_t>(a.rows() - j - 1, 1))",
        RAW_FACTOR,
    ),
    Mistake(
        "a pivot of 1e-4 times the largest entry is good enough",
        PANEL,
        SEARCH,
        """const std::int64_t most = j + largest_row(column + j, a.rows() - j);
    const bool will_do = size_of(column[j]) >= RealOf<T>(1e-4) * size_of(column[most]);
    const std::int64_t pivot = will_do ? j : most;""",
        RAW_FACTOR,
    ),
    Mistake(
        "of equal pivots the last one",
        PANEL,
        "return found == column + rows ? 0 : found - column;",
        """std::int64_t last = found == column + rows ? 0 : found - column;
  for (std::int64_t k = last; k < rows; ++k) {
    last = size_of(column[k]) == best ? k : last;
  }
  return last;""",
        "Lu.Pivots_OfMatricesWithTies*",
    ),
    Mistake(
        "division by a pivot that is 0",
        PANEL,
        "if (column[j] != T{0}) {",
        "if (a.rows() > 0) {",
        RAW_FACTOR,
    ),
    Mistake(
        "1 / pivot, which overflows for subnormal pivots",
        PANEL,
        "column[i] /= pivot;",
        "column[i] *= T{1} / pivot;",
        KERNELS + "Panel_WithPivotsAtTheEndsOfTheRange*",
        UNIT,
    ),
    Mistake(
        "1 / pivot of a complex pivot, likewise",
        PANEL,
        "if (size > low && size < 1 / low) {",
        "if (size > 0 * low) {",
        "Host/LuKernelsTest/complex128.Panel_WithPivotsAtTheEndsOfTheRange*",
        UNIT,
    ),
    Mistake(
        "rows of L inside a panel in the order of the left half",
        PANEL,
        "swap_panel_rows(first + half, places + half, w - half, left.block",
        "swap_panel_rows(first + half, places + half, 0, left.block",
        KERNELS + "Panel_OfAnyShape*",
        UNIT,
    ),
    Mistake(
        "U12 by the inverse of a tile",
        PANEL,
        """  if (n <= 32) {
    blas::Blas<T>::trsm_unit_lower(Op::none, tile, b);
    return;""",
        """  if (n <= 4096) {
    std::vector<T> identity(static_cast<std::size_t>(n * n));
    std::vector<T> given(static_cast<std::size_t>(n * b.columns()));
    const MatrixView<T> inverse(identity.data(), n, n);
    const MatrixView<T> copy(given.data(), n, b.columns());
    for (std::int64_t j = 0; j < n; ++j) {
      inverse(j, j) = T{1};
    }
    for (std::int64_t j = 0; j < b.columns(); ++j) {
      std::copy_n(&b(0, j), n, &copy(0, j));
    }
    blas::Blas<T>::trsm_unit_lower(Op::none, tile, inverse);
    blas::Blas<T>::gemm(Op::none, Op::none, T{1}, inverse, copy, T{0}, b);
    return;""",
        "HostLuTest/float64.SolveTile*",
        UNIT,
    ),
    # The factorisation on all ranks.
    Mistake(
        "rows of other columns are not swapped",
        FACTOR,
        "kernels_.swap_rows(queue, layout_.eliminated(step), places(step), width(step), a);",
        "",
        RAW_FACTOR,
    ),
    Mistake(
        "rows of L are not in their final order",
        FACTOR,
        "std::swap(to[at(i)], to[other]);",
        "",
        RAW_FACTOR,
    ),
    Mistake(
        "the determinant without the parity of the order of elimination",
        FACTOR,
        "bool odd = is_odd_order();",
        "bool odd = false;",
        "LuFamily/float64.Determinant*",
    ),
    # Solves with the factor.
    Mistake(
        "B in the order of rows, not of pivots",
        TRIANGULAR_SOLVE,
        "order_.to_pivots(some);",
        "",
        RAW_SOLVES,
    ),
    Mistake(
        "X of the transpose in the order of pivots, not of rows",
        TRIANGULAR_SOLVE,
        "order_.to_rows(some);",
        "",
        RAW_SOLVES,
    ),
    Mistake(
        "B in the order of pivots, but of rows as they come, not as they are eliminated",
        "src/dense/lu/row_order.cpp",
        "both[static_cast<std::size_t>(forward)] = rows[place];",
        "both[static_cast<std::size_t>(forward)] = rows[static_cast<std::size_t>(order[place])];",
        RAW_SOLVES,
    ),
    Mistake(
        "X of the transpose in the order of elimination",
        "src/dense/lu/row_order.cpp",
        "both[static_cast<std::size_t>(own.size() + backward)] = order[place];",
        "both[static_cast<std::size_t>(own.size() + backward)] = std::int64_t(place);",
        RAW_SOLVES,
    ),
    Mistake(
        "A^T for A^H",
        TRIANGULAR_SOLVE,
        """      sweeps_->by_rows.run(Triangle::upper, op, some);
      sweeps_->by_rows.run(Triangle::lower, op, some);""",
        """      sweeps_->by_rows.run(Triangle::upper, Op::transpose, some);
      sweeps_->by_rows.run(Triangle::lower, Op::transpose, some);""",
        "LuFamily/complex128.RawSolves_OfEveryMatrix*",
    ),
    Mistake(
        "the sums of a sweep without those of the first rank",
        TRIANGULAR_SOLVE,
        "for (std::int64_t r = 0; r < rank_.count(); ++r) {\n      const MatrixView<T> sums =",
        "for (std::int64_t r = 1; r < rank_.count(); ++r) {\n      const MatrixView<T> sums =",
        RAW_SOLVES,
    ),
    # Certificate, refinement, condition number.
    Mistake(
        "the residual without the share of the first rank",
        "src/dense/lu/general_multiply.cpp",
        "for (std::int64_t r = 0; r < rank_.count(); ++r) {\n    const bool mine",
        "for (std::int64_t r = 1; r < rank_.count(); ++r) {\n    const bool mine",
        SOLVE,
    ),
    Mistake(
        "the residual in working precision",
        "src/runtime/host/general_multiply.cpp",
        "{sums.high[at], sums.low[at]}",
        "{sums.high[at], 0.0 * sums.low[at]}",
        SOLVE,
    ),
    Mistake(
        "the residual of a transpose in working precision",
        "src/runtime/host/general_multiply.cpp",
        "split<Real>(across(re), high_parts[0], low_parts[0]);",
        "split<Real>({re.high[0] + re.high[1] + re.high[2] + re.high[3], 0.0}, high_parts[0],\n"
        "              low_parts[0]);",
        KERNELS + "Multiply_WhereSumsCancel*",
        UNIT,
    ),
    Mistake(
        "refinement by the norm alone",
        CERTIFIED_SOLVE,
        "(errors.by_norm[j] > refined_from * u ||\n",
        "(errors.by_norm[j] > refined_from * u || 0 *\n",
        SOLVE,
    ),
    Mistake(
        "a step of refinement that is not scaled back",
        CERTIFIED_SOLVE,
        "scale_columns(rank_, change, back);",
        "",
        "Lu.Solve_NearTheEnds*",
    ),
    Mistake(
        "x of a second try that is not scaled back",
        CERTIFIED_SOLVE,
        "scale_columns(rank, b, exponents);\n  return column_maxima",
        "return column_maxima",
        "Lu.Solve_NearTheEnds*",
    ),
    Mistake(
        "no fallback to QR",
        CERTIFIED_SOLVE,
        "const ByQr by_qr = ask_qr(b, given, b_maxima, errors);",
        "const ByQr by_qr = ByQr::nothing;",
        "LuFamily/float64.Growth_Beyond*",
    ),
    Mistake(
        "a factor that has left the range is no reason to ask QR",
        "src/dense/lu/calls.cpp",
        ": of_matrix_alone(look_and_factor<T>(call, a, std::nullopt, b));",
        ": look_and_factor<T>(call, a, std::nullopt, b);",
        "LuFamily/float64.Growth_OutOfTheRange*",
    ),
    Mistake(
        "x that has left the range is no reason to ask QR",
        "src/dense/lu/calls.cpp",
        "if (outcome.status == Status::overflow && !asks_qr && may_ask()) {",
        "if (outcome.status == Status::overflow && asks_qr && may_ask()) {",
        "LuFamily/float64.SubnormalPivots*",
    ),
    Mistake(
        "x that has left the range instead of B, when QR is asked",
        "src/dense/lu/certified_solve.cpp",
        """    if (!fits) {
      kernels().copy(rank_.update(), given, b);
""",
        """    if (!fits) {
""",
        "LuFamily/float64.SubnormalPivots*",
    ),
    Mistake(
        "the condition number of pivots that cannot be divided by",
        "src/dense/lu/calls.cpp",
        "Scaled{1.0, 0}) >= least || !may_ask()) {",
        "Scaled{1.0, 0}) >= 0.0 || !may_ask()) {",
        "LuFamily/float64.SubnormalPivots*",
    ),
    Mistake(
        "the condition number of what LU has, however much it has grown",
        "src/dense/lu/calls.cpp",
        "const bool by_qr = growth > largest_growth<T>() && may_ask();",
        "const bool by_qr = growth < 0.0 && may_ask();",
        "Lu.Rcond_OfAMatrixThatHasGrown*",
    ),
    Mistake(
        "x of QR for A^T without its conjugate",
        "src/dense/lu/by_qr.cpp",
        "conjugate_all(mine.x);",
        "",
        "LuFamily/complex128.Growth_Beyond*",
    ),
    Mistake(
        "the condition number without solves with A^H",
        "src/dense/lu/calls.cpp",
        "solve.run(adjoint != turned ?",
        "solve.run(turned ?",
        "LuFamily/float64.Rcond*",
    ),
    # Where A is gone.
    Mistake(
        "a sketch without the shares of other ranks",
        SKETCH,
        "for (const auto& one : programs::gather_from_all(rank_, mine)) {",
        "for (const auto& one : {mine}) {",
        IN_PLACE,
    ),
    Mistake(
        "the sketch of A for solves with A^T",
        SKETCH,
        "const std::int64_t first = op == Op::none ? 0 : sketch_vectors;",
        "const std::int64_t first = 0;",
        IN_PLACE,
    ),
    Mistake(
        "the sketch of A^T for solves with A^H",
        SKETCH,
        "op == Op::conjugate_transpose ? Op::conjugate_transpose : Op::transpose;",
        "Op::transpose;",
        "LuInPlace/complex128.Solve_Of*",
    ),
    Mistake(
        "one vector of signs instead of eight",
        SKETCH,
        "for (std::size_t i = 0; i < parts; ++i) {",
        "for (std::size_t i = 0; i < 2; ++i) {",
        IN_PLACE,
    ),
    # The inverse.
    Mistake(
        "diagonal blocks of U are lost to M",
        SWEEPS,
        "    save_diagonal_blocks();\n    panels_.begin",
        "    panels_.begin",
        INVERSE,
    ),
    Mistake(
        "M's diagonal blocks for those of U^-1",
        SWEEPS,
        "kernels_.copy(rank_.panel(), diagonal_block(step),",
        "kernels_.copy(rank_.panel(), own_columns(step, above, width(step)),",
        INVERSE,
    ),
    Mistake(
        "columns of U^-1 without their sign",
        SWEEPS,
        "T{-1}, u.block(0, 0, above, end),",
        "T{1}, u.block(0, 0, above, end),",
        INVERSE,
    ),
    Mistake(
        "of a triangle's strip the diagonal alone",
        SWEEPS,
        "const std::int64_t left = w - strip.begin;",
        "const std::int64_t left = strip.size;",
        INVERSE,
    ),
    Mistake(
        "rows of M that X has overwritten",
        SWEEPS,
        "const MatrixView<T> m1(rows_of_m_.data(), w, columns_up_to(step));",
        "const MatrixView<T> m1 = slab_.block(above, 0, w, columns_up_to(step));",
        INVERSE,
    ),
    Mistake(
        "the inverse's rows in the order of elimination",
        ORDER,
        "if (rank.count() > 1) {\n    const std::vector<std::int64_t> places",
        "if (rank.count() > 1000) {\n    const std::vector<std::int64_t> places",
        INVERSE,
    ),
    Mistake(
        "the inverse's columns by the wrong one of P and P^T",
        ORDER,
        "const Position place(place_of[static_cast<std::size_t>(column.value())]);",
        "const Position place(rows[static_cast<std::size_t>(column.value())]);",
        INVERSE,
    ),
    Mistake(
        "the inverse's columns as they arrive",
        ORDER,
        "kernels.order_columns(rank_.update(), incoming, places_, piece);",
        "rank_.kernels<T>().copy(rank_.update(), incoming, piece);",
        INVERSE,
    ),
    Mistake(
        "an inverse's certificate by the conjugate",
        JUDGE,
        "multiply.residual(runtime::Op::transpose, sums, signs, residual);",
        "multiply.residual(runtime::Op::conjugate_transpose, sums, signs, residual);",
        "LuInverse/complex128.OfEvery*",
    ),
    Mistake(
        "an inverse's certificate of one rank",
        JUDGE,
        "return {programs::largest_of_all(rank, mine), of_a - exponent};",
        "return {mine, of_a - exponent};",
        INVERSE,
    ),
    Mistake(
        "an inverse is solved for with A^H",
        INVERSE_CALLS,
        "outcome = lu_solve(call.mesh, factor, y, call.options, Transpose::transpose);",
        "outcome = lu_solve(call.mesh, factor, y, call.options, Transpose::adjoint);",
        "LuInverse/complex128.*",
    ),
    Mistake(
        "copies of a factor outlive its inverse",
        INVERSE_CALLS,
        "  factor.rows->clear();\n",
        "",
        INVERSE,
    ),
)
