"""Training by gradients: blocks of steps, and what is done between two of them."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from shardsolve._processes import Processes
from shardsolve._records import SolverError, Status
from shardsolve.fbpinn._block import Block, State, initial_key, parts_of_loss, trained_part
from shardsolve.fbpinn._cells import Cells, cells_of
from shardsolve.fbpinn._checkpoint import Checkpoint, Checkpoints, settings
from shardsolve.fbpinn._devices import require_mesh
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._given import described
from shardsolve.fbpinn._gradients import Adam, ByGradients, Refined
from shardsolve.fbpinn._identity import description
from shardsolve.fbpinn._loss import Loss
from shardsolve.fbpinn._moving import MovingSetup
from shardsolve.fbpinn._optimisers import method_of
from shardsolve.fbpinn._options import PlacementCosts
from shardsolve.fbpinn._portable import Portable
from shardsolve.fbpinn._progress import Progress, is_true
from shardsolve.fbpinn._run import Networks, Run
from shardsolve.fbpinn._signals import Signals
from shardsolve.fbpinn._summary import Course, summary
from shardsolve.fbpinn._traced import Traced

terms_of_loss = jax.jit(parts_of_loss, static_argnums=0)


def descend(
    problem: Equations,
    how: ByGradients,
    mesh: Mesh | None,
    start: Networks | None,
    callbacks: Any,
    checkpoint: Checkpoint | None,
) -> Run:
    """As `Problem.train`."""
    called = as_callbacks(callbacks)
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(
            f"checkpoint={described(checkpoint)} given: Checkpoint('a path', steps=1000) is "
            "accepted, or None"
        )
    if mesh is not None:
        require_mesh(mesh)
        if mesh.devices.size > problem.boxes.count:
            raise ValueError(
                f"a mesh of {mesh.devices.size} devices for {problem.boxes.count} subdomains "
                "given: pass at most as many devices as there are subdomains (Boxes)"
            )
    with Processes(mesh) as processes:
        if processes.are_several:
            processes.require_same(
                {
                    "problem": str(description(problem)),
                    "optimiser": str((settings(how), how.steps, how.block, how.exchange)),
                    "checkpoint": str(checkpoint),
                    "start": "" if start is None else str(_fingerprint(start)),
                }
            )
        with Traced(processes) as traced:
            training = _Training(problem, how, mesh, start, processes)
            with Signals(checkpoint is not None) as signals:
                saves = None
                if checkpoint is not None:
                    saves = Checkpoints(checkpoint, problem, how, training)
                    training.state = saves.resumed(training.state)
                ended = _blocks(training, signals, saves, called)
                run = summary(training, ended, saves)
            traced.end(training.course.waits)
            return run


def as_callbacks(given: Any) -> list[Callable[[Progress], Any]]:
    found = [given] if callable(given) else given
    if not isinstance(found, Sequence) or not all(map(callable, found)):
        raise TypeError(
            f"callbacks={described(given)} given: functions of a Progress are accepted, one or a "
            "list of them, such as callbacks=print"
        )
    return list(found)


class _Training:
    """What blocks need.

    Attributes:
        loss: At the points of the terms.
        held_out: At points between them; None if there are none.
        moved: Numbers of points that were moved to be held out, of each term.
        setup: Of the loss that steps make smaller.
        state: Where it is.
        portable: The state in the order of the boxes, and back.
        course: What was seen on the way.
    """

    def __init__(
        self,
        problem: Equations,
        how: ByGradients,
        mesh: Mesh | None,
        start: Networks | None,
        processes: Processes | None = None,
    ):
        begin = time.perf_counter()
        processes = Processes(mesh) if processes is None else processes
        self.problem, self.how, self.processes = problem, how, processes
        costs = PlacementCosts()
        self.loss = Loss(problem, mesh, how.exchange, None, costs, how.dtype, how.batch)
        cells = cells_of(problem)
        self.held_out, self.moved = held_out(self.loss, cells)
        self.setup, self._tables = _moving(self.loss, how, cells)
        self.method = method_of(how)
        layout = self.setup.layout
        for one in (self.loss, self.held_out, self):
            if one is not None:
                getattr(one, "_setup", self.setup).layout.run = processes.run
        parameters = layout.spread(layout.begin(start))
        if processes.are_several:  # to be known to all, until it is placed
            parameters = jax.tree.map(np.asarray, layout.whole(parameters))
        kind = self.setup.dtype
        points = np.zeros((0, problem.boxes.dimensions), kind)
        if isinstance(how.points, Refined):
            points = np.concatenate([term.points for term in problem.prepared]).astype(kind)
        state = State(
            step=np.int32(0),
            parameters=parameters,
            previous=parameters,
            optimiser=self.method.begin(trained_part(parameters)),
            key=initial_key(how.seed),
            factors=np.ones(len(problem.prepared), kind),
            points=points,
            is_finite=np.bool_(True),
            is_done=np.bool_(False),
        )
        self.portable = Portable(layout, trained_part(parameters), parameters)
        self.state = self.portable.placed(state)
        self._program: Callable[..., tuple[State, jax.Array]] | None = None
        self.course = Course(begin)
        self.course.warnings += processes.warnings
        self.course.took("setup", begin)

    def block(self, count: int) -> np.ndarray:
        """Takes so many steps. Returns the losses before each that was taken or tried."""
        rate = self.how.rate if isinstance(self.how, Adam) else 0.0
        length = 0.0 if callable(rate) else rate
        of_all = np.asarray(count, np.int32), np.asarray(length, self.setup.dtype)
        if self._program is None:
            begin = time.perf_counter()
            self._program = self._compiled(*of_all)
            self.course.took("compile", begin)
        begin, first = time.perf_counter(), int(self.state.step)
        self.state, losses = self.processes.run(self._program, self.state, self._tables, *of_all)
        self.course.took("steps", begin, first)
        done = int(self.state.step) - first
        self.course.steps += done
        if done > 0:
            self.course.step_seconds.append((time.perf_counter() - begin) / done)
        return np.asarray(losses)[: done + (not self.state.is_finite)]

    def _compiled(self, *of_all: np.ndarray) -> Callable[..., Any]:
        """Once for all trainings that differ in points, steps and rate alone."""
        same: dict[str, Any] = {"steps": 1, "seed": 0}
        if isinstance(self.how, Adam) and not callable(self.how.rate):
            same["rate"] = 1.0
        how: Any = replace(self.how, **same)
        block = Block(self.setup, how, self.method)
        shardings = self.portable.shardings(self.state), self.portable.of_all

        def make() -> Callable[..., Any]:
            program = jax.jit(block, out_shardings=shardings)
            return program.lower(self.state, self._tables, *of_all).compile()

        shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(self._tables))
        key = ("block", self.setup, how, shapes)
        try:
            hash(key)
        except TypeError:
            return make()
        return self.problem.compiled(key, make)  # type: ignore[attr-defined]

    def values(self, parameters: Any) -> tuple[np.ndarray, np.ndarray]:
        """(terms,) parts of the loss at the terms' points, and at points between them."""
        return self._parts_of(self.loss, parameters), self.held_out_parts(parameters)

    def held_out_parts(self, parameters: Any) -> np.ndarray:
        """(terms,) parts at points between those of the terms."""
        begin = time.perf_counter()
        held = self.loss if self.held_out is None else self.held_out
        found = self._parts_of(held, parameters)
        self.course.took("held_out", begin)
        return found

    def _parts_of(self, loss: Loss, parameters: Any) -> np.ndarray:
        mine, its = self.setup.layout, loss._setup.layout
        if not np.array_equal(mine.boxes, its.boxes):  # its places are others
            parameters = its.spread(mine.gather(parameters))
        found = terms_of_loss(loss._setup, parameters, loss._tables)
        return np.asarray(mine.whole(found) if self.processes.are_several else found)

    def networks(self, parameters: Any) -> Networks:
        """Of these parameters."""
        return Networks.of(self.problem, *self.setup.parts_of_networks(parameters))

    def without_networks(self) -> float:
        """The loss of networks that are 0."""
        parameters = self.state.previous
        zeros = parameters._replace(last=jnp.zeros_like(parameters.last))
        return float(self._parts_of(self.loss, zeros).sum())

    def what_is_not_finite(self) -> str:
        """The point, its subdomain and its device, or the parameter; the step is the last one."""
        state, step = self.state, int(self.state.step)
        block = Block(self.setup, self.how, self.method)
        for parameters, number in ((state.previous, step - 1), (state.parameters, step)):
            if number < 0:
                continue
            at = state._replace(
                step=jnp.asarray(number, jnp.int32),
                key=np.asarray(state.key),
                points=np.asarray(state.points),
            )
            for gradient in range(self.how.accumulate):
                points = block.points(at, gradient)
                loss = self._at(np.asarray(points[0])) if points else self.loss
                layout = loss._setup.layout
                try:
                    loss.require_finite(layout.spread(self.setup.layout.gather(parameters)))
                except ValueError as error:
                    return str(error)
        return "the loss is a sum that exceeds what its type holds"

    def _at(self, points: np.ndarray) -> Loss:
        """The loss at points of all terms, those of terms that stay left as they are."""
        assert isinstance(self.setup, MovingSetup)
        sizes = [len(term.points) for term in self.problem.prepared]
        each = np.split(points.astype(np.float64), np.cumsum(sizes)[:-1])
        moved = {
            number: mine
            for number, (mine, cells) in enumerate(zip(each, self.setup.cells, strict=True))
            if cells.shape is not None
        }
        return self.loss.with_points(moved)


def held_out(loss: Loss, cells: list[Cells]) -> tuple[Loss | None, list[int]]:
    """The loss somewhere in the points' cells, the same in each training."""
    luck = np.random.default_rng(0)
    moved = {
        number: luck.uniform(term.low, term.high)
        for number, term in enumerate(cells)
        if term.shape is not None
    }
    counts = [len(moved.get(number, ())) for number in range(len(cells))]
    if not moved:
        return None, counts
    try:
        return loss.with_points(moved), counts
    except ValueError:  # a subdomain without a point
        return None, [0] * len(cells)


def _moving(loss: Loss, how: ByGradients, cells: list[Cells]) -> tuple[Any, Any]:
    """Setup and tables of the loss at the points that steps take."""
    setup = loss._setup
    if how.points == "given":
        return setup, loss._tables
    if all(term.shape is None for term in cells):
        raise ValueError(
            f"points={how.points!r} given, and the points of no term can move: those of a lattice "
            "that subdomains cover can, such as Interior(residual, points=(60, 60)); with points "
            "of your own take points='given'"
        )
    moving = MovingSetup(
        setup.problem, setup.mesh, setup.exchange, setup.dtype, setup.placed, setup.batch, cells
    )
    return moving, moving.layout.on_devices(moving.tables())


def _blocks(
    training: _Training,
    signals: Signals,
    saves: Any,
    callbacks: list[Callable[[Progress], Any]],
) -> str:
    """Takes all steps. Returns what ended it."""
    how, course = training.how, training.course
    while (step := int(training.state.step)) < how.steps:
        begin = time.perf_counter()
        compiled = course.seconds["compile"]
        losses = training.block(min(how.block, how.steps - step))
        course.losses += losses.tolist()
        seconds = time.perf_counter() - begin - (course.seconds["compile"] - compiled)
        taken = int(training.state.step) - step
        if not training.state.is_finite:
            what = training.what_is_not_finite()
            where = f"the loss is not finite at step {step + taken}: {what}"
            if step + taken == 0:
                raise ValueError(where)
            course.warnings.append(f"{where}. The networks are those of the step before")
            return "not finite"
        held = float(training.held_out_parts(training.state.parameters).sum())
        course.held_out_losses.append((step + taken, held))
        rate = taken / max(seconds, 1e-9)
        left = (how.steps - step - taken) / max(rate, 1e-9)
        progress = Progress(
            step + taken,
            how.steps,
            float(losses[-1]),
            held,
            rate,
            time.perf_counter() - course.begin,
            left,
            partial(training.networks, training.state.parameters),
        )
        is_last = step + taken >= how.steps or bool(training.state.is_done)
        asked = _asked(training, signals, saves, callbacks, progress)
        if saves is not None and (is_last or any(asked)):
            saves.write(training.state)
        if bool(training.state.is_done):
            return "optimiser"
        if asked.enough:
            return "callback"
        if asked.terminated or asked.interrupted:
            return "signal" if asked.terminated else "interrupt"
    return "steps"


class _Asked(NamedTuple):
    """What is asked for after a block, in one process or in any."""

    enough: bool
    interrupted: bool
    terminated: bool
    checkpoint: bool


def _asked(
    training: _Training,
    signals: Signals,
    saves: Any,
    callbacks: list[Callable[[Progress], Any]],
    progress: Progress,
) -> _Asked:
    """Calls the callbacks."""
    processes, course, failed = training.processes, training.course, None
    answers: list[Any] = []
    begin = time.perf_counter()
    try:
        answers = [callback(progress) for callback in callbacks]
    except Exception as error:  # the others are told before it is raised
        failed = error
    alone = course.took("callbacks", begin, progress.step)
    if saves is not None:  # the others waited for that in the block of steps
        alone += saves.seconds
        saves.seconds = 0.0
    wants, signals.wants_checkpoint = signals.wants_checkpoint, False
    mine = _Asked(
        any(map(is_true, answers)),
        signals.interrupted,
        signals.terminated,
        wants or (saves is not None and saves.is_due(progress.step)),
    )
    begin = time.perf_counter()
    words = [failed is not None, *mine, min(round(1e6 * alone), 2**31 - 1)]
    told = processes.gathered(words)
    of_all = told[:, :-1].astype(bool)
    if processes.are_several:
        course.took("waiting", begin, progress.step)
        course.waited((told[:, -1] / 1e6).tolist(), processes.numbers)
    if failed is not None:
        raise failed
    if of_all[:, 0].any():
        number = processes.numbers[int(of_all[:, 0].argmax())]
        raise SolverError(
            f"a callback of process {number} has raised an exception: its own output says which",
            Status.CANCELLED,
        )
    return _Asked(*np.any(of_all[:, 1:], 0).tolist())


def _fingerprint(start: Networks) -> int:
    if not isinstance(start, Networks):
        return 0
    found = 0
    for part in (*start.weights(), start.coefficient_numbers):
        found = zlib.crc32(np.ascontiguousarray(part).tobytes(), found)
    return found
