"""What changes of a matrix do to its eigenvalues and eigenvectors.

For dA Hermitian, K = V^H dA V and gaps g_ij = w_j - w_i,

    dw_j = K_jj,    dV = V C,    C_ij = K_ij / g_ij.

Of a v = b v diag(w), where V^H B V = I, with L = V^H dB V

    dw_j = K_jj - w_j L_jj,    C_ij = (K_ij - (w_i + w_j) / 2 L_ij) / g_ij - L_ij / 2.

Where w_i and w_j are equal but for rounding, which grows with b's condition, C_ij is not known. Any
number will do, and 0 is taken, if it cancels: in functions of all vectors of such a group that do
not depend on its basis. It does not cancel if the function uses the values, too: of V f(W) V^H it
is multiplied by f(w_j) - f(w_i), and f' K_ij is missing. So the answer is NaN where it may depend
on what is not known:

- in reverse, with M the gradient by C, where M_ij - conj(M_ji) is more than rounding: the function
  depends on the basis; or where M_ij is more than rounding and the gradient by w is there at all;
- forward, where K_ij is more than rounding, dw_i and dw_j are, so that who uses both learns of it;
  or, `strict`, dv_i and dv_j, for derivatives of which nobody knows what becomes of the vectors.

That is no linear map. It is the solution of a linear system, for which JAX lets us say how it is
solved, and how its transpose is. C has no diagonal, so dw is put there: JAX has derivatives of
systems only if all parts of the right-hand side change together.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from shardsolve._cholesky import Factor
from shardsolve._cut import Cut
from shardsolve._products import NEIGHBOURS, hermitian_part, multiply, transpose

OF_B = 16  # and that times b's condition: 4 were seen (n from 6 to 120, conditions to 1e9)
CANCELLED = 8  # times sqrt(n) u and the largest of its kind: what rounding leaves of 0


class Change:
    """What changes of a and of a factor of b, whose slab's tangent is b's, do to some pairs."""

    def __init__(
        self,
        changes: tuple[jax.Array, Factor | None],
        w: jax.Array,
        v: jax.Array,
        cut: Cut | None,
    ):
        self.w, self.v, self.cut = w, v, cut
        self.by_a = self._product(changes[0])  # dA V
        self.by_b = None if changes[1] is None else self._product(changes[1]._slab)  # dB V

    def of_values(self) -> jax.Array:
        """The diagonal of K - L W: the real part is that of the Hermitian parts of dA and dB."""
        product = self.by_a
        if self.by_b is not None:
            product = product - self.by_b * self.w[None, :].astype(product.dtype)
        return _over_rows(jnp.real(jnp.conj(self.v) * product), self.cut)

    def of_pairs(self, strict: bool, factor: Factor | None) -> tuple[jax.Array, jax.Array]:
        """The values' dw and the vectors' V C, if all pairs are there; `factor` is b's."""
        inner = self._in_basis(self.by_a)
        if self.by_b is not None:
            inner_b = self._in_basis(self.by_b)
            own = own_values(self.w, self.v.shape[0], self.cut)
            means = (own[:, None] + self.w[None, :]) / 2
            inner = inner - means.astype(inner.dtype) * inner_b
        width: Any = NEIGHBOURS
        if factor is not None:
            width = width + OF_B * _condition(factor, self.v, self.cut)
        groups = _Groups(self.w, self.v.shape[0], self.cut, strict, width)
        of_w, turn = groups.divided(hermitian_part(inner, self.cut))
        if self.by_b is not None:
            turn = turn - hermitian_part(inner_b, self.cut) / 2
        return of_w, multiply(self.v, turn, self.cut)

    def _product(self, change: jax.Array) -> jax.Array:
        return multiply(change if self.cut is None else self.cut.place(change), self.v, self.cut)

    def _in_basis(self, product: jax.Array) -> jax.Array:
        return multiply(jnp.conj(transpose(self.v, self.cut)), product, self.cut)


def own_values(w: jax.Array, rows: int, cut: Cut | None) -> jax.Array:
    """Those of the values whose numbers are those of the rows that a device has."""
    if cut is None:
        return w
    if not cut.inside:
        return cut.place(w)
    return lax.dynamic_slice_in_dim(w, lax.axis_index(cut.axes) * rows, rows) if cut.axes else w


def _over_rows(a: jax.Array, cut: Cut | None) -> jax.Array:
    """The sum of all rows."""
    total = jnp.sum(a, axis=0)
    return lax.psum(total, cut.axes) if cut is not None and cut.inside and cut.axes else total


def _condition(factor: Factor, v: jax.Array, cut: Cut | None) -> jax.Array:
    """Of b, scaled to a diagonal of ones as its Cholesky factor is: at most n times less."""
    root = jnp.sqrt(jnp.real(lax.stop_gradient(factor._diagonal)))[:, None]
    return jnp.max(_over_rows((root * jnp.abs(lax.stop_gradient(v))) ** 2, cut), initial=0)


class _Groups:
    """Which eigenvalues are equal but for rounding: neighbours within `width` u max |w|."""

    def __init__(
        self, w: jax.Array, rows: int, cut: Cut | None, strict: bool, width: float | jax.Array
    ):
        self.cut, self.strict = cut, strict
        self.rounding = float(jnp.finfo(w.dtype).eps) / 2
        self.root = float(np.sqrt(len(w)))
        self.gaps = w[None, :] - own_values(w, rows, cut)[:, None]
        fixed = lax.stop_gradient(w)
        width = width * self.rounding * jnp.max(jnp.abs(fixed), initial=0)
        # Neighbours hold a group together, which is wider the more of them there are.
        apart = jnp.diff(fixed, prepend=fixed[:1]) > width
        number, group = jnp.arange(len(w)), jnp.cumsum(apart)
        self.itself = own_values(number, rows, cut)[:, None] == number[None, :]
        together = own_values(group, rows, cut)[:, None] == group[None, :]
        widest = width * max(1.0, self.root / 8)
        near = jnp.abs(lax.stop_gradient(self.gaps)) <= widest
        self.equal = together & near
        self.pairs = self.equal & ~self.itself

    def divided(self, inner: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The values' dw, and C, of the Hermitian K."""

        def system(turn: jax.Array) -> jax.Array:
            return jnp.where(self.equal, turn, self.gaps.astype(turn.dtype) * turn)

        found = lax.custom_linear_solve(
            system, inner, self._solved, transpose_solve=self._transposed
        )
        of_w = _over_rows(jnp.where(self.itself, jnp.real(found), 0), self.cut)
        return _marked(of_w), jnp.where(self.itself, 0, found)

    def _solved(self, _: object, inner: jax.Array) -> jax.Array:
        coupled = self.pairs & self._is_there(inner)
        if not self.strict:
            among = self._anywhere(coupled, 0)
            coupled = self.itself & among[None, :]
        turn = jnp.where(self.pairs, 0, inner / self._divisors(inner.dtype))
        return jnp.where(coupled, jnp.nan, turn)

    def _transposed(self, _: object, by_turn: jax.Array) -> jax.Array:
        across = jnp.where(self.itself, 0, by_turn)
        twisted = (across - jnp.conj(transpose(across, self.cut))) / 2
        uses_values = self._anywhere(self.itself & (by_turn != 0), None)
        needed = (self._is_there(across) & uses_values) | self._is_there(twisted, across)
        inner = jnp.where(self.equal, 0, twisted / self._divisors(twisted.dtype))
        inner = jnp.where(self.itself, by_turn, inner)
        return jnp.where(self.pairs & needed, jnp.nan, inner)

    def _divisors(self, dtype: np.dtype) -> jax.Array:
        """The gaps, and 1 where there is none."""
        return jnp.where(self.equal, 1, self.gaps).astype(dtype)

    def _is_there(self, a: jax.Array, measure: jax.Array | None = None) -> jax.Array:
        """Which entries are more than rounding of the largest."""
        largest = self._of_all(jnp.max(jnp.abs(a if measure is None else measure), initial=0))
        return jnp.abs(a) > CANCELLED * self.root * self.rounding * largest

    def _anywhere(self, a: jax.Array, axis: int | None) -> jax.Array:
        """Whether in any row, or anywhere."""
        return self._of_all(jnp.any(a, axis=axis).astype(self.gaps.dtype)) != 0

    def _of_all(self, largest: jax.Array) -> jax.Array:
        """The largest of all devices."""
        if self.cut is None or not self.cut.inside or not self.cut.axes:
            return largest
        return lax.pmax(largest, self.cut.axes)


def _marked(of_w: jax.Array) -> jax.Array:
    """`of_w`, whose gradient, if there is one, is nowhere 0: the least number stands for that."""

    def transposed(_: object, by_w: jax.Array) -> jax.Array:
        return jnp.where(by_w == 0, float(jnp.finfo(by_w.dtype).tiny), by_w)

    return lax.custom_linear_solve(
        lambda unknown: unknown, of_w, lambda _, right: right, transpose_solve=transposed
    )
