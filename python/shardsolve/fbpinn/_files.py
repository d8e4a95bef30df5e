"""Files of what was trained: written by `save`, read by `load` for the same problem."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shardsolve._records import Status
from shardsolve.fbpinn import _archive
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._given import described
from shardsolve.fbpinn._identity import description, require_same
from shardsolve.fbpinn._natural_gradient import NaturalGradientOutcome
from shardsolve.fbpinn._net import Mlp
from shardsolve.fbpinn._outcome import Cost, Descent, Outcome, TermLoss
from shardsolve.fbpinn._parameters import layers_of
from shardsolve.fbpinn._progress import GradientOutcome
from shardsolve.fbpinn._run import Networks, Run

KIND = "run"


def save(networks: Networks, path: Any, overwrite: bool) -> None:
    """As `Networks.save`."""
    place = _archive.path_of(path)
    if place.exists() and not overwrite:
        raise FileExistsError(f"{place} exists: give another path, or overwrite=True to replace it")
    problem, hidden, last, coefficients, net_parameters = networks._parts()
    leaves = jax.tree.leaves(net_parameters)
    arrays = {"last": last, "coefficients": coefficients}
    if isinstance(problem.net, Mlp):
        arrays["hidden"] = hidden
    arrays |= {f"net{number}": np.asarray(leaf) for number, leaf in enumerate(leaves)}
    outcome = getattr(networks, "outcome", None)
    meta: dict[str, Any] = {"problem": description(problem), "outcome": None}
    if outcome is not None:
        kind = type(outcome).__name__
        meta["outcome"] = {"class": kind, **asdict(outcome), "status": outcome.status.name}
    _archive.write(place, KIND, meta, arrays)


def load(path: Any, problem: Equations) -> Networks:
    """What `save` wrote, or what a checkpoint has so far.

    Args:
        path: Of the file.
        problem: The one that it was saved for, as functions are not in the file: the same boxes,
            networks, points and equations, which is looked at.

    Returns:
        A `Run` with its outcome; `Networks` if there was none, and of a checkpoint.

    Raises:
        ValueError: If it is a file of another problem, saying what differs, of another version of
            the format, or damaged.
        OSError: If it cannot be read.
    """
    if not isinstance(problem, Equations):
        raise TypeError(
            f"problem={described(problem)} given: the Problem that was saved is accepted, as its "
            "functions are not in the file"
        )
    place = Path(path)
    meta, arrays = _archive.read(place, (KIND, "checkpoint"))
    require_same(place, problem, meta)
    if meta["kind"] == "checkpoint":
        return _of_checkpoint(problem, arrays)
    tree = None
    if not isinstance(problem.net, Mlp):
        net = problem.net.parameters(problem.boxes.count, problem.seed)
        structure: Any = jax.tree.structure(net)
        leaves = [arrays[f"net{number}"] for number in range(structure.num_leaves)]
        tree = jax.tree.unflatten(structure, leaves)
    parts = arrays.get("hidden"), arrays["last"], arrays["coefficients"], tree
    if meta["outcome"] is None:
        return Networks.of(problem, *parts)
    return Run._again(_outcome(meta["outcome"]), problem, *parts)


def _outcome(given: dict[str, Any]) -> Outcome | GradientOutcome | NaturalGradientOutcome:
    found = dict(given)
    kind = found.pop("class")
    found["status"] = Status[found["status"]]
    found["terms"] = [TermLoss(**term) for term in found["terms"]]
    if kind == "GradientOutcome":
        found["held_out_losses"] = [(step, loss) for step, loss in found["held_out_losses"]]
        for name in ("links", "waits"):
            found[name] = [tuple(one) for one in found.get(name, [])]
        return GradientOutcome(**found)
    if kind == "NaturalGradientOutcome":
        return NaturalGradientOutcome(**found)
    found["costs"] = {name: Cost(**cost) for name, cost in found["costs"].items()}
    found["descent"] = None if found["descent"] is None else Descent(**found["descent"])
    return Outcome(**found)


def _of_checkpoint(problem: Equations, arrays: dict[str, np.ndarray]) -> Networks:
    """The state's leaves are the step, the parameters and the last ones with a finite loss, ..."""
    boxes = problem.boxes
    if isinstance(problem.net, Mlp):
        hidden: Any = layers_of(
            problem.net,
            boxes.dimensions,
            np.zeros((boxes.count, problem.net.weights(boxes.dimensions))),
        )
    else:
        hidden = problem.net.parameters(boxes.count, problem.seed)
    structure: Any = jax.tree.structure(hidden)
    of_hidden = structure.num_leaves
    names = sorted(problem.unknown.places)  # as trees have them
    size = of_hidden + 1 + len(names)
    for first in (1, 1 + size):
        leaves = [arrays[f"state{first + number}"] for number in range(size)]
        if all(np.isfinite(leaf).all() for leaf in leaves if leaf.dtype.kind == "f"):
            break
    numbers = dict(zip(names, leaves[of_hidden + 1 :], strict=True))
    coefficients = np.concatenate(
        [np.zeros(0), *(np.ravel(numbers[name]) for name in problem.unknown.places)]
    )
    last, tree = leaves[of_hidden], jax.tree.unflatten(structure, leaves[:of_hidden])
    if not isinstance(problem.net, Mlp):
        return Networks.of(problem, None, last, coefficients, tree)
    flat = np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves[:of_hidden]], 1)
    return Networks.of(problem, flat, last, coefficients, None)
