"""Natural gradients beside NetKet's and jax.numpy's, in turn, on CPU devices.

    PYTHONPATH=python python bench/natural.py step     [--samples 2048] [--parameters 20000]
    PYTHONPATH=python python bench/natural.py devices  [--samples 2048] [--parameters 20000]
    PYTHONPATH=python python bench/natural.py chain    [--sites 40] [--samples 512]

`step`: one step of minSR, from O and f to x. NetKet's is its own program (netket 3.23, `use_ntk`)
with its default solver, and with ours in the place of that; beside both `natural.solve`.
`devices`: `natural.solve` on four devices beside one, each in a process of its own.
`chain`: a whole step of NetKet, with sampling and local energies: Heisenberg's ring.

All sides take turns in one process, or two that take turns, so that a machine that changes its
speed does so for all. Prints the median of each, the range, and how many times as long as the
first one's; of `step` and `chain` the same of the processor's time, of all threads, which other
work on the machine changes less. Every answer is compared with the first one's before.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import machine
import numpy as np

SHIFT = 1e-3


def main() -> int:
    parser = argparse.ArgumentParser(description="Times natural gradients.")
    parser.add_argument("what", choices=["step", "devices", "chain", "serve"])
    parser.add_argument("--samples", type=int)
    parser.add_argument("--parameters", type=int, default=20_000)
    parser.add_argument("--sites", type=int, default=40)
    parser.add_argument("--density", type=int, default=4, help="hidden units for each site")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--devices", type=int, default=1, help="of `serve`, a side of `devices`")
    options = parser.parse_args()
    if options.samples is None:
        options.samples = 512 if options.what == "chain" else 2048
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["JAX_ENABLE_X64"] = "1"
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={options.devices}"
    if options.what != "serve":
        found = machine.describe()
        print(f"{found['cores']} cores of {found['cpu']}, load {found['load']:.1f}")
    {"step": step, "devices": devices, "chain": chain, "serve": serve}[options.what](options)
    return 0


def system(samples: int, parameters: int) -> tuple[np.ndarray, np.ndarray]:
    """O and f of so many samples, with a mean that is no small part of either."""
    rng = np.random.default_rng(0)
    o = rng.standard_normal((samples, parameters)) + np.linspace(-1, 1, parameters)
    return o, rng.standard_normal(samples) + 3


def step(options: argparse.Namespace) -> None:
    """Of minSR."""
    import functools

    import jax
    import jax.numpy as jnp
    import netket as nk
    from netket._src.ngd.sr_srt_common import _prepare_input
    from netket._src.ngd.srt import _compute_srt_update

    import shardsolve.netket
    from shardsolve import natural

    o, f = (jnp.asarray(a) for a in system(options.samples, options.parameters))

    @functools.partial(jax.jit, static_argnames="solver")
    def of_netket(o: jax.Array, f: jax.Array, solver: Callable) -> jax.Array:
        o = o - jnp.mean(o, axis=0)  # its jacobian gives it so
        o, right = _prepare_input(o, f, mode="real", scaling_factor=1 / len(o))
        options = {"diag_shift": SHIFT, "solver_fn": solver, "mode": "real"}
        return _compute_srt_update(o, right, **options, params_structure=None)[0] / 2

    @jax.jit
    def ours(o: jax.Array, f: jax.Array) -> jax.Array:
        return natural.solve(o, f, SHIFT)

    print(f"minSR, {options.samples} samples, {options.parameters} parameters, float64")
    take_turns(
        {
            "NetKet": lambda: of_netket(o, f, nk.optimizer.solver.cholesky),
            "NetKet, our solver": lambda: of_netket(o, f, shardsolve.netket.shift_ladder()),
            "natural.solve": lambda: ours(o, f),
        },
        options.runs,
    )


def serve(options: argparse.Namespace) -> None:
    """One side of `devices`: a line for each that is read."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    from shardsolve import natural

    mesh = jax.make_mesh((options.devices,), ("x",), axis_types=(AxisType.Auto,))
    o, f = system(options.samples, options.parameters)
    o = jax.device_put(o, NamedSharding(mesh, PartitionSpec("x", None)))
    f = jax.device_put(jnp.asarray(f), NamedSharding(mesh, PartitionSpec()))
    run = jax.jit(lambda o, f: natural.solve(o, f, SHIFT, mesh=mesh))
    run(o, f).block_until_ready()
    print(flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        run(o, f).block_until_ready()
        print(time.perf_counter() - begin, flush=True)


def devices(options: argparse.Namespace) -> None:
    """Of `natural.solve`, each number of devices in a process of its own."""
    print(f"natural.solve, {options.samples} samples, {options.parameters} parameters, float64")
    given = ["--samples", str(options.samples), "--parameters", str(options.parameters)]
    sides = {
        f"{count} device{'s' * (count > 1)}": subprocess.Popen(
            [sys.executable, __file__, "serve", "--devices", str(count), *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for count in (1, 4)
    }
    for side in sides.values():
        side.stdout.readline()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(options.runs):
        for name, side in sides.items():
            side.stdin.write("\n")
            seconds[name].append(float(side.stdout.readline()))
    for side in sides.values():
        side.stdin.close()
        side.wait()
    report(seconds)


def chain(options: argparse.Namespace) -> None:
    """A whole step of NetKet's driver."""
    import jax
    import netket as nk

    import shardsolve.netket

    ring = nk.graph.Chain(options.sites)
    space = nk.hilbert.Spin(0.5, options.sites, total_sz=0)
    energy = nk.operator.Heisenberg(space, ring, sign_rule=True)

    def driver(solver: Callable) -> nk.driver.VMC_SR:
        state = nk.vqs.MCState(
            nk.sampler.MetropolisExchange(space, graph=ring, n_chains=64),
            nk.models.RBM(alpha=options.density, param_dtype=complex),
            n_samples=options.samples,
            seed=1,
            sampler_seed=2,
        )
        return nk.driver.VMC_SR(
            energy,
            nk.optimizer.Sgd(0.01),
            variational_state=state,
            diag_shift=1e-3,
            use_ntk=True,
            linear_solver=solver,
        )

    def one_step(of: nk.driver.VMC_SR) -> Callable:
        def run() -> jax.Array:
            of.run(1, show_progress=False)
            return jax.flatten_util.ravel_pytree(of.state.parameters)[0]

        return run

    drivers = {
        "NetKet": driver(nk.optimizer.solver.cholesky),
        "cholesky()": driver(shardsolve.netket.cholesky()),
        "shift_ladder()": driver(shardsolve.netket.shift_ladder()),
    }
    state = drivers["NetKet"].state
    print(
        f"Heisenberg ring of {options.sites}, {state.n_samples} samples, "
        f"{2 * state.n_parameters} real parameters, {2 * state.n_samples} rows"
    )
    take_turns({name: one_step(of) for name, of in drivers.items()}, options.runs)


def take_turns(sides: dict[str, Callable], runs: int) -> None:
    """Times them, one after the other, so many times; the first run of each compiles."""
    import jax

    answers = [np.asarray(run()) for run in sides.values()]
    for name, answer in zip(sides, answers, strict=True):
        off = np.abs(answer - answers[0]).max() / np.abs(answers[0]).max()
        if not off < 1e-6:
            raise SystemExit(f"{name} is {off:.1e} away")
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    of_processor: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(runs):
        for name in names if turn % 2 == 0 else reversed(names):
            begin, used = time.perf_counter(), time.process_time()
            jax.block_until_ready(sides[name]())
            seconds[name].append(time.perf_counter() - begin)
            of_processor[name].append(time.process_time() - used)
    report(seconds)
    print("processor's time:")
    report(of_processor)


def report(seconds: dict[str, list[float]]) -> None:
    """Median, range, and the median of the ratios to the first one's of the same turn."""
    first = next(iter(seconds.values()))
    for name, found in seconds.items():
        ratios = [one / other for one, other in zip(found, first, strict=True)]
        print(
            f"{name:20s} {statistics.median(found):8.3f} s  ({min(found):.3f} to {max(found):.3f})"
            f"  {statistics.median(ratios):5.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        )


if __name__ == "__main__":
    sys.exit(main())
