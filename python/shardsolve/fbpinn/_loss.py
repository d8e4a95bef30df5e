"""The loss as a JAX function of all weights, on several devices, for optimisers of gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from shardsolve.fbpinn._devices import default_device, require_mesh
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._given import choice, described, whole
from shardsolve.fbpinn._loss_setup import Setup
from shardsolve.fbpinn._measured import Measured, measured
from shardsolve.fbpinn._options import PlacementCosts
from shardsolve.fbpinn._parameters import Parameters
from shardsolve.fbpinn._placed import place
from shardsolve.fbpinn._prepared import Prepared
from shardsolve.fbpinn._run import Networks

EXCHANGES = ("halo", "psum")


@jax.tree_util.register_pytree_node_class
class Loss:
    """What training makes small, of parameters that devices share; `Problem.loss` makes it.

    Each device computes the jets of its own boxes at their points, and residuals at the points that
    it owns: those in boxes of several devices get one packed message for each pair of devices. The
    gradient goes the same way back. The value is the sum over the terms of weight^2 times the mean
    of the squared residual, as least squares has it.

    A function of `Parameters` for use in jit, grad, value_and_grad; also a tree, so that it can be
    an argument of a function that is compiled, where its tables are no constants of the program.

    Attributes:
        problem: What the loss is of.
        mesh: The devices.
        exchange: "halo" or "psum".
        owner: (boxes,): the device of each box.
        placement: Which ways to share the boxes were looked at, for people; the first is taken.
    """

    def __init__(
        self,
        problem: Equations,
        mesh: Mesh | None,
        exchange: str,
        owner: Sequence[int] | np.ndarray | None,
        costs: PlacementCosts,
        dtype: Any,
        batch: int | None,
    ):
        choice("exchange", exchange, EXCHANGES)
        if mesh is None:
            mesh = Mesh(np.array([default_device()]), "devices")
        require_mesh(mesh)
        if not isinstance(costs, PlacementCosts):
            raise TypeError(f"costs={described(costs)} given: PlacementCosts() is accepted")
        found = _dtype(dtype)
        if batch is not None:
            batch = whole("batch", batch, "a whole number from 1 on is accepted")
        placed = place(problem, mesh.devices.size, owner, costs, np.dtype(found).itemsize)
        self._setup = Setup(problem, mesh, exchange, np.dtype(found), placed, batch)
        self._tables = self._setup.layout.on_devices(self._setup.tables())

    def tree_flatten(self) -> tuple[tuple[Any], Setup]:
        """For JAX."""
        return (self._tables,), self._setup

    @classmethod
    def tree_unflatten(cls, setup: Setup, children: tuple[Any]) -> Loss:
        """For JAX."""
        loss = cls.__new__(cls)
        loss._setup, loss._tables = setup, children[0]
        return loss

    def with_points(self, points: Mapping[int, Any]) -> Loss:
        """The same equations at other points, on the same devices: the same parameters fit.

        A program that was compiled for this loss, `step(loss, parameters)`, takes it without being
        compiled again, unless a device or a box has many more points than before.

        Args:
            points: As of `Problem.with_points`.
        """
        old = self._setup
        problem = old.problem.with_points(points)
        size, item = old.mesh.devices.size, old.dtype.itemsize
        placed = place(problem, size, old.placed.owner, PlacementCosts(), item)
        loss = type(self).__new__(type(self))
        loss._setup = Setup(problem, old.mesh, old.exchange, old.dtype, placed, old.batch, old)
        loss._tables = loss._setup.layout.on_devices(loss._setup.tables())
        return loss

    def __reduce__(self) -> tuple[Any, ...]:
        """Refuses: it is of the devices of this process."""
        raise TypeError(
            "a Loss is not pickled, as it lies on devices: pickle its problem and the parameters "
            "that loss.gather(parameters) gives, and call problem.loss() again"
        )

    problem = property(lambda self: self._setup.problem)
    mesh = property(lambda self: self._setup.mesh)
    exchange = property(lambda self: self._setup.exchange)
    owner = property(lambda self: self._setup.placed.owner)
    placement = property(lambda self: self._setup.placed.text)

    def __repr__(self) -> str:
        return (
            f"<loss of {self.problem.boxes!r} on {self.mesh.devices.size} devices, "
            f"exchange={self.exchange!r}>"
        )

    def __call__(self, parameters: Parameters) -> jax.Array:
        """The loss, ()."""
        self._setup.layout.require_fitting(parameters)
        return _value(self._setup, parameters, self._tables)

    def parameters(self, start: Networks | None = None) -> Parameters:
        """What training begins with.

        Args:
            start: Networks that are trained already, a `Run` for instance. By default hidden layers
                are those of least squares, with the seed of the problem, and last layers uniform in
                +-1 / sqrt(units).
        """
        return self._setup.layout.spread(self._setup.layout.begin(start))

    def gather(self, parameters: Parameters) -> Parameters:
        """The same in the order of the boxes, (boxes, ...), as NumPy arrays; also of a gradient."""
        return self._setup.layout.gather(parameters)

    def networks(self, parameters: Parameters) -> Networks:
        """Networks of these parameters, to be evaluated anywhere."""
        return Networks.of(self._setup.problem, *self._setup.parts_of_networks(parameters))

    def measure(self, parameters: Parameters, *, repeats: int = 50) -> Measured:
        """Where the time of the loss and its gradient goes, and how much devices tell each other.

        A compiled block of steps is one call, in which the host sees nothing; so parts are run by
        themselves, each compiled once: the gradient as it is, what each device computes without the
        exchange, and the exchange with nothing computed. Devices that share cores, as virtual ones
        of a CPU do, slow each other down in all of them. With a mesh of several processes each has
        to call it.

        Args:
            parameters: Any that fit; the time does not depend on them.
            repeats: Of each measurement.
        """
        self._setup.layout.require_fitting(parameters)
        repeats = whole("repeats", repeats, "a whole number from 1 on is accepted")
        return measured(self._setup, parameters, self._tables, _value, repeats)

    def require_finite(self, parameters: Parameters) -> None:
        """Says where what is not finite comes from; to be called when a loss is nan or inf.

        Raises:
            ValueError: Naming a box and its device if a parameter is not finite, or the term, its
                point, a box and the device if a residual or its derivative is not.
        """
        self._setup.layout.require_fitting(parameters)
        self._setup.layout.require_finite(parameters)
        self._setup.require_finite_residuals(_rows(self._setup, parameters, self._tables))


def _dtype(given: Any) -> np.dtype:
    """Of parameters, float64 if it is on and nothing else is wanted."""
    try:
        wanted = np.dtype(np.float64 if given is None else given)
        found = jax.dtypes.canonicalize_dtype(wanted)
    except TypeError:
        wanted = found = np.dtype(object)
    if found not in (np.float32, np.float64) or (given is not None and found != wanted):
        raise TypeError(
            f"dtype={described(given)} given: float32 is accepted, or float64 if "
            "jax.config.update('jax_enable_x64', True) was called"
        )
    return found


@functools.partial(jax.jit, static_argnums=0)
def _value(setup: Setup, parameters: Parameters, tables: dict) -> jax.Array:
    def part(parameters: Parameters, tables: dict) -> jax.Array:
        total = jnp.zeros((), setup.dtype)
        rows = setup.each_term(parameters, tables, lambda term: term.residual)
        for term, table, residual in zip(
            setup.problem.prepared, tables["terms"], rows, strict=True
        ):
            r = jnp.where(table["used"][:, None], residual - table["values"], 0)
            total += term.weight**2 / len(term.points) * jnp.sum(r * r)
        return total[None]

    # Each device's part; their sum is outside, so that gradients are nobody's twice.
    return jnp.sum(setup.mapped(part)(parameters, tables))


@functools.partial(jax.jit, static_argnums=0)
def _rows(setup: Setup, parameters: Parameters, tables: dict) -> list[jax.Array]:
    """Residuals and their derivatives, of all terms: (devices * points, numbers)."""

    def function(term: Prepared) -> Callable[..., jax.Array]:
        def rows(*at: jax.Array) -> jax.Array:
            return jnp.concatenate([one.ravel() for one in term.linearise(*at)])

        return rows

    def of_device(parameters: Parameters, tables: dict) -> list[jax.Array]:
        return setup.each_term(parameters, tables, function)

    return setup.mapped(of_device)(parameters, tables)
