"""Mistakes of eigensolvers."""

from mistakes.mistake import UNIT, Mistake

WHOLE = "Eigh/float64.OfEveryMatrix*:Eigh/float64.OnEveryCut*:Eigh/float64.OfManyRows*"

MISTAKES = (
    Mistake(
        "vectors of a merge from z itself, not from the weights for which the roots are exact",
        "src/runtime/host/secular.cpp",
        "std::copysign(std::sqrt(std::abs(weights[i])), equation.weights[i])",
        "equation.weights[i]",
        WHOLE,
    ),
    Mistake(
        "distances to poles from the rounded root",
        "src/runtime/secular_search.hpp",
        "(equation.poles[root.origin] - equation.poles[pole]) + root.offset",
        "(equation.poles[root.origin] + root.offset) - equation.poles[pole]",
        WHOLE,
    ),
    Mistake(
        "deflation with a tolerance that is 10000 times too large",
        "src/dense/eigh/deflation.cpp",
        "tolerance_ = 8 *",
        "tolerance_ = 80000 *",
        WHOLE,
    ),
    Mistake(
        "no rotation of close poles",
        "src/dense/eigh/deflation.cpp",
        "if (!(std::abs((upper - lower) * c * s) <= tolerance_)) {",
        "if (tolerance_ >= 0) {",
        WHOLE,
    ),
    Mistake(
        "roots that are found to ten digits only",
        "src/runtime/secular_search.hpp",
        "if (std::abs(g) <= noise * size",
        "if (std::abs(g) <= Real(1e-10) * size",
        WHOLE,
    ),
    Mistake(
        "reflectors that begin at the next block, on ragged slabs",
        "src/dense/eigh/full_to_band.cpp",
        "begin(std::min(first + layout.tile(), layout.size()))",
        "begin(std::min(first + columns, layout.size()))",
        WHOLE,
    ),
    Mistake(
        "0.45 in place of 1/2 in w",
        "src/dense/eigh/full_to_band.cpp",
        "T{-0.5}",
        "T{-0.45}",
        WHOLE,
    ),
    Mistake(
        "no scaling of A",
        "src/dense/eigh/calls.cpp",
        "return std::abs(size.exponent) > limit ? -size.exponent : 0;",
        "return limit > 0 ? 0 : -size.exponent;",
        WHOLE,
    ),
    Mistake(
        "sweeps that follow each other one task behind, not two",
        "src/runtime/chase.hpp",
        "return 2 * sweep + number;",
        "return sweep + number;",
        "*Chase*",
        UNIT,
    ),
    Mistake(
        "a diagonal that is rounded in every sweep",
        "src/runtime/host/band_kernels.cpp",
        "remainder = (number - (sum - part)) + (change - part);",
        "remainder = 0 * part;",
        "BandKernels*Drift*",
        UNIT,
    ),
    Mistake(
        "two-sided updates of a chase with the share of the identity",
        "src/runtime/host/band_kernels.cpp",
        "const RealOf<T> shift = std::real(d(0, 0));",
        "const RealOf<T> shift = 0;",
        "BandKernels*Drift*",
        UNIT,
    ),
    Mistake(
        "products with panels with the share of the identity",
        "src/dense/eigh/full_to_band.cpp",
        "shift_ = shift_of_diagonal();",
        "shift_ = 0 * shift_of_diagonal();",
        "Eigh/complex128.OfEveryMatrix*",
    ),
    Mistake(
        "rows of Z in the order of elimination",
        "src/dense/eigh/calls.cpp",
        "order_.to_caller_order(z);",
        "",
        WHOLE,
    ),
    Mistake(
        "Z^H without the conjugate's other half: columns of another rank's rows",
        "src/dense/eigh/store_adjoint.cpp",
        "target.block(row, 0,",
        "target.block(row - first, 0,",
        "Eigh/float64.AsAdjoint*",
    ),
)
