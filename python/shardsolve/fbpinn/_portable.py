"""A state of training on its devices, and in the order of the boxes, as files keep it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from shardsolve.fbpinn._parameters import Layout, Parameters


class Portable:
    """Of each tree of parameters in a state the arrays of networks are cut among the devices.

    An array may have further axes in front of that of the places, such as one of steps that an
    optimiser remembers.
    """

    def __init__(self, layout: Layout, trained: Parameters, parameters: Parameters):
        self._layout = layout
        self._dimensions = {
            jax.tree.structure(tree): [leaf.ndim for leaf in jax.tree.leaves(tree)]
            for tree in (trained, parameters)
        }
        self.of_all = NamedSharding(layout.mesh, PartitionSpec())

    def shardings(self, state: Any) -> Any:
        """Of each array."""

        def of(leaf: Any, axis: int | None) -> NamedSharding:
            if axis is None:
                return self.of_all
            return NamedSharding(self._layout.mesh, PartitionSpec(*[None] * axis, self._axes))

        return self._each(state, of)

    def placed(self, state: Any) -> Any:
        """A state of this process on its devices, as it is."""

        def put(leaf: Any, axis: int | None) -> jax.Array:
            spec = PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, self._axes)
            array = np.asarray(leaf)
            sharding = NamedSharding(self._layout.mesh, spec)
            return jax.make_array_from_callback(array.shape, sharding, array.__getitem__)

        return self._each(self._layout.whole(state), put)

    def gathered(self, state: Any) -> Any:
        """In the order of the boxes, as NumPy arrays."""
        boxes = self._layout.boxes.ravel()
        real = boxes >= 0

        def take(leaf: Any, axis: int | None) -> np.ndarray:
            given = np.asarray(leaf)
            if axis is None:
                return given
            given = np.moveaxis(given, axis, 0)
            found = np.empty((real.sum(), *given.shape[1:]), given.dtype)
            found[boxes[real]] = given[real]
            return np.moveaxis(found, 0, axis)

        return self._each(self._layout.whole(state), take)

    def spread(self, state: Any) -> Any:
        """The inverse."""
        boxes = self._layout.boxes.ravel()
        real = boxes >= 0

        def put(leaf: Any, axis: int | None) -> np.ndarray:
            given = np.asarray(leaf)
            if axis is None:
                return given
            given = np.moveaxis(given, axis, 0)
            found = np.zeros((len(boxes), *given.shape[1:]), given.dtype)
            found[real] = given[boxes[real]]
            return np.moveaxis(found, 0, axis)

        return self.placed(self._each(state, put))

    @property
    def _axes(self) -> tuple[str, ...]:
        return tuple(self._layout.mesh.axis_names)

    def _each(self, state: Any, function: Callable[[Any, int | None], Any]) -> Any:
        """A function of each array and of which axis is that of the places, None if none is."""

        def of(tree: Any) -> Any:
            if not isinstance(tree, Parameters):
                return function(tree, None)
            leaves, structure = jax.tree.flatten(tree)
            plain = self._dimensions.get(structure)
            if plain is None:
                return jax.tree.map(lambda leaf: function(leaf, None), tree)
            further = [leaf.ndim - n for leaf, n in zip(leaves, plain, strict=True)]
            shared = len(jax.tree.leaves(tree.coefficients))  # the last ones
            axes: list[int | None] = [*further[: len(further) - shared], *[None] * shared]
            return jax.tree.unflatten(structure, map(function, leaves, axes))

        return jax.tree.map(of, state, is_leaf=lambda tree: isinstance(tree, Parameters))
