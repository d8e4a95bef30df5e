"""The loss at points that move within their cells: what is known of them beforehand is compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from shardsolve.fbpinn._cells import Cells
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._loss_setup import Setup
from shardsolve.fbpinn._placed import Placed
from shardsolve.fbpinn._tables import padded
from shardsolve.fbpinn._windows_in_jax import normalised_windows


class MovingSetup(Setup):
    """As `Setup`, with a pair for each point and each subdomain that its cell reaches into.

    Where a point is not in the subdomain the window is 0, and so is all that it adds.

    Attributes:
        cells: Of all terms.
        around: (points, most): the subdomains of each point; -1 behind the last.
    """

    def __init__(
        self,
        problem: Equations,
        mesh: Mesh,
        exchange: str,
        dtype: np.dtype,
        placed: Placed,
        batch: int | None,
        cells: list[Cells],
    ):
        self.cells = cells
        begin, point = pairs_of_cells(problem, cells)
        box = np.repeat(np.arange(problem.boxes.count), np.diff(begin))
        self.around, number = _around(begin, point, len(placed.point_owner))
        source, target = placed.owner[box], placed.point_owner[point]
        sent = np.stack([source, target, point], 1)[source != target]
        placed = replace(
            placed,
            begin=begin,
            point=point,
            sent=np.unique(sent, axis=0).astype(placed.sent.dtype),
            windows=np.zeros((len(point), len(problem.orders))),
        )
        super().__init__(problem, mesh, exchange, dtype, placed, batch)
        self._number = number
        boxes = problem.boxes
        self.centers = np.concatenate([level.centers for level in boxes.levels])
        self.rates = 1 / np.concatenate([level.half_widths for level in boxes.levels])
        counts = [len(level.centers) for level in boxes.levels]
        self.level = np.repeat(np.arange(len(counts)), counts)

    def _what_programs_depend_on(self) -> tuple:
        cells = [(term.low.tobytes(), term.high.tobytes(), term.shape) for term in self.cells]
        return (*super()._what_programs_depend_on(), self.around.tobytes(), *cells)

    def tables(self) -> dict:
        """Without windows and places; with the points of each device and what is around them."""
        tables = super().tables()
        del tables["windows"], tables["places"]
        for term in tables["terms"]:
            del term["points"]
        g, mine, around, slots = self.geometry, [], [], []
        for device in range(g.devices):
            pairs = [np.maximum(one.pair[device], 0) for one in self.classes]
            known, at = np.unique(
                np.concatenate([g.point[pair].ravel() for pair in pairs]), return_inverse=True
            )
            mine.append(known)
            around.append(self.around[known])
            number = np.concatenate([self._number[pair].ravel() for pair in pairs])
            slots.append(at.ravel() * self.around.shape[1] + number)
        wide = max(map(len, mine))
        tables["known"] = padded(mine, [int(known[-1]) for known in mine], wide).astype(np.int32)
        tables["around"] = np.stack(
            [np.concatenate([one, np.repeat(one[-1:], wide - len(one), 0)]) for one in around]
        ).astype(np.int32)
        tables["slots"] = np.stack(slots).astype(np.int32)
        return tables

    def at(self, tables: dict, points: jax.Array) -> dict:
        """Tables of a device, as `Setup` has them, for these points of all terms."""
        orders = self.problem.orders
        around = jnp.maximum(tables["around"], 0)
        centers, rates = (
            jnp.moveaxis(jnp.asarray(one, self.dtype)[around], -1, 0)
            for one in (self.centers, self.rates)
        )
        place = (points[tables["known"]].T[:, :, None] - centers) * rates
        level = jnp.where(tables["around"] < 0, -1, jnp.asarray(self.level)[around])
        levels = level == jnp.arange(self.level[-1] + 1)[:, None, None]
        windows = normalised_windows(orders, place, rates, levels.astype(self.dtype))
        numbers = jnp.concatenate([windows, place]).reshape(len(orders) + len(place), -1).T
        of_pairs = numbers.at[tables["slots"]].get(mode="promise_in_bounds")
        found = {**tables, "windows": [], "places": [], "terms": []}
        first = 0
        for one in self.classes:
            shape = one.pair.shape[1:]
            mine = of_pairs[first : first + shape[0] * shape[1]].reshape(*shape, -1)
            found["windows"].append(mine[..., : len(orders)])
            found["places"].append(mine[..., len(orders) :])
            first += shape[0] * shape[1]
        first = 0
        for table, size in zip(tables["terms"], self.sizes, strict=True):
            found["terms"].append({**table, "points": points[first + table["number"]]})
            first += size
        return found


def pairs_of_cells(problem: Equations, cells: list[Cells]) -> tuple[np.ndarray, np.ndarray]:
    """(boxes + 1,), (pairs,): the points of each box, of all whose cells reach into it."""
    low = np.concatenate([term.low for term in cells])
    high = np.concatenate([term.high for term in cells])
    found = []
    for level in problem.boxes.levels:
        for center, half in zip(level.centers, level.half_widths, strict=True):
            reaches = ((low < center + half) & (high > center - half)).all(1)
            found.append(np.flatnonzero(reaches))
    begin = np.concatenate([[0], np.cumsum([len(one) for one in found])])
    return begin, np.concatenate(found).astype(np.int32)


def _around(begin: np.ndarray, point: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """(points, most), boxes of each point, and (pairs,), which of its boxes a pair is."""
    box = np.repeat(np.arange(len(begin) - 1), np.diff(begin))
    order = np.argsort(point, kind="stable")
    counts = np.bincount(point, minlength=points)
    first = np.cumsum(counts) - counts
    number = np.empty(len(point), np.int64)
    number[order] = np.arange(len(point)) - np.repeat(first, counts)
    around = np.full((points, counts.max()), -1)
    around[point, number] = box
    return around, number


def groups_of_points(setup: MovingSetup) -> np.ndarray:
    """(points,): the same number for points of a term whose cells reach into the same boxes.

    Those that stay have a number of their own.
    """
    term = np.repeat(np.arange(len(setup.sizes)), setup.sizes)
    stays = np.repeat([cells.shape is None for cells in setup.cells], setup.sizes)
    alone = np.where(stays, np.arange(len(term)), -1)
    keys: Any = np.concatenate([term[:, None], alone[:, None], setup.around], 1)
    return np.unique(keys, axis=0, return_inverse=True)[1].ravel()
