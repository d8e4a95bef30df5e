"""Draws speed over size: python bench/cuda/gpu_plot.py out/bench-cuda.json."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

DRAWN = ("factor", "inverse", "eigh")
TITLES = {
    "factor": "Cholesky factor",
    "inverse": "inverse (factor included)",
    "eigh": "all eigenpairs",
}
STYLES = {
    "shardsolve": {"color": "#0b6e4f", "marker": "o", "linewidth": 2.2, "zorder": 3},
    "shardsolve_mpi": {"color": "#5fae8c", "marker": "v"},
    "shardsolve_jax": {"color": "#a3a500", "marker": "x"},
    "cusolver": {"color": "#7f7f7f", "marker": "s"},
    "cusolver_mg": {"color": "#c8553d", "marker": "^"},
    "cusolver_mp": {"color": "#2d5d9f", "marker": "D"},
    "jaxmg": {"color": "#8a5a9e", "marker": "P"},
}


def curves(report: dict[str, Any], dtype: str, job: str) -> dict[str, list[tuple[int, float]]]:
    """(n, TFLOP/s) of each program, right answers for the well conditioned matrix only."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for stage in report["stages"]:
        if stage["dtype"] != dtype or stage["matrix"] != "well_conditioned":
            continue
        for row in stage["rows"]:
            if row["job"] == job and "tflops" in row:
                best = max(row["tflops"], found[row["program"]].get(stage["n"], 0.0))
                found[row["program"]][stage["n"]] = best
    return {program: sorted(points.items()) for program, points in found.items()}


def ceiling(report: dict[str, Any], dtype: str) -> float | None:
    """TFLOP/s that all GPUs together sustain with the best k; None if not measured."""
    sums = [sum(line["tflops"]) for line in report["ceilings"] if line["dtype"] == dtype]
    return max(sums, default=None)


def draw(report: dict[str, Any], target: Path) -> bool:
    """One panel for each dtype and job timed at several sizes. Returns False if there is none."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    dtypes = list(dict.fromkeys(stage["dtype"] for stage in report["stages"]))
    panels = [(dtype, job) for dtype in dtypes for job in DRAWN if _is_curve(report, dtype, job)]
    if not panels:
        return False
    width = min(len(panels), 3)
    height = -(-len(panels) // width)
    figure, axes = plt.subplots(
        height, width, figsize=(4.6 * width, 3.8 * height), squeeze=False, layout="constrained"
    )
    for axis, (dtype, job) in zip(axes.flat, panels, strict=False):
        _panel(axis, report, dtype, job)
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    names = sorted({gpu["name"] for gpu in report["gpus"]})
    figure.suptitle(f"{len(report['devices'])} x {', '.join(names) or 'GPU'}")
    figure.savefig(target)
    plt.close(figure)
    return True


def _is_curve(report: dict[str, Any], dtype: str, job: str) -> bool:
    return any(len(points) > 1 for points in curves(report, dtype, job).values())


def _panel(axis: Any, report: dict[str, Any], dtype: str, job: str) -> None:
    labels = {row["program"]: row["label"] for stage in report["stages"] for row in stage["rows"]}
    sizes: set[int] = set()
    for program, points in curves(report, dtype, job).items():
        n, speed = zip(*points, strict=True)
        sizes.update(n)
        axis.plot(n, speed, label=labels[program], **STYLES.get(program, {"marker": "."}))
    wall = ceiling(report, dtype)
    if wall is not None:
        axis.axhline(wall, color="black", linestyle="--", linewidth=1, label="sustained gemm")
    axis.set_xscale("log", base=2)
    axis.set_xticks(sorted(sizes), [str(n) for n in sorted(sizes)], rotation=45)
    axis.minorticks_off()
    axis.set_ylim(0, 1.05 * axis.get_ylim()[1])  # markers are wider than their points
    axis.set(xlabel="n", ylabel="TFLOP/s, all GPUs", title=f"{TITLES[job]}, {dtype}")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    picture = source.with_suffix(".svg")
    print(picture if draw(json.loads(source.read_text()), picture) else "nothing to draw")
