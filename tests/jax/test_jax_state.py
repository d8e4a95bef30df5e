"""What import and a solve leave as it was. Each in a process of its own."""

import pytest

# A snapshot of what belongs to the process and not to us.
SNAPSHOT = """
import os, signal
try:
    import threadpoolctl  # sets a variable of its own, so before the first look
except ImportError:
    pass
import jax, numpy as np

def blas_threads():
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return None
    pools = [pool for pool in threadpool_info() if "numpy" in pool["filepath"]]
    return sorted((pool["filepath"], pool["num_threads"]) for pool in pools)

def snapshot():
    np.ones((2, 2)) @ np.ones((2, 2))
    return {
        "environment": dict(os.environ),
        "config": dict(jax.config.values),
        "signals": [str(signal.getsignal(s)) for s in sorted(signal.valid_signals())],
        "wakeup": signal.set_wakeup_fd(-1),
        "blas": blas_threads(),
        "directory": os.getcwd(),
        "floating point errors": np.geterr(),
        "affinity": sorted(os.sched_getaffinity(0)),
    }
before = snapshot()
"""
COMPARE = """
after = snapshot()
for name in before:
    assert before[name] == after[name], (name, before[name], after[name])
print("equal")
"""
SOLVE = """
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
a = jax.device_put(np.eye(12), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x")))
before = snapshot()
x = shardsolve.solve(a, np.ones(12), assume_a="pos")
assert np.array_equal(x, np.ones(12))
jax.grad(shardsolve.logdet)(a)
try:
    shardsolve.cho_factor(-a)
except shardsolve.LinAlgError:
    pass
"""


@pytest.mark.parametrize("event", ("import", "solve"))
def test_state_of_the_process_after_event_is_as_before(python, event):
    program = SNAPSHOT + "import shardsolve\n" + (SOLVE if event == "solve" else "") + COMPARE
    assert python(program) == "equal\n"


NO_DEVICES = """
import jax
asked = []
for name in ("devices", "local_devices", "device_count", "default_backend"):
    original = getattr(jax, name)
    setattr(jax, name, lambda *a, _original=original, **k: asked.append(1) or _original(*a, **k))
import shardsolve
assert not asked
jax.config.update("jax_num_cpu_devices", 3)  # refused once backends are up
print(len(jax.devices()))
"""


@pytest.mark.cpu_only
def test_import_does_not_ask_for_devices(python):
    """So the number of devices can still be set after it."""
    assert python(NO_DEVICES, XLA_FLAGS="") == "3\n"


@pytest.mark.wheel
def test_import_does_not_load_the_library(python):
    """Registered at the first call: an import costs nothing and cannot fail for it."""
    out = python(
        """
import shardsolve
with open("/proc/self/maps") as maps:
    print("libshardsolve" in maps.read())
shardsolve.logdet([[1.0]])
with open("/proc/self/maps") as maps:
    print("libshardsolve" in maps.read())
"""
    )
    assert out.split() == ["False", "True"]


def test_symbols_of_the_library_stay_its_own(python):
    """Never RTLD_GLOBAL: a BLAS of ours must not answer for anybody else."""
    out = python(
        """
import ctypes, shardsolve
shardsolve.logdet([[1.0]])
everywhere = ctypes.CDLL(None)
names = ("shardsolve_version", "dgemm_", "scipy_dgemm_", "cblas_dgemm")
print([name for name in names if hasattr(everywhere, name)])
"""
    )
    assert out == "[]\n"


def test_process_that_ends_in_the_middle_of_a_solve_ends_cleanly(python):
    out = python(
        """
import jax, numpy as np, shardsolve
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
a = jax.device_put(np.eye(600) * 2, rows)
b = np.ones(600)
run = jax.jit(lambda a, b: shardsolve.solve(a, b, assume_a="pos"))
run(a, b)
for _ in range(4):
    x = run(a, b)
print("end")
"""
    )
    assert out == "end\n"


@pytest.mark.wheel
def test_version_and_names_are_there(python):
    out = python(
        """
import importlib.metadata, pathlib, shardsolve
assert shardsolve.__version__ == importlib.metadata.version("shardsolve")
assert (pathlib.Path(shardsolve.__file__).parent / "py.typed").exists()
print(all(hasattr(shardsolve, name) for name in shardsolve.__all__))
"""
    )
    assert out == "True\n"


def test_unsupported_jaxlib_names_the_range(python):
    out = python(
        """
import jaxlib
jaxlib.__version__ = "0.7.2"
import shardsolve
try:
    shardsolve.logdet([[1.0]])
except ImportError as error:
    print(error)
"""
    )
    assert "0.7.2" in out
    assert "0.8.1" in out


def test_first_thing_that_a_process_does_may_be_a_call_under_jit(python):
    """Nothing has started JAX's devices yet when the library is registered."""
    out = python(
        """
import jax, numpy as np, shardsolve
solve = jax.jit(lambda a, b: shardsolve.solve(a, b, assume_a="pos"))
print(float(abs(solve(2 * np.eye(3, dtype=np.float32), np.ones(3, np.float32)) - 0.5).max()))
"""
    )
    assert float(out) < 1e-6
