"""What is different on GPUs: their memory, their precision, CPU devices beside them."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P
from systems import DEVICES, close, hermitian, row_mesh, sides, solve, solves, spread

import shardsolve

pytestmark = pytest.mark.gpu_only

WITHOUT_LIBRARY = """
import pathlib, shutil, sys, tempfile
import shardsolve
package = pathlib.Path(shardsolve.__file__).parent
elsewhere = pathlib.Path(tempfile.mkdtemp()) / "shardsolve"
shutil.copytree(package, elsewhere, ignore=shutil.ignore_patterns("*_cuda.so", "__pycache__"))
for name in [name for name in sys.modules if name.startswith("shardsolve")]:
    del sys.modules[name]
sys.path.insert(0, str(elsewhere.parent))
import jax, shardsolve
assert str(elsewhere) in shardsolve.__file__
try:
    shardsolve.logdet([[1.0]])
except jax.errors.JaxRuntimeError as error:
    print(error)
with jax.default_device(jax.devices("cpu")[0]):
    print(shardsolve.logdet([[1.0]]))
"""


def test_without_the_cuda_library_the_error_says_so_and_cpus_work(python):
    text, _, value = python(WITHOUT_LIBRARY).strip().rpartition("\n")
    assert "the CUDA library of shardsolve could not be loaded" in text
    assert float(value) == 0.0


SHORT_OF_MEMORY = """
import jax, jax.numpy as jnp, numpy as np, shardsolve
from jax.sharding import PartitionSpec as P
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
rows = jax.sharding.NamedSharding(mesh, P("x"))
n = 4096
a = jax.device_put(4 * np.eye(n), rows)
b = jax.device_put(np.ones(n), rows)
full = []
for device in jax.devices():
    try:
        while True:
            full.append(jax.block_until_ready(jnp.zeros(64 << 20, "int8", device=device)))
    except jax.errors.JaxRuntimeError:
        full.pop()
try:
    print(shardsolve.cho_factor(a, tile=1024, overwrite_a=True))
except shardsolve.SolverError as error:
    print(error.status.name, error)
del full
a = jax.device_put(4 * np.eye(n), rows)
print(bool((shardsolve.solve(a, b, assume_a="pos") == 0.25).all()))
"""


def test_pool_without_room_for_the_workspace_is_an_error_and_the_process_goes_on(python):
    """Three panels of 4096 x 1024 are 101 MB, and 64 MiB or a little more are there."""
    error, after = python(
        SHORT_OF_MEMORY, XLA_PYTHON_CLIENT_PREALLOCATE="true", XLA_PYTHON_CLIENT_MEM_FRACTION="0.05"
    ).splitlines()
    assert re.match(r"OUT_OF_MEMORY .*XLA's memory pool of GPU \d has not 0\.\d+ GB", error)
    assert after == "True"


def test_workspace_goes_back_to_the_pool():
    a, b = spread(hermitian(96 * DEVICES)), spread(sides(96 * DEVICES))
    jax.block_until_ready(solve(a, b))
    before = [device.memory_stats()["bytes_in_use"] for device in jax.devices()]
    for _ in range(50):
        jax.block_until_ready(solve(a, b))
    after = [device.memory_stats()["bytes_in_use"] for device in jax.devices()]
    assert after == before


@pytest.mark.liveness
@pytest.mark.slow
def test_thousand_solves_between_sums_in_one_program_end():
    n = 16 * DEVICES
    mesh = row_mesh()
    a, b = spread(hermitian(n)), spread(sides(n))
    total = jax.shard_map(
        lambda x: lax.psum(jnp.sum(x), "x"), mesh=mesh, in_specs=P("x"), out_specs=P()
    )

    @jax.jit
    def run(a, b):
        def turn(carry, _):
            x = solve(a, b + carry - carry)
            return total(x), x

        return lax.scan(turn, total(b), None, length=1000)

    used = [device.memory_stats()["bytes_in_use"] for device in jax.devices()]
    last, xs = jax.block_until_ready(run(a, b))
    assert solves(a, np.asarray(xs[0]), b)
    assert close(last, np.asarray(xs[-1]).sum())
    del last, xs
    assert [device.memory_stats()["bytes_in_use"] for device in jax.devices()] == used


def test_float32_derivatives_have_the_precision_of_float32():
    """GPUs multiply float32 matrices in fewer bits unless they are told not to."""
    n = 64 * DEVICES
    a, change = hermitian(n, "float32"), hermitian(n, "float32", seed=3)
    _, tangent = jax.jvp(shardsolve.inv, (spread(a),), (spread(change),))
    x = np.linalg.inv(a.astype("float64"))
    assert close(tangent, (-x @ change @ x).astype("float32"), 1e3)


def test_cpu_devices_solve_beside_gpus():
    a, b = hermitian(24), sides(24)
    cpu = jax.devices("cpu")[0]
    x = solve(jax.device_put(a, cpu), jax.device_put(b, cpu))
    assert x.devices() == {cpu} and solves(a, x, b)
    assert solves(a, solve(spread(a), spread(b)), b)


@pytest.mark.skipif(DEVICES == 1, reason="needs two GPUs")
def test_gpus_in_any_order_give_the_same_bits():
    n = 64 * DEVICES
    a, b = hermitian(n), sides(n)
    devices = jax.devices()
    one_way = shardsolve.solve(a, b, assume_a="pos", mesh=row_mesh(devices))
    other_way = shardsolve.solve(a, b, assume_a="pos", mesh=row_mesh(devices[::-1]))
    assert np.array_equal(one_way, other_way)


def test_general_matrix_is_refused_before_any_work():
    with pytest.raises(shardsolve.SolverError, match="no kernels for LU factorisations") as caught:
        shardsolve.solve(hermitian(24), sides(24), assume_a="gen")
    assert caught.value.status is shardsolve.Status.UNSUPPORTED
