"""The memory that a solve really takes, beside what XLA plans (test_jax_costs)."""

import pytest
from conftest import DEVICES

pytestmark = pytest.mark.cpu_only

N, TILE = 3072, 96
MATRIX = 8 * N * N
PANELS = 3 * 8 * N * TILE * DEVICES
# Right-hand sides, stacks, what allocators keep: a quarter of what one more copy of A would take.
CONSTANT = MATRIX // 4

PROGRAM = f"""
import functools, re
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np, shardsolve
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))

@functools.partial(jax.jit, static_argnums=0, out_shardings=rows)
def make(n):
    i = jnp.arange(n)
    return jnp.exp(-abs(i[:, None] - i) / 4.0) + jnp.eye(n)

def figure(name):
    return 1024 * int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def solve(n):
    a, b = jax.block_until_ready((make(n), jax.device_put(jnp.ones(n), rows)))
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = figure("VmRSS")
    jax.block_until_ready(shardsolve.solve(a, b, assume_a="pos", tile={TILE}, OPTIONS))
    return figure("VmHWM") - before

solve({N // 8})
print(solve({N}))
"""


def peak(python, **options: bool) -> int:
    text = ", ".join(f"{name}={value}" for name, value in options.items())
    return int(python(PROGRAM.replace("OPTIONS", text)).split()[-1])


def test_solve_takes_one_more_matrix_and_three_panels(python):
    taken = peak(python)
    assert taken < MATRIX + PANELS + CONSTANT, f"{taken / MATRIX:.2f} times A"
    # else the test would see nothing: the caller's A is still there, and so was the copy
    assert taken > MATRIX


def test_solve_that_overwrites_takes_three_panels(python):
    taken = peak(python, overwrite_a=True)
    assert taken < PANELS + CONSTANT, f"{taken / MATRIX:.2f} times A"
