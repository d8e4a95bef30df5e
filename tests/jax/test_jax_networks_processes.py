"""Networks trained by gradients over several processes: the curve of one, and who is lost."""

from __future__ import annotations

from pathlib import Path

import jax
import networks_process_program as program
import numpy as np
import pytest
from jax.sharding import Mesh
from test_jax_processes import CPUS, SECONDS, finish, start

pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning"),
]
PROGRAM = Path(program.__file__)


@pytest.mark.skipif(len(jax.devices()) < CPUS.count, reason=f"{CPUS.count} devices")
@pytest.mark.parametrize("part", ["train", pytest.param("further", marks=pytest.mark.more)])
def test_two_processes_train_as_one_with_as_many_devices(part: str, tmp_path: Path):
    running = start(part, CPUS, 2, tmp_path, program_file=PROGRAM)
    mesh = Mesh(np.array(jax.devices()[: CPUS.count]), "x")
    wanted = program.curves(program.spring(), mesh, part == "further")
    for process, printed in zip(running, finish(running), strict=True):
        assert process.returncode == 0, printed
    for number in range(2):
        with np.load(tmp_path / f"{number}.npz") as file:
            found = dict(file)
        assert found.keys() == wanted.keys()
        for name, one in found.items():
            is_loss = name.endswith(("losses", "between"))
            tolerance = 1e-5 if "float32" in name else 1e-12 if is_loss else 1e-9
            assert np.allclose(one, wanted[name], rtol=tolerance, atol=tolerance), name


@pytest.mark.parametrize("how", ["kill", pytest.param("stop", marks=pytest.mark.more)])
def test_a_process_that_is_lost_is_named_in_time(how: str, tmp_path: Path):
    running = start(how, CPUS, 2, tmp_path, program_file=PROGRAM)
    try:
        printed = running[0].communicate(timeout=SECONDS)[0]
    finally:
        for process in running:
            process.kill()  # also one that is stopped
            process.communicate()
    report = next((line for line in printed.splitlines() if line.startswith("REPORT")), printed)
    _, seconds, status, text = report.split(maxsplit=3)
    assert status == "COMMUNICATION" and f"process 1 (pid {running[1].pid} at " in text, report
    assert ("was closed" in text or "has ended" in text) if how == "kill" else "silent" in text
    assert float(seconds) < 3 + 3, report
