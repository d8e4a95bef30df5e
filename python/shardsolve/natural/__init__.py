"""Natural gradients: (S + shift I) x = F, by the smaller of two Gram matrices; an optimiser.

For N samples with P derivatives each, O (N, P), and a number f for each sample, with bars for
deviations from the mean over samples,

    S = scale O̅^H O̅,    F = scale O̅^H f̅    (P parameters)
    x = O̅^H z,  (scale O̅ O̅^H + shift I) z = scale f̅    (N samples)

Both give the same x. The first is stochastic reconfiguration (Sorella 1998), the second minSR (Chen
and Heyl, 2024, https://doi.org/10.1038/s41567-024-02566-1); with P > N it is the smaller one.
"""

from shardsolve.natural._optimiser import (
    NaturalGradient,
    NaturalGradientState,
    natural_gradient,
)
from shardsolve.natural._solve import NaturalInfo, solve

__all__ = ["NaturalGradient", "NaturalGradientState", "NaturalInfo", "natural_gradient", "solve"]
