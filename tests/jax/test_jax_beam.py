"""The beam of examples/beam_jax.py: its first 20 steps against those of the C++ program."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.sparse as sp

from shardsolve import krylov

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import beam_jax as beam
from beam_jax_body import CLAMPED, N, load, rigid_body_modes

# Of build/release/beam <case> --until 0.1: the tip after steps 11 and 20.
TIPS = {
    "linear": ((0, 0.018241683282, 0.035797903950), (0, 0.139885836550, 0.210754722480)),
    "stvk-newmark": (
        (-0.000125463627, 0.018209404886, 0.035796957945),
        (-0.004424367644, 0.139844532434, 0.210791893230),
    ),
    "stvk-alpha": (
        (-0.000123252949, 0.018257536495, 0.035837020922),
        (-0.004404103313, 0.139892996358, 0.210853731484),
    ),
    "faulty-alpha": (
        (-0.000123279182, 0.018257488272, 0.035837282796),
        (-0.004406811251, 0.139904905171, 0.210918265220),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "solver", "steps"),
    [
        ("stvk-alpha", "shardsolve", 11),
        *(
            pytest.param(case, solver, 20, marks=pytest.mark.more)
            for case in TIPS
            for solver in beam.SOLVERS
        ),
    ],
)
def test_beam_swings_as_the_one_of_cpp(case, solver, steps):
    if solver == "lineax":
        pytest.importorskip("lineax")
    run = beam.simulate(case, steps, beam.SOLVERS[solver])
    for step, expected in zip((11, 20), TIPS[case], strict=True):
        if step <= steps:
            np.testing.assert_allclose(run.tips[step - 1], expected, atol=1e-8)
    assert set(run.counted) == {"converged_rtol"} and run.iterations < 100 * 4 * steps
    assert beam.judge(case, run) and beam.agree(run, run)


def test_run_that_is_not_as_it_has_to_be_is_noticed():
    tips = np.zeros((40, 3))
    tips[-1, 1:] = beam.CASES["linear"].tips[0]
    run = beam.Run(tips, [["converged_rtol"]] * 40, 40, 0.0)
    assert beam.judge("linear", run)
    assert not beam.judge("linear", run._replace(tips=tips + 2e-5))
    other = run._replace(verdicts=[["stagnated"]] * 40)
    assert not beam.judge("linear", other) and not beam.agree(run, other)


def test_tangent_is_that_of_the_assembled_matrix():
    case = beam.CASES["stvk-alpha"]
    zero = jax.numpy.zeros(N)
    u = jax.numpy.asarray(1e-2 * rigid_body_modes()[:, 5])  # turned, and so stretched
    a = jax.jit(lambda u: beam.matrix_at(case, u))((1 - case.alpha_f) * u)
    x = np.random.default_rng(0).standard_normal(N)
    product = beam.tangent(case, u, beam.Motion(zero, zero, zero), zero)(x)
    assert np.linalg.norm(product - a @ x) <= 1e-12 * np.linalg.norm(product)
    assert (a.shape, a.nse) == ((1275, 1275), 169065)


@pytest.mark.slow
def test_multigrid_that_knows_the_motions_of_a_rigid_body_solves_the_first_system():
    pyamg = pytest.importorskip("pyamg")
    case = beam.CASES["stvk-newmark"]
    zero = jax.numpy.zeros(N)
    a = jax.jit(lambda u: beam.matrix_at(case, u))(zero)
    free = np.flatnonzero(~CLAMPED)
    a = sp.csr_matrix((np.asarray(a.data), a.indices, a.indptr), a.shape)[free][:, free]
    b = -beam.residual(case, zero, beam.Motion(zero, zero, zero), load(beam.DT))[free]
    modes = rigid_body_modes()[free]
    hierarchy = pyamg.smoothed_aggregation_solver(sp.bsr_matrix(a, blocksize=(3, 3)), B=modes)
    m = krylov.from_pyamg(hierarchy, degree=6)
    _, info = krylov.solve(a, b, preconditioner=m, full_output=True)
    assert info.is_converged and info.iterations <= 400, info.message
    _, info = krylov.solve(a, b, preconditioner="jacobi", max_iterations=1000, full_output=True)
    assert not info.is_converged
