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
from shardsolve.fbpinn._functions import explained, require_arguments
from shardsolve.fbpinn._given import choice, described, real, whole
from shardsolve.fbpinn._jet import Order, derivative

# In the order of fbpinn::Activation.
ACTIVATIONS = ("tanh", "sin", "sigmoid", "softplus", "gaussian", "silu")
MOST_LAYERS, MOST_UNITS = 8, 4096  # as fbpinn::Mlp


@dataclass(frozen=True)
class Mlp:
    """A perceptron in each box: hidden layers, and a linear one with a constant.

    Inputs are the coordinates scaled to [-1, 1] over the box. Weights and biases of hidden layers
    are uniform in +-scale / sqrt(inputs of the layer); least squares leaves them as they are.

    Attributes:
        widths: Units of each hidden layer; of a single one a number does.
        activation: "tanh", "sin", "sigmoid" (1 / (1 + exp(-z))), "softplus" (log(1 + exp(z))),
            "gaussian" (exp(-z^2)) or "silu" (z / (1 + exp(-z))).
        scale: Of the hidden weights. Larger ones make functions that change faster in a box.
    """

    widths: Sequence[int]
    activation: str = "tanh"
    scale: float = 1.0

    def __post_init__(self) -> None:
        words = (
            f"1 to {MOST_LAYERS} whole numbers from 1 to {MOST_UNITS} are accepted, one for each "
            "hidden layer, such as [16]"
        )
        is_list = isinstance(self.widths, (tuple, list, np.ndarray))
        given = tuple(self.widths) if is_list else (self.widths,)
        if not 1 <= len(given) <= MOST_LAYERS:
            raise ValueError(f"widths={described(self.widths)} given: {words}")
        widths = tuple(whole("widths", width, words, most=MOST_UNITS) for width in given)
        object.__setattr__(self, "widths", widths)
        if callable(self.activation):
            raise TypeError(
                f"activation={described(self.activation)} given: {', '.join(ACTIVATIONS)} are "
                "accepted by name; for any other take Net(features, init), a network of your own"
            )
        choice("activation", self.activation, ACTIVATIONS)
        real(
            "scale",
            self.scale,
            "a number above 0 is accepted",
            lambda scale: np.isfinite(scale) and scale > 0,
        )

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
                f"features={described(self.features)} given: a function of parameters and a point "
                "comes first, and init second"
            )
        if not callable(self.init):
            for path, leaf in jax.tree_util.tree_leaves_with_path(self.init):
                is_array = (
                    isinstance(leaf, (np.ndarray, jax.Array)) and leaf.dtype.kind not in "OSU"
                )
                if not is_array or leaf.ndim == 0:
                    raise TypeError(
                        f"init{jax.tree_util.keystr(path)}={described(leaf)} given: {_INITS}"
                    )
            if self.init is None:
                raise TypeError(f"init=None given: {_INITS}")

    def parameters(self, boxes: int, seed: int) -> Any:
        """Those of all boxes: a tree of arrays (boxes, ...)."""
        if callable(self.init):
            keys = jax.random.split(jax.random.key(seed), boxes)
            return jax.vmap(lambda key: self.init(key))(keys)
        self.require_boxes(boxes)
        return jax.tree.map(jnp.asarray, self.init)

    def require_boxes(self, boxes: int) -> None:
        """Throws if there are parameters of another number of boxes."""
        if callable(self.init):
            return
        for path, leaf in jax.tree_util.tree_leaves_with_path(self.init):
            if leaf.shape[0] != boxes:
                raise ValueError(
                    f"init{jax.tree_util.keystr(path)} has the shape {np.shape(leaf)}: "
                    f"({boxes}, ...) is accepted, as there are {boxes} boxes; or pass a function "
                    "of a key"
                )

    def units(self, dimensions: int) -> int:
        """How many features there are."""
        given = self.init
        if callable(given):
            require_arguments(given, 1, "init: the function", "it gets one, a key of jax.random")
            with explained("init"):  # in a lambda, as JAX crashes with a function of NumPy itself
                given = jax.eval_shape(lambda key: self.init(key), jax.random.key(0))
        else:
            given = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), given
            )
        point = jax.ShapeDtypeStruct((dimensions,), np.float64)
        require_arguments(
            self.features,
            2,
            "features: the function",
            "it gets two, the parameters of a box and a point of it",
        )
        with explained("features"):
            found = jax.eval_shape(lambda *at: self.features(*at), given, point)
        if not hasattr(found, "shape") or found.ndim != 1 or found.dtype.kind != "f":
            what = f"{found.dtype} of shape {found.shape}" if hasattr(found, "shape") else found
            raise ValueError(
                f"the network returned {what} for one point of shape ({dimensions},): a vector "
                "of real features, (units,), is accepted"
            )
        if not 1 <= found.shape[0] <= MOST_UNITS:
            raise ValueError(
                f"the network returned {found.shape[0]} features for one point: 1 to {MOST_UNITS} "
                "are accepted"
            )
        return int(found.shape[0])


_INITS = (
    "a function from a key of jax.random to the parameters of one box is accepted, or arrays of "
    "those of all boxes, (boxes, ...)"
)


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

        self._functions: dict[Any, Callable[..., jax.Array]] = {}

    def share(self, other: OwnNet) -> None:
        """Takes what is compiled already, if that is of a network that differs in `start` alone."""
        mine, its = self._fixed, other._fixed
        same = (self._structure, self._shapes) == (other._structure, other._shapes)
        if same and all(map(_are_same, mine, its)):
            self._functions = other._functions

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
        if orders not in self._functions:
            one = functools.partial(self._jet, orders)
            self._functions[orders] = jax.jit(jax.vmap(one, (None, None, 0)))
        return self._functions[orders](box, numbers, points)

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
        key = ("pull back", orders)
        if key not in self._functions:
            one = functools.partial(self._pulled_back, orders)
            self._functions[key] = jax.jit(jax.vmap(one, (None, None, 0, 0)))
        return self._functions[key](box, numbers, points, factors)

    def _jet(
        self, orders: tuple[Order, ...], box: jax.Array, numbers: jax.Array, point: jax.Array
    ) -> jax.Array:
        center, half = jnp.asarray(self._centers)[box], jnp.asarray(self._half_widths)[box]
        parameters = self.tree(numbers, box)

        def features(x: jax.Array) -> jax.Array:
            return self._net.features(parameters, (x - center) / half)

        return jnp.stack([derivative(features, order)(point) for order in orders], -1)

    def _pulled_back(
        self,
        orders: tuple[Order, ...],
        box: jax.Array,
        numbers: jax.Array,
        point: jax.Array,
        factors: jax.Array,
    ) -> jax.Array:
        _, pull = jax.vjp(lambda numbers: self._jet(orders, box, numbers, point), numbers)
        return jax.vmap(lambda one: pull(one)[0])(factors)


def _are_same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.dtype == other.dtype and np.array_equal(one, other)
