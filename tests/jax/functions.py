"""Every function of the package on one small system: what tests of mistakes call."""

import functools

import pytest
from systems import DEVICES, sides

import shardsolve

N = 24
solve = functools.partial(shardsolve.solve, assume_a="pos")
several_devices = pytest.mark.skipif(DEVICES == 1, reason="needs two devices")

FUNCTIONS = {
    "solve": lambda a: solve(a, sides(N, None, a.dtype)),
    "cho_factor": shardsolve.cho_factor,
    "inv": shardsolve.inv,
    "logdet": shardsolve.logdet,
    "slogdet": shardsolve.slogdet,
    "cond": lambda a: shardsolve.cond(a, 1),
}
every_function = pytest.mark.parametrize("function", FUNCTIONS)

FACTOR_USES = {
    "cho_solve": lambda factor, **where: shardsolve.cho_solve(factor, sides(N), **where),
    "inv": shardsolve.inv,
    "logdet": shardsolve.logdet,
    "slogdet": shardsolve.slogdet,
    "cond": lambda factor, **where: shardsolve.cond(factor, 1, **where),
}
every_use = pytest.mark.parametrize("use", FACTOR_USES)
