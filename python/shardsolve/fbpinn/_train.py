"""Training: by least squares, here, and its plan; by gradients, elsewhere."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from shardsolve import _library
from shardsolve._by_name import text
from shardsolve._records import SolverError, Status
from shardsolve.fbpinn._call import Given
from shardsolve.fbpinn._descend import descend
from shardsolve.fbpinn._devices import default_device, has_cuda, require_mesh
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._given import described
from shardsolve.fbpinn._gradients import ByGradients, Optimiser, is_transformation
from shardsolve.fbpinn._net import Mlp
from shardsolve.fbpinn._options import EQUATIONS, METHODS, LeastSquares, LevenbergMarquardt
from shardsolve.fbpinn._outcome import Cost, Descent, Outcome, Plan, TermLoss
from shardsolve.fbpinn._run import Networks, Run


class TrainingWarning(UserWarning):
    """What `Outcome.warnings` says of a training, at the line that called it."""


def plan(problem: Equations) -> Plan:
    """What training by least squares will need."""
    with Given(problem) as given:
        found = given.call("plan")
    tables = {name: dict(found[name]) for name in ("process_bytes", "gpu_bytes")}
    return Plan(**{**found, "costs": _costs(found["costs"]), **tables})


def train(
    problem: Equations,
    how: Any,
    mesh: Mesh | None,
    start: Networks | None,
    callbacks: Any = (),
    checkpoint: Any = None,
) -> Run:
    """As `Problem.train`."""
    if is_transformation(how):
        how = Optimiser(transformation=how)
    if isinstance(how, ByGradients):
        run = descend(problem, how, mesh, start, callbacks, checkpoint)
    else:
        run = _by_least_squares(problem, how, mesh, start, callbacks, checkpoint)
    run.outcome = replace(run.outcome, warnings=[*run.outcome.warnings, *problem.warnings()])
    if run.outcome.warnings:
        text = "; ".join(run.outcome.warnings)
        warnings.warn(text, TrainingWarning, stacklevel=3)  # at the line that called Problem.train
    return run


def _by_least_squares(
    problem: Equations,
    how: Any,
    mesh: Mesh | None,
    start: Networks | None,
    callbacks: Any,
    checkpoint: Any,
) -> Run:
    if not isinstance(how, (LeastSquares, LevenbergMarquardt)):
        raise TypeError(
            f"how={described(how)} given: LeastSquares is accepted, or LevenbergMarquardt, such "
            "as LeastSquares(max_iterations=50), or Adam, LBFGS or Optimiser, which take "
            "gradients, or an optimiser of optax, or NaturalGradient; devices go through mesh="
        )
    if checkpoint is not None or not (isinstance(callbacks, Sequence) and len(callbacks) == 0):
        raise ValueError(
            f"callbacks or checkpoint given with {type(how).__name__}, which has no steps to call "
            "them between: Adam, LBFGS and Optimiser take them"
        )
    if jax.dtypes.canonicalize_dtype(np.float64) != np.float64:
        raise TypeError(
            "least squares needs 64-bit numbers, and they are off: set "
            "jax.config.update('jax_enable_x64', True) first"
        )
    if mesh is None:
        return _train_by_default(problem, how, start)
    require_mesh(mesh)
    return train_on(problem, how, mesh, start)


def _train_by_default(
    problem: Equations, how: LeastSquares | LevenbergMarquardt, start: Networks | None
) -> Run:
    """On JAX's default device if that is a GPU that can do it, else by all cores."""
    device = default_device()
    if device.platform != "gpu" or not has_cuda():
        return train_on(problem, how, None, start)
    try:
        return train_on(problem, how, Mesh(np.array([device]), "devices"), start)
    except (MemoryError, SolverError) as error:
        if getattr(error, "status", Status.DEVICE) not in (Status.DEVICE, Status.UNSUPPORTED):
            raise
        run = train_on(problem, how, None, start)
        words = f"the CPU trained, as {device} could not: {error}"
        run.outcome = replace(run.outcome, warnings=[*run.outcome.warnings, words])
        return run


def train_on(
    problem: Equations,
    how: LeastSquares | LevenbergMarquardt,
    mesh: Mesh | None,
    start: Networks | None,
) -> Run:
    """On the devices of a mesh, or by all cores."""
    descends = isinstance(how, LevenbergMarquardt)
    least = how.start if isinstance(how, LevenbergMarquardt) else how
    gpus = _gpus(mesh)
    ranks = _ranks(problem, mesh)
    options = {
        "ranks": ranks,
        "seed": problem.seed,
        "hidden_scale": problem.net.scale if isinstance(problem.net, Mlp) else 1.0,
        "rank_tolerance": least.rank_tolerance,
        "max_iterations": least.max_iterations,
        "tolerance": least.tolerance,
        "gpus": gpus,
        "method": METHODS.index(least.method),
        "cg_tolerance": least.cg_tolerance,
        "max_cg_steps": least.max_cg_steps,
        "chunk": least.chunk or 0,
        "descent": None,
    }
    if isinstance(how, LevenbergMarquardt):
        options["descent"] = {
            "max_steps": how.max_steps,
            "gradient_tolerance": how.gradient_tolerance,
            "step_tolerance": how.step_tolerance,
            "damping": how.damping,
            "equations": EQUATIONS.index(how.equations),
        }
    networks = ctypes.c_void_p()
    devices = [] if mesh is None or not gpus else list(mesh.devices.flat)
    with Given(problem, devices=devices) as given:
        options |= _begin_with(problem, start, given)
        try:
            found = given.call("train", text(options), ctypes.byref(networks))
        except BaseException:
            _library.library().shardsolve_free_networks(networks)  # where Ctrl-C came at the end
            raise
    status = Status[found.pop("status").upper()]
    costs = _costs(found.pop("costs"))
    coefficients = np.array(found.pop("coefficients"))
    descent = Descent(**found.pop("descent"))
    if given.on_devices is not None and given.on_devices.declined is not None:
        words = "functions of terms were called on the CPU, as JAX could not call that of "
        found["warnings"] = [*found["warnings"], words + given.on_devices.declined]
    for name, figure in found.items():  # JSON has no nan
        found[name] = np.nan if figure is None else figure
    found["losses"] = [np.nan if loss is None else loss for loss in found["losses"]]
    deviations = found.pop("coefficient_deviations")
    found["coefficient_deviations"] = [np.inf if one is None else one for one in deviations]
    terms: list[dict[str, Any]] = found["terms"]
    for term in terms:
        term.update({name: np.nan for name, figure in term.items() if figure is None})
    found["terms"] = [TermLoss(**term) for term in terms]
    outcome = Outcome(
        status=status,
        costs=costs,
        descent=descent if descends else None,
        devices=_names(mesh, ranks),
        **found,
    )
    return Run(problem, outcome, networks, coefficients, given.own)


def _begin_with(
    problem: Equations, start: Networks | None, given: Given
) -> dict[str, list[int] | None]:
    """The options that say what training begins with."""
    if start is None:
        return {"hidden": None, "last": None, "coefficients": None}
    if not isinstance(start, Networks):
        raise TypeError(
            f"start={described(start)} given: what training returned is accepted, or Networks"
        )
    hidden, last = start.weights()
    numbers = start.coefficient_numbers
    if isinstance(problem.net, Mlp):
        of_box = problem.net.weights(problem.boxes.dimensions)
    else:
        assert given.own is not None
        of_box = given.own.net.start.shape[1]
    wanted = (
        (problem.boxes.count, of_box),
        (problem.boxes.count, len(problem.fields), problem.units + 1),
    )
    if (hidden.shape, last.shape) != wanted:
        raise ValueError(
            f"start has hidden weights of shape {hidden.shape} and last layers of "
            f"{last.shape}; {wanted[0]} and {wanted[1]} are accepted, as this problem has: so many "
            "boxes, fields and units"
        )
    if numbers.shape != problem.unknown.start.shape:
        raise ValueError(
            f"start has {len(numbers)} numbers of coefficients; {len(problem.unknown.start)} are "
            "accepted, as this problem has"
        )
    return {
        "hidden": given.array(hidden),
        "last": given.array(last),
        "coefficients": given.array(numbers),
    }


def _ranks(problem: Equations, mesh: Mesh | None) -> int:
    """How many threads share the boxes."""
    if mesh is None:
        return max(1, min(os.cpu_count() or 1, problem.boxes.count))
    kinds = {device.platform for device in mesh.devices.flat}
    if kinds not in ({"cpu"}, {"gpu"}):
        raise ValueError(
            f"a mesh of {mesh.devices.size} {', '.join(sorted(kinds))} devices given: least "
            "squares runs on CPU devices or on GPUs; pass none, or a mesh of jax.devices('cpu') or "
            "of jax.devices('gpu')"
        )
    elsewhere = {device.process_index for device in mesh.devices.flat} - {jax.process_index()}
    if kinds == {"gpu"} and elsewhere:
        raise ValueError(
            f"a mesh with GPUs of other processes ({min(elsewhere)}) given: least squares runs on "
            "GPUs of one process; pass a mesh of jax.local_devices()"
        )
    if mesh.devices.size > problem.boxes.count:
        raise ValueError(
            f"a mesh of {mesh.devices.size} devices for {problem.boxes.count} boxes given: pass at "
            "most as many devices as there are boxes"
        )
    return int(mesh.devices.size)


def _names(mesh: Mesh | None, ranks: int) -> str:
    """Of the devices, for people."""
    if mesh is None or mesh.devices.flat[0].platform == "cpu":
        return f"{ranks} thread{'' if ranks == 1 else 's'} of the CPU"
    return ", ".join(map(str, mesh.devices.flat))


def _gpus(mesh: Mesh | None) -> list[int]:
    """CUDA's numbers of the GPUs that train; none if CPU devices do."""
    devices = [] if mesh is None else list(mesh.devices.flat)
    return [int(device.local_hardware_id) for device in devices if device.platform != "cpu"]


def _costs(found: dict[str, dict]) -> dict[str, Cost]:
    return {name: Cost(**cost) for name, cost in found.items()}
