"""Eigenpairs and Krylov solves from JAX over all GPUs; started by whole_machine.py.

A line of JSON for each: what, whether it is right, and figures.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=8192)
    n = parser.parse_args().n

    import jax

    jax.config.update("jax_enable_x64", True)
    report_eigenpairs(n)
    report_krylov(n)


def say(what: str, right: bool, **figures: Any) -> None:
    print(json.dumps({"what": what, "right": bool(right), **figures}), flush=True)


def same_bits(one: Any, other: Any) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


def row_mesh(count: int) -> Any:
    import jax

    return jax.sharding.Mesh(np.array(jax.devices()[:count]), ("x",))


def report_eigenpairs(n: int) -> None:
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    import shardsolve

    mesh = row_mesh(jax.device_count())
    n -= n % mesh.size
    numbers = np.random.default_rng(0).standard_normal((n, n))
    a = jax.device_put(numbers + numbers.T, NamedSharding(mesh, P("x")))
    find = jax.jit(lambda a: shardsolve.eigh(a, full_output=True))
    w, v, info = find(a)
    unit = 2.0**-53
    rest = jnp.linalg.norm(a @ v - v * w, axis=0)  # of each pair
    residual = float(rest.max() / jnp.abs(w).max() / unit)
    orthogonality = float(jnp.linalg.norm(v.T @ v - jnp.eye(n)) / unit)
    again = find(a)[:2]
    say(
        f"eigh {n} from JAX on {mesh.size}",
        info.status == 0 and residual < 100 and orthogonality < 10 * n,
        residual_in_u=round(residual, 2),
        orthogonality_in_u=round(orthogonality, 1),
    )
    say("eigh from JAX, again", same_bits(w, again[0]) and same_bits(v, again[1]))


def report_krylov(n: int) -> None:
    import jax
    import scipy.sparse
    from jax.sharding import NamedSharding
    from jax.sharding import PartitionSpec as P

    import shardsolve
    from shardsolve import krylov

    n -= n % jax.device_count()
    off = np.full(n - 1, -1.0)
    chain = scipy.sparse.diags([off, np.full(n, 2.01), off], [-1, 0, 1], format="csr")
    b = np.random.default_rng(1).standard_normal(n)
    found = {}
    for count in {1, jax.device_count()}:
        rows = NamedSharding(row_mesh(count), P("x"))
        x = krylov.solve(shardsolve.CSR.of(chain), jax.device_put(b, rows), rtol=1e-10)
        found[count] = np.asarray(x)
        rest = float(np.linalg.norm(chain @ found[count] - b) / np.linalg.norm(b))
        say(f"cg of {n} rows from JAX on {count}", rest < 1.1e-10, residual=rest)
    say("cg from JAX on one and on all", len({x.tobytes() for x in found.values()}) == 1)


if __name__ == "__main__":
    main()
