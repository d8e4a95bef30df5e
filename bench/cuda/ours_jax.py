"""Times shardsolve from JAX: `solve` under `jit`, A's rows cut over the GPUs; started by run.py."""

from __future__ import annotations

import argparse
import functools
import os
import sys
import time

import jax_system


def main() -> None:
    options = jax_system.parser(__doc__).parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = options.devices
    # The other programs need memory too.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    serve(options)


def serve(options: argparse.Namespace) -> None:
    begin = time.perf_counter()
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    import shardsolve

    jax.config.update("jax_enable_x64", True)
    mesh = Mesh(np.array(jax.devices()), ("x",))
    rows = NamedSharding(mesh, P("x") if options.n % mesh.size == 0 else P())
    solve = jax.jit(functools.partial(shardsolve.solve, assume_a="pos"))
    hello = {
        "program": f"shardsolve {shardsolve.__version__} in jax {jax.__version__}",
        "jobs": jax_system.jobs(options),
        "setup_seconds": time.perf_counter() - begin,
        "tile": 0,
    }
    make = functools.partial(jax_system.make_system, options.n, options.dtype, rows, rows)
    jax_system.serve(hello, sys.stdin, make, lambda _: solve)


if __name__ == "__main__":
    main()
