"""Boxes on devices, pairs and messages, as the library finds them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardsolve import _library
from shardsolve.fbpinn._call import Given
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._given import array, described
from shardsolve.fbpinn._net import Mlp
from shardsolve.fbpinn._options import PlacementCosts


class _Wishes(ctypes.Structure):  # as jax/network_loss.hpp
    _fields_ = (
        ("devices", ctypes.c_int64),
        ("owner", ctypes.c_void_p),
        ("seconds_per_pair", ctypes.c_double),
        ("bytes_per_point", ctypes.c_double),
        ("latency", ctypes.c_double),
        ("seconds_per_byte", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        ("hidden_scale", ctypes.c_double),
    )


class _Arrays(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.POINTER(kind))
        for name, kind in (
            ("owner", ctypes.c_int32),
            ("box_begin", ctypes.c_int64),
            ("point", ctypes.c_int32),
            ("point_owner", ctypes.c_int32),
            ("sent", ctypes.c_int32),
            ("windows", ctypes.c_double),
            ("hidden", ctypes.c_double),
        )
    )


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
    wishes = _Wishes(
        devices,
        None,
        costs.seconds_per_pair,
        bytes_per_number * len(problem.fields) * orders,
        costs.latency,
        costs.seconds_per_byte,
        problem.seed,
        problem.net.scale if isinstance(problem.net, Mlp) else 1.0,
    )
    if owner is not None:
        words = f"a whole number for each of {boxes} boxes is accepted, that of its device"
        given = array("owner", owner, words)
        if given.shape != (boxes,) or (given != np.floor(given)).any():
            raise ValueError(f"owner={described(owner)} given: {words}")
        numbers = np.clip(given, -(2**31), 2**31 - 1).astype(np.int32)
        wishes.owner = numbers.ctypes.data
    arrays, handle = _Arrays(), ctypes.c_void_p()
    with Given(problem) as taken:
        found = taken.call(
            "place",
            ctypes.byref(wishes),
            ctypes.byref(handle),
            ctypes.byref(arrays),
        )

        def copy(pointer: Any, *shape: int) -> np.ndarray:
            if 0 in shape:
                return np.zeros(shape, pointer._type_)
            return np.ctypeslib.as_array(pointer, shape).copy()

        try:
            begin = copy(arrays.box_begin, boxes + 1)
            pairs = int(begin[-1])
            of_box = (
                problem.net.weights(problem.boxes.dimensions) if isinstance(problem.net, Mlp) else 0
            )
            return Placed(
                found["text"],
                copy(arrays.owner, boxes),
                begin,
                copy(arrays.point, pairs),
                copy(arrays.point_owner, sum(len(term.points) for term in problem.prepared)),
                copy(arrays.sent, found["messages"], 3),
                copy(arrays.windows, pairs, orders),
                copy(arrays.hidden, boxes, of_box),
                None if taken.own is None else taken.own.net.tree(taken.own.net.start),
            )
        finally:
            _library.library().shardsolve_free_placed_networks(handle)
