"""The documentation site says what is so: its Python runs, prints and raises what it says."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import page as pages
import pytest

HERE = Path(__file__).parent
SITE = HERE.parents[1] / "docs" / "site"
PYTHON_SOURCES = HERE.parents[1] / "python" / "shardsolve"
PAGES = [HERE.parents[1] / "README.md", *sorted(SITE.glob("**/*.md"))]
SECONDS = float(os.environ.get("SHARDSOLVE_TEST_SECONDS", "300"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_python_does_what_the_page_says(page: Path, tmp_path: Path):
    """In a process of its own, with four CPU devices; precision is the page's affair."""
    environment = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    environment["JAX_PLATFORMS"] = "cpu"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(HERE / "page.py"), str(page)],
        env=environment,
        cwd=tmp_path,
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-6000:]


def test_api_page_every_public_name_has_a_section():
    package = (PYTHON_SOURCES / "__init__.py").read_text()
    names = re.search(r"__all__ = \[(.*?)\]", package, re.DOTALL)
    page = (SITE / "api.md").read_text()
    sections = set(re.findall(r"^::: shardsolve\.([\w.]+)$", page, re.MULTILINE))
    assert sections == {*re.findall(r'"(\w+)"', names[1]), "compat.jaxmg"}


def test_figure_is_what_its_script_draws(tmp_path: Path):
    script = SITE / "figures" / "slabs.py"
    subprocess.run([sys.executable, str(script), str(tmp_path / "slabs.svg")], check=True)
    assert (tmp_path / "slabs.svg").read_bytes() == script.with_suffix(".svg").read_bytes()


def test_natural_gradient_prints_its_certificate_and_agrees_with_numpy():
    example = HERE.parents[1] / "examples" / "natural_gradient.py"
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, str(example), "--n", "128", "--samples", "256"],
        env=environment,
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert re.search(r"^certificate: backward error \S+ u, rcond \S+$", done.stdout, re.MULTILINE)
    assert "numpy.linalg.solve differs by" in done.stdout


def test_bethe_energies_of_the_netket_example_are_those_of_tables():
    """Energies a site of rings of 4, 8 and 16 spins: the first is known exactly."""
    source = (HERE.parents[1] / "examples" / "netket_heisenberg.py").read_text()
    function = source[source.index("def exact_energy") : source.index("def main")]
    namespace = {"np": np}
    exec(function, namespace)
    energies = [namespace["exact_energy"](sites) / sites for sites in (4, 8, 16)]
    assert np.allclose(energies, [-0.5, -0.456386676, -0.446393523], rtol=0, atol=1e-9)


@pytest.mark.skipif(importlib.util.find_spec("netket") is None, reason="needs netket")
def test_netket_example_comes_near_the_exact_energy():
    example = HERE.parents[1] / "examples" / "netket_heisenberg.py"
    done = subprocess.run(
        [sys.executable, str(example), "--sites", "8", "--samples", "128", "--bound", "0.01"],
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert "exact -14.6044" in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("netket") is None, reason="needs netket")
def test_quench_of_netket_is_the_exact_evolution():
    example = HERE.parents[1] / "examples" / "netket_quench.py"
    done = subprocess.run(
        [sys.executable, str(example), "--sites", "4", "--time", "0.2"],
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert "largest difference" in done.stdout


@pytest.mark.more
@pytest.mark.skipif(importlib.util.find_spec("tinygp") is None, reason="needs tinygp")
def test_hyperparameters_of_a_gaussian_process_have_tinygps_gradient():
    example = HERE.parents[1] / "examples" / "gp_hyperparameters.py"
    done = subprocess.run(
        [sys.executable, str(example), "--n", "200"],
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert "from tinygp's own" in done.stdout


def test_deep_network_of_the_example_has_five_digits_after_few_steps():
    example = HERE.parents[1] / "examples" / "deep_network.py"
    done = subprocess.run(
        [sys.executable, str(example), "--points", "14", "--steps", "40", "--bound", "1e-4"],
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert "relative error in L2" in done.stdout


def test_errors_against_seconds_are_written_for_every_way(tmp_path: Path):
    example = HERE.parents[1] / "examples" / "error_against_seconds.py"
    written = tmp_path / "errors.json"
    options = ["--tiny", "--seconds", "0.5", "--problem", "burgers", "--json", str(written)]
    done = subprocess.run(
        [sys.executable, str(example), *options], timeout=SECONDS, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    report = json.loads(written.read_text())
    assert report["references"]["burgers"] < 1e-9
    assert [curve["method"] for curve in report["curves"]] == [
        "gradients",
        "natural",
        "least squares",
    ]
    for curve in report["curves"]:
        assert len(curve["errors"]) == len(curve["seconds"]) > 0 and not curve["failed"]
        assert curve["errors"][-1] <= curve["errors"][0] < 1.5 and curve["devices"]
        assert curve["seconds"] == sorted(curve["seconds"])
    assert report["curves"][2]["errors"][0] < 0.1


def test_layers_of_the_ground_are_found_by_other_receivers_than_the_examples():
    example = HERE.parents[1] / "examples" / "layers.py"
    done = subprocess.run(
        [sys.executable, str(example), "--small", "--depths", "0.25", "0.6"],
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert "speeds are right to" in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("rich") is None, reason="needs rich")
def test_open_channels_keep_energy_the_wave_equation_and_two_laws():
    example = HERE.parents[1] / "examples" / "open_channels.py"
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, str(example), "--modes", "90", "--layers", "30", "--devices", "3"],
        env=environment,
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    assert "All 8 checks passed" in done.stdout


@pytest.mark.more
def test_job_of_two_tasks_of_slurm_goes_on_in_one_process(tmp_path: Path):
    example = HERE.parents[1] / "examples" / "networks_job.py"
    clean = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    slurm = {
        "SLURM_JOB_ID": str(random.randrange(4096)),  # of which JAX makes the port
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
        "SLURM_STEP_NUM_TASKS": "2",
    }

    def started(steps: int, **environment: str) -> subprocess.Popen:
        command = [sys.executable, str(example), "--checkpoint", str(tmp_path / "checkpoint")]
        command += ["--output", str(tmp_path / "run"), "--points", "30", "20"]
        return subprocess.Popen(
            [*command, "--steps", str(steps)],
            env=clean | {"JAX_PLATFORMS": "cpu"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    tasks = [started(200, **slurm, SLURM_PROCID=k, SLURM_LOCALID=k) for k in "01"]
    said = [task.communicate(timeout=SECONDS)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], said
    assert "after 200 steps" in said[0] and "step" not in said[1]
    alone = started(400)
    after = alone.communicate(timeout=SECONDS)[0]
    assert alone.returncode == 0, after
    assert "after 400 steps" in after and "step 100 of" not in after
    assert (tmp_path / "run").exists()


# The checks check


@pytest.mark.parametrize(
    ("text", "expected", "found"),
    [
        ("ValueError: a has\n  shape (3,)", "a has shape (3,)", True),
        ("ValueError: one, two, three", "one ... three", True),
        ("ValueError: three, one", "one ... three", False),
        ("ValueError: one", "two", False),
    ],
)
def test_contains_pieces_in_order(text: str, expected: str, found: bool):
    assert pages.contains(text, expected) is found


@pytest.mark.parametrize(
    ("printed", "expected", "same"),
    [
        ("x = 1.00001\n", "x = 1.0", True),
        ("x = 1.1", "x = 1.0", False),
        ("error 3e-17", "error 1.2e-16", True),
        ("error 3e-7", "error 1.2e-16", False),
        ("y = 1.0", "x = 1.0", False),
        ("[1. 2.]", "[1. 2. 3.]", False),
        ("at 0x7f32 it is", "at ... it is", True),
        ("", "x", False),
    ],
)
def test_same_output_allows_for_rounding_only(printed: str, expected: str, same: bool):
    assert pages.same_output(printed, expected) is same


@pytest.mark.parametrize(
    "markdown",
    [
        '```python title="wrong"\n1 / 0\n```\n',
        '```python title="wrong"\n1 / 0\n```\n```python\n1\n```\n',
        "```py\n1\n```\n",
        '```python title="other"\n1\n```\n',
        '```text title="prints"\n1\n```\n',
        "```python\n1\n",
    ],
)
def test_blocks_what_would_not_be_checked_is_refused(markdown: str):
    with pytest.raises(ValueError, match="line"):
        pages.blocks(markdown)


def test_run_page_that_is_wrong_says_where(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        '```python\nprint(2)\n```\n```text title="prints"\n3\n```\n'
        '```python title="wrong"\n1\n```\n```text\nValueError\n```\n'
        "```python\n1 / 0\n```\n"
    )
    found = pages.run(page)
    assert [re.search(r":(\d+):", text)[1] for text in found] == ["2", "8", "14"]


def test_run_wrong_with_newer_jax_only_is_not_held_against_an_older_one(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text('```python title="wrong from jax 999.0"\n1\n```\n```text\nValueError\n```\n')
    assert pages.run(page) == []
    page.write_text('```python title="wrong from jax 0.1"\n1\n```\n```text\nValueError\n```\n')
    assert len(pages.run(page)) == 1
