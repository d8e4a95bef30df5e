"""No transfer that the caller has not asked for: all works under jax.transfer_guard("disallow")."""

import jax
import numpy as np
import pytest
from functions import N, solve
from systems import hermitian, sides, spread

import shardsolve

CALLS = {
    "solve": solve,
    "solve_overwriting": lambda a, b: solve(a, b, overwrite_a=True),
    "cho_factor": lambda a, b: shardsolve.cho_factor(a),
    "inv": lambda a, b: shardsolve.inv(a),
    "logdet": lambda a, b: shardsolve.logdet(a),
    "slogdet": lambda a, b: shardsolve.slogdet(a),
    "cond": lambda a, b: shardsolve.cond(a, 1),
    "cholesky": lambda a, b: shardsolve.cholesky(a),
    "eigh": lambda a, b: shardsolve.eigh(a),
    "eigh_by_index": lambda a, b: shardsolve.eigh(a, subset_by_index=(1, 3), overwrite_a=True),
    "eigh_by_value": lambda a, b: shardsolve.eigh(a, subset_by_value=(0.0, 1.0)),
    "eigvalsh": lambda a, b: shardsolve.eigvalsh(a),
    "cho_solve": shardsolve.cho_solve,
    "inv_of_factor": lambda factor, b: shardsolve.inv(factor),
    "slogdet_of_factor": lambda factor, b: shardsolve.slogdet(factor),
    "info_of_factor": lambda factor, b: factor.info,
}


def arguments(call):
    a, b = spread(hermitian(N)), spread(sides(N))
    takes_factor = call == "cho_solve" or call.endswith("of_factor")
    return jax.block_until_ready((shardsolve.cho_factor(a) if takes_factor else a, b))


@pytest.mark.devices
@pytest.mark.parametrize("call", CALLS)
def test_call_on_arrays_transfers_nothing_by_itself(call):
    CALLS[call](*arguments(call))  # what is compiled may hold constants
    given = arguments(call)
    with jax.transfer_guard("disallow"):
        jax.block_until_ready(CALLS[call](*given))


def test_reading_info_transfers_nothing_by_itself():
    a, b = spread(hermitian(N)), spread(sides(N))
    _, of_one = solve(a, b, full_output=True)
    batch = jax.vmap(lambda b: solve(a, b, full_output=True)[1])
    of_several = batch(np.stack([sides(N), sides(N)]))
    read = [
        lambda info: info.pivot,
        lambda info: info.message,
        lambda info: info.status,
        lambda info: jax.device_get((info.backward_error, info.rcond)),
    ]
    for info in (of_one, of_several):
        for field in read:
            field(info)
            with jax.transfer_guard("disallow"):
                field(info)
