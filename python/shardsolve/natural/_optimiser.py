"""Training by natural gradients: least squares of any residuals, a solve for each step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh

from shardsolve import _shifted
from shardsolve._cut import Cut, beside, find_cut
from shardsolve._products import everywhere
from shardsolve._records import NOT_KNOWN
from shardsolve.natural._memory import Sizes, require_memory
from shardsolve.natural._solve import NaturalInfo, solve

Residuals = Callable[[Any, Any], jax.Array]


class NaturalGradientState(NamedTuple):
    """What goes from one step to the next, and what is known of the last one.

    Attributes:
        direction: (P,): the x of the last solve, and params went by -length x; 0 if they did not.
        loss: Half the mean square of the residuals, before the step.
        length: By how much of x params went: 1, 1/2, 1/4, ... or 0 if no trial had a smaller loss,
            or there was no x.
        info: Of the solve.
    """

    direction: jax.Array
    loss: jax.Array
    length: jax.Array
    info: NaturalInfo


class NaturalGradient(NamedTuple):
    """An optimiser as optax's are: `init(params)`, `update(batch, state, params)`.

    Where optax has gradients, `update` takes the batch; it returns what is to be added to params,
    as for `optax.apply_updates`, and the new state. Both work inside of `jit` and outside.
    """

    init: Callable[[Any], NaturalGradientState]
    update: Callable[[Any, NaturalGradientState, Any], tuple[Any, NaturalGradientState]]


def natural_gradient(
    residuals: Residuals | Sequence[Residuals],
    shift: float,
    momentum: float = 0.0,
    *,
    chunk: int | None = None,
    trials: int = 20,
    adapt: bool = False,
    mesh: Mesh | None = None,
) -> NaturalGradient:
    """An optimiser for half the mean square of residuals r of N samples, with derivatives J.

    Each step solves (J^T J / N + shift I) x = J^T r / N, by the Gram matrix of the samples or the
    parameters, and takes of the steps -x, -x/2, -x/4, ... the one with the smallest loss of this
    batch, if that is smaller than before (ENGD-W; Mueller and Zeinhofer, 2023,
    https://proceedings.mlr.press/v202/muller23b.html). With momentum x is SPRING's, see `solve`.

    Args:
        residuals: (params, batch) -> (N,), real. Every array of the batch has N as its first
            dimension, and residual i depends on sample i alone: it is called with one sample, too.
            Or several such functions, as of an equation and its boundary: the batch is then a list
            of as many, and their samples count as those of one.
        shift: Positive, of the size of rounding times the largest eigenvalue of J J^T / N or more.
            Where it is not enough, it is multiplied by ten.
        momentum: From 0 to less than 1: how much of the last x the next one is drawn to.
        chunk: Samples whose derivatives are held at a time: J is never there as a whole, only two
            chunks of it, and the system is that of the samples. By default all of J is.
        trials: Lengths that are tried.
        adapt: `shift` is that of the first step. It becomes a quarter after a step of length 1/4 or
            more, as residuals are nearly linear there, and four times as much after one below 1/8.
        mesh: Devices for the Gram matrix and its solve, as in `solve`.

    Returns:
        The optimiser. Its state says how the last step went.

    Raises:
        TypeError, ValueError: On arguments that do not fit; those of `update` when it is called.
    """
    functions = [residuals] if callable(residuals) else residuals
    is_list = isinstance(functions, Sequence) and len(functions) > 0
    if not (is_list and all(map(callable, functions))):
        raise TypeError(
            f"residuals is a {type(residuals).__name__}; pass a function of params and a batch, or "
            "a list of such functions"
        )
    for name, value, is_right, accepted in (
        ("shift", shift, _is_number(shift) and 0 < shift < np.inf, "a positive number"),
        ("momentum", momentum, _is_number(momentum) and 0 <= momentum < 1, "a number from 0 to 1"),
        ("chunk", chunk, chunk is None or _is_count(chunk), "a positive whole number of samples"),
        ("trials", trials, _is_count(trials), "a positive whole number"),
        ("adapt", adapt, isinstance(adapt, bool), "True or False"),
    ):
        if not is_right:
            raise ValueError(f"{name} is {value!r}; pass {accepted}")

    def init(params: Any) -> NaturalGradientState:
        theta, _ = _flat(params)
        put = functools.partial(beside, (theta,), None)
        none, unknown = put(0, theta.dtype), put(NOT_KNOWN, theta.dtype)
        figures = unknown, unknown, unknown, unknown
        whole = np.dtype(np.int32)
        info = NaturalInfo(put(np.zeros(5), whole), none, *figures, put(0, whole))
        return NaturalGradientState(_zeros_like(theta), unknown, none, info)

    @jax.jit
    def update(
        batch: Any, state: NaturalGradientState, params: Any
    ) -> tuple[Any, NaturalGradientState]:
        theta, unravel = _flat(params)
        batches = [batch] if callable(residuals) else _as_many(batch, len(functions))
        system = _System(functions, unravel, batches, theta)
        start = momentum * state.direction if momentum else None
        x, info = system.solve(_next(shift, state) if adapt else shift, start, chunk, mesh)
        loss, length = system.search(x, trials)
        x = jnp.where(length > 0, x, 0)  # momentum of a step that leads nowhere is no help
        return unravel(-length * x), NaturalGradientState(x, loss, length, info)

    return NaturalGradient(init, update)


def _zeros_like(theta: jax.Array) -> jax.Array:
    """Where it lies: see beside()."""
    if isinstance(theta, jax.core.Tracer):
        return jnp.zeros_like(theta)
    where = theta.sharding if theta.committed else None
    return jax.device_put(np.zeros(theta.shape, theta.dtype), where)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return int(value) > 0


def _flat(params: Any) -> tuple[jax.Array, Callable[[jax.Array], Any]]:
    theta, unravel = ravel_pytree(params)
    if theta.dtype.kind != "f" or theta.size == 0:
        raise TypeError(
            f"params has {theta.size} numbers of dtype {theta.dtype.name}; pass real ones, float32 "
            "or float64"
        )
    return theta, unravel


def _as_many(batch: Any, functions: int) -> Sequence[Any]:
    if not isinstance(batch, Sequence) or len(batch) != functions:
        given = f"{len(batch)} of them" if isinstance(batch, Sequence) else type(batch).__name__
        raise ValueError(
            f"residuals are {functions} functions and batch is {given}; pass a list with a batch "
            "for each function"
        )
    return batch


# What follows is traced.


def _next(first: float, state: NaturalGradientState) -> jax.Array:
    """The shift after a step."""
    smallest = 1e-3 * jnp.finfo(state.loss.dtype).eps
    factor = jnp.where(state.length >= 1 / 4, 1 / 4, jnp.where(state.length < 1 / 8, 4.0, 1.0))
    is_first = state.info.shift <= 0
    return jnp.where(is_first, first, jnp.maximum(factor * state.info.shift, smallest))


class _Part:
    """One of the functions, with its samples."""

    def __init__(self, residuals: Residuals, unravel: Callable, batch: Any, theta: jax.Array):
        self.residuals, self.unravel, self.batch, self.theta = residuals, unravel, batch, theta
        shapes = [jnp.shape(a) for a in jax.tree.leaves(batch)]
        if len({shape[:1] for shape in shapes}) != 1 or shapes[0][:1] in ((), (0,)):
            raise ValueError(
                f"batch has arrays of the shapes {shapes}; pass arrays with the same number of "
                "samples as their first dimension"
            )
        self.count = shapes[0][0]
        found = jax.eval_shape(self.of_all, theta)
        if found.shape != (self.count,) or found.dtype != theta.dtype:
            raise ValueError(
                f"residuals returned {found.dtype.name}{list(found.shape)} for {self.count} "
                f"samples; return a number for each, of the dtype of params, {theta.dtype.name}"
            )

    def of_all(self, theta: jax.Array) -> jax.Array:
        """The residuals of all samples."""
        return self.residuals(self.unravel(theta), self.batch)

    def derivatives(self, samples: Any) -> jax.Array:
        """(C, P): of each of C samples by the parameters."""

        def one(theta: jax.Array, sample: Any) -> jax.Array:
            alone = jax.tree.map(lambda a: a[None], sample)
            return self.residuals(self.unravel(theta), alone)[0]

        return jax.vmap(jax.grad(one), (None, 0))(self.theta, samples)

    def in_chunks(self, chunk: int) -> tuple[int, int, Callable[[jax.Array], jax.Array]]:
        """Samples in a chunk, how many chunks, and the derivatives of one by its number.

        The last chunk is filled up with the last sample.
        """
        size = min(chunk, self.count)
        missing, chunks = -self.count % size, -(-self.count // size)

        def cut(a: jax.Array) -> jax.Array:
            filled = jnp.concatenate([a, jnp.repeat(a[-1:], missing, axis=0)])
            return filled.reshape(chunks, size, *a.shape[1:])

        samples = jax.tree.map(lambda a: cut(jnp.asarray(a)), self.batch)

        def of(number: jax.Array) -> jax.Array:
            return self.derivatives(jax.tree.map(lambda a: a[number], samples))

        return size, chunks, of


class _System:
    """Residuals of all batches and their derivatives at some parameters."""

    def __init__(
        self,
        functions: Sequence[Residuals],
        unravel: Callable,
        batches: Sequence[Any],
        theta: jax.Array,
    ):
        self.theta = theta
        self.parts = [
            _Part(function, unravel, batch, theta)
            for function, batch in zip(functions, batches, strict=True)
        ]
        self.count = sum(part.count for part in self.parts)

    def of_all(self, theta: jax.Array) -> jax.Array:
        """The residuals of all samples, part by part."""
        return jnp.concatenate([part.of_all(theta) for part in self.parts])

    def loss(self, theta: jax.Array, scale: jax.Array | float = 1.0) -> jax.Array:
        """Half the mean square of the residuals, each multiplied by `scale`."""
        return jnp.mean((scale * self.of_all(theta)) ** 2) / 2

    def solve(
        self,
        shift: float | jax.Array,
        start: jax.Array | None,
        chunk: int | None,
        mesh: Mesh | None,
    ) -> tuple[jax.Array, NaturalInfo]:
        """X and what is known of it."""
        if chunk is None or chunk >= self.count:
            self._require_memory(mesh)
            jacobian = jnp.concatenate([part.derivatives(part.batch) for part in self.parts])
            given = jacobian, self.of_all(self.theta), shift
            options: dict[str, Any] = {"center": False, "momentum": start, "mesh": mesh}
            found: Any = solve(*given, **options, full_output=True)
            return found
        right, pull = jax.vjp(self.of_all, self.theta)
        if start is not None:
            right = right - jax.jvp(self.of_all, (self.theta,), (start,))[1]
        gram = self._gram(chunk) / self.count
        cut = find_cut(gram, mesh, None)
        matrix = _shifted.shifted(gram, cut, self.count)
        first = jnp.asarray(shift, self.theta.dtype)
        z, used, solved = _shifted.solve(
            matrix, right / self.count, first, first, cut, _shifted.LADDER_STEPS, True
        )
        unknown = jnp.full_like(solved.rcond, NOT_KNOWN)
        figures = solved.backward_error, solved.rcond, unknown, unknown
        x = pull(everywhere(z, cut))[0]
        x = x if start is None else x + start
        return x, NaturalInfo(solved.verdict, used, *figures, jnp.int32(0))

    def _require_memory(self, mesh: Mesh | None) -> None:
        """Throws if all derivatives at once do not fit."""
        if mesh is None:
            mesh = Mesh(np.array(jax.local_devices()[:1]), "devices")
        n, p = self.count, self.theta.size
        sizes = Sizes(n, p, n <= p, min(n, p), self.theta.dtype.itemsize, has_o=False)
        require_memory(sizes, Cut(mesh, tuple(mesh.axis_names)))

    def _gram(self, chunk: int) -> jax.Array:
        """J J^T, with the derivatives of two chunks at a time; each pair of chunks once."""
        cut = [part.in_chunks(chunk) for part in self.parts]
        rows = []
        for place, (part, left) in enumerate(zip(self.parts, cut, strict=True)):
            blocks = [jnp.zeros((part.count, other.count)) for other in self.parts[:place]]
            for other, right in zip(self.parts[place:], cut[place:], strict=True):
                made = _products_of_chunks(left, right, other is part)
                blocks.append(made[: part.count, : other.count])
            rows.append(jnp.concatenate([a.astype(self.theta.dtype) for a in blocks], axis=1))
        upper = jnp.concatenate(rows)
        return jnp.triu(upper) + jnp.triu(upper, 1).T

    def search(self, x: jax.Array, trials: int) -> tuple[jax.Array, jax.Array]:
        """The loss here, and the length with the smallest loss; 0 if none is smaller."""
        # A power of two, so that squares of small or large residuals stay in the range.
        limit = -jnp.finfo(self.theta.dtype).minexp
        exponent = jnp.frexp(jnp.max(jnp.abs(self.of_all(self.theta))))[1]
        exponent = jnp.clip(exponent, -limit, limit)
        scale = jnp.ldexp(jnp.ones((), self.theta.dtype), -exponent)

        def loss(length: jax.Array) -> jax.Array:
            # length 0 is here even where there is no x
            there = jnp.where(length > 0, self.theta - length * x, self.theta)
            return self.loss(there, scale)

        lengths = jnp.asarray([0.0, *(0.5**i for i in range(trials))], self.theta.dtype)
        losses = lax.map(loss, lengths)
        best = jnp.argmin(jnp.where(jnp.isfinite(losses), losses, jnp.inf))
        return jnp.ldexp(losses[0], 2 * exponent), lengths[best]


def _products_of_chunks(left: tuple, right: tuple, is_square: bool) -> jax.Array:
    """Derivatives of two parts, A B^T; of a part with itself the chunks from the diagonal on."""
    rows, row_chunks, of_row = left
    columns, column_chunks, of_column = right

    def of(i: jax.Array) -> jax.Array:
        own = of_row(i)

        def product(j: jax.Array) -> jax.Array:
            return jnp.matmul(own, of_column(j).T, precision=lax.Precision.HIGHEST)

        def block(j: jax.Array) -> jax.Array:
            if not is_square:
                return product(j)
            return lax.cond(j >= i, product, lambda _: jnp.zeros((rows, columns), own.dtype), j)

        blocks = lax.map(block, jnp.arange(column_chunks))
        return jnp.moveaxis(blocks, 0, 1).reshape(rows, column_chunks * columns)

    return lax.map(of, jnp.arange(row_chunks)).reshape(row_chunks * rows, column_chunks * columns)
