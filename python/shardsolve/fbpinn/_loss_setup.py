"""What each device computes of a loss."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from shardsolve.fbpinn import _tables
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._net import Mlp
from shardsolve.fbpinn._network_jets import network_jets, times
from shardsolve.fbpinn._parameters import Layout, Parameters
from shardsolve.fbpinn._placed import Placed
from shardsolve.fbpinn._prepared import Prepared

# Of what the gradient keeps of boxes that are computed at a time: a core's cache, or some of a
# GPU's memory.
BATCH_BYTES = {"cpu": 2**24, "gpu": 2**28}


class Setup:
    """What a loss knows beside its tables; equal for losses that one compiled program computes."""

    sent: _tables.Sums
    owned: _tables.Sums
    rounds: list[_tables.Round]

    def __init__(
        self,
        problem: Equations,
        mesh: Mesh,
        exchange: str,
        dtype: np.dtype,
        placed: Placed,
        batch: int | None,
        like: Setup | None = None,
    ):
        """`like`: of the same equations at other points, whose places and sizes are kept."""
        self.problem, self.mesh, self.exchange, self.dtype = problem, mesh, exchange, dtype
        self.placed, self.batch = placed, batch
        self.networks = network_jets(problem.net, problem.orders)
        self.sizes = [len(term.points) for term in problem.prepared]
        self.points = np.concatenate([term.points for term in problem.prepared])
        self.geometry = _tables.Geometry(
            mesh.devices.size,
            placed.owner,
            placed.begin,
            placed.point,
            placed.point_owner,
            placed.sent,
        )
        if like is None:
            self.boxes, self.classes, self.of_edge = _tables.place_boxes(self.geometry)
        else:
            self.boxes = like.boxes
            self.classes, self.of_edge = _tables.place_again(
                self.geometry, like.boxes, like.classes, like.of_edge
            )
        self.layout = Layout(problem, mesh, dtype, placed, self.boxes)
        devices = range(mesh.devices.size)
        g = self.geometry
        edge = self.classes[: self.of_edge]
        self.sent = _tables.sums_of(
            g,
            edge,
            [g.sent[g.sent[:, 0] == device, 2] for device in devices],
            None if like is None else like.sent,
        )
        self.owned = _tables.sums_of(
            g,
            self.classes,
            [np.flatnonzero(g.point_owner == device) for device in devices],
            None if like is None else like.owned,
        )
        self.rounds = _tables.rounds_of(
            g, self.sent, self.owned, () if like is None else like.rounds
        )
        self._set_terms(like)
        self._key = self._what_programs_depend_on()

    def _set_terms(self, like: Setup | None) -> None:
        """Of each term whether all devices have points, and how many the fullest has."""
        owners = np.split(self.placed.point_owner, np.cumsum(self.sizes)[:-1])
        self.everywhere = [len(np.unique(owner)) == self.geometry.devices for owner in owners]
        self.term_widths = [int(np.bincount(owner).max()) for owner in owners]
        if like is not None:
            self.everywhere = [*map(operator.and_, self.everywhere, like.everywhere)]
            self.term_widths = [*map(_tables.grown, self.term_widths, like.term_widths)]

    def _what_programs_depend_on(self) -> tuple:
        """All that is no table: of two setups with the same, programs are the same."""
        sums = [(one.groups, one.point.shape, one.size) for one in (self.sent, self.owned)]
        return (
            self.problem.form,
            self.mesh,
            self.exchange,
            self.dtype,
            self.batch,
            tuple(self.sizes),
            self.boxes.tobytes(),
            tuple((one.first, one.count, one.pair.shape) for one in self.classes),
            self.of_edge,
            tuple(sums),
            tuple((one.pairs, one.send.shape, one.receive.shape) for one in self.rounds),
            tuple(self.everywhere),
            tuple(self.term_widths),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setup) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    # What is computed, on each device

    def partial_jets(self, parameters: Parameters, tables: dict, number: int) -> jax.Array:
        """Of a class of boxes: (pairs, fields, orders)."""
        orders = self.problem.orders

        def of_box(windows: jax.Array, *networks: Any) -> jax.Array:
            jets = times(orders, windows.T[:, None, :], self.networks(*networks))
            return jnp.transpose(jets, (2, 1, 0))

        one = self.classes[number]
        mine = slice(one.first, one.first + one.count)
        boxes = (
            tables["windows"][number],
            jax.tree.map(lambda leaf: leaf[mine], parameters.hidden),
            parameters.last[mine],
            tables["rates"][mine],
            tables["places"][number],
        )
        batch = self.batch or self.boxes_at_a_time(one)
        if batch >= one.count:
            jets = jax.vmap(of_box)(*boxes)
        else:  # the gradient computes them again, a batch at a time
            again = jax.checkpoint(of_box)
            jets = jax.lax.map(lambda box: again(*box), boxes, batch_size=batch)
        return jets.reshape(-1, *jets.shape[2:])

    def boxes_at_a_time(self, one: _tables.BoxClass) -> int:
        """So many that what the gradient keeps of them stays near."""
        room = BATCH_BYTES.get(self.mesh.devices.flat[0].platform, 2**28)
        net, orders = self.problem.net, self.problem.orders
        units = sum(net.widths) if isinstance(net, Mlp) else self.problem.units
        numbers = 2 * units * (len(orders) + max(map(sum, orders)) + 1)
        return max(1, room // (one.pair.shape[2] * numbers * self.dtype.itemsize))

    def sums(self, sums: _tables.Sums, place: jax.Array, jets: list[jax.Array]) -> jax.Array:
        """(points, fields, orders), always in the same order."""
        numbers = (len(self.problem.fields), len(self.problem.orders))
        if not sums.groups:
            return jnp.zeros((sums.point.shape[1], *numbers), self.dtype)
        all_pairs = _read(jnp.concatenate(jets), place)
        total, first = jnp.zeros((), self.dtype), 0
        for number, (count, wide) in enumerate(sums.groups):
            part = all_pairs[first : first + count * wide].reshape(count, wide, *numbers).sum(1)
            if number == 0:
                total = part
            elif count == len(total):
                total = total + part
            else:
                total = jnp.concatenate([total[:count] + part, total[count:]])
            first += count * wide
        return total

    def owned_jets(self, parameters: Parameters, tables: dict) -> jax.Array:
        """Of the sum of all networks at the points of this device."""
        axes = tuple(self.mesh.axis_names)
        edge = [self.partial_jets(parameters, tables, n) for n in range(self.of_edge)]
        sent = self.sums(self.sent, tables["sent"], edge)
        received = []
        if self.exchange == "halo":  # enqueued before the boxes that nobody else hears of
            received = [
                jax.lax.ppermute(_read(sent, send), axes, one.pairs)
                for one, (send, _) in zip(self.rounds, tables["rounds"], strict=True)
            ]
        rest = range(self.of_edge, len(self.classes))
        jets = [*edge, *(self.partial_jets(parameters, tables, n) for n in rest)]
        owned = self.sums(self.owned, tables["owned"], jets)
        if self.exchange == "psum":
            every = jnp.zeros((len(self.points), *owned.shape[1:]), self.dtype)
            for part, numbers in ((sent, tables["sent points"]), (owned, tables["owned points"])):
                every = every.at[numbers].add(part, mode="drop", unique_indices=True)
            return _read(jax.lax.psum(every, axes), tables["owned points"])
        if self.exchange == "none":  # to measure the rest
            return owned
        for part, (_, receive) in zip(received, tables["rounds"], strict=True):
            owned = owned.at[receive].add(part, mode="drop", unique_indices=True)
        return owned

    def term_rows(
        self,
        function: Callable[[jax.Array, jax.Array, jax.Array], jax.Array],
        table: dict,
        jets: jax.Array,
        coefficients: jax.Array,
        everywhere: bool,
    ) -> jax.Array:
        """A function of a term's points that are this device's, (points, equations).

        Behind the last point it is computed there again. A device that has none computes nothing,
        as the function need not be defined for jets that are 0.
        """

        def rows() -> jax.Array:
            mine = jets[table["place"]]
            return jax.vmap(function, (0, 0, None))(table["points"], mine, coefficients)

        if everywhere:
            return rows()
        shape = jax.eval_shape(rows)
        return jax.lax.cond(table["used"].any(), rows, lambda: jnp.zeros(shape.shape, shape.dtype))

    def own(self, parameters: Parameters, tables: dict) -> Parameters:
        """Parameters with which a user's network is defined at places without a box, too."""
        if isinstance(self.problem.net, Mlp):
            return parameters
        real = tables["real"]
        return parameters._replace(
            hidden=jax.tree.map(
                lambda leaf, good: jnp.where(
                    real.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, good.astype(leaf.dtype)
                ),
                parameters.hidden,
                self.good,
            )
        )

    @functools.cached_property
    def good(self) -> Any:
        """The first box's parameters of a user's network."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[0], self.placed.net_parameters)

    def each_term(
        self,
        parameters: Parameters,
        tables: dict,
        function: Callable[[Prepared], Callable[..., jax.Array]],
    ) -> list[jax.Array]:
        """A function of each term, at the points of this device."""
        jets = self.owned_jets(self.own(parameters, tables), tables)
        coefficients = self.numbers(parameters.coefficients, jnp).astype(self.dtype)
        return [
            self.term_rows(function(term), table, jets, coefficients, everywhere)
            for term, table, everywhere in zip(
                self.problem.prepared, tables["terms"], self.everywhere, strict=True
            )
        ]

    def numbers(self, coefficients: dict[str, Any], numpy: Any) -> Any:
        """Of all coefficients one behind the other."""
        parts = [numpy.reshape(coefficients[name], -1) for name in self.problem.unknown.places]
        return numpy.concatenate([numpy.zeros(0), *parts])

    def mapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """On each device with its parameters and tables, and further arrays that are all's."""
        spec = self.layout.spec

        def call(parameters: Parameters, tables: dict, *of_all: jax.Array) -> Any:
            leaves, tree = jax.tree.flatten(tables)
            full = [leaf for leaf in leaves if leaf.size > 0]

            def on_device(parameters: Parameters, full: list[jax.Array], *of_all: jax.Array) -> Any:
                given = iter(full)
                # XLA for GPUs (of jax 0.11.2) crashes where an operand of a shard_map has no
                # entries.
                mine = [
                    next(given)[0] if leaf.size > 0 else jnp.zeros(leaf.shape[1:], leaf.dtype)
                    for leaf in leaves
                ]
                return function(parameters, jax.tree.unflatten(tree, mine), *of_all)

            # No check of varying values: with it a derivative by a constant, in a user's function,
            # is silently summed over the devices.
            return jax.shard_map(
                on_device,
                mesh=self.mesh,
                in_specs=(
                    Parameters(spec, spec, PartitionSpec()),
                    spec,
                    *[PartitionSpec()] * len(of_all),
                ),
                out_specs=spec,
                check_vma=False,
            )(parameters, full, *of_all)

        return call

    def parts_of_networks(self, parameters: Parameters) -> tuple[Any, ...]:
        """What `Networks.of` takes."""
        found = self.layout.gather(parameters)
        coefficients = self.numbers(found.coefficients, np)
        if not isinstance(self.problem.net, Mlp):
            return None, found.last, coefficients, found.hidden
        layers = [part.reshape(len(part), -1) for layer in found.hidden for part in layer]
        return np.concatenate(layers, 1), found.last, coefficients, None

    # Tables and parameters on the devices

    def tables(self) -> dict:
        """Arrays with an axis of the devices in front."""
        boxes = self.problem.boxes
        centers = np.concatenate([level.centers for level in boxes.levels])
        rates = 1 / np.concatenate([level.half_widths for level in boxes.levels])
        g = self.geometry
        box = np.repeat(np.arange(len(g.owner)), np.diff(g.begin))
        places = (self.points[g.point] - centers[box]) * rates[box]
        pairs = [np.maximum(one.pair, 0) for one in self.classes]
        tables: dict[str, Any] = {
            "rates": rates[np.maximum(self.boxes, 0)].astype(self.dtype),
            "places": [places[pair].astype(self.dtype) for pair in pairs],
            "windows": [self.placed.windows[pair].astype(self.dtype) for pair in pairs],
            "sent": self.sent.place,
            "owned": self.owned.place,
            "terms": self.term_tables(),
        }
        if self.exchange == "halo":
            tables["rounds"] = [(one.send, one.receive) for one in self.rounds]
        else:
            for name, sums in (("sent points", self.sent), ("owned points", self.owned)):
                tables[name] = _tables.absent(sums.point, len(self.points))
        if not isinstance(self.problem.net, Mlp):
            tables["real"] = self.boxes >= 0
        return tables

    def term_tables(self) -> list[dict]:
        """Of each term the points of each device, where their jets are, and what is subtracted."""
        tables, first = [], 0
        terms = zip(self.problem.prepared, self.sizes, self.term_widths, strict=True)
        for term, size, width in terms:
            lists = []
            for device in range(self.geometry.devices):
                mine = self.owned.point[device]
                lists.append(np.flatnonzero((mine >= first) & (mine < first + size)))
            fill = [mine[-1] if len(mine) else 0 for mine in lists]
            place = _tables.padded(lists, fill, width)
            number = np.take_along_axis(self.owned.point, place, 1) - first
            number = np.clip(number, 0, size - 1)
            used = np.arange(place.shape[1]) < np.array([len(mine) for mine in lists])[:, None]
            tables.append(
                {
                    "place": place.astype(np.int32),
                    "number": number.astype(np.int32),
                    "used": used,
                    "points": term.points[number].astype(self.dtype),
                    "values": term.values[number].astype(self.dtype),
                }
            )
            first += size
        return tables

    # What is not accepted

    def require_finite_residuals(self, rows: list[jax.Array]) -> None:
        """Throws with the point, a box and the device."""
        values_of = [np.asarray(r) for r in self.layout.whole(rows)]
        box = np.repeat(np.arange(len(self.geometry.owner)), np.diff(self.geometry.begin))
        first = 0
        for term, table, values, size in zip(
            self.problem.prepared, self.term_tables(), values_of, self.sizes, strict=True
        ):
            bad = table["used"].ravel() & ~np.isfinite(values).all(-1)
            if bad.any():
                point = int(table["number"].ravel()[bad].min())
                at = ", ".join(f"{x:g}" for x in term.points[point])
                around = box[self.geometry.point == first + point][0]
                owner = self.placed.point_owner[first + point]
                raise ValueError(
                    f"the residual of {term.name} or a derivative of it is not finite at its point "
                    f"{point} at ({at}), in box {around} on {self.layout.device(owner)}: look for "
                    "a division by 0 or a root there, or leave the point out"
                )
            first += size


def _read(array: jax.Array, place: jax.Array) -> jax.Array:
    """Its rows at these places, each at most once; 0 where there is none."""
    return array.at[place].get(mode="fill", fill_value=0, unique_indices=True)
