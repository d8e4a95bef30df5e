"""Mistakes of polar factors and singular values."""

from mistakes.mistake import Mistake

SQUARE = "SvdFamily/float64.OfEverySquareMatrix*"

POLAR_FACTOR = "src/dense/svd/polar_factor.cpp"
BY_POLAR = "src/dense/svd/by_polar.cpp"
BY_BIDIAGONAL = "src/dense/svd/by_bidiagonal.cpp"
FORM = "src/dense/svd/bidiagonal_form.cpp"
FORM_KERNELS = "src/runtime/host/bidiagonal_kernels.cpp"

MISTAKES = (
    # The iteration.
    Mistake(
        "weights without a cap",
        POLAR_FACTOR,
        "std::is_same_v<RealOf<T>, float> ? 1e4 : 1e6;",
        "std::is_same_v<RealOf<T>, float> ? 1e4 : 1e30;",
        SQUARE,
    ),
    Mistake(
        "one Cholesky factor for two where the weights are large",
        POLAR_FACTOR,
        """    solve(Op::none, y_);
    solve(Op::none, q2);
    relay_.adjoint_times""",
        "    relay_.adjoint_times",
        SQUARE,
    ),
    Mistake(
        "the step for mild weights, whatever they are",
        "src/dense/svd/weights.hpp",
        "return c <= 100.0;",
        "return c >= 0.0;",
        SQUARE,
    ),
    Mistake(
        "a bound for the smallest singular value that is too large",
        POLAR_FACTOR,
        "? 0x1p-30 : 0x1p-60;",
        "? 0x1p-30 : 1e-3;",
        SQUARE,
    ),
    Mistake(
        "missing columns that are not completed",
        POLAR_FACTOR,
        "return deviation <= std::sqrt(unit_roundoff<T>);",
        "return deviation >= 0.0;",
        SQUARE,
    ),
    Mistake(
        "columns that are completed after a bound that was found and is none",
        BY_POLAR,
        "completes = !*found]",
        "completes = true]",
        "Svd.PolarFactorOfAValue*",
    ),
    # H and its eigenvalues.
    Mistake(
        "H that is not made Hermitian",
        POLAR_FACTOR,
        "eigh::store_adjoint<T>(rank, shape.columns, h.rows(), copy, adjoint);",
        "kernels.copy(rank.update(), copy, adjoint);",
        "SvdFamily/float64.PolarFactors*",
    ),
    Mistake(
        "eigenvectors that are taken as they are",
        BY_POLAR,
        "static_cast<Real>(1.0 / lengths[i]),",
        "Real{1},",
        "SvdFamily/complex128.OfEveryTallOrWide*",
    ),
    Mistake(
        "singular values that rounding has made negative",
        BY_POLAR,
        "std::ldexp(std::abs(eigenvalue(i)), -exponent())",
        "std::ldexp(eigenvalue(i), -exponent())",
        SQUARE,
    ),
    # The bidiagonal form.
    Mistake(
        "a column whose row is forgotten",
        FORM_KERNELS,
        "y[j] = sums.row[j] - sums.product[j];",
        "y[j] = -sums.product[j];",
        SQUARE,
    ),
    Mistake(
        "vectors of zeros that are reflected",
        FORM_KERNELS,
        "squared >= shortest_squared",
        "squared >= 0.0",
        SQUARE,
    ),
    Mistake(
        "factors of reflections whose phase is lost",
        FORM_KERNELS,
        "std::imag(W{1} / tau[j])",
        "0.0",
        "SvdFamily/complex128.OfEverySquareMatrix*",
    ),
    Mistake(
        "a panel that is left out of the rest",
        FORM,
        "panel.x.block(above, 0, rows, width), panel.u.block(end, 0, behind, width), Wide{1},",
        "panel.x.block(above, 0, rows, width), panel.u.block(end, 0, behind, width), Wide{0},",
        "SvdFamily/float64.OfManyColumns*",
    ),
    Mistake(
        "reflections in the order in which they were made",
        FORM,
        "for (std::int64_t p = (n - 1) / panel_columns; p >= 0; --p) {",
        "for (std::int64_t p = 0; p <= (n - 1) / panel_columns; ++p) {",
        "SvdFamily/float64.OfManyColumns*",
    ),
    Mistake(
        "rows that are 0 in more reflectors than they are",
        FORM,
        "reflectors.layout.eliminated(rank_.index(), Step(first))",
        "reflectors.layout.eliminated(rank_.index(), Step(first + width))",
        SQUARE,
    ),
    Mistake(
        "phases that are not turned back",
        BY_BIDIAGONAL,
        "factors.push_back(qr::conjugate(largest) / std::abs(largest));",
        "factors.push_back(largest / std::abs(largest));",
        "SvdFamily/complex128.OfEverySquareMatrix*",
    ),
    Mistake(
        "columns of R whose scales are left in it",
        BY_BIDIAGONAL,
        "qr::undo_scales<Wide>(rank, factored.r, factored.exponents, r);",
        "rank.kernels<Wide>().copy(rank.update(), factored.r, r);",
        "SvdFamily/float64.OfEveryTallOrWide*",
    ),
)
