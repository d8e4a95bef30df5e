"""Where collocation points may move: cells of the lattices that the points of terms lie on.

Each point has a cell of its own, and every draw puts it somewhere in there. So a draw covers the
domain evenly, whatever the key; the loss at it is an unbiased estimate of the integral, with less
noise than independent points have; and which subdomains a point may lie in is known beforehand, so
that nothing has to be compiled or looked up again for new points.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve.fbpinn._boxes import Boxes
from shardsolve.fbpinn._equations import Equations

KINDS = ("random", "latin")
_FEW = 512  # numbers up to which XLA compares all with all faster than it sorts


@dataclass(frozen=True)
class Cells:
    """Of the points of one term.

    Attributes:
        name: Of the term.
        low, high: (points, dimensions): equal where a point stays.
        shape: Of the lattice, cells along each axis; None if the points lie on none and stay.
    """

    name: str
    low: np.ndarray
    high: np.ndarray
    shape: tuple[int, ...] | None


def cells_of(problem: Equations) -> list[Cells]:
    """Those of all terms. Points of measurements stay, and those that lie on no lattice."""
    found = []
    for term in problem.prepared:
        lattice = None if term.is_measured else _lattice(term.points)
        if lattice is None or not _are_covered(problem.boxes, *lattice[:2]):
            found.append(Cells(term.name, term.points, term.points, None))
        else:
            found.append(Cells(term.name, *lattice))
    return found


def _lattice(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]] | None:
    """Cells around points that are all of a lattice, its last axis running fastest."""
    along = [np.unique(axis) for axis in points.T]
    shape = tuple(map(len, along))
    if np.prod(shape) != len(points) or max(shape) == 1:
        return None
    grid = np.stack([one.ravel() for one in np.meshgrid(*along, indexing="ij")], 1)
    if not np.array_equal(grid, points):
        return None
    low, high = (
        np.stack([one.ravel() for one in np.meshgrid(*ends, indexing="ij")], 1)
        for ends in zip(*map(_cells_along, along), strict=True)
    )
    return low, high, shape


def _cells_along(coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a cell of each coordinate begins and ends: as long as each other, if the steps are.

    Two coordinates alone are opposite sides of the domain, with nothing of the term between: they
    stay. Nor does a cell reach into a hole, which is a step of three times the one before it.
    """
    n = len(coordinates)
    if n <= 2:
        return coordinates, coordinates
    steps = np.diff(coordinates)
    if np.ptp(steps) < 1e-6 * steps.max():
        edges = np.linspace(coordinates[0], coordinates[-1], n + 1)
        return edges[:-1], edges[1:]
    before, after = np.append(0, steps), np.append(steps, 0)
    back = np.where((before > 3 * after) & (after > 0), after, before) / 2
    ahead = np.where((after > 3 * before) & (before > 0), before, after) / 2
    return coordinates - back, coordinates + ahead


def _are_covered(boxes: Boxes, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether subdomains are everywhere in the cells, as far as can be seen at once."""
    inside = (boxes.domain[:, 0] <= low) & (high <= boxes.domain[:, 1])
    if boxes.counts is not None and inside.all():
        return True
    held = np.zeros(len(low), bool)
    for level in boxes.levels:
        for center, half in zip(level.centers, level.half_widths, strict=True):
            held |= ((center - half < low) & (high < center + half)).all(1)
    return bool(held.all())


def drawn(cells: list[Cells], kind: str, key: jax.Array, dtype: np.dtype) -> jax.Array:
    """Points of all terms, (points, dimensions), each in its cell; traceable.

    Args:
        cells: Of all terms.
        kind: "random": each point uniform in its cell. "latin": a Latin hypercube besides, so that
            of N points each N-th part of an axis has one.
        key: Of jax.random.
        dtype: Of the points.
    """
    parts = []
    for number, term in enumerate(cells):
        low, high = (jnp.asarray(one, dtype) for one in (term.low, term.high))
        if term.shape is None:
            parts.append(low)
            continue
        mine = jax.random.fold_in(key, number)
        share = jax.random.uniform(mine, low.shape, dtype)
        if kind == "latin":
            share = _latin(term.shape, mine, share)
        parts.append(jnp.clip(low + (high - low) * share, low, high))
    return jnp.concatenate(parts)


def _ranks(heights: jax.Array) -> jax.Array:
    """Of each number in its row, (rows, numbers); those that are equal in their order."""
    count = heights.shape[1]
    if count > _FEW:
        return jnp.argsort(jnp.argsort(heights, 1), 1)
    mine, others = heights[:, :, None], heights[:, None, :]
    is_before = jnp.tril(jnp.ones((count, count), bool), -1)
    return ((others < mine) | ((others == mine) & is_before)).sum(2)


def _latin(shape: tuple[int, ...], key: jax.Array, share: jax.Array) -> jax.Array:
    """Where in its cell along each axis a point lies: no two of a row of cells at the same height.

    A lattice of n_1 x n_2 has n_2 cells above each n_1-th part of the first axis; a permutation
    says which n_2-th part of that part each of their points gets.
    """
    columns = []
    for axis, size in enumerate(shape):
        if size == 1 and len(shape) > 1:
            columns.append(share[:, axis])
            continue
        others = share.shape[0] // size
        heights = jax.random.uniform(jax.random.fold_in(key, axis + 1), (size, others))
        ranks = _ranks(heights).astype(share.dtype)
        placed = jnp.moveaxis(
            ranks.reshape(size, *(n for a, n in enumerate(shape) if a != axis)), 0, axis
        )
        columns.append((placed.ravel() + share[:, axis]) / others)
    return jnp.stack(columns, 1)
