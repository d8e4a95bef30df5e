"""Which device computes what of a loss, and what devices tell each other: tables of numbers.

Boxes live on their owners, in classes of boxes that have about as many points, each padded to the
fullest; those with points that other devices own come first, so that what is sent is under way
while the others are computed. A device adds up what its boxes say at each of its points in a
fixed order, and at each point that another one owns, which it sends there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_FILLED = 2 / 3  # of a class: a box with fewer points than this share of the fullest is not in it


@dataclass(frozen=True)
class Geometry:
    """Pairs of a box and a point inside it, and who has what.

    Attributes:
        devices: How many there are.
        owner: (boxes,): the device of each.
        begin: (boxes + 1,): of each box its first pair.
        point: (pairs,).
        point_owner: (points,).
        sent: (messages, 3): from, to, point.
    """

    devices: int
    owner: np.ndarray
    begin: np.ndarray
    point: np.ndarray
    point_owner: np.ndarray
    sent: np.ndarray


@dataclass(frozen=True)
class BoxClass:
    """Boxes that are computed together.

    Attributes:
        first, count: Their places among those of a device.
        pair: (devices, count, points): each box's pairs, the last one again behind its end; -1 of
            places without a box.
        used: (devices, count, points): whether it is a pair, not again one.
    """

    first: int
    count: int
    pair: np.ndarray
    used: np.ndarray


@dataclass(frozen=True)
class Sums:
    """Sums over a point's pairs, those of most boxes first.

    Attributes:
        point: (devices, points): their numbers; -1 behind the end.
        groups: How many of the points take part in each, and up to how many pairs of each.
        place: (devices, all): places of these pairs among all of a device, group after group; from
            `size` on where there is none.
        size: How many pairs a device has with the padding.
    """

    point: np.ndarray
    groups: tuple[tuple[int, int], ...]
    place: np.ndarray
    size: int


@dataclass(frozen=True)
class Round:
    """Messages that are sent at a time, at most one from and one to each device.

    Attributes:
        pairs: (from, to).
        send: (devices, points): places among the sums that are sent.
        receive: (devices, points): places among the sums that are owned.
    """

    pairs: tuple[tuple[int, int], ...]
    send: np.ndarray
    receive: np.ndarray


def place_boxes(geometry: Geometry) -> tuple[np.ndarray, list[BoxClass], int]:
    """The boxes of each device, (devices, places), -1 where there is none; their classes.

    Also how many of the classes come first that have points of other devices.
    """
    g = geometry
    counts = np.diff(g.begin)
    box = np.repeat(np.arange(len(counts)), counts)
    at_edge = np.zeros(len(counts), bool)
    at_edge[box[g.point_owner[g.point] != g.owner[box]]] = True
    order, classes, of_edge = [], [], 0
    for edge in (True, False):
        left = np.flatnonzero(at_edge == edge)
        while left.size:
            fullest = counts[left].max()
            chosen = left[counts[left] >= _FILLED * fullest]
            left = np.setdiff1d(left, chosen)
            mine = [chosen[g.owner[chosen] == device] for device in range(g.devices)]
            boxes = padded(mine, fill=[-1] * g.devices)
            first = sum(one.shape[1] for one in order)
            order.append(boxes)
            steps = np.minimum(np.arange(fullest), counts[boxes][..., None] - 1)
            classes.append(
                BoxClass(
                    first,
                    boxes.shape[1],
                    np.where(boxes[..., None] < 0, -1, g.begin[boxes][..., None] + steps),
                    (np.arange(fullest) < counts[boxes][..., None]) & (boxes[..., None] >= 0),
                )
            )
            of_edge += edge
    return np.concatenate(order, 1), classes, of_edge


def sums_of(geometry: Geometry, classes: Sequence[BoxClass], points: Sequence[np.ndarray]) -> Sums:
    """Sums at some points of each device over the pairs in these classes."""
    size = sum(one.pair[0].size for one in classes)
    ordered, lists = [], []
    for device, wanted in enumerate(points):
        pair = np.concatenate([one.pair[device].ravel() for one in classes] or [np.zeros(0, int)])
        used = np.concatenate([one.used[device].ravel() for one in classes] or [np.zeros(0, bool)])
        places = np.flatnonzero(used)
        places = places[np.argsort(pair[places], kind="stable")]  # by box, then point
        at = geometry.point[pair[places]]
        here = np.isin(at, wanted)
        places, at = places[here], at[here]
        by_point = np.argsort(at, kind="stable")
        places, at = places[by_point], at[by_point]
        numbers, counts = np.unique(at, return_counts=True)
        most_first = np.argsort(-counts, kind="stable")
        ends = np.cumsum(counts)
        ordered.append(numbers[most_first])
        lists.append((places, (ends - counts)[most_first], counts[most_first]))
    most = max((int(counts.max(initial=0)) for _, _, counts in lists), default=0)
    groups, tables, low, wide = [], [], 0, 1
    while low < most:
        taking = max(int((counts > low).sum()) for _, _, counts in lists)
        table = np.full((geometry.devices, taking, wide), -1)
        for device, (places, begins, counts) in enumerate(lists):
            steps = low + np.arange(wide)
            n = min(taking, len(counts))
            good = steps < counts[:n, None]
            table[device, :n][good] = places[(begins[:n, None] + steps)[good]]
        groups.append((taking, wide))
        tables.append(table.reshape(geometry.devices, -1))
        low, wide = low + wide, 2 * wide
    place = np.concatenate([np.zeros((geometry.devices, 0), int), *tables], 1)
    return Sums(
        padded(ordered, fill=[-1] * geometry.devices), tuple(groups), absent(place, size), size
    )


def rounds_of(geometry: Geometry, sent: Sums, owned: Sums) -> list[Round]:
    """All messages, the long ones first: as many at a time as have other ends."""
    messages: dict[tuple[int, int], np.ndarray] = {}
    for source, target in sorted({(int(a), int(b)) for a, b, _ in geometry.sent}):
        here = (geometry.sent[:, 0] == source) & (geometry.sent[:, 1] == target)
        messages[source, target] = geometry.sent[here, 2]
    left = sorted(messages, key=lambda ends: (-len(messages[ends]), ends))
    rounds = []
    while left:
        chosen: list[tuple[int, int]] = []
        for source, target in left:
            if all(source != a and target != b for a, b in chosen):
                chosen.append((source, target))
        left = [ends for ends in left if ends not in chosen]
        nothing = np.zeros(0, int)
        send = [nothing] * geometry.devices
        receive = [nothing] * geometry.devices
        for source, target in chosen:
            points = messages[source, target]
            send[source] = _find(sent.point[source], points)
            receive[target] = _find(owned.point[target], points)
        nowhere = [-1] * geometry.devices
        rounds.append(
            Round(
                tuple(chosen),
                absent(padded(send, nowhere), sent.point.shape[1]),
                absent(padded(receive, nowhere), owned.point.shape[1]),
            )
        )
    return rounds


def padded(rows: Sequence[np.ndarray], fill: Sequence[int]) -> np.ndarray:
    """Rows of one length, (rows, length), from shorter ones."""
    length = max(map(len, rows))
    table = np.repeat(np.asarray(fill)[:, None], length, 1)
    for to, row in zip(table, rows, strict=True):
        to[: len(row)] = row
    return table


def absent(table: np.ndarray, size: int) -> np.ndarray:
    """Numbers from `size` on, each another one, in place of -1: reads of nothing, writes of none.

    None occurs twice in a row of what is returned if none but -1 did before.
    """
    return np.where(table < 0, size + np.arange(table.shape[1]), table).astype(np.int32)


def _find(numbers: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each of the wanted ones is."""
    order = np.argsort(numbers, kind="stable")
    return order[np.searchsorted(numbers[order], wanted)]
