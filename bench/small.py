"""One device, sizes at which a call costs as much as its work: shardsolve beside JAX's own.

    PYTHONPATH=python python bench/small.py [--jobs solve vmap lu eigh] [--n 16 32]
                                            [--dtype float64] [--seconds 1.0]

`solve` against `jax.scipy.linalg.solve(assume_a="pos")`, alone and under `vmap` of 1000 systems;
`lu` and `lu_vmap`: the same with general matrices and assume_a="gen", the default of both; `eigh`
against `jnp.linalg.eigh`, each under `jax.jit` on the first device that JAX has. Runs of
the two take turns, each run is waited for, and the least of as many as fit in --seconds counts:
the machine may have other work. The first answer of each is checked. Ours includes the look at the
input and the certificate, which is printed in units of rounding. Ends with status 1 if an answer
is wrong.
"""

from __future__ import annotations

import argparse
import os
import time

SIZES = {
    "solve": (16, 32, 64, 128, 256, 512, 1000, 2048, 4096),
    "vmap": (16, 32, 64, 128),
    "lu": (16, 32, 64, 128, 256, 512, 1000, 2048, 4096),
    "lu_vmap": (16, 32, 64, 128),
    "eigh": (32, 64, 128, 256, 512, 1000, 2048),
}
SYSTEMS = 1000  # of a batch
LEAST_RUNS = 3
AT_LEAST = 100e-6  # seconds of a run: several calls, if one is shorter


def problem(np, job: str, n: int, dtype: str):
    """The operands of a job: a, or a and b."""
    random = np.random.default_rng(1)
    batch = (SYSTEMS,) if job.endswith("vmap") else ()

    def normal(*shape):
        real = random.standard_normal((*batch, *shape))
        return real + 1j * random.standard_normal(real.shape) if dtype[0] == "c" else real

    g = normal(n, n)
    turned = np.conj(np.swapaxes(g, -1, -2))
    if job == "eigh":
        return (((g + turned) / 2).astype(dtype),)
    if job.startswith("lu"):
        # well conditioned, and every pivot an exchange
        return (g + 3 * n**0.5 * np.eye(n)[::-1]).astype(dtype), normal(n).astype(dtype)
    return (g @ turned / n + np.eye(n)).astype(dtype), normal(n).astype(dtype)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--n", type=int, nargs="+", help="instead of the sizes of each job")
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--seconds", type=float, default=1.0, help="for the runs of a line")
    options = parser.parse_args()
    os.environ["JAX_ENABLE_X64"] = "1"
    import jax
    import jax.numpy as jnp
    import numpy as np

    import shardsolve

    def solves(assume_a):
        """Ours, its certificate, JAX's."""
        given = {"assume_a": assume_a}
        full = {"full_output": True, "estimate_rcond": False, **given}
        return (
            lambda a, b: shardsolve.solve(a, b, **given),
            lambda a, b: shardsolve.solve(a, b, **full)[1].backward_error,
            lambda a, b: jax.scipy.linalg.solve(a, b, **given),
        )

    def batched(calls):
        ours, error, theirs = map(jax.vmap, calls)
        return ours, lambda *given: error(*given).max(), theirs

    calls = {
        "solve": solves("pos"),
        "vmap": batched(solves("pos")),
        "lu": solves("gen"),
        "lu_vmap": batched(solves("gen")),
        "eigh": (
            shardsolve.eigh,
            lambda a: shardsolve.eigh(a, full_output=True)[2].residual,
            lambda a: tuple(jnp.linalg.eigh(a)),
        ),
    }
    u = float(jnp.finfo(options.dtype).eps) / 2
    device = jax.devices()[0]
    print(f"{device.device_kind}, jax {jax.__version__}, {options.dtype}, milliseconds of a call")
    print(f"{'job':>6}{'n':>6}{'ours':>11}{'jax':>11}{'ours/jax':>10}{'runs':>6}{'error / u':>11}")
    good = True
    for job in options.jobs:
        run, judge, peer = calls[job]
        for n in options.n or SIZES[job]:
            operands = jax.device_put(problem(np, job, n, options.dtype), device)
            pair = [jax.jit(run), jax.jit(peer)]
            found, expected = (jax.block_until_ready(call(*operands)) for call in pair)
            good &= agree(np, job, found, expected)
            error = float(jax.jit(judge)(*operands)) / u
            best, runs = least(jax, pair, operands, options.seconds)
            print(
                f"{job:>6}{n:>6}{best[0] * 1e3:>11.4f}{best[1] * 1e3:>11.4f}"
                f"{best[0] / best[1]:>10.2f}{runs:>6}{error:>11.2f}",
                flush=True,
            )
    print("all answers agree" if good else "WRONG: some answers differ")
    return 0 if good else 1


def agree(np, job: str, found, expected) -> bool:
    """Whether solutions, or eigenvalues, are those of JAX but for rounding; NaN is not."""
    a, b = (np.asarray(one[0] if job == "eigh" else one) for one in (found, expected))
    return bool(np.abs(a - b).max() <= 1e4 * np.finfo(a.dtype).eps * np.abs(b).max())


def least(jax, pair, operands, seconds: float) -> tuple[list[float], int]:
    """The least seconds of a call of each, in turn, and of how many runs."""
    begin = time.perf_counter()
    jax.block_until_ready(pair[1](*operands))
    calls = max(1, round(AT_LEAST / (time.perf_counter() - begin)))
    best, runs, end = [float("inf")] * 2, 0, time.perf_counter() + seconds
    while runs < LEAST_RUNS or time.perf_counter() < end:
        for which, call in enumerate(pair):
            begin = time.perf_counter()
            for _ in range(calls):
                jax.block_until_ready(call(*operands))
            best[which] = min(best[which], (time.perf_counter() - begin) / calls)
        runs += 1
    return best, runs


if __name__ == "__main__":
    raise SystemExit(main())
