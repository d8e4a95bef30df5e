"""Tables of a loss against sums without them: any boxes, any owners, any number of devices."""

from __future__ import annotations

import numpy as np
import pytest

import shardsolve.fbpinn as fb
from shardsolve.fbpinn import _tables
from shardsolve.fbpinn._placed import place


def anything(seed: int) -> tuple[fb.Problem, int, np.ndarray | None]:
    """Boxes of any size over one that holds all points; some devices have none."""
    rng = np.random.default_rng(seed)
    count, devices = int(rng.integers(1, 12)), int(rng.integers(1, 8))
    boxes = fb.Boxes.from_arrays(
        np.concatenate([[[0.5, 0.5]], rng.uniform(0, 1, (count, 2))]),
        np.concatenate([[[0.7, 0.7]], rng.uniform(0.2, 0.5, (count, 2))]),
    )
    if seed % 3 == 0:
        boxes = boxes.with_level(fb.Boxes.from_arrays(np.full((1, 2), 0.5), np.full((1, 2), 0.8)))
    points = rng.uniform(0, 1, (300, 2))
    terms = [
        fb.Interior(lambda x, u: u.xx + u.y, points=points[:250]),
        fb.Data(points[250:], np.zeros(50), lambda x, u: u.v),
    ]
    owner = None if seed % 2 else rng.integers(0, devices, boxes.count)
    return fb.Problem(boxes, axes="x y", terms=terms), devices, owner


def read(values: np.ndarray, place: np.ndarray) -> np.ndarray:
    inside = place[place < len(values)]
    assert len(np.unique(inside)) == len(inside)
    return np.where(place < len(values), values[np.minimum(place, len(values) - 1)], 0.0)


def summed(sums: _tables.Sums, device: int, of_pairs: np.ndarray) -> np.ndarray:
    if not sums.groups:
        return np.zeros(sums.point.shape[1])
    total, first = np.zeros(sums.groups[0][0]), 0
    every = read(of_pairs, sums.place[device])
    for count, wide in sums.groups:
        total[:count] += every[first : first + count * wide].reshape(count, wide).sum(1)
        first += count * wide
    return total


@pytest.mark.parametrize("seed", range(10))
def test_what_devices_add_up_and_send_is_the_sum_at_every_point(seed: int):
    problem, devices, owner = anything(seed)
    placed = place(problem, devices, owner, fb.PlacementCosts(), 8)
    geometry = _tables.Geometry(
        devices, placed.owner, placed.begin, placed.point, placed.point_owner, placed.sent
    )
    boxes, classes, of_edge = _tables.place_boxes(geometry)
    assert sorted(boxes[boxes >= 0]) == list(range(problem.boxes.count))
    for device, row in enumerate(boxes):
        assert (placed.owner[row[row >= 0]] == device).all()

    of_pair = np.random.default_rng(seed).normal(size=len(placed.point))
    # Normalised windows sum to 1 in each level.
    whole = np.bincount(placed.point, placed.windows[:, 0], 300)
    assert np.abs(whole - len(problem.boxes.levels)).max() < 1e-14
    sent_points = [placed.sent[placed.sent[:, 0] == device, 2] for device in range(devices)]
    owned_points = [np.flatnonzero(placed.point_owner == device) for device in range(devices)]
    sent = _tables.sums_of(geometry, classes[:of_edge], sent_points)
    owned = _tables.sums_of(geometry, classes, owned_points)
    used = sum(one.used.sum() for one in classes)
    assert used == len(placed.point) and owned.place.shape[1] < 2 * owned.size + 2 * 300

    def of_device(device: int, some: list[_tables.BoxClass]) -> np.ndarray:
        return np.concatenate([np.zeros(0), *(of_pair[one.pair[device]].ravel() for one in some)])

    sends = [
        summed(sent, device, of_device(device, classes[:of_edge])) for device in range(devices)
    ]
    found = [summed(owned, device, of_device(device, classes)) for device in range(devices)]
    moved = 0
    for one in _tables.rounds_of(geometry, sent, owned):
        assert len({source for source, _ in one.pairs}) == len(one.pairs)
        assert len({target for _, target in one.pairs}) == len(one.pairs)
        for source, target in one.pairs:
            assert source != target
            buffer = read(sends[source], one.send[source])
            at = one.receive[target]
            moved += (at < len(found[target])).sum()
            found[target][at[at < len(found[target])]] += buffer[at < len(found[target])]
    assert moved == len(placed.sent)
    wanted, seen = np.bincount(placed.point, of_pair, 300), np.zeros(300, int)
    for device in range(devices):
        points = owned.point[device]
        seen[points[points >= 0]] += 1
        assert np.abs(found[device] - wanted[points])[points >= 0].max(initial=0) < 1e-12
    assert (seen == 1).all()
