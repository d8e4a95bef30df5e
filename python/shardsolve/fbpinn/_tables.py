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

_SPARE = 4  # a size that grows gets one part in so many more
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
    order: list[np.ndarray] = []
    classes: list[BoxClass] = []
    of_edge = 0
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
            classes.append(_class_of(g, boxes, first, fullest))
            of_edge += edge
    return np.concatenate(order, 1), classes, of_edge


def place_again(
    geometry: Geometry, boxes: np.ndarray, classes: Sequence[BoxClass], of_edge: int
) -> tuple[list[BoxClass], int]:
    """The same boxes in the same classes, with other points: no smaller than they were."""
    g = geometry
    counts = np.diff(g.begin)
    box = np.repeat(np.arange(len(counts)), counts)
    at_edge = np.unique(box[g.point_owner[g.point] != g.owner[box]])
    renewed = []
    for one in classes:
        mine = boxes[:, one.first : one.first + one.count]
        wide = grown(int(counts[mine[mine >= 0]].max()), one.pair.shape[2])
        renewed.append(_class_of(g, mine, one.first, wide))
    of_inside = [boxes[:, one.first : one.first + one.count] for one in classes[of_edge:]]
    moved = any(np.isin(at_edge, mine).any() for mine in of_inside)
    return renewed, len(classes) if moved else of_edge


def _class_of(g: Geometry, boxes: np.ndarray, first: int, wide: int) -> BoxClass:
    counts = np.diff(g.begin)[boxes][..., None]
    steps = np.minimum(np.arange(wide), counts - 1)
    is_box = boxes[..., None] >= 0
    return BoxClass(
        first,
        boxes.shape[1],
        np.where(is_box, g.begin[boxes][..., None] + steps, -1),
        (np.arange(wide) < counts) & is_box,
    )


def grown(needed: int, had: int) -> int:
    """A size that need not grow again for a little more."""
    return had if needed <= had else needed + needed // _SPARE


def sums_of(
    geometry: Geometry,
    classes: Sequence[BoxClass],
    points: Sequence[np.ndarray],
    like: Sums | None = None,
) -> Sums:
    """Sums at some points of each device over the pairs in these classes.

    No smaller than `like`.
    """
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
        max_first = np.argsort(-counts, kind="stable")
        ends = np.cumsum(counts)
        ordered.append(numbers[max_first])
        lists.append((places, (ends - counts)[max_first], counts[max_first]))
    most = max((int(counts.max(initial=0)) for _, _, counts in lists), default=0)
    groups: list[tuple[int, int]] = []
    tables, low, wide = [], 0, 1
    had = () if like is None else like.groups
    while low < most or len(groups) < len(had):
        taking = max(int((counts > low).sum()) for _, _, counts in lists)
        if like is not None:
            before = had[len(groups)][0] if len(groups) < len(had) else 0
            taking = grown(taking, before)
            taking = min(taking, groups[0][0]) if groups else taking
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
    point = padded(ordered, [-1] * geometry.devices, groups[0][0] if groups else 0)
    return Sums(point, tuple(groups), absent(place, size), size)


def rounds_of(
    geometry: Geometry, sent: Sums, owned: Sums, like: Sequence[Round] = ()
) -> list[Round]:
    """All messages, the long ones first: as many at a time as have other ends.

    The rounds of `like`, and no shorter, if these have all ends.
    """
    messages: dict[tuple[int, int], np.ndarray] = {}
    for source, target in sorted({(int(a), int(b)) for a, b, _ in geometry.sent}):
        here = (geometry.sent[:, 0] == source) & (geometry.sent[:, 1] == target)
        messages[source, target] = geometry.sent[here, 2]
    if like and messages.keys() <= {ends for one in like for ends in one.pairs}:
        chosen_each = [(one.pairs, one.send.shape[1]) for one in like]
    else:
        chosen_each = [(chosen, 0) for chosen in _chosen(messages)]
    rounds = []
    nothing = np.zeros(0, int)
    nowhere = [-1] * geometry.devices
    for chosen, had in chosen_each:
        send = [nothing] * geometry.devices
        receive = [nothing] * geometry.devices
        for source, target in chosen:
            points = messages.get((source, target), nothing)
            send[source] = _find(sent.point[source], points)
            receive[target] = _find(owned.point[target], points)
        length = max(map(len, send))
        length = grown(length, had) if had else length
        rounds.append(
            Round(
                tuple(chosen),
                absent(padded(send, nowhere, length), sent.point.shape[1]),
                absent(padded(receive, nowhere, length), owned.point.shape[1]),
            )
        )
    return rounds


def _chosen(messages: dict[tuple[int, int], np.ndarray]) -> list[tuple[tuple[int, int], ...]]:
    """Ends of the messages of each round."""
    left = sorted(messages, key=lambda ends: (-len(messages[ends]), ends))
    rounds = []
    while left:
        chosen: list[tuple[int, int]] = []
        for source, target in left:
            if all(source != a and target != b for a, b in chosen):
                chosen.append((source, target))
        left = [ends for ends in left if ends not in chosen]
        rounds.append(tuple(chosen))
    return rounds


def padded(rows: Sequence[np.ndarray], fill: Sequence[int], least: int = 0) -> np.ndarray:
    """Rows of one length, (rows, length), from shorter ones."""
    length = max(least, *map(len, rows))
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
