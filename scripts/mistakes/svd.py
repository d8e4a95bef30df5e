"""Mistakes of polar factors and singular values."""

from mistakes.mistake import Mistake

SQUARE = "SvdFamily/float64.OfEverySquareMatrix*"

POLAR_FACTOR = "src/dense/svd/polar_factor.cpp"
BY_POLAR = "src/dense/svd/by_polar.cpp"
ON_FIRST_RANK = "src/dense/svd/on_first_rank.cpp"

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
    # LAPACK's on the first rank.
    Mistake(
        "phases that are not turned back",
        ON_FIRST_RANK,
        "qr::conjugate(phase);",
        "phase;",
        "SvdFamily/complex128.OfEverySquareMatrix*",
    ),
    Mistake(
        "columns of R whose scales are left in it",
        ON_FIRST_RANK,
        "qr::undo_scales<Wide>(rank, factored.r, factored.exponents, r);",
        "rank.kernels<Wide>().copy(rank.update(), factored.r, r);",
        "SvdFamily/float64.OfEveryTallOrWide*",
    ),
    Mistake(
        "A^H for A where it is square",
        ON_FIRST_RANK,
        "const MatrixView<T> all = adjoint_of<T>(rank, adjoint);",
        "const MatrixView<T> all = adjoint;",
        SQUARE,
    ),
)
