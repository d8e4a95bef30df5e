"""Mistakes of QR, least squares and ridge regression."""

from mistakes.mistake import Mistake

FACTOR = "QrFamily/float64.Factor*"
LEAST_SQUARES = "QrFamily/float64.LeastSquares_OfFullRank*"
LSTSQ = "QrFamily/float64.Lstsq_OfEveryMatrix*"

PASSES = "src/dense/qr/factor.cpp"
DEALT = "src/dense/qr/householder.cpp"

MISTAKES = (
    # The passes.
    Mistake(
        "one pass of CholeskyQR",
        PASSES,
        "verdict = passes.run();",
        "passes.run();\n    verdict = GramVerdict::near;",
        FACTOR,
    ),
    Mistake(
        "two passes of CholeskyQR, whatever the Gram matrix says",
        PASSES,
        "verdict = passes.run();",
        "verdict = passes.run();\n    verdict = factored.passes > 0 ? GramVerdict::near : verdict;",
        FACTOR,
    ),
    Mistake(
        "no reflections where passes do not end",
        PASSES,
        "passes.reflect();",
        "",
        FACTOR,
    ),
    Mistake(
        "columns that are not scaled before their Gram matrix",
        PASSES,
        "factored.exponents = exponents_to_one(maxima);",
        "factored.exponents.assign(maxima.size(), 0);",
        FACTOR,
    ),
    Mistake(
        "sums without the second rank",
        "src/dense/qr/first_rank.cpp",
        "for (std::int64_t r = 1; r < ranks; ++r) {",
        "for (std::int64_t r = 2; r < ranks; ++r) {",
        FACTOR,
    ),
    # Columns that are dealt.
    Mistake(
        "t for t^H while R is made",
        DEALT,
        "apply(rank_, rank_.update(), reflectors(step), Op::conjugate_transpose, all_.products_,",
        "apply(rank_, rank_.update(), reflectors(step), Op::none, all_.products_,",
        FACTOR,
    ),
    Mistake(
        "t^H for t while Q is formed",
        DEALT,
        "apply(rank_, queue, here, Op::none, all_.products_,",
        "apply(rank_, queue, here, Op::conjugate_transpose, all_.products_,",
        FACTOR,
    ),
    Mistake(
        "a diagonal of R that is as reflections leave it",
        DEALT,
        "std::signbit(entry) ? T{-1} : T{1};",
        "T{1};",
        FACTOR,
    ),
    Mistake(
        "rows of R that are not turned behind their tile",
        DEALT,
        "turn(d, slab_.block(before(step), behind.begin.value(), width(step), behind.size()));",
        "",
        FACTOR,
    ),
    Mistake(
        "columns of Q that are not turned",
        DEALT,
        "all_.kernels_.copy(queue, d, q.block(0, 0, count, count));",
        "all_.kernels_.identity(queue, q.block(0, 0, count, count));",
        FACTOR,
    ),
    Mistake(
        "a next panel without its last update",
        DEALT,
        "all_.remaining(step - 1, columns_.columns(step)));",
        "all_.remaining(step - 1, columns_.columns(step)).columns_from(0, 0));",
        FACTOR,
    ),
    Mistake(
        "products with V that are summed up in working precision",
        DEALT,
        "rows_at_once(a.rows()), v, a, tva, sums);",
        "a.rows(), v, a, tva, sums);",
        "QrFamily/complex128.Factor*",
    ),
    Mistake(
        "a certificate without the tiles of R on the diagonal",
        DEALT,
        "add(square(r_, step), step, before(step));",
        "",
        FACTOR,
    ),
    Mistake(
        "R that is not scaled back",
        DEALT,
        "back.begin(), back.end(), [](std::int64_t& one) { one = -one; });",
        "back.begin(), back.end(), [](std::int64_t& one) { one = 0; });",
        FACTOR,
    ),
    Mistake(
        "R beyond the range returned",
        "src/dense/qr/program.cpp",
        "if (!householder.r_is_finite()) {",
        "if (false) {",
        "Qr.R_BeyondTheRange*",
    ),
    # Rank and singular values.
    Mistake(
        "the rank by the diagonal of R",
        "src/dense/qr/small_solver.cpp",
        "rcond_ = std::isfinite(product) ? 1.0 / product : 0.0;",
        "rcond_ = std::isfinite(product) ? least / norm_ : 0.0;",
        "Qr.LeastSquares_OfAMatrixWhoseDiagonal*",
    ),
    Mistake(
        "the rank with a tolerance of 2e5 u",
        "src/dense/qr/program.cpp",
        "const double least = rcond * singular_values.front();",
        """const double least =
          std::max(rcond, 2e5 * unit_roundoff<double>) * singular_values.front();""",
        LSTSQ,
    ),
    Mistake(
        "U for V on the way back from polar factors",
        "src/dense/qr/program.cpp",
        "vh = adjoint_on_first<Wide>(rank_, layout, prepared_->v->",
        "vh = adjoint_on_first<Wide>(rank_, layout, prepared_->u->",
        LSTSQ,
    ),
    Mistake(
        "singular values of R with columns at equal size",
        "src/dense/qr/small_solver.cpp",
        "back.push_back(common - exponent);",
        "back.push_back(common);",
        LSTSQ,
    ),
    Mistake(
        "parts that are not divided by singular values",
        "src/dense/qr/small_solver.cpp",
        "parts[at] /= scaled_values_[",
        "parts[at] *= scaled_values_[",
        LSTSQ,
    ),
    Mistake(
        "singular values as exact as those of the Gram matrix",
        "src/runtime/host/qr_kernels.cpp",
        "*verdict = blas::Blas<Wide>::gesdd(a, s, u, vh);",
        """*verdict = blas::Blas<Wide>::gesdd(a, s, u, vh);
           for (std::int64_t i = a.rows() - 1; i >= 0; --i) {
             s[i] = std::sqrt(s[i] * s[i] + 1e-16 * s[0] * s[0]);
           }""",
        LSTSQ,
    ),
    # R of nearly square systems, on the first rank.
    Mistake(
        "R^T for R",
        "src/dense/qr/factor_in_columns.cpp",
        "kernels.conjugate_transpose(queue, adjoint.columns_from(0, n), factored.r);",
        "kernels.copy(queue, adjoint.columns_from(0, n), factored.r);",
        LSTSQ,
    ),
    # Solutions.
    Mistake(
        "x that is not scaled back",
        "src/dense/qr/tall_solve.cpp",
        "tried_given_[at] = times_power<T>(scaled[at], exponent - of_b_[j]);",
        "tried_given_[at] = times_power<T>(scaled[at], exponent);",
        LEAST_SQUARES,
    ),
    Mistake(
        "the residual in working precision",
        "src/dense/qr/tall_solve.cpp",
        "base.add(rank_.update(), T{-1}, product.columns_from(columns, columns), r);",
        "",
        "QrFamily/float64.Certificate_OfASquareSystem*",
    ),
    Mistake(
        "A^T for A^H",
        "src/dense/qr/wide_solve.cpp",
        "kernels.conjugate_transpose(rank.update(), block,",
        "rank.kernels<runtime::LuKernels<T>>().transpose(rank.update(), block,",
        "QrFamily/complex128.LeastSquares_OfFewerRows*",
    ),
)
