"""Times JAXMg's `potrs`, which compiles itself, A cut over the squarest mesh; started by run.py.

JAXMg wants one process a GPU. The first one starts the others, and passes on what it is asked for.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import jax_system


def main() -> None:
    parser = jax_system.parser(__doc__)
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--coordinator", default="")
    options = parser.parse_args()
    devices = options.devices.split(",")
    others: list[subprocess.Popen[str]] = []
    if options.process == 0:
        options.coordinator = f"127.0.0.1:{free_port()}"
        others = [start(process, options.coordinator) for process in range(1, len(devices))]
    os.environ["CUDA_VISIBLE_DEVICES"] = devices[options.process]
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    serve(options, len(devices), others)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(process: int, coordinator: str) -> subprocess.Popen[str]:
    extra = [f"--process={process}", f"--coordinator={coordinator}"]
    return subprocess.Popen(
        [sys.executable, *sys.argv, *extra],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def passed_on(others: list[subprocess.Popen[str]]) -> Iterator[str]:
    """The lines of the standard input, which the other processes get too."""
    for line in sys.stdin:
        for other in others:
            assert other.stdin is not None
            other.stdin.write(line)
            other.stdin.flush()
        yield line
    for other in others:
        assert other.stdin is not None
        other.stdin.close()


def serve(options: argparse.Namespace, processes: int, others: list[subprocess.Popen[str]]) -> None:
    begin = time.perf_counter()
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(options.coordinator, processes, options.process)
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P
    from jaxmg import potrs

    columns = max(d for d in range(1, math.isqrt(processes) + 1) if processes % d == 0)
    mesh = jax.make_mesh(
        (processes // columns, columns), ("rows", "columns"), (AxisType.Auto, AxisType.Auto)
    )
    spec = P("rows", "columns")
    solve = functools.cache(
        lambda tile: functools.partial(potrs, T_A=tile, mesh=mesh, matrix_specs=spec, donate=False)
    )
    hello = {
        "program": f"JAXMg {importlib.metadata.version('jaxmg')} in jax {jax.__version__}",
        "jobs": jax_system.jobs(options),
        "setup_seconds": time.perf_counter() - begin,
        "tile": 0,
    }
    make = functools.partial(
        jax_system.make_system,
        options.n,
        options.dtype,
        NamedSharding(mesh, spec),
        NamedSharding(mesh, P("rows")),
    )
    jax_system.serve(hello, passed_on(others), make, solve)


if __name__ == "__main__":
    main()
