"""For derivatives: products and transposes of whole matrices whose rows are cut."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.linalg import solve_triangular
from jax.sharding import NamedSharding, PartitionSpec

from shardsolve._cut import Cut

# Neighbours among n computed eigenvalues that are one were 50 u max |w| apart at most, singular
# values 90 u (n from 12 to 1800, LAPACK's and ours, every dtype), and the first and the last of
# many 2 sqrt(n) u: closer ones are equal but for rounding.
NEIGHBOURS = 128


def transpose(a: jax.Array, cut: Cut | None) -> jax.Array:
    """The transpose of a matrix, its rows cut as those of `a`."""
    if cut is not None and cut.inside and cut.axes:
        # Each device has a row of blocks; block (i, j) of the transpose comes from block (j, i).
        rows, n = a.shape
        blocks = jnp.moveaxis(a.reshape(rows, n // rows, rows), 1, 0)
        mirrored = lax.all_to_all(blocks, cut.axes, split_axis=0, concat_axis=0)
        return jnp.moveaxis(mirrored, 2, 0).reshape(rows, n)
    return a.T if cut is None else cut.place(a.T)


def hermitian_part(a: jax.Array, cut: Cut | None) -> jax.Array:
    """(a + a^H) / 2."""
    mirrored = transpose(a, cut)
    return ((a if cut is None else cut.place(a)) + jnp.conj(mirrored)) / 2


def all_rows(a: jax.Array, cut: Cut | None) -> jax.Array:
    """The whole of something whose rows are cut, on every device, where XLA does not do that."""
    if cut is None:
        return a
    if not cut.inside:
        return cut.place(a, None)
    return lax.all_gather(a, cut.axes, tiled=True) if cut.axes else a


def multiply(a: jax.Array, b: jax.Array, cut: Cut | None) -> jax.Array:
    """A @ b, rows of both and of the product cut; GPUs would take fewer bits unless told not to."""
    product = jnp.matmul(a, all_rows(b, cut), precision=lax.Precision.HIGHEST)
    return product if cut is None else cut.place(product)


def times(a: jax.Array, v: jax.Array, cut: Cut | None) -> jax.Array:
    """A v, whole on every device where types say where arrays lie; elsewhere XLA sees to that."""
    where = None
    if cut is not None and cut.explicit:
        where = NamedSharding(cut.known_mesh, PartitionSpec())
    return jnp.matmul(a, v, precision=lax.Precision.HIGHEST, out_sharding=where)


def everywhere(x: jax.Array, cut: Cut | None) -> jax.Array:
    """X whole on every device, as far as it is known which they are."""
    return x if cut is None else cut.whole(x, len(x))


# Of matrices of any shape, whose rows are cut; what has few rows is whole on every device.


def axes_across(cut: Cut | None) -> tuple[str, ...]:
    """The axes of the shard_map around the caller that rows are cut along."""
    return cut.axes if cut is not None and cut.inside else ()


def rows_in(a: jax.Array, cut: Cut | None) -> int:
    """Of the whole matrix."""
    axes = axes_across(cut)
    return a.shape[0] * (lax.axis_size(axes) if axes else 1)


def adjoint(a: jax.Array) -> jax.Array:
    """The conjugate transpose of what is whole, or cut by XLA."""
    return jnp.conj(a.T)


def down_rows(a: jax.Array, v: jax.Array, cut: Cut | None) -> jax.Array:
    """a^H v, whole on every device: sums over the rows, which are cut."""
    product = times(adjoint(a), v, cut)
    axes = axes_across(cut)
    return lax.psum(product, axes) if axes else product


def along_rows(a: jax.Array, x: jax.Array, cut: Cut | None) -> jax.Array:
    """A x, its rows cut as those of a; x is whole."""
    product = jnp.matmul(a, x, precision=lax.Precision.HIGHEST)
    return product if cut is None else cut.place(product)


def over_triangle(a: jax.Array, r: jax.Array, cut: Cut | None) -> jax.Array:
    """A r^-1, its rows cut as those of a; r is whole, an upper triangle.

    By products: what a triangular solve is given, XLA gathers on every device. The second step
    leaves no more of an error than the solve would.
    """
    inverse = solve_triangular(r, jnp.eye(len(r), dtype=r.dtype))
    quotient = along_rows(a, inverse, cut)
    return quotient + along_rows(a - along_rows(quotient, r, cut), inverse, cut)
