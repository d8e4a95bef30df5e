"""(S + shift I) x = F by the Gram matrix of samples or parameters: the public function."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, Mesh

from shardsolve import _eigh, _shifted
from shardsolve._alone import is_subnormal, size_of, times_power
from shardsolve._calls import compiled
from shardsolve._check import as_array, how_to_agree
from shardsolve._cut import Cut, beside, find_cut, inside_shard_map
from shardsolve._gram import gram
from shardsolve._products import everywhere, times
from shardsolve._records import NOT_KNOWN, Status, _Judged, raise_if_failed
from shardsolve.natural._memory import Sizes, require_memory

_SIDES = ("auto", "samples", "parameters")
_MODES = ("real", "complex", "holomorphic")
_SOLVERS = ("cholesky", "smooth_pinv")
# What a verdict is about, in the order of NaturalInfo.of.
_OF_ZERO = -10_000  # the exponent of what is 0
_ABOUT = ("the Gram matrix with the shift: ", "O: ", "f: ", "momentum: ")
# Likewise of numbers that were traced, so that nobody could look at them before.
_NO_SUCH_NUMBER = {
    len(_ABOUT): "shift is not a positive number (with smooth_pinv: not negative), and finite",
    len(_ABOUT) + 1: "scale is not a positive number, and finite",
}


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)  # of arrays: neither compared nor hashed by value
class NaturalInfo(_Judged):
    """What is known of a natural gradient; inside `jit` its fields are tracers.

    Figures are of the system with the Gram matrix. -1: not asked for, or of the other solver.

    Attributes:
        verdict: int32[5]: status, row, column, rows eliminated before, in right-hand side. Rows are
            samples or parameters, by the side; with mode "complex" row 2 i is the real part of
            sample i, and row 2 i + 1 the imaginary part.
        shift: The one that x belongs to: of a ladder the last.
        backward_error: Of the solve by Cholesky, as in `Info`.
        rcond: Likewise.
        residual: Of the eigenpairs of "smooth_pinv", as in `EighInfo`.
        orthogonality: Likewise.
        of: int32: what the verdict is about: 0 the Gram matrix, 1 O, 2 f, 3 momentum, 4 shift,
            5 scale; of these, where they are traced, INVALID_ARGUMENT.
    """

    shift: jax.Array
    backward_error: jax.Array
    rcond: jax.Array
    residual: jax.Array
    orthogonality: jax.Array
    of: jax.Array

    def _sentence(self, number: int, words: np.ndarray) -> str:
        of = int(jax.device_get(self.of).reshape(-1)[number])
        return _NO_SUCH_NUMBER.get(of) or super()._sentence(number, words)

    def _named(self, number: int) -> str:
        words, of = (jax.device_get(value) for value in (self.verdict, self.of))
        failed = words.reshape(-1, words.shape[-1])[number, 0] != Status.OK
        return _ABOUT[int(of.reshape(-1)[number])] if failed else ""


class _Plan(NamedTuple):
    """What of a call is known before it is traced."""

    samples: bool  # the side
    center: bool
    stacked: bool  # real and imaginary parts are rows of their own
    solver: str
    steps: int  # of the ladder, at most
    with_rcond: bool
    wide: str  # dtype of the Gram matrix


def solve(
    O: jax.Array,  # noqa: E741
    f: jax.Array,
    shift: float | jax.Array,
    *,
    side: str = "auto",
    center: bool = True,
    scale: float | jax.Array | None = None,
    solver: str = "cholesky",
    ladder: bool = True,
    mode: str = "real",
    momentum: jax.Array | None = None,
    gram_dtype: Any = None,
    mesh: Mesh | AbstractMesh | None = None,
    full_output: bool = False,
) -> jax.Array | tuple[jax.Array, NaturalInfo]:
    """Solves (S + shift I) x = F with S = scale O^H O and F = scale O^H f, O and f centred.

    The Gram matrix of the smaller side is made where it is solved: each device makes its own rows
    of it, each block of the two that are alike once, while the rows of O go round the devices. No
    device ever has all of O, unless it has it from the start.

    With w rows on a device (N / devices, or on the other side P / devices; twice as many samples
    with mode "complex") a device takes, beside its part of O, four times its part of O in the dtype
    of the Gram matrix, and three times w rows of that matrix.

    Args:
        O: (N, P), float32, float64, complex64 or complex128: derivatives by P parameters, a row for
            each of N samples. Its rows are best cut over devices, as by `P("x", None)`.
        f: (N,), of O's dtype: local energies, residuals.
        shift: Positive, with "smooth_pinv" not negative: lambda.
        side: "samples" solves with an (N, N) matrix, "parameters" with (P, P); "auto" takes the
            smaller one. With more samples than parameters "samples" is allowed, and warned of.
        center: Take the mean over samples from O and f.
        scale: By default 1 / N.
        solver: "cholesky", or "smooth_pinv", by eigenvalues w: 1 / (w (1 + (e w_max / w)^6)) is
            taken for 1 / w, with e = 32 sqrt(n) eps for n rows (Medvidovic and Sels, 2023,
            https://doi.org/10.1103/PRXQuantum.4.040302).
        ladder: Where Cholesky's method meets a pivot that is not positive, or rounding, solve with
            ten times the shift, up to ten times in turn; info.shift says which it was.
        mode: "real": O and f are real. "complex", as NetKet calls it: the derivatives of a complex
            function by real parameters; S is the real part of O^H O, and so is x. "holomorphic": by
            complex parameters; S and x are complex.
        momentum: (P,), of x's dtype: SPRING (Goldshlager, Abrahamsen and Lin, 2024,
            https://doi.org/10.1016/j.jcp.2024.113351): the x with the least ||O x - f||^2 scale +
            shift ||x - momentum||^2. Pass mu times the x of the step before.
        gram_dtype: "float64": make and solve the system in double precision for an O in single
            precision. x is of O's precision.
        mesh: Devices to use, all its axes; by default those that hold O, inside of `jit` those of
            the mesh that is set (`jax.set_mesh`). Without either XLA places the work in `jit`, and
            makes the Gram matrix of the parameters' side whole on every device.
        full_output: Also return what is known of the answer.

    Returns:
        x, (P,), whole on every device; with full_output (x, NaturalInfo).

        Derivatives of x by f and momentum are there (`grad`, `jvp`), by O, shift and scale not.

    Raises:
        LinAlgError: Outside of `jit` and without full_output, if there is no answer; it says why.
            Otherwise x is then NaN.
        MemoryError: Before any work, if the devices are known and have less memory than it takes;
            with figures, and the chunks that would fit.
        NotImplementedError: If derivatives by O, shift or scale are asked for.
        SolverError: Likewise, for a device that fails.
        TypeError, ValueError: On arguments that do not fit.
    """
    o, f, stacked = _check_samples(O, f, mode, center)
    n, parameters = o.shape
    rows = 2 * n if stacked else n
    _require_one_of("side", side, _SIDES)
    _require_one_of("solver", solver, _SOLVERS)
    if side == "samples" and rows > parameters:
        warnings.warn(
            f"side='samples' makes a matrix of {rows} rows, and side='parameters' one of "
            f"{parameters}: the other side takes less time and memory",
            stacklevel=2,
        )
    wide = _check_gram_dtype(gram_dtype, o.dtype)
    plan = _Plan(
        samples=side == "samples" or (side == "auto" and rows <= parameters),
        center=bool(center),
        stacked=stacked,
        solver=solver,
        steps=_shifted.LADDER_STEPS if ladder else 0,
        with_rcond=full_output,
        wide=wide.name,
    )
    scale = 1 / n if scale is None else scale
    _check_numbers(shift, scale, solver, wide)
    o = _constant("O", o)
    of_x = jnp.finfo(o.dtype).dtype if stacked else o.dtype
    momentum = _check_momentum(momentum, parameters, np.dtype(of_x))
    if inside_shard_map():
        raise ValueError(
            "natural.solve was called inside of a shard_map: call it outside, with the whole O, "
            "cut along its rows; it has a shard_map of its own"
        )
    around = jax.sharding.get_abstract_mesh()
    if mesh is None and isinstance(o, jax.core.Tracer) and not around.empty:
        mesh = around
    cut = find_cut(o, mesh, None, f)
    of_samples = Sizes(n, parameters, True, rows, _item(wide, stacked), solver)
    of_parameters = of_samples._replace(by_samples=False, rows=parameters)
    sides = (of_samples, of_parameters) if plan.samples else (of_parameters, of_samples)
    require_memory(sides[0], cut, sides[1])
    real = jnp.finfo(wide).dtype
    shift, scale = (
        _constant(name, beside((o, f), cut, one, real))
        for name, one in (("shift", shift), ("scale", scale))
    )
    x, info = _solve(o, f, shift, scale, momentum, cut and cut.by_rows, plan)
    if full_output:
        return x, info
    if not isinstance(info.verdict, jax.core.Tracer):
        raise_if_failed(info.verdict, info._named(0))
        _warn_of_shift(*map(float, jax.device_get((shift, info.shift))))
    return x


def _item(wide: np.dtype, stacked: bool) -> int:
    """Bytes of a number of the Gram matrix."""
    return wide.itemsize // 2 if stacked else wide.itemsize


def _warn_of_shift(given: float, used: float) -> None:
    if used > given:
        warnings.warn(
            f"with the shift {given:.3g} the Gram matrix is not positive definite to working "
            f"precision: x belongs to the shift {used:.3g}. Pass a greater shift, or "
            "gram_dtype='float64' if O is of single precision",
            stacklevel=3,
        )


# Arguments


def _check_samples(
    o: object, f: object, mode: str, center: bool
) -> tuple[jax.Array, jax.Array, bool]:
    """O, f, and whether real and imaginary parts become rows of their own."""
    _require_one_of("mode", mode, _MODES)
    o, f = as_array(o, "O"), as_array(f, "f")
    if o.ndim != 2 or 0 in o.shape:
        raise ValueError(
            f"O has shape {o.shape}; pass (samples, parameters), at least one of each; several go "
            "through jax.vmap"
        )
    if f.shape != o.shape[:1]:
        raise ValueError(
            f"f has shape {f.shape} and O has shape {o.shape}; pass a number for each sample, "
            f"({o.shape[0]},)"
        )
    if center and len(o) == 1:
        raise ValueError(
            "O has one sample, which is its own mean, and nothing is left of it: pass more samples "
            "or center=False"
        )
    is_complex = o.dtype.kind == "c"
    if is_complex and mode == "real":
        raise TypeError(
            f"O has dtype {o.dtype.name} and mode is 'real': pass mode='complex' if the parameters "
            "are real, mode='holomorphic' if they are complex, or O.real"
        )
    if f.dtype != o.dtype:
        raise TypeError(
            f"O has dtype {o.dtype.name} and f has dtype {f.dtype.name}; pass both in the same, "
            f"{how_to_agree('O', np.dtype(o.dtype), 'f', np.dtype(f.dtype), 'f.real')}"
        )
    return o, f, is_complex and mode == "complex"


def _require_one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}; pass one of {', '.join(map(repr, known))}")


def _check_gram_dtype(wanted: Any, given: np.dtype) -> np.dtype:
    """Of the precision that is asked for, and of the kind of O."""
    if wanted is None:
        return np.dtype(given)
    try:
        name = np.dtype(wanted).name
    except TypeError:
        name = str(wanted)
    wide = np.result_type(given, np.float64)
    if name not in ("float64", "complex128"):
        raise ValueError(
            f"gram_dtype is {wanted!r}; pass 'float64' for a Gram matrix in double precision, or "
            "leave it out for one of O's dtype"
        )
    if jax.dtypes.canonicalize_dtype(wide) != wide:
        raise TypeError(
            "gram_dtype is 'float64' and JAX has no 64-bit types, as they are off: set "
            "jax.config.update('jax_enable_x64', True) first"
        )
    return wide


def _check_numbers(shift: Any, scale: Any, solver: str, wide: np.dtype) -> None:
    """Throws if shift or scale are none in the Gram matrix's real type."""
    least = "a positive number" if solver == "cholesky" else "a number that is not negative"
    real = jnp.finfo(wide).dtype
    for name, value, accepted in (
        ("shift", shift, least),
        ("scale", scale, "a positive number, or leave it out for 1 / N"),
    ):
        if isinstance(value, jax.core.Tracer):
            is_right = value.shape == () and value.dtype.kind in "fiu"
        else:
            number = np.asarray(jax.device_get(value))
            is_right = number.shape == () and number.dtype.kind in "fiu" and np.isfinite(number)
            may_be_zero = name == "shift" and solver == "smooth_pinv"
            is_right = is_right and (number > 0 or (may_be_zero and number == 0))
            if is_right and 0 < number < jnp.finfo(real).tiny:
                raise ValueError(
                    f"{name} is {value!r}, which is 0 or subnormal in {real.name}; "
                    f"pass {accepted} of at least {jnp.finfo(real).tiny:.1e}"
                )
            if is_right and number > jnp.finfo(real).max:
                raise ValueError(
                    f"{name} is {value!r}, which is above the range of {real.name}; "
                    f"pass {accepted} of at most {jnp.finfo(real).max:.1e}"
                )
        if not is_right:
            raise ValueError(f"{name} is {value!r}; pass {accepted}")


def _constant(name: str, given: jax.Array) -> jax.Array:
    """`given`, of which whoever asks for derivatives is told that there are none."""
    if not isinstance(given, jax.core.Tracer):
        return given

    @jax.custom_jvp
    def same(given: jax.Array) -> jax.Array:
        return given

    @functools.partial(same.defjvp, symbolic_zeros=True)
    def rule(primals, tangents):
        if not isinstance(tangents[0], jax.custom_derivatives.SymbolicZero):
            raise NotImplementedError(
                f"natural.solve has no derivatives by {name}, only by f and momentum: pass "
                f"jax.lax.stop_gradient({name}) if it is to count as a constant"
            )
        return primals[0], tangents[0]

    return same(given)


def _check_momentum(momentum: object, parameters: int, dtype: np.dtype) -> jax.Array | None:
    if momentum is None:
        return None
    momentum = as_array(momentum, "momentum")
    if momentum.shape != (parameters,) or momentum.dtype != dtype:
        raise ValueError(
            f"momentum has shape {momentum.shape} and dtype {momentum.dtype.name}; pass "
            f"({parameters},) of {dtype.name}, such as 0.9 times the x of the step before"
        )
    return momentum


# What follows is traced.


@functools.partial(compiled, static_argnames=("cut", "plan"))
def _solve(
    o: jax.Array,
    f: jax.Array,
    shift: jax.Array,
    scale: jax.Array,
    momentum: jax.Array | None,
    cut: Cut | None,
    plan: _Plan,
) -> tuple[jax.Array, NaturalInfo]:
    if cut is not None:
        o, f = cut.place(o), cut.place(f)
    of_x = jnp.finfo(o.dtype).dtype if plan.stacked else o.dtype
    wide = o.astype(plan.wide), f.astype(plan.wide)
    powers = _powers_of(*wide, momentum, shift, scale)
    a, right = _prepared(*wide, scale, powers, plan)
    if momentum is not None:
        # what the start leaves: SPRING is a step from there
        start = _times_power(momentum.astype(a.dtype), powers.a - powers.g)
        right = right - jnp.matmul(a, start, precision=lax.Precision.HIGHEST)
    scaled_shift = _times_power(shift, -2 * (powers.a + powers.left))
    if plan.samples:
        z, info = _with_gram(a, right, scaled_shift, cut, plan)
        scaled = times(jnp.conj(a.T), z, cut)
    else:
        rows = jnp.conj(a.T)
        scaled, info = _with_gram(rows, times(rows, right, cut), scaled_shift, cut, plan)
    used = _times_power(info.shift, 2 * (powers.a + powers.left))
    info = dataclasses.replace(info, shift=jnp.where(info.shift == scaled_shift, shift, used))
    x = _times_power(scaled, powers.g - powers.a - 2 * powers.left)
    if momentum is not None:
        x = x + momentum.astype(x.dtype)
    x = everywhere(x, cut).astype(of_x)
    # Only where x is not finite: it reads all of O.
    verdict, of = lax.cond(
        jnp.all(jnp.isfinite(x)),
        lambda: (jnp.zeros(5, jnp.int32), jnp.int32(0)),
        lambda: _look(*lax.stop_gradient((o, f, momentum)), cut),
    )
    verdict = jnp.where(of != 0, verdict, _in_range(info.verdict, (o, f, shift, scale), scaled, x))
    nothing = jnp.array([Status.INVALID_ARGUMENT, -1, -1, -1, 0], jnp.int32)
    tiny = jnp.finfo(shift.dtype).tiny
    limits = (shift, 0 if plan.solver == "smooth_pinv" else tiny), (scale, tiny)
    for about, (given, least) in zip(_NO_SUCH_NUMBER, limits, strict=True):
        is_one = jnp.isfinite(given) & (given >= least)
        verdict = jnp.where(is_one, verdict, nothing)
        of = jnp.where(is_one, of, about)
    failed = verdict[0] != Status.OK
    info = dataclasses.replace(info, verdict=verdict, of=of)
    return jnp.where(failed, jnp.nan, x), info


def _in_range(
    verdict: jax.Array, given: tuple[jax.Array, ...], scaled: jax.Array, x: jax.Array
) -> jax.Array:
    """The verdict, or that the range of the dtype does not hold what is given, or x."""
    nowhere = jnp.array([Status.OVERFLOW, -1, -1, -1, 0], jnp.int32)
    too_large = ~jnp.all(jnp.isfinite(x))
    is_lost = jnp.any((jnp.abs(x) < jnp.finfo(x.dtype).tiny) & (scaled != 0))
    too_small = is_lost & _is_near_the_end(x)
    for one in given:
        # Only there: it reads all of O.
        too_small |= lax.cond(
            _is_near_the_end(one),
            lambda one: jnp.any(is_subnormal(one)),
            lambda _: jnp.zeros((), bool),
            lax.stop_gradient(one),
        )
    left = jnp.where(too_large, nowhere, nowhere.at[0].set(Status.UNDERFLOW))
    return jnp.where((verdict[0] == Status.OK) & (too_large | too_small), left, verdict)


def _is_near_the_end(a: jax.Array) -> jax.Array:
    """Whether what subnormal numbers lose is more than rounding of the largest one."""
    real = jnp.finfo(a.dtype)
    return _largest(a) < real.tiny / real.eps


def _largest(a: jax.Array) -> jax.Array:
    """Down the rows first: so a GPU finds it in one pass with their mean."""
    return jnp.max(jnp.max(jnp.atleast_1d(size_of(lax.stop_gradient(a))), axis=0))


def _look(
    o: jax.Array, f: jax.Array, momentum: jax.Array | None, cut: Cut | None
) -> tuple[jax.Array, jax.Array]:
    """The verdict on the first entry that is no finite number, and of which argument it is.

    Here, as the mean over samples would carry it to every entry of the Gram matrix.
    """
    words, of = jnp.zeros(5, jnp.int32), jnp.int32(0)
    given = [o, f[:, None]] + ([] if momentum is None else [momentum[:, None]])
    for number, a in reversed(list(enumerate(given, 1))):
        bad, (n, k) = ~jnp.isfinite(a), a.shape
        rows = jnp.arange(n, dtype=jnp.int32)
        if cut is not None and number < 3:
            rows = cut.place(rows)
        row = jnp.min(jnp.where(jnp.any(bad, axis=1), rows, n))
        columns = jnp.arange(k, dtype=jnp.int32)[None]
        column = jnp.min(jnp.where(bad & (rows == row)[:, None], columns, k))
        status, side = jnp.int32(Status.NONFINITE_INPUT), jnp.int32(number > 1)
        is_bad = row < n
        words = jnp.where(is_bad, jnp.stack([status, row, column, jnp.int32(-1), side]), words)
        of = jnp.where(is_bad, number, of)
    return words, of


class _Powers(NamedTuple):
    """Exponents of powers of two that A, g and the shift are divided by, as _prepared() has them.

    None of them leaves the range then, nor do products.
    """

    o: jax.Array  # what O itself has
    a: jax.Array  # twice that: of the shift, of which `left` is left out
    g: jax.Array  # with what the momentum makes of A
    left: jax.Array  # beside so great a shift S is nothing: x is F over the shift


def _powers_of(
    o: jax.Array,
    f: jax.Array,
    momentum: jax.Array | None,
    shift: jax.Array,
    scale: jax.Array,
) -> _Powers:
    def power_of(given: jax.Array) -> jax.Array:
        size = _largest(given)
        return jnp.where(size == 0, _OF_ZERO, jnp.frexp(size)[1])

    of_o, root = power_of(o), power_of(jnp.sqrt(scale))
    of_a, of_shift = of_o + root, power_of(jnp.sqrt(shift))
    left = jnp.maximum(0, of_shift - of_a - jnp.finfo(o.dtype).nmant - 12)
    of_a = jnp.maximum(of_a, of_shift - left)
    of_g = power_of(f) + root
    if momentum is not None:
        of_g = jnp.maximum(of_g, power_of(momentum) + of_a)
    return _Powers(of_o, of_a, of_g, left)


def _times_power(a: jax.Array, exponent: jax.Array) -> jax.Array:
    """As `times_power`, where the power itself may be out of range."""
    limit = jnp.finfo(a.dtype).maxexp - 2
    for _ in range(4):
        step = jnp.clip(exponent, -limit, limit)
        a, exponent = times_power(a, step), exponent - step
    return a


def _prepared(
    o: jax.Array, f: jax.Array, scale: jax.Array, powers: _Powers, plan: _Plan
) -> tuple[jax.Array, jax.Array]:
    """A and g of S = A^H A and F = A^H g: centred, scaled, with real rows if they are to be."""
    if plan.center:
        o, f = o - jnp.mean(o, axis=0, keepdims=True), f - jnp.mean(f)
    root = jnp.sqrt(scale)
    # Two factors: neither is out of range.
    half = powers.a // 2
    first, second = times_power(root, -half), times_power(jnp.ones_like(root), half - powers.a)
    o = first.astype(o.dtype) * o * second.astype(o.dtype)
    o = jnp.where(powers.a > _OF_ZERO // 2, o, 0)  # no power of two is as large as that
    f = root.astype(f.dtype) * _times_power(f, -powers.g)
    if not plan.stacked:
        return o, f
    # Real and imaginary part of a sample are neighbours, so that they stay on its device.
    n, parameters = o.shape
    o = jnp.stack([o.real, o.imag], axis=1).reshape(2 * n, parameters)
    return o, jnp.stack([f.real, f.imag], axis=1).reshape(2 * n)


def _with_gram(
    a: jax.Array, right: jax.Array, shift: jax.Array, cut: Cut | None, plan: _Plan
) -> tuple[jax.Array, NaturalInfo]:
    """Z of (A A^H + shift I) z = right."""
    n = len(a)
    missing = 0 if cut is None else -n % cut.parts
    if missing:
        a = jnp.pad(a, ((0, missing), (0, 0)))
        right = jnp.pad(right, (0, missing))
    matrix = _shifted.shifted(gram(a, cut), cut, n)
    if cut is not None:
        right = cut.place(right)
    if plan.solver == "smooth_pinv":
        z, info = _by_eigenvalues(matrix.plus(shift), right, shift, cut)
    else:
        z, shift, solved = _shifted.solve(
            matrix, right, shift, shift, cut, plan.steps, plan.with_rcond
        )
        unknown = jnp.full_like(solved.rcond, NOT_KNOWN)
        figures = solved.backward_error, solved.rcond, unknown, unknown
        info = NaturalInfo(solved.verdict, shift, *figures, jnp.int32(0))
    return z if cut is None or not missing else cut.whole(z, n), info


def _by_eigenvalues(
    matrix: jax.Array, right: jax.Array, shift: jax.Array, cut: Cut | None
) -> tuple[jax.Array, NaturalInfo]:
    """By a pseudo-inverse that leaves small eigenvalues out smoothly."""
    n = len(matrix)
    w, v, info = _eigh._eigh_of(cut, _eigh.Wanted(0, n))(matrix, None)
    ratio = jnp.abs(w) / jnp.max(jnp.abs(w))
    rounding = 32 * float(np.sqrt(n)) * float(jnp.finfo(w.dtype).eps)
    kept = 1 / (1 + (rounding / ratio) ** 6)
    inverse = jnp.where(ratio > 0, kept / w, 0).astype(v.dtype)
    z = jnp.matmul(v, inverse * times(jnp.conj(v.T), right, cut), precision=lax.Precision.HIGHEST)
    unknown = jnp.full_like(info.residual, NOT_KNOWN)
    figures = unknown, unknown, info.residual, info.orthogonality
    return z, NaturalInfo(info.verdict, shift, *figures, jnp.int32(0))
