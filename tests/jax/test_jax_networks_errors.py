"""The equations of examples/error_against_seconds.py: what is taken for true there is."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
pytestmark = [pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning")]
problems = pytest.importorskip("error_against_seconds_problems")
example = pytest.importorskip("error_against_seconds")


@pytest.mark.parametrize(
    ("name", "bound"),
    [("burgers", 1e-4), ("helmholtz", 5e-4), ("allen-cahn", 3e-4), ("poisson", 1e-6)],
)
def test_least_squares_come_to_the_reference_of_each_equation(name: str, bound: float):
    posed = problems.PROBLEMS[name]
    points, true, known = posed.reference()
    run = posed.problem(posed.least_squares[1]).train()
    assert known < 1e-9
    assert problems.relative(run.evaluate(points), true) < bound


def test_points_and_subdomains_follow_a_density():
    axis = problems.Axis(0, 1, lambda x: 1 / (x + 0.1))
    x = axis.at(np.linspace(0, 1, 11))  # the integral of the density is a logarithm
    assert np.allclose(x, 0.1 * 11 ** np.linspace(0, 1, 11) - 0.1, atol=1e-6)
    boxes = problems.boxes_on((axis, problems.Axis(0, 1)), (6, 3))
    widths = boxes.half_widths.reshape(6, 3, 2)[:, 0, 0]
    assert boxes.count == 18 and (np.diff(widths) > 0).all()
    even = problems.boxes_on((problems.Axis(-1, 1), problems.Axis(0, 1)), (4, 3))
    same = problems.fb.Boxes([(-1, 1), (0, 1)], counts=(4, 3))
    assert np.allclose(even.centers, same.centers, atol=1e-9)
    assert np.allclose(even.half_widths, same.half_widths, atol=1e-9)


def test_way_that_fails_is_written_down_and_the_others_are_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(*given):
        raise MemoryError("no room")

    written = tmp_path / "errors.json"
    options = ["--tiny", "--problem", "poisson", "--methods", "natural", "least squares"]
    monkeypatch.setattr(example, "by_natural", fails)
    monkeypatch.setattr(sys, "argv", ["example", *options, "--json", str(written)])
    assert example.main() == 1
    first, second = json.loads(written.read_text())["curves"]
    assert first["failed"] == "MemoryError: no room" and first["errors"] == []
    assert second["failed"] == "" and second["errors"][0] < 0.1


def test_training_ends_when_its_seconds_are_over():
    posed = problems.PROBLEMS["poisson"]
    curve = example.trained(posed, "gradients", example.Limit(0.2), is_tiny=True)
    assert 0.2 <= curve.seconds[-1] < 5 and curve.failed == ""
    assert {"Adam", "L-BFGS"} == set(curve.parts) and curve.compile_seconds > 0
