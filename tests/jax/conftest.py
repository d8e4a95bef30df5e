"""Set-up of the JAX tests: devices, precision, a guard against hangs.

Read from the environment:
    SHARDSOLVE_TEST_PLATFORM   cpu, or cuda for the GPUs of this machine (cpu)
    SHARDSOLVE_TEST_DEVICES    devices: virtual ones of the CPU, or the first GPUs (4)
    SHARDSOLVE_TEST_ROUNDS     rounds of the liveness tests (20; 500 for the long form)
    SHARDSOLVE_TEST_PART       some of the tests: 1/2 those that 2/2 leaves out (1/1)
    SHARDSOLVE_TEST_SAMPLE     of each of them some of the cases, likewise (1/1)
    SHARDSOLVE_TEST_EXAMPLES   examples of the hypothesis tests (25)
    SHARDSOLVE_TEST_SECONDS    longest time of one test before the process is ended (120)
"""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import subprocess
import sys
import zlib
from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

DEVICES = int(os.environ.get("SHARDSOLVE_TEST_DEVICES", "4"))
PLATFORM = os.environ.get("SHARDSOLVE_TEST_PLATFORM", "cpu")
IN_SOURCE_TREE = Path(find_spec("shardsolve").origin).is_relative_to(Path(__file__).parents[2])
PART, PARTS = map(int, os.environ.get("SHARDSOLVE_TEST_PART", "1/1").split("/"))
SAMPLE, SAMPLES = map(int, os.environ.get("SHARDSOLVE_TEST_SAMPLE", "1/1").split("/"))
SECONDS = float(os.environ.get("SHARDSOLVE_TEST_SECONDS", "120"))

# All of this before jax starts, and inherited by the processes that tests start.
_FLAGS = [
    flag
    for flag in os.environ.get("XLA_FLAGS", "").split()
    if "host_platform_device_count" not in flag
]
os.environ["XLA_FLAGS"] = " ".join([*_FLAGS, f"--xla_force_host_platform_device_count={DEVICES}"])
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["SHARDSOLVE_TILE_TABLE"] = "none"  # that of whoever runs the tests
os.environ["JAX_PLATFORMS"] = "cpu" if PLATFORM == "cpu" else "cuda,cpu"
if PLATFORM == "cuda":
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(DEVICES)))
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # tests start processes
# XLA:CPU itself, without shardsolve, hangs after some 32 calls on several devices for which
# nobody waits, unless its thread pool, sized by this variable, has two threads a device.
os.environ.setdefault("NPROC", str(max(2 * DEVICES, 4)))


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what is to go on
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "liveness: many calls at once; long with many rounds")
    config.addinivalue_line("markers", "one_rank: small systems are solved by one rank, as usual")
    config.addinivalue_line("markers", "cpu_only: about what only CPU devices have")
    config.addinivalue_line("markers", "gpu_only: about what only GPUs have")
    config.addinivalue_line("markers", "devices: again with other numbers of devices than 4")
    config.addinivalue_line("markers", "wheel: about the package as it is installed")
    config.addinivalue_line("markers", "slow: seconds rather than tenths of one")
    config.stash[_STDERR] = os.fdopen(os.dup(sys.__stderr__.fileno()), "w")


_STDERR = pytest.StashKey()


# Tests that fail for a reason that is known: pattern of the name, reason, where. Each has to pass
# once its reason is gone, and its line to go with it.
KNOWN_BUGS = (
    (
        r"donated_matrix_is_one_slab\[.*solve",
        "solve has no result that the memory of a could become: it is not donated inside jit",
        True,
    ),
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    keep_sample(config, items)
    elsewhere = ("one_rank", "cpu_only") if PLATFORM == "cuda" else ("gpu_only",)
    for item in items:
        if item.get_closest_marker("wheel") and IN_SOURCE_TREE:
            item.add_marker(pytest.mark.skip(reason="needs an installed wheel"))
        if any(item.get_closest_marker(name) for name in elsewhere):
            item.add_marker(pytest.mark.skip(reason=f"not on {PLATFORM}"))
        for pattern, reason, where in KNOWN_BUGS:
            if where and re.search(pattern, item.name):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def keep_sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of each test of this run's part the cases whose names fall into its sample, at least one."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    kept = set()
    for item in items:
        is_here = Path(__file__).parent in item.path.parents
        is_left_out = item.get_closest_marker("more") and "not more" in config.option.markexpr
        if is_here and not is_left_out:
            cases[item.nodeid.partition("[")[0]].append(item)
        else:
            kept.add(item)
    for name, group in cases.items():
        is_of_wheel = any(item.get_closest_marker("wheel") for item in group)
        if zlib.crc32(name.encode()) % PARTS != PART - 1 and not is_of_wheel:
            continue
        numbers = [zlib.crc32(item.nodeid.encode()) for item in group]
        mine = [item for item, n in zip(group, numbers, strict=True) if n % SAMPLES == SAMPLE - 1]
        kept.update(mine or [group[numbers.index(min(numbers))]])
    left_out = [item for item in items if item not in kept]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item in kept]


@pytest.fixture(autouse=True)
def every_rank_works(request: pytest.FixtureRequest):
    """Small systems are solved by one rank; here by all, but in the tests of just that."""
    if request.node.get_closest_marker("one_rank"):
        yield
        return
    from shardsolve import _library

    _library.library().shardsolve_set_small_matrix(0)
    yield
    _library.library().shardsolve_set_small_matrix(512)


@pytest.fixture(autouse=True)
def guard(request: pytest.FixtureRequest):
    """Ends the process with the stacks of all threads if a test does not end."""
    seconds = SECONDS * (10 if request.node.get_closest_marker("liveness") else 1)
    faulthandler.dump_traceback_later(seconds, exit=True, file=request.config.stash[_STDERR])
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def python():
    """Runs a program in a process of its own, and returns what it printed."""

    def run(
        program: str,
        *,
        prefix: Sequence[str] = (),
        seconds: float = SECONDS,
        **environment: str,
    ) -> str:
        done = subprocess.run(
            [*prefix, sys.executable, "-X", "faulthandler", "-c", program],
            env={**os.environ, **environment},
            timeout=seconds,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
