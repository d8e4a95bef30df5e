"""Operators and preconditioners of Krylov solves, in the forms that the loop works with.

Each is a pytree: what is traced are its leaves, all else is static. `apply` is what JAX
differentiates; `apply_into` is what the loop calls. Vectors are flat.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, jaxpr_as_fun

from shardsolve import _sparse_products
from shardsolve._cut import place_like, place_whole
from shardsolve._krylov_rounds import EXTERNAL, IDENTITY, JACOBI, Place

# Products of jax/krylov_calls.cpp.
USUAL, BOUNDED, TWOFOLD = range(3)
_PRODUCT_ROUNDING = -2  # of src/runtime/product_flag.hpp


Kind = TypeVar("Kind")


class Linear(Protocol):
    """A linear map of vectors."""

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        """With derivatives of any order."""

    def forward(self, x: jax.Array, place: Place) -> jax.Array:
        """The product for the loop, which nobody differentiates."""

    def transposed(self) -> Linear:
        """Its transpose, without conjugation."""

    def conjugated(self) -> Linear:
        """Its conjugate."""


class Product:
    """What most of them share."""

    inner = EXTERNAL
    # What multiply_into heeds of the flags of src/runtime/product_flag.hpp.
    products = USUAL

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        """With derivatives of any order."""
        raise NotImplementedError

    def apply_into(
        self, x: jax.Array, before: jax.Array, skip: jax.Array, place: Place
    ) -> jax.Array:
        """The product, or `before` where `skip` is not 0."""
        return jnp.where(skip != 0, before, self.forward(x, place))

    def multiply_into(
        self, x: jax.Array, before: jax.Array, skip: jax.Array, place: Place
    ) -> jax.Array:
        """The product, or anything where `skip`, a ProductFlag, says no."""
        return self.forward(x, place)

    def forward(self, x: jax.Array, place: Place) -> jax.Array:
        """The product for the loop, which nobody differentiates."""
        return self.apply(x, place)

    def with_bounds(self) -> Product:
        """The same, with what it needs to say what rounding does, if it can: once a solve."""
        return self

    def transposed(self) -> Linear:
        return Transposed(self)

    def conjugated(self) -> Linear:
        return Conjugated(self)

    def diagonal_or_none(self, dtype: np.dtype) -> jax.Array:
        return jnp.zeros(0, dtype)


def require_made_for(rows: int, x: jax.Array, place: Place) -> None:
    """Throws if a preconditioner of so many rows gets a vector of others."""
    n = x.shape[0]
    if place.cut is not None and place.cut.inside and place.axes:
        n *= lax.axis_size(place.axes)
    if n != rows:
        raise ValueError(
            f"the preconditioner was made of a matrix of {rows} rows and b has {n}: make it of A"
        )


def linear_in_x(of: Product, x: jax.Array, place: Place) -> jax.Array:
    """Its product, with derivatives in x of any order, and none in what the map is made of."""
    return lax.custom_linear_solve(
        lambda y: y,  # stands for the inverse, which nobody multiplies by
        x,
        lambda _, x: of.forward(x, place),
        lambda _, x: of.transposed().forward(x, place),
    )


@dataclass_transform(eq_default=False, frozen_default=True)
def register(*static: str) -> Callable[[type[Kind]], type[Kind]]:
    """Of a dataclass whose other fields are traced."""

    def decorate(kind: type[Kind]) -> type[Kind]:
        made: Any = dataclass(frozen=True, eq=False)(kind)
        traced = [one.name for one in fields(made) if one.name not in static]
        return jax.tree_util.register_dataclass(made, traced, list(static))

    return decorate


@register()
class Identity(Product):
    """No preconditioner."""

    inner = IDENTITY

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        return x

    def transposed(self) -> Linear:
        return self

    def conjugated(self) -> Linear:
        return self


@register()
class Jacobi(Product):
    """Division by a diagonal; a kernel of the library inside of the loop."""

    diagonal: jax.Array
    inner = JACOBI

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        return x / place_like(self.diagonal, x)

    def transposed(self) -> Linear:
        return self

    def conjugated(self) -> Linear:
        return Jacobi(jnp.conj(self.diagonal))

    def diagonal_or_none(self, dtype: np.dtype) -> jax.Array:
        return self.diagonal


class Matrix(Product):
    """A matrix that is known to each device."""

    def of_whole(self, x: jax.Array) -> jax.Array:
        """The product with a vector that each device has."""
        raise NotImplementedError

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        if place.cut is None or not place.cut.inside or not place.axes:
            return place_like(self.of_whole(place_whole(x)), x)
        # A device's own rows, in the caller's shard_map.
        own = len(x)
        whole = self.of_whole(lax.all_gather(x, place.axes, tiled=True))
        return lax.dynamic_slice_in_dim(whole, lax.axis_index(place.axes) * own, own)


@register()
class Dense(Matrix):
    """A square array; on Explicit axes its rows or columns may be cut."""

    matrix: jax.Array

    def of_whole(self, x: jax.Array) -> jax.Array:
        return jnp.matmul(self.matrix, x, precision="highest")

    def with_bounds(self) -> Product:
        return BoundedDense(self.matrix, RoundingOfDense.of(self.matrix))

    def conjugated(self) -> Linear:
        return Dense(jnp.conj(self.matrix))


@register()
class RoundingOfDense(Matrix):
    """A vector whose norm, times the unit roundoff, bounds what rounding does to A x.

    Row i of A x is a sum of n products, of 2 n in each part of a complex number, in an order that
    is not known: wrong by 2 k u sum |a_ij| |x_j| at most, for k <= 1 / (2 u). All rows together by
    2 k u sum |x_j| ||a_j||, with the columns a_j of A.

    Attributes:
        columns: (n,), real: 2 k ||a_j||.
    """

    columns: jax.Array

    @classmethod
    def of(cls, matrix: jax.Array) -> RoundingOfDense:
        """Of a matrix whose columns may be of any size."""
        sizes = _moduli(matrix)
        largest = jnp.max(sizes, axis=0, initial=0)
        shares = sizes / jnp.where(largest > 0, largest, 1)[None, :]
        terms = matrix.shape[1] * (2 if matrix.dtype.kind == "c" else 1)
        return cls(2 * terms * largest * jnp.sqrt(jnp.sum(shares * shares, axis=0)))

    def of_whole(self, x: jax.Array) -> jax.Array:
        bound = jnp.sum(place_whole(self.columns) * _moduli(x))
        return jnp.where(jnp.arange(x.shape[0]) == 0, bound, 0).astype(x.dtype)


@register()
class BoundedDense(Dense):
    """Likewise, and it tells what rounding does."""

    rounding: RoundingOfDense
    products = BOUNDED

    def multiply_into(
        self, x: jax.Array, before: jax.Array, skip: jax.Array, place: Place
    ) -> jax.Array:
        is_asked = skip == _PRODUCT_ROUNDING
        return jnp.where(is_asked, self.rounding.apply(x, place), self.forward(x, place))


def _moduli(a: jax.Array) -> jax.Array:
    """No less than the moduli."""
    return jnp.abs(a.real) + jnp.abs(a.imag) if a.dtype.kind == "c" else jnp.abs(a)


@register("pattern")
class Sparse(Matrix):
    """A CSR matrix, whole on each device."""

    data: jax.Array
    pattern: _sparse_products.Pattern
    products = TWOFOLD

    def of_whole(self, x: jax.Array) -> jax.Array:
        return self.pattern.product(place_whole(self.data), x)

    def forward(self, x: jax.Array, place: Place) -> jax.Array:
        return self.apply_into(x, jnp.zeros_like(x), jnp.int32(0), place)

    def apply_into(
        self, x: jax.Array, before: jax.Array, skip: jax.Array, place: Place
    ) -> jax.Array:
        def own_rows(data, x, before, skip):
            rank = None
            if place.axes:
                x = lax.all_gather(x, place.axes, tiled=True)
                rank = jnp.full(1, lax.axis_index(place.axes), jnp.int32)
            y = _sparse_products.multiply(
                self.pattern,
                data,
                x,
                rank=rank,
                own_rows=before.shape[0],
                before=before,
                skip=skip[None],
            )
            return (y,)

        return place.run(own_rows, (self.data, x, before, skip), "rvvr", "v")[0]

    multiply_into = apply_into

    def transposed(self) -> Sparse:
        pattern, order = self.pattern.transposed
        return Sparse(self.data[order], pattern)

    def conjugated(self) -> Sparse:
        return Sparse(jnp.conj(self.data), self.pattern)


@dataclass(frozen=True)
class _Program:
    """A jaxpr, the same object for the same function of the caller's."""

    jaxpr: Jaxpr
    text: str

    def __hash__(self) -> int:
        return id(self.jaxpr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Program) and self.jaxpr is other.jaxpr


@register("program")
class Traced(Product):
    """A function of the caller's; what it closes over are its leaves."""

    constants: list[jax.Array]
    program: _Program

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        run = jaxpr_as_fun(ClosedJaxpr(self.program.jaxpr, self.constants))
        return run(x)[0]


@register()
class Transposed(Product):
    """The transpose of a function, by JAX."""

    of: Any

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        return jax.linear_transpose(lambda x: self.of.apply(x, place), x)(x)[0]

    def transposed(self) -> Linear:
        return self.of


_HOW_TO_TRANSPOSE = {
    "A": (
        "write it of operations that JAX transposes (no custom_vjp, callback or while_loop), pass "
        "a CSR, or use method 'cg' or 'minres', for which A^T is conj(A)"
    ),
    "the preconditioner": (
        "it is not linear, or has operations that JAX does not transpose (custom_vjp, callback, "
        "while_loop). Pass a linear one, as a CSR or what jacobi, block_jacobi, incomplete_lu, "
        "chebyshev and from_pyamg return, or none"
    ),
}


def has_transpose(of: Linear, name: str, x: jax.Array, place: Place, *, needed: bool) -> bool:
    """Whether JAX can transpose a map; throws if it cannot and that is needed."""

    def transpose(x: jax.Array) -> jax.Array:
        return jax.linear_transpose(lambda x: of.apply(x, place), x)(x)[0]

    try:
        jax.eval_shape(transpose, x)
    except Exception as error:  # of what is not linear JAX throws anything
        if not needed:
            return False
        raise TypeError(
            f"a derivative of a Krylov solve needs products with the transpose of {name}, and JAX "
            f"cannot transpose it: {_HOW_TO_TRANSPOSE[name]}"
        ) from error
    return True


@register()
class Conjugated(Product):
    """conj(A): what A^T is if A is Hermitian."""

    of: Any

    def apply(self, x: jax.Array, place: Place) -> jax.Array:
        if x.dtype.kind != "c":
            return self.of.apply(x, place)
        return jnp.conj(self.of.apply(jnp.conj(x), place))

    def apply_into(
        self, x: jax.Array, before: jax.Array, skip: jax.Array, place: Place
    ) -> jax.Array:
        if x.dtype.kind != "c":
            return self.of.apply_into(x, before, skip, place)
        return super().apply_into(x, before, skip, place)

    def multiply_into(
        self, x: jax.Array, before: jax.Array, skip: jax.Array, place: Place
    ) -> jax.Array:
        if x.dtype.kind != "c":
            return self.of.multiply_into(x, before, skip, place)
        return super().multiply_into(x, before, skip, place)

    def conjugated(self) -> Linear:
        return self.of


# Programs by the function that they were traced from, for as long as that lives.
_programs: dict[int, tuple[weakref.ref, list[_Program]]] = {}


def _forget(key: int, _: object) -> None:
    _programs.pop(key, None)


def trace(function: Callable, x: jax.Array | jax.ShapeDtypeStruct, owner: object) -> Traced:
    """A function of a vector as an operator. Called again with the same one compiles nothing anew.

    `owner`: what the caller knows the function by, as methods are objects of their own each time.
    """
    closed = jax.make_jaxpr(function)(x)
    # Operations keep the mesh that was set when they were traced, and run under no other.
    text = f"{jax.sharding.get_abstract_mesh()} {closed.jaxpr}"
    known = _programs.get(id(owner))
    if known is None or known[0]() is not owner:
        try:
            reference = weakref.ref(owner, functools.partial(_forget, id(owner)))
        except TypeError:
            return Traced(list(closed.consts), _Program(closed.jaxpr, text))
        known = _programs[id(owner)] = (reference, [])
    for program in known[1]:
        if program.text == text:
            return Traced(list(closed.consts), program)
    known[1].append(_Program(closed.jaxpr, text))
    return Traced(list(closed.consts), known[1][-1])
