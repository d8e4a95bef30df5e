"""Parameters of all networks, in the order of the boxes and as devices share them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardsolve.fbpinn._coefficients import Scalar
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._net import Mlp
from shardsolve.fbpinn._placed import Placed
from shardsolve.fbpinn._run import Networks


class Parameters(NamedTuple):
    """All that can be trained; a tree of arrays, as gradients by it are.

    Arrays of networks have an axis of places for boxes in front, which the devices share: the boxes
    of the first device, of the second, ..., with zeros where a device has fewer than another one,
    whose gradients are 0.

    Attributes:
        hidden: Of an `Mlp` for each hidden layer its weights, (places, units, inputs), and biases,
            (places, units); of a `Net` its tree, each array (places, ...).
        last: (places, fields, units + 1): the linear layer, the constant last.
        coefficients: By name: () of a `Scalar`, (nodes,) of a `Grid1D`, (weights,) of a
            `NetFunction`, the same on all devices. Of positive ones 1 + log(value / init).
    """

    hidden: Any
    last: Any
    coefficients: Any


class Layout:
    """How devices share parameters.

    Attributes:
        boxes: (devices, places): the box at each place; -1 where there is none.
        spec: How arrays with an axis of places or devices in front are cut.
        run: Calls a function whose result is waited for; another one where processes train.
    """

    run: Callable[..., Any]

    def __init__(
        self, problem: Equations, mesh: Mesh, dtype: np.dtype, placed: Placed, boxes: np.ndarray
    ):
        self.problem, self.mesh, self.dtype = problem, mesh, dtype
        self.placed, self.boxes = placed, boxes
        self.spec = PartitionSpec(tuple(mesh.axis_names))
        self.run = _call

    def whole(self, tree: Any) -> Any:
        """The same on all devices, and so in every process."""
        return self.run(self._gathered, tree)

    @functools.cached_property
    def _gathered(self) -> Callable[[Any], Any]:
        everywhere = NamedSharding(self.mesh, PartitionSpec())
        return jax.jit(lambda tree: tree, out_shardings=everywhere)

    def on_devices(self, tree: Any) -> Any:
        """Arrays cut along their first axis."""
        sharding = NamedSharding(self.mesh, self.spec)

        def put(array: np.ndarray) -> jax.Array:
            return jax.make_array_from_callback(array.shape, sharding, array.__getitem__)

        return jax.tree.map(put, tree)

    def begin(self, start: Networks | None) -> Parameters:
        """In the order of the boxes."""
        problem = self.problem
        if start is not None and not isinstance(start, Networks):
            raise TypeError(
                f"start is {type(start).__name__}: what training returned is accepted, or Networks"
            )
        hidden: Any = self.placed.net_parameters
        shape = (problem.boxes.count, len(problem.fields), problem.units + 1)
        if start is not None and start.problem.form is not problem.form:
            self._require_alike(start, hidden, shape)
        if start is None:
            flat = self.placed.hidden
            wide = 1 / np.sqrt(problem.units)
            last = np.random.default_rng(problem.seed).uniform(-wide, wide, shape)
            numbers = problem.unknown.start
        else:
            flat, last = start.weights()
            hidden, numbers = start.net_parameters(), start.coefficient_numbers
        if isinstance(problem.net, Mlp):
            hidden = layers_of(problem.net, problem.boxes.dimensions, flat)
        given = problem.unknown.given
        return Parameters(
            hidden,
            last,
            {
                name: numbers[at][0] if isinstance(given[name], Scalar) else numbers[at]
                for name, at in problem.unknown.places.items()
            },
        )

    def _require_alike(self, start: Networks, hidden: Any, shape: tuple[int, ...]) -> None:
        """Throws unless networks of another problem have numbers like those of this one."""

        def shapes(*trees: Any) -> Any:
            return jax.tree.map(np.shape, trees)

        flat, last = start.weights()
        if isinstance(self.problem.net, Mlp):
            found, wanted = shapes(flat, last), shapes(self.placed.hidden, np.empty(shape))
        else:
            found = shapes(start.net_parameters(), last)
            wanted = shapes(hidden, np.empty(shape))
        numbers = np.shape(start.coefficient_numbers), np.shape(self.problem.unknown.start)
        if (found, numbers[0]) != (wanted, numbers[1]):
            raise ValueError(
                f"start has weights of shapes {found} and {numbers[0]} numbers of coefficients; "
                f"{wanted} and {numbers[1]} are accepted: as many boxes, fields, units and "
                "coefficients as here"
            )

    def spread(self, parameters: Parameters) -> Parameters:
        """From the order of the boxes to the devices."""
        real = self.boxes.ravel() >= 0

        def put(leaf: Any) -> np.ndarray:
            given = np.asarray(leaf)
            kind = self.dtype if given.dtype.kind == "f" else given.dtype
            placed = np.zeros((len(real), *given.shape[1:]), kind)
            placed[real] = given[self.boxes.ravel()[real]]
            return placed

        everywhere = NamedSharding(self.mesh, PartitionSpec())

        def replicate(value: Any) -> jax.Array:
            array = np.asarray(value, self.dtype)
            return jax.make_array_from_callback(array.shape, everywhere, array.__getitem__)

        return Parameters(
            self.on_devices(jax.tree.map(put, parameters.hidden)),
            self.on_devices(put(parameters.last)),
            {name: replicate(value) for name, value in parameters.coefficients.items()},
        )

    def gather(self, parameters: Parameters) -> Parameters:
        """From the devices to the order of the boxes."""
        self.require_fitting(parameters)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(parameters)):
            raise TypeError(
                "parameters that JAX traces were given: gather(), networks() and require_finite() "
                "need their values; call them outside of jit, grad and scan"
            )
        whole = self.whole(parameters)
        real = self.boxes.ravel() >= 0

        def take(leaf: jax.Array) -> np.ndarray:
            given = np.asarray(leaf)
            found = np.empty((self.problem.boxes.count, *given.shape[1:]), given.dtype)
            found[self.boxes.ravel()[real]] = given[real]
            return found

        return Parameters(
            jax.tree.map(take, whole.hidden),
            take(whole.last),
            {name: np.asarray(value) for name, value in whole.coefficients.items()},
        )

    # What is not accepted

    @functools.cached_property
    def shapes(self) -> Any:
        """Of parameters that fit."""

        def shape(leaf: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((self.boxes.size, *np.shape(leaf)[1:]), np.float32)

        begin = self.begin(None)
        return Parameters(jax.tree.map(shape, begin.hidden), shape(begin.last), begin.coefficients)

    def require_fitting(self, parameters: Parameters) -> None:
        """Throws unless parameters are those of this loss."""
        if not isinstance(parameters, Parameters):
            raise TypeError(
                f"parameters of type {type(parameters).__name__} given: pass what "
                "loss.parameters() returns, or such a tree"
            )
        trees: list[Any] = [jax.tree.structure(one) for one in (self.shapes, parameters)]
        wanted, given = trees
        if wanted != given:
            raise ValueError(f"parameters have the structure {given}: {wanted} is accepted")
        pairs = zip(
            jax.tree_util.tree_leaves_with_path(parameters),
            jax.tree.leaves(self.shapes),
            strict=True,
        )
        for (path, leaf), fit in pairs:
            if np.shape(leaf) != np.shape(fit):
                raise ValueError(
                    f"parameters{jax.tree_util.keystr(path)} has the shape {np.shape(leaf)}: "
                    f"{np.shape(fit)} is accepted; pass what loss.parameters() of this loss returns"
                )

    def require_finite(self, parameters: Parameters) -> None:
        """Throws with the box and the device."""
        found = self.gather(parameters)
        for path, leaf in jax.tree_util.tree_leaves_with_path(found):
            bad = ~np.isfinite(leaf)
            if not bad.any():
                continue
            name = f"parameters{jax.tree_util.keystr(path)}"
            if path[0].name == "coefficients":
                raise ValueError(f"{name} is not finite: {_TAKE_SMALLER}")
            box = int(np.argwhere(bad)[0, 0])
            raise ValueError(
                f"{name} is not finite in box {box} on {self.device(self.placed.owner[box])}: "
                f"{_TAKE_SMALLER}"
            )

    def device(self, number: int) -> str:
        """For messages."""
        return f"device {number} ({self.mesh.devices.flat[number]})"


_TAKE_SMALLER = "take smaller steps, or begin with the last parameters that were"


def _call(function: Callable[..., Any], *given: Any) -> Any:
    return function(*given)


def layers_of(net: Mlp, dimensions: int, flat: np.ndarray) -> tuple:
    """(weights, biases) of each layer from all numbers of a box one behind the other."""
    layers, first, inputs = [], 0, dimensions
    for units in net.widths:
        weights = flat[:, first : first + units * inputs].reshape(-1, units, inputs)
        first += units * inputs
        layers.append((weights, flat[:, first : first + units]))
        first, inputs = first + units, units
    return tuple(layers)
