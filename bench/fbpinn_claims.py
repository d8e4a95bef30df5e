"""What is said to make training of networks faster, tried one by one on this machine.

    PYTHONPATH=python python bench/fbpinn_claims.py [--points 10000] [--steps 1000] [--rounds 3]
                                                    [--only TEXT] [--json FILE]

Burgers' equation on 15 x 5 subdomains of one hidden layer of 16, float32, Adam, new points at each
step. Each row is the same training with one thing changed, in a process of its own. A round is the
plain one and then all rows; the most steps a second of the rounds count, as the machine may have
other work. Printed is a table: steps a second, their ratio to those of the plain one, and the loss
at the end, which says whether it is the same training. Rows for several devices or for GPUs are
left out where there are none. Exit status: 1 if a training fails, as with flags that jaxlib does
not know.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

NU = 0.1 / 3.141592653589793


@dataclass(frozen=True)
class Training:
    """One training; what is not said is as in the plain one."""

    claim: str = "plain"
    block: int = 100
    accumulate: int = 1
    points: str = "random"
    dtype: str = "float32"
    devices: int = 1
    exchange: str = "halo"
    environment: dict[str, str] = field(default_factory=dict)
    platform: str = ""  # where it makes sense; everywhere without


def flag(text: str) -> dict[str, str]:
    return {"XLA_FLAGS": text}


ROWS = [
    Training("a call for each step", block=1),
    Training("a call for 10 steps", block=10),
    Training("a call for 1000 steps", block=1000),
    Training("10 gradients accumulated, for 10 steps", accumulate=10),
    Training("the same points at each step", points="given"),
    Training("points of a Latin hypercube", points="latin"),
    Training("float64", dtype="float64"),
    Training("random numbers by rbg", environment={"JAX_DEFAULT_PRNG_IMPL": "rbg"}),
    Training("OMP_NUM_THREADS=1", environment={"OMP_NUM_THREADS": "1"}),
    Training(
        "compiled for one thread",
        environment=flag("--xla_cpu_multi_thread_eigen=false"),
        platform="cpu",
    ),
    Training(
        "no CUDA graphs",
        environment=flag("--xla_gpu_enable_command_buffer="),
        platform="gpu",
    ),
    Training(
        "latency hiding scheduler",
        environment=flag("--xla_gpu_enable_latency_hiding_scheduler=true"),
        platform="gpu",
    ),
    Training(
        "no Triton products", environment=flag("--xla_gpu_enable_triton_gemm=false"), platform="gpu"
    ),
    Training(
        "fast min and max", environment=flag("--xla_gpu_enable_fast_min_max=true"), platform="gpu"
    ),
    Training(
        "copies in streams of high priority",
        environment=flag("--xla_gpu_enable_highest_priority_async_stream=true"),
        platform="gpu",
    ),
    Training("no autotuning", environment=flag("--xla_gpu_autotune_level=0"), platform="gpu"),
    Training(
        "memory not taken before",
        environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
        platform="gpu",
    ),
    Training(
        "CUDA's asynchronous allocator",
        environment={"XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"},
        platform="gpu",
    ),
    Training("two devices, halo", devices=2),
    Training("two devices, sums of all", devices=2, exchange="psum"),
]


def train(row: Training, points: int, steps: int) -> dict:
    """In this process: steps a second, losses, seconds to compile."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import shardsolve.fbpinn as fb

    jax.config.update("jax_enable_x64", True)

    def burgers(x, u):
        return u.t + u.v * u.x - NU * u.xx

    def from_sine(x, u):
        ends = jnp.tanh(4 * (1 + x.x)) * jnp.tanh(4 * (1 - x.x))
        return -jnp.sin(jnp.pi * x.x) + jnp.tanh(4 * x.t) * ends * u

    side = max(2, round((points * 3 / 2) ** 0.5))
    problem = fb.Problem(
        fb.Boxes([(-1, 1), (0, 1)], counts=(15, 5)),
        axes="x t",
        net=fb.Mlp([16]),
        constrain=from_sine,
        terms=[fb.Interior(burgers, points=(side, max(2, round(points / side))))],
    )
    devices = jax.devices()[: row.devices]
    mesh = jax.make_mesh((row.devices,), ("x",), devices=devices) if row.devices > 1 else None
    how = fb.Adam(
        steps=steps,
        rate=5e-3,
        block=row.block,
        accumulate=row.accumulate,
        points=row.points,
        dtype=np.dtype(row.dtype),
        exchange=row.exchange,
    )
    outcome = problem.train(how, mesh=mesh).outcome
    return {
        "steps_a_second": outcome.steps_a_second,
        "step_seconds": outcome.step_seconds,
        "loss": float(np.mean(outcome.losses[-100:])),
        "compile": outcome.seconds["compile"],
        "devices": outcome.devices,
        "platform": devices[0].platform,
        "kind": devices[0].device_kind,
        "there": len(jax.devices()),
        "jax": jax.__version__,
    }


def in_process(row: Training, options: argparse.Namespace) -> dict:
    """The same in a process of its own."""
    environment = os.environ | row.environment
    if row.devices > 1 and options.there["platform"] == "cpu":
        count = f"--xla_force_host_platform_device_count={row.devices}"
        environment["XLA_FLAGS"] = f"{environment.get('XLA_FLAGS', '')} {count}".strip()
    steps = options.steps - options.steps % row.block or row.block
    done = subprocess.run(
        [sys.executable, __file__, "--worker", json.dumps(asdict(row)),
         "--points", str(options.points), "--steps", str(steps)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{row.claim}: {done.stderr[-2000:] or done.stdout[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compiled_twice(options: argparse.Namespace) -> tuple[float, float]:
    """Seconds to compile the first block, and those of the next process with JAX's cache."""
    with tempfile.TemporaryDirectory() as folder:
        cached = {
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        row = Training("cache", environment=cached)
        first, second = (in_process(row, options)["compile"] for _ in range(2))
    return first, second


def fastest(found: list[dict]) -> dict:
    return max(found, key=lambda one: one["steps_a_second"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows that have it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also all figures, in a file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        row = Training(**json.loads(options.worker))
        print(json.dumps(train(row, options.points, options.steps)))
        return 0
    options.there = in_process(Training(), argparse.Namespace(**vars(options), there={}))
    platform, devices = options.there["platform"], options.there["there"]
    print(f"{options.there['kind']}, {devices} of them, jax {options.there['jax']}; ", end="")
    print(f"{options.points} points, {options.steps} steps, the best of {options.rounds} rounds\n")
    most = max(devices, 2 if platform == "cpu" else 1)
    rows = [
        row
        for row in ROWS
        if options.only in row.claim and row.platform in ("", platform) and row.devices <= most
    ]
    rounds = [
        [in_process(row, options) for row in (Training(), *rows)] for _ in range(options.rounds)
    ]
    plain, *changed = (fastest(list(of_one)) for of_one in zip(*rounds, strict=True))
    print("| | steps/s | beside the plain one | loss |")
    print("|---|---|---|---|")
    found: list[dict] = []
    for row, one in zip((Training(), *rows), (plain, *changed), strict=True):
        rate = one["steps_a_second"]
        ratio = rate / plain["steps_a_second"]
        print(f"| {row.claim} | {rate:.0f} | {ratio:.2f} | {one['loss']:.1e} |")
        found.append({"row": asdict(row), "found": one})
    if options.only in "cache":
        first, second = compiled_twice(options)
        print(f"\nTo compile: {first:.1f} s; from JAX's cache in the next process {second:.1f} s")
        found.append({"cache": [first, second]})
    if options.json:
        options.json.write_text(json.dumps({"machine": options.there, "rows": found}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
