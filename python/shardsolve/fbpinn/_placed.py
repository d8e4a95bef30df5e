"""Boxes on devices, pairs and messages, as the library finds them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardsolve import _library
from shardsolve._by_name import copy_of, text
from shardsolve.fbpinn._call import Given
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._given import array, described
from shardsolve.fbpinn._net import Mlp
from shardsolve.fbpinn._options import PlacementCosts


@dataclass(frozen=True)
class Placed:
    """Which device has which boxes, and what follows for the points of all terms.

    Attributes:
        text: What was looked at, for people.
        owner: (boxes,): the device of each.
        begin: (boxes + 1,): of each box its first pair.
        point: (pairs,).
        point_owner: (points,): the device that computes residuals there.
        sent: (messages, 3): from, to, point.
        windows: (pairs, orders): derivatives of the window divided by the sum of all windows.
        hidden: (boxes, numbers): weights of an `Mlp` to begin with.
        net_parameters: Of a `Net` what it begins with, each array (boxes, ...).
    """

    text: str
    owner: np.ndarray
    begin: np.ndarray
    point: np.ndarray
    point_owner: np.ndarray
    sent: np.ndarray
    windows: np.ndarray
    hidden: np.ndarray
    net_parameters: Any


def place(
    problem: Equations,
    devices: int,
    owner: Sequence[int] | np.ndarray | None,
    costs: PlacementCosts,
    bytes_per_number: int,
) -> Placed:
    """Boxes to devices, as costs say or as given."""
    boxes, orders = problem.boxes.count, len(problem.orders)
    numbers = None
    if owner is not None:
        words = f"a whole number for each of {boxes} boxes is accepted, that of its device"
        given = array("owner", owner, words)
        if given.shape != (boxes,) or (given != np.floor(given)).any():
            raise ValueError(f"owner={described(owner)} given: {words}")
        numbers = np.clip(given, -(2**31), 2**31 - 1).astype(np.int32)
    points = sum(len(term.points) for term in problem.prepared)
    handle = ctypes.c_void_p()
    with Given(problem) as taken:
        wishes = {
            "devices": devices,
            "owner": None if numbers is None else taken.array(numbers, np.int32),
            "seconds_per_pair": costs.seconds_per_pair,
            "bytes_per_point": bytes_per_number * len(problem.fields) * orders,
            "latency": costs.latency,
            "seconds_per_byte": costs.seconds_per_byte,
            "seed": problem.seed,
            "hidden_scale": problem.net.scale if isinstance(problem.net, Mlp) else 1.0,
        }
        found = taken.call("place", text(wishes), ctypes.byref(handle))
        try:
            begin = copy_of(found["begin"], np.int64, boxes + 1)
            pairs = int(begin[-1])
            return Placed(
                found["text"],
                copy_of(found["owner"], np.int32, boxes),
                begin,
                copy_of(found["point"], np.int32, pairs),
                copy_of(found["point_owner"], np.int32, points),
                copy_of(found["sent"], np.int32, found["sent"][1] // 3, 3),
                copy_of(found["windows"], np.float64, pairs, orders),
                *_starts(found["hidden"], problem, taken),
            )
        finally:
            _library.library().shardsolve_free_placed_networks(handle)


def _starts(hidden: list[int], problem: Equations, taken: Given) -> tuple[np.ndarray, Any]:
    """What networks begin with: of an `Mlp`, and of a `Net`."""
    boxes, net = problem.boxes, problem.net
    if taken.own is None:
        assert isinstance(net, Mlp)
        return copy_of(hidden, np.float64, boxes.count, net.weights(boxes.dimensions)), None
    return np.zeros((boxes.count, 0)), taken.own.net.tree(taken.own.net.start)
