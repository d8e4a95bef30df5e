"""Where the time of a gradient goes: its parts by themselves, by device, and bytes by link."""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve._processes import Processes
from shardsolve.fbpinn._loss_setup import Setup
from shardsolve.fbpinn._parameters import Parameters

_NANO = 1e9


@dataclass(frozen=True)
class Link:
    """Messages from one device to another in one gradient.

    Attributes:
        source, target: Numbers of devices in the mesh.
        points: How many of its points the source tells the target of.
        bytes: Of jets there and of derivatives back, with the padding of the round; 0 with "psum".
    """

    source: int
    target: int
    points: int
    bytes: int


@dataclass(frozen=True)
class Measured:
    """What one loss and its gradient take; str() is for people, `json()` for programs.

    Attributes:
        gradient: Seconds of the loss and its gradient, as a step takes them: p50, p95, p99.
        compute: Of the median in seconds, by device: all but the exchange, measured without it.
        exchange: Seconds of the messages by themselves, there and back, with nothing computed
            meanwhile: p50, p95, p99; 0 on one device. In a gradient some of it is hidden.
        pairs: (devices,): how many jets each computes: pairs of a subdomain and a point in it.
        links: Who tells whom how much.
        slowest: The number of the device whose `compute` is longest.
        devices, processes: Names, and JAX's numbers of their processes.
        repeats: Of each measurement.
    """

    gradient: dict[str, float]
    compute: list[float]
    exchange: dict[str, float]
    pairs: list[int]
    links: list[Link]
    slowest: int
    devices: list[str]
    processes: list[int]
    repeats: int

    def json(self) -> str:
        """One object with the attributes as keys."""
        return json_of(self)

    def __str__(self) -> str:
        part = self.exchange["p50"] / self.gradient["p50"]
        total = sum(link.bytes for link in self.links)
        return (
            f"gradient {1e3 * self.gradient['p50']:.3g} ms (p95 {1e3 * self.gradient['p95']:.3g}, "
            f"p99 {1e3 * self.gradient['p99']:.3g}); compute {1e3 * min(self.compute):.3g} to "
            f"{1e3 * max(self.compute):.3g} ms, longest on device {self.slowest} "
            f"({self.devices[self.slowest]}, process {self.processes[self.slowest]}); exchange by "
            f"itself {1e3 * self.exchange['p50']:.3g} ms ({100 * part:.0f} %), {total} bytes over "
            f"{len(self.links)} links"
        )


def json_of(record: Any) -> str:
    """A dataclass as JSON, where null stands for numbers that are not finite."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(one) for one in value]
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value

    return json.dumps(plain(dataclasses.asdict(record)))


def percentiles(seconds: Sequence[float] | np.ndarray) -> dict[str, float]:
    """Of durations."""
    if len(seconds) == 0:
        return {}
    return {f"p{share}": float(np.percentile(seconds, share)) for share in (50, 95, 99)}


def links_of(setup: Setup) -> list[Link]:
    """Of one gradient, from the plan of the exchange."""
    sent = setup.geometry.sent
    number = len(setup.problem.fields) * len(setup.problem.orders) * setup.dtype.itemsize
    wide = {
        ends: one.send.shape[1] if setup.exchange == "halo" else 0
        for one in setup.rounds
        for ends in one.pairs
    }
    counts = [((sent[:, 0] == a) & (sent[:, 1] == b)).sum() for a, b in wide]
    return [
        Link(int(a), int(b), int(count), 2 * size * number)
        for ((a, b), size), count in zip(wide.items(), counts, strict=True)
    ]


def measured(
    setup: Setup, parameters: Parameters, tables: dict, value: Callable[..., Any], repeats: int
) -> Measured:
    """As `Loss.measure`."""
    mesh = setup.mesh
    with Processes(mesh) as processes:
        whole = jax.jit(jax.value_and_grad(functools.partial(value, setup), allow_int=True))
        gradient, _ = _times(processes, whole, (parameters, tables), repeats)
        alone = copy.copy(setup)
        alone.exchange = "none"
        alone._key = alone._what_programs_depend_on()
        own = _gradient_of_networks(alone)
        _, of_devices = _times(processes, own, (parameters, tables), repeats)
        exchange = [0.0]
        if mesh.devices.size > 1:
            exchange, _ = _times(processes, _exchange_of(setup), (parameters, tables), repeats)
        compute = np.zeros(mesh.devices.size)
        for first in range(0, len(compute), 8):  # in 32-bit words: nanoseconds
            part = slice(first, first + 8)
            words = np.zeros(8, np.int64)
            words[: len(compute[part])] = [_NANO * one for one in of_devices[part]]
            split = np.concatenate([words >> 32, words & 0xFFFFFFFF])
            of_all = processes.gathered(split).view(np.uint32).astype(np.int64).sum(0)
            found = (of_all[:8] << 32 | of_all[8:]) / _NANO
            compute[part] = found[: len(compute[part])]
    pairs = np.zeros(mesh.devices.size, int)
    np.add.at(pairs, setup.placed.owner, np.diff(setup.placed.begin))
    return Measured(
        percentiles(gradient),
        compute.tolist(),
        percentiles(exchange),
        pairs.tolist(),
        links_of(setup),
        int(compute.argmax()),
        [str(device) for device in mesh.devices.flat],
        [device.process_index for device in mesh.devices.flat],
        repeats,
    )


def _times(
    processes: Processes, program: Callable[..., Any], given: tuple, repeats: int
) -> tuple[list[float], list[float]]:
    """Seconds of each call, and the median by device, 0 of those of other processes."""
    processes.run(program, *given)  # compiles
    whole, each = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        found = program(*given)
        shards = jax.tree.leaves(found)[-1].addressable_shards
        waits = {shard.device: 0.0 for shard in shards}
        left = list(shards)
        while left:
            ready = [shard for shard in left if shard.data.is_ready()]
            for shard in ready:
                waits[shard.device] = time.perf_counter() - begin
            left = [shard for shard in left if not waits[shard.device]]
            if left:
                time.sleep(0)
        processes.run(lambda found=found: found)
        whole.append(time.perf_counter() - begin)
        each.append(waits)
    assert processes.mesh is not None
    medians = [
        float(np.median([one.get(device, 0.0) for one in each]))
        for device in processes.mesh.devices.flat
    ]
    return whole, medians


def _gradient_of_networks(setup: Setup) -> Callable[..., Any]:
    """By arrays that are cut among the devices, so that nothing is added up over them."""

    def part(parameters: Parameters, tables: dict) -> jax.Array:
        rows = setup.each_term(parameters, tables, lambda term: term.residual)
        total = jnp.zeros((), setup.dtype)
        for term, table, residual in zip(
            setup.problem.prepared, tables["terms"], rows, strict=True
        ):
            r = jnp.where(table["used"][:, None], residual - table["values"], 0)
            total += term.weight**2 / len(term.points) * jnp.sum(r * r)
        return total[None]

    def gradient(parameters: Parameters, tables: dict) -> Any:
        def loss(last: jax.Array, hidden: Any) -> jax.Array:
            whole = parameters._replace(hidden=hidden, last=last)
            return jnp.sum(setup.mapped(part)(whole, tables))

        is_trained = all(leaf.dtype.kind == "f" for leaf in jax.tree.leaves(parameters.hidden))
        numbers = (1, 0) if is_trained else 0
        return jax.grad(loss, numbers)(parameters.last, parameters.hidden)

    return jax.jit(gradient)


def _exchange_of(setup: Setup) -> Callable[..., Any]:
    """The messages of a loss and its gradient, of zeros."""
    axes = tuple(setup.mesh.axis_names)
    numbers = (len(setup.problem.fields), len(setup.problem.orders))

    def on_device(parameters: Parameters, tables: dict) -> jax.Array:
        seed = parameters.last.ravel()[0] * 0
        total = seed
        if setup.exchange == "psum":
            every = jnp.full((len(setup.points), *numbers), seed, setup.dtype)
            for _ in range(2):
                every = jax.lax.psum(every, axes)
            return every.sum()[None]
        for one in setup.rounds:
            there = jnp.full((one.send.shape[1], *numbers), seed, setup.dtype)
            back = [(b, a) for a, b in one.pairs]
            total += jax.lax.ppermute(jax.lax.ppermute(there, axes, one.pairs), axes, back).sum()
        return total[None]

    return jax.jit(setup.mapped(on_device))
