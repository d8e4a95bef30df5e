"""The beam of examples/beam_jax.py: its first 20 steps against those of the C++ program."""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path

import jax
import numpy as np
import pytest

PATH = Path(__file__).resolve().parents[2] / "examples" / "beam_jax.py"
spec = util.spec_from_file_location("beam_jax", PATH)
beam = util.module_from_spec(spec)
sys.modules["beam_jax"] = beam
spec.loader.exec_module(beam)

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
SOLVERS = {"ours": beam.solve_with_shardsolve, "lineax": beam.solve_with_lineax}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "solver", "steps"),
    [
        ("stvk-alpha", "ours", 11),
        *(
            pytest.param(case, solver, 20, marks=pytest.mark.more)
            for case in TIPS
            for solver in SOLVERS
        ),
    ],
)
def test_beam_swings_as_the_one_of_cpp(case, solver, steps):
    if solver == "lineax":
        pytest.importorskip("lineax")
    tips, iterations = beam.simulate(case, steps * beam.DT, SOLVERS[solver])
    for step, expected in zip((11, 20), TIPS[case], strict=True):
        if step <= steps:
            np.testing.assert_allclose(tips[step - 1], expected, atol=1e-8)
    assert iterations < 100 * 4 * steps


def test_tangent_is_that_of_the_assembled_matrix():
    case = beam.CASES["stvk-alpha"]
    a = beam.matrix_at_rest(case)
    zero = jax.numpy.zeros(beam.N)
    motion = beam.Motion(zero, zero, zero)
    x = np.random.default_rng(0).standard_normal(beam.N)
    product = beam.tangent(case, zero, motion, zero)(x)
    assert np.linalg.norm(product - a @ x) <= 1e-12 * np.linalg.norm(product)
    assert (a.shape, a.nse) == ((1275, 1275), 169065)
