"""A quench of an Ising chain by t-VMC: NetKet, with shardsolve's solver, beside exact evolution.

All spins point along the field; then coupling is switched on. A restricted Boltzmann machine
follows the evolution by the time-dependent variational principle, S dw/dt = -i F, where S is
singular: the solver is `pinv_smooth`. Exact is the evolution by all eigenvectors of the chain's
Hamiltonian, which `shardsolve.eigh` finds.

    pip install '.[netket]'
    python examples/netket_quench.py
    python examples/netket_quench.py --time 1.5 --picture quench.png   # with matplotlib

Exit status: 0, or 1 if the magnetisation along the field differs by more than --bound.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# Read when JAX starts: the processor poses as four devices.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + (
    " --xla_force_host_platform_device_count=4"
)

import netket as nk
import numpy as np

import shardsolve
import shardsolve.netket


def exact(energy, observable, times: np.ndarray) -> np.ndarray:
    """The observable at these times, from the state with the same amplitude everywhere."""
    w, v = (np.asarray(a) for a in shardsolve.eigh(energy.to_dense().real))
    start = v.sum(axis=0) / np.sqrt(len(v))
    states = v @ (np.exp(-1j * w[:, None] * times) * start[:, None])
    return np.einsum("it,ij,jt->t", states.conj(), observable.to_dense(), states).real


def main() -> int:
    parser = argparse.ArgumentParser(description="A quench of an Ising chain by t-VMC.")
    parser.add_argument("--sites", type=int, default=6)
    parser.add_argument("--time", type=float, default=0.5)
    parser.add_argument("--density", type=int, default=2, help="hidden units for each site")
    parser.add_argument("--bound", type=float, default=1e-3, help="largest difference")
    parser.add_argument("--picture", type=Path, help="a .png file to draw; needs matplotlib")
    options = parser.parse_args()

    chain = nk.graph.Chain(options.sites)
    space = nk.hilbert.Spin(0.5, options.sites)
    energy = nk.operator.Ising(space, chain, h=1.0, J=-0.5)
    sites = range(options.sites)
    along = sum(nk.operator.spin.sigmax(space, i) for i in sites) / options.sites
    # All states are summed over, so that nothing but the ansatz and the solver is tested.
    model = nk.models.RBM(alpha=options.density, param_dtype=complex)
    state = nk.vqs.FullSumState(space, model, seed=1)
    driver = nk.experimental.driver.TDVP(
        energy,
        state,
        nk.experimental.dynamics.Heun(dt=0.005),
        qgt=nk.optimizer.qgt.QGTJacobianDense(holomorphic=True),
        linear_solver=shardsolve.netket.pinv_smooth(rtol=1e-12, rtol_smooth=1e-8),
    )
    times, found = [0.0], [state.expect(along).mean.real]
    for end in np.linspace(0, options.time, 6)[1:]:
        driver.run(end - driver.t, show_progress=False)
        times.append(float(driver.t))  # a whole number of steps: it may be one past the end
        found.append(state.expect(along).mean.real)
    wanted = exact(energy, along, np.array(times))
    print(" time    t-VMC    exact")
    for now, one, other in zip(times, found, wanted, strict=True):
        print(f"{now:5.3f} {one:8.5f} {other:8.5f}")
    worst = float(np.abs(np.array(found) - wanted).max())
    print(f"largest difference {worst:.1e}")
    if options.picture is not None:
        from netket_picture import quench

        fine = np.linspace(0, times[-1], 200)
        line = fine, exact(energy, along, fine), wanted
        quench(options.picture, np.array(times), np.array(found), line)
    return 0 if worst < options.bound else 1


if __name__ == "__main__":
    sys.exit(main())
