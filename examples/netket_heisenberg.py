r"""The ground state of a Heisenberg chain by minSR: NetKet, with shardsolve's solver.

A restricted Boltzmann machine with more parameters than samples, so each step solves with a matrix
of samples (Chen and Heyl, 2024), two rows for each: real and imaginary parts. The energy is printed
beside the exact one, which Bethe's equations give for a ring of any even length. The only line
about shardsolve is `linear_solver=`.

    pip install '.[netket]'
    python examples/netket_heisenberg.py                # 16 sites, on four devices of one CPU
    python examples/netket_heisenberg.py --sites 40 --samples 512 --density 2 --steps 130 \
        --bound 5e-3
    python examples/netket_heisenberg.py --picture ring.png   # with matplotlib

Exit status: 0, or 1 if the energy is not within the bound that --bound sets.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

# Read when JAX starts: the processor poses as four devices.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + (
    " --xla_force_host_platform_device_count=4"
)

import netket as nk
import numpy as np

import shardsolve.netket


def exact_energy(sites: int) -> float:
    """Of a ring of spins 1/2 with the energy S_i . S_(i+1) a bond: Bethe (1931).

    With m = sites / 2 rapidities x_j: sites arctan(2 x_j) = pi q_j + sum_k arctan(x_j - x_k), where
    q_j = -(m - 1) / 2, ..., (m - 1) / 2. They are iterated to a fixed point.
    """
    m = sites // 2
    q = np.arange(m) - (m - 1) / 2
    x = np.zeros(m)
    for _ in range(10_000):
        before = x
        x = np.tan((np.pi * q + np.arctan(x[:, None] - x).sum(axis=1)) / sites) / 2
        if np.abs(x - before).max() < 1e-14:
            break
    return sites / 4 - np.sum(2 / (4 * x**2 + 1))


def main() -> int:
    parser = argparse.ArgumentParser(description="A Heisenberg chain by minSR with NetKet.")
    parser.add_argument("--sites", type=int, default=16, help="an even number")
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--density", type=int, default=4, help="hidden units for each site")
    parser.add_argument("--bound", type=float, default=2e-3, help="largest relative error")
    parser.add_argument("--picture", type=Path, help="a .png file to draw; needs matplotlib")
    options = parser.parse_args()

    chain = nk.graph.Chain(options.sites)
    space = nk.hilbert.Spin(0.5, options.sites, total_sz=0)
    energy = nk.operator.Heisenberg(space, chain, sign_rule=True)  # 4 S_i . S_(i+1) a bond
    state = nk.vqs.MCState(
        nk.sampler.MetropolisExchange(space, graph=chain, n_chains=64),
        nk.models.RBM(alpha=options.density, param_dtype=complex),
        n_samples=options.samples,
        seed=1,
        sampler_seed=2,
    )
    driver = nk.driver.VMC_SR(
        energy,
        nk.optimizer.Sgd(0.03),
        variational_state=state,
        diag_shift=1e-3,
        use_ntk=True,
        linear_solver=shardsolve.netket.shift_ladder(),
    )
    log = nk.logging.RuntimeLog()
    start = time.perf_counter()
    driver.run(options.steps, out=log, show_progress=False)
    seconds = time.perf_counter() - start

    exact = 4 * exact_energy(options.sites)
    last = log.data["Energy"]["Mean"][-10:].real
    error = abs(np.mean(last) - exact) / abs(exact)
    figures = {name: log.data["info"][name].values for name in ("shift", "backward_error")}
    rows = 2 * state.n_samples
    print(f"{2 * state.n_parameters} real parameters, {state.n_samples} samples, {rows} rows")
    print(f"{options.steps} steps in {seconds:.0f} s, with compiling")
    print(f"largest backward error of a solve {max(figures['backward_error']):.1e}")
    print(f"steps that needed a greater shift: {np.count_nonzero(figures['shift'])}")
    print(f"energy {np.mean(last):.4f}, exact {exact:.4f}, relative error {error:.1e}")
    if options.picture is not None:
        from netket_picture import training

        energies, errors = log.data["Energy"]["Mean"].real, log.data["Energy"]["Sigma"]
        training(options.picture, options.sites, np.asarray(energies), np.asarray(errors), exact)
    return 0 if error < options.bound else 1


if __name__ == "__main__":
    sys.exit(main())
