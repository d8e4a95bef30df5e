"""A problem, and the ways to its solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh

from shardsolve.fbpinn._checkpoint import Checkpoint
from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._loss import Loss
from shardsolve.fbpinn._natural_gradient import NaturalGradient, train_by_natural_gradients
from shardsolve.fbpinn._options import LeastSquares, PlacementCosts
from shardsolve.fbpinn._outcome import Plan
from shardsolve.fbpinn._progress import Progress
from shardsolve.fbpinn._run import Networks, Run
from shardsolve.fbpinn._train import plan, train


class Problem(Equations):
    """Equations for one or several fields over boxes.

    Example:
        >>> boxes = Boxes([(0, 1)], counts=(4,))
        >>> problem = Problem(
        ...     boxes,
        ...     axes="x",
        ...     terms=[
        ...         Interior(lambda x, u: u.xx + u.v, points=(80,)),
        ...         Boundary(lambda x, u: u.v, points=(), where="x = 0", weight=100),
        ...         Boundary(lambda x, u: u.x - 1, points=(), where="x = 0", weight=100),
        ...     ],
        ... )
        >>> problem.orders
        [(0,), (1,), (2,)]

    Attributes:
        boxes: Where the networks are.
        orders: The derivatives of the sum of all networks that the equations need.
        unknown: Its coefficients.
    """

    def train(
        self,
        how: Any = None,
        *,
        mesh: Mesh | None = None,
        start: Networks | None = None,
        callbacks: Callable[[Progress], Any] | Sequence[Callable[[Progress], Any]] = (),
        checkpoint: Checkpoint | None = None,
    ) -> Run:
        """Finds the solution.

        Args:
            how: `LeastSquares()` by default; `LevenbergMarquardt()` trains hidden layers too.
                `NaturalGradient()` trains deep networks in few boxes; then `mesh` may have any
                devices, which share the points, and networks begin with random weights.
                `Adam()`, `LBFGS()` and `Optimiser()` train all by gradients; an optimiser of optax
                does as the latter's with its other defaults.
            mesh: Devices of the CPU, as many as threads are to share the boxes: the bits do not
                depend on their number. Or GPUs of this process: JAX calls the equations there too,
                or on the CPU with a warning if it cannot, and those beside a `Net` on the CPU.
                Results differ from those of the CPU, and with the number of GPUs, by rounding.
                They take memory that JAX has left: see XLA_PYTHON_CLIENT_MEM_FRACTION. By default
                JAX's default device if that is a GPU, else a thread of the CPU for each core;
                `Outcome.devices` says where it ran.
            start: Networks that training begins with, such as a `Run` of a problem that is easier
                and has as many boxes, fields, units and coefficients: where Gauss-Newton ends in a
                local minimum. A linear problem has one solution for its hidden layers, wherever it
                begins. By default networks are 0, and coefficients their `init`; gradients begin
                with random networks.
            callbacks: By gradients and natural gradients: called after each block of steps with a
                `Progress`, such as `print`. If one returns True, that was the last.
            checkpoint: By gradients: where to go on from, and what to write.

        Ctrl-C ends it within a second or so. By gradients: after the block, with what was learned
        until then; once more ends at once.

        With gradients `mesh` may have any devices, which share the boxes as `loss` says; those of
        several processes too, if each of them makes this call.

        Warns:
            TrainingWarning: With the sentences of `Outcome.warnings`.

        Raises:
            ValueError: If a point lies in no box, a box has no point, a residual or a unit is not
                finite, a residual does not depend on u or a coefficient, or differential equations,
                no more of them than fields, have no condition and no data beside them; each named.
            TypeError: If 64-bit numbers are off.
            SolverError: Naming a process of the mesh that is lost, if there are several.
        """
        if isinstance(how, NaturalGradient):
            if checkpoint is not None:
                raise ValueError(
                    "checkpoint given with NaturalGradient, which does not take one: Adam, LBFGS "
                    "and Optimiser do"
                )
            return train_by_natural_gradients(self, how, mesh, start, callbacks)
        return train(
            self, LeastSquares() if how is None else how, mesh, start, callbacks, checkpoint
        )

    def plan(self) -> Plan:
        """What training by least squares will need: memory, and work in three ways."""
        return plan(self)

    def loss(
        self,
        *,
        mesh: Mesh | None = None,
        exchange: str = "halo",
        owner: Sequence[int] | np.ndarray | None = None,
        costs: PlacementCosts | None = None,
        dtype: Any = None,
        batch: int | None = None,
    ) -> Loss:
        """The loss as a JAX function of all weights, to be made small by gradients.

        Args:
            mesh: Any devices, of all axes, which share the boxes; by default JAX's default device.
            exchange: How devices tell each other of points in boxes of several: "halo", messages
                of these points between two devices each; "psum", a sum of all points over all
                devices, which is there to be compared with.
            owner: (boxes,): the number of a device for each box. By default what `costs` say is
                best of straight cuts, cuts with a jog, and halves of halves.
            costs: Of work and messages.
            dtype: Of parameters and all that is computed; by default float64 if it is on.
            batch: How many boxes a device computes at a time; by default as many as a core's
                cache, or part of a GPU's memory, has room for. If these are not all, the gradient
                computes them once more.

        Raises:
            ValueError: If a point lies in no box, a box has no point, or an owner is no device.
        """
        return Loss(
            self, mesh, exchange, owner, PlacementCosts() if costs is None else costs, dtype, batch
        )

    def nodes(self, name: str) -> np.ndarray:
        """(nodes,): where the nodes of an unknown function lie.

        Raises:
            ValueError: If there is no `Grid1D` of this name.
        """
        return self.unknown.nodes(name)
