"""Mistakes of QR, least squares and ridge regression."""

from mistakes.mistake import Mistake

FACTOR = "QrFamily/float64.Factor*"
LEAST_SQUARES = "QrFamily/float64.LeastSquares_OfFullRank*"
LSTSQ = "QrFamily/float64.Lstsq_OfEveryMatrix*"

PASSES = "src/dense/qr/factor.cpp"

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
        "const double least = request_.rcond * values.front();",
        """const double least =
          std::max(request_.rcond, 2e5 * unit_roundoff<T>) * values.front();""",
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
