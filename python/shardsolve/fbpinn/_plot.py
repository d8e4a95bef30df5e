"""A picture of a run: subdomains and their devices, the solution, its residual, the loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardsolve.fbpinn._prepared import on_cpu
from shardsolve.fbpinn._progress import GradientOutcome
from shardsolve.fbpinn._run import Networks, Run
from shardsolve.fbpinn._terms import Interior

ALONG = {1: 401, 2: 121}  # points along each axis that is drawn


def plot(run: Run) -> Any:
    """As `Run.plot`."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "run.plot() draws with matplotlib, which is not there: pip install matplotlib"
        ) from error
    boxes = run.problem.boxes
    drawn = min(boxes.dimensions, 2)
    points, along = cut(run)
    figure = Figure(figsize=(12, 8), layout="constrained")
    axes = figure.subplots(2, 2)
    names = run.problem.axes.names
    where = ", ".join(
        f"{name} = {(low + high) / 2:g}"
        for name, (low, high) in zip(names[2:], boxes.domain[2:], strict=True)
    )
    at = f" at {where}" if where else ""
    _draw_boxes(axes[0, 0], run)
    u = run.evaluate(points).reshape(len(points), -1)
    residual = residuals(run, points)
    if drawn == 1:
        axes[0, 1].plot(along[0], u, label=run.problem.fields)
        axes[0, 1].legend(frameon=False)
        axes[0, 1].set_title("solution")
        for name, values in residual.items():
            axes[1, 0].semilogy(along[0], np.abs(values) + 1e-300, label=name)
        axes[1, 0].legend(frameon=False)
        axes[1, 0].set_title("|residual|")
        for one in (axes[0, 1], axes[1, 0]):
            one.set_xlabel(names[0])
    else:
        field = run.problem.fields[0]
        _draw_field(axes[0, 1], u[:, 0], along, names, f"{field}{at}", "RdBu_r")
        for name, values in [*residual.items()][:1]:
            size = np.log10(np.abs(values) + 1e-300)
            size = np.maximum(size, size.max() - 8)
            title = f"log10 |residual|{at}: {name}"
            _draw_field(axes[1, 0], size, along, names, title, "viridis")
    if not residual:
        axes[1, 0].set_axis_off()
    _draw_losses(axes[1, 1], run)
    return figure


def cut(run: Networks) -> tuple[np.ndarray, list[np.ndarray]]:
    """Points along the first two axes at most, in the middle of the others; their coordinates."""
    boxes = run.problem.boxes
    drawn = min(boxes.dimensions, 2)
    along = [
        np.linspace(low, high, ALONG[drawn] if axis < drawn else 1) if axis < drawn else None
        for axis, (low, high) in enumerate(boxes.domain)
    ]
    middle = boxes.domain.mean(1)
    each = [np.array([middle[axis]]) if one is None else one for axis, one in enumerate(along)]
    points = np.stack([one.ravel() for one in np.meshgrid(*each, indexing="ij")], 1)
    return points, [one for one in along if one is not None]


def residuals(run: Networks, points: np.ndarray) -> dict[str, np.ndarray]:
    """By the name of each Interior term: its weighted size at points, (points,)."""
    problem, found = run.problem, {}
    jets = run._jets(points, problem.orders)
    for term, given in zip(problem.prepared, problem._given["terms"], strict=True):
        if isinstance(given, Interior):
            with on_cpu():
                rows = np.asarray(term.residuals(points, jets, run.coefficient_numbers))
            found[term.name] = term.weight * np.sqrt((rows**2).sum(1))
    return found


def _draw_boxes(axes: Any, run: Run) -> None:
    from matplotlib.patches import Rectangle

    boxes = run.problem.boxes
    owner = getattr(run.outcome, "owner", None) or [0] * boxes.count
    devices = len(set(owner))
    axes.set_title(f"{boxes.count} subdomains" + (f" on {devices} devices" if devices > 1 else ""))
    centers = np.concatenate([level.centers for level in boxes.levels])
    half = np.concatenate([level.half_widths for level in boxes.levels])
    for number, (center, wide) in enumerate(zip(centers, half, strict=True)):
        low, size = center - wide, 2 * wide
        if boxes.dimensions == 1:  # one above the other, so that they can be seen
            low, size = np.array([low[0], number]), np.array([size[0], 0.8])
        color = f"C{owner[number]}"
        axes.add_patch(Rectangle(low[:2], *size[:2], facecolor=color, alpha=0.15, edgecolor="none"))
        axes.add_patch(
            Rectangle(low[:2], *size[:2], facecolor="none", edgecolor=color, linewidth=0.6)
        )
    axes.set_xlim(*boxes.domain[0])
    axes.set_xlabel(run.problem.axes.names[0])
    if boxes.dimensions == 1:
        axes.set_ylim(0, boxes.count)
        axes.set_ylabel("subdomain")
    else:
        axes.set_ylim(*boxes.domain[1])
        axes.set_ylabel(run.problem.axes.names[1])


def _draw_field(
    axes: Any, values: np.ndarray, along: list[np.ndarray], names: Any, title: str, colors: str
) -> None:
    table = values.reshape(len(along[0]), len(along[1]))
    extent = (along[0][0], along[0][-1], along[1][0], along[1][-1])
    image = axes.imshow(table.T, origin="lower", aspect="auto", extent=extent, cmap=colors)
    axes.figure.colorbar(image, ax=axes)
    axes.set_title(title)
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])


def _draw_losses(axes: Any, run: Run) -> None:
    outcome = run.outcome
    axes.set_title(f"loss, {outcome.status.name.lower()}")
    axes.semilogy(np.array(outcome.losses), label="at the points", linewidth=1)
    if isinstance(outcome, GradientOutcome):
        steps = np.array(outcome.held_out_losses).reshape(-1, 2).T
        axes.semilogy(*steps, label="between the points", linewidth=1)
    else:
        axes.axhline(outcome.held_out_loss, color="C1", label="between the points")
    axes.set_xlabel("step")
    axes.legend(frameon=False)
