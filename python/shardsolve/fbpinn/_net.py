"""The networks in the boxes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve.fbpinn._boxes import Boxes
from shardsolve.fbpinn._jet import Order, derivative

# In the order of fbpinn::Activation.
ACTIVATIONS = ("tanh", "sin", "sigmoid", "softplus", "gaussian", "silu")


@dataclass(frozen=True)
class Mlp:
    """A perceptron in each box: hidden layers, and a linear one with a constant.

    Inputs are the coordinates scaled to [-1, 1] over the box. Weights and biases of hidden layers
    are uniform in +-scale / sqrt(inputs of the layer); least squares leaves them as they are.

    Attributes:
        widths: Units of each hidden layer.
        activation: "tanh", "sin", "sigmoid" (1 / (1 + exp(-z))), "softplus" (log(1 + exp(z))),
            "gaussian" (exp(-z^2)) or "silu" (z / (1 + exp(-z))).
        scale: Of the hidden weights. Larger ones make functions that change faster in a box.
    """

    widths: Sequence[int]
    activation: str = "tanh"
    scale: float = 1.0

    def __post_init__(self) -> None:
        widths = tuple(self.widths)
        if not widths or any(int(width) != width or width < 1 for width in widths):
            raise ValueError(
                f"widths={self.widths!r} given: a list of whole numbers from 1 on is accepted, one "
                "for each hidden layer"
            )
        object.__setattr__(self, "widths", tuple(int(width) for width in widths))
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"activation={self.activation!r} given: {', '.join(ACTIVATIONS)} are accepted"
            )
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale={self.scale} given: a number above 0 is accepted")

    def weights(self, dimensions: int) -> int:
        """How many numbers the hidden layers of a box have."""
        inputs = (dimensions, *self.widths[:-1])
        return sum(units * (n + 1) for units, n in zip(self.widths, inputs, strict=True))


@dataclass(frozen=True)
class Net:
    """A network of your own in each box: any JAX function, and a linear layer with a constant.

    The linear layer is what least squares finds; the parameters stay as they are. Derivatives by
    the coordinates are made by JAX.

    Example:
        >>> def fourier(params, x):
        ...     return jnp.concatenate([jnp.sin(params @ x), jnp.cos(params @ x)])
        >>> Net(fourier, lambda key: 3 * jax.random.normal(key, (8, 2))).units(2)
        16

    Attributes:
        features: From parameters and a point, (dimensions,), scaled to [-1, 1] over the box, to
            (units,), traceable and differentiable.
        init: From a key of jax.random to the parameters of one box, any tree of arrays; or such a
            tree for all boxes, each array with one more axis in front, (boxes, ...).
    """

    features: Callable[[Any, jax.Array], jax.Array]
    init: Any

    def __post_init__(self) -> None:
        if not callable(self.features):
            raise TypeError(
                f"features is {type(self.features).__name__}: a function of parameters and a point "
                "is accepted"
            )

    def parameters(self, boxes: int, seed: int) -> Any:
        """Those of all boxes: a tree of arrays (boxes, ...)."""
        if callable(self.init):
            return jax.vmap(self.init)(jax.random.split(jax.random.key(seed), boxes))
        for path, leaf in jax.tree_util.tree_leaves_with_path(self.init):
            if np.ndim(leaf) == 0 or np.shape(leaf)[0] != boxes:
                raise ValueError(
                    f"init{jax.tree_util.keystr(path)} has the shape {np.shape(leaf)}: "
                    f"({boxes}, ...) is accepted, as there are {boxes} boxes; or pass a function "
                    "of a key"
                )
        return jax.tree.map(jnp.asarray, self.init)

    def units(self, dimensions: int) -> int:
        """How many features there are."""
        given = self.init
        if callable(given):
            given = jax.eval_shape(given, jax.random.key(0))
        else:
            given = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), given
            )
        point = jax.ShapeDtypeStruct((dimensions,), np.float64)
        found = jax.eval_shape(self.features, given, point)
        if not hasattr(found, "shape") or found.ndim != 1 or found.dtype.kind != "f":
            raise ValueError(
                f"the network returned {getattr(found, 'dtype', type(found).__name__)} of shape "
                f"{getattr(found, 'shape', None)} for one point of shape ({dimensions},): a vector "
                "of real features, (units,), is accepted"
            )
        return int(found.shape[0])


class OwnNet:
    """A network of one's own in all boxes, compiled, as functions of the numbers of a box's.

    Attributes:
        start: (boxes, numbers), float64: the floating-point parameters of each box one behind the
            other, which can be trained.
    """

    def __init__(self, net: Net, boxes: Boxes, parameters: Any):
        self._net = net
        self._centers = np.concatenate([level.centers for level in boxes.levels])
        self._half_widths = np.concatenate([level.half_widths for level in boxes.levels])
        leaves, self._structure = jax.tree.flatten(jax.tree.map(np.asarray, parameters))
        self._is_trained = [leaf.dtype.kind == "f" for leaf in leaves]
        self._shapes = [leaf.shape[1:] for leaf in leaves]
        self._fixed = [
            None if trained else leaf
            for leaf, trained in zip(leaves, self._is_trained, strict=True)
        ]
        self.start = np.concatenate(
            [np.zeros((boxes.count, 0))]
            + [
                leaf.reshape(boxes.count, -1).astype(np.float64)
                for leaf, trained in zip(leaves, self._is_trained, strict=True)
                if trained
            ],
            1,
        )

    def tree(self, numbers: Any, box: Any = slice(None)) -> Any:
        """Parameters from numbers, (numbers,) of a box or (boxes, numbers) of all."""
        leaves, first = [], 0
        for fixed, shape in zip(self._fixed, self._shapes, strict=True):
            if fixed is not None:
                leaves.append(fixed[box] if isinstance(box, slice) else jnp.asarray(fixed)[box])
                continue
            size = int(np.prod(shape))
            part = numbers[..., first : first + size]
            leaves.append(part.reshape(*part.shape[:-1], *shape))
            first += size
        return jax.tree.unflatten(self._structure, leaves)

    def jets(
        self, orders: tuple[Order, ...], box: int, numbers: np.ndarray, points: np.ndarray
    ) -> jax.Array:
        """(points, units, orders)."""
        return self._compiled_jets(orders)(box, numbers, points)

    def pull_back(
        self,
        orders: tuple[Order, ...],
        box: int,
        numbers: np.ndarray,
        points: np.ndarray,
        factors: np.ndarray,
    ) -> jax.Array:
        """By the numbers, (points, sums, numbers): of sums of `factors` times jets.

        `factors` are (points, sums, units, orders).
        """
        return self._compiled_pull_back(orders)(box, numbers, points, factors)

    def _jet(
        self, orders: tuple[Order, ...], box: jax.Array, numbers: jax.Array, point: jax.Array
    ) -> jax.Array:
        center, half = jnp.asarray(self._centers)[box], jnp.asarray(self._half_widths)[box]
        parameters = self.tree(numbers, box)

        def features(x: jax.Array) -> jax.Array:
            return self._net.features(parameters, (x - center) / half)

        return jnp.stack([derivative(features, order)(point) for order in orders], -1)

    @functools.lru_cache(maxsize=16)  # noqa: B019
    def _compiled_jets(self, orders: tuple[Order, ...]) -> Callable[..., jax.Array]:
        return jax.jit(jax.vmap(functools.partial(self._jet, orders), (None, None, 0)))

    @functools.lru_cache(maxsize=16)  # noqa: B019
    def _compiled_pull_back(self, orders: tuple[Order, ...]) -> Callable[..., jax.Array]:
        def at(
            box: jax.Array, numbers: jax.Array, point: jax.Array, factors: jax.Array
        ) -> jax.Array:
            _, pull = jax.vjp(lambda numbers: self._jet(orders, box, numbers, point), numbers)
            return jax.vmap(lambda one: pull(one)[0])(factors)

        return jax.jit(jax.vmap(at, (None, None, 0, 0)))
