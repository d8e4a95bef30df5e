"""The system of bench/cuda/matrices.hpp as JAX arrays, and how contestants in JAX are timed."""

from __future__ import annotations

import argparse
import functools
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jax
    from jax.sharding import NamedSharding

SOLVE_LIMIT = 10.0
SHIFT = 2.5


def parser(description: str) -> argparse.ArgumentParser:
    """The arguments of every contestant; see Setting.arguments in gpu_contest.py."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--n", type=int, required=True)
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--matrix", required=True)
    parser.add_argument("--columns", type=int)
    parser.add_argument("--devices", required=True)
    return parser


def jobs(options: argparse.Namespace) -> list[str]:
    """What is timed in JAX: one call, of the matrix that is made here."""
    able = options.dtype in ("float64", "complex128") and options.matrix == "well_conditioned"
    return ["one_call"] if able else []


@dataclass(frozen=True)
class System:
    """A x = b on GPUs; `residual` judges x as bench/cuda/gates.hpp does."""

    a: jax.Array
    b: jax.Array
    residual: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]

    def timed(self, solve: Callable[[jax.Array, jax.Array], jax.Array]) -> dict[str, Any]:
        """Solves it once."""
        import jax

        begin = time.perf_counter()
        x = jax.block_until_ready(solve(self.a, self.b))
        seconds = time.perf_counter() - begin
        value = float(self.residual(self.a, x, self.b))
        held = max(device.memory_stats()["peak_bytes_in_use"] for device in jax.local_devices())
        return {
            "seconds": seconds,
            "bytes": held,
            "certificate": None,
            "residuals": [
                {
                    "name": "solve",
                    "value": value if math.isfinite(value) else None,
                    "limit": SOLVE_LIMIT,
                }
            ],
        }


def make_system(n: int, dtype: str, of_a: NamedSharding, of_b: NamedSharding) -> System:
    """Makes every entry where it is to lie."""
    import jax
    import jax.numpy as jnp

    is_complex = dtype == "complex128"

    def mix(key: jax.Array) -> jax.Array:
        key = key + jnp.uint64(0x9E3779B97F4A7C15)
        key = (key ^ (key >> 30)) * jnp.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> 27)) * jnp.uint64(0x94D049BB133111EB)
        return key ^ (key >> 31)

    def uniform_pair(seed: int, row: jax.Array, column: jax.Array) -> tuple[jax.Array, jax.Array]:
        bits = mix(mix(jnp.uint64(seed)) ^ (row << 32 | column))
        scale = 1.0 / 2**31
        parts = (bits >> 32).astype(jnp.uint32), bits.astype(jnp.uint32)
        return tuple(part.astype(jnp.int32) * scale for part in parts)

    @functools.partial(jax.jit, out_shardings=of_a)
    def matrix() -> jax.Array:
        i = jnp.arange(n, dtype=jnp.uint64)
        row, column = i[:, None], i[None, :]
        real, imag = uniform_pair(1, jnp.maximum(row, column), jnp.minimum(row, column))
        shift = SHIFT * math.sqrt((2 if is_complex else 1) / 3 * n)
        real = real + jnp.where(row == column, shift, 0.0)
        sign = jnp.sign(row.astype(jnp.int64) - column.astype(jnp.int64))
        return real + 1j * sign * imag if is_complex else real

    @functools.partial(jax.jit, out_shardings=of_b)
    def right_hand_side() -> jax.Array:
        real, imag = uniform_pair(2, jnp.arange(n, dtype=jnp.uint64), jnp.uint64(0))
        return real + 1j * imag if is_complex else real

    @jax.jit
    def residual(a: jax.Array, x: jax.Array, b: jax.Array) -> jax.Array:
        off = jnp.abs(b - jnp.matmul(a, x, precision="highest")).max()
        norm = jnp.abs(a).sum(axis=1).max()
        return off / (norm * jnp.abs(x).max() + jnp.abs(b).max()) / (jnp.finfo(dtype).eps / 2)

    a, b = jax.block_until_ready((matrix(), right_hand_side()))
    return System(a, b, residual)


def serve(
    hello: Mapping[str, Any],
    lines: Iterable[str],
    system: Callable[[], System],
    solve: Callable[[int | None], Callable[[jax.Array, jax.Array], jax.Array]],
) -> None:
    """Answers one line for each line, as bench/support/serve.hpp says.

    Args:
        hello: What the program is.
        lines: What is asked for: "one_call", "one_call TILE" or "release".
        system: Makes the system.
        solve: What is timed, given a tile.
    """
    print(json.dumps(hello), flush=True)
    kept = functools.cache(system)
    first = True
    for line in lines:
        words = line.split()
        if words[0] == "release":
            kept.cache_clear()
            answer = {}
        else:
            tile = int(words[1]) if len(words) > 1 else None
            answer = {**kept().timed(solve(tile)), "first": first}
            first = False
        print(json.dumps(answer), flush=True)
