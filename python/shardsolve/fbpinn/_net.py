"""The networks in the boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
