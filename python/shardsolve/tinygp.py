"""Gaussian processes of tinygp over devices: `GaussianProcess(kernel, X, solver=ShardedSolver)`."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

try:
    from tinygp.solvers.solver import Solver
except ImportError as error:
    raise ImportError(
        "shardsolve.tinygp needs tinygp: pip install 'shardsolve[tinygp]', or tinygp itself"
    ) from error

from shardsolve._cholesky import Factor, cho_factor, logdet

__all__ = ["ShardedSolver"]


class ShardedSolver(Solver):
    """A solver for `tinygp.GaussianProcess` that factors the covariance where its rows lie.

    Pass it as `GaussianProcess(kernel, X, solver=ShardedSolver, mesh=mesh)`. Every device makes
    its own rows of the covariance and factors them in place; no device has all of it. What tinygp
    calls a lower triangular L here is the half F of `Factor`: K = F F^T. So log-probabilities,
    predictions and gradients are those of tinygp's `DirectSolver`, and a sample is another one of
    the same process.

    Outside of `jit` a covariance that is not positive definite is a `LinAlgError`, which names the
    pivot; inside, the log-probability is -inf, as tinygp has it.

    A process that `condition` returns is over the points of `X_test` and by tinygp's own solver.
    """

    kernel: Any
    X: Any
    noise: Any
    covariance_given: Any  # None: made of the kernel when it is asked for
    factor: Factor

    def __init__(
        self,
        kernel: Any,
        X: Any,
        noise: Any,
        *,
        covariance: jax.Array | None = None,
        mesh: Mesh | None = None,
    ):
        """Factors the covariance.

        Args:
            kernel: tinygp's, as the next two.
            X: n points, a pytree.
            noise: Of the observations.
            covariance: (n, n), instead of `kernel(X, X) + noise`.
            mesh: Devices to use, all its axes, which are of type Auto; by default those that hold
                `X`, or `covariance`. Under `jit` without it XLA decides.
        """
        mesh = _mesh_of(X) if mesh is None else mesh
        _require_auto(mesh)
        self.kernel, self.X, self.noise = kernel, X, noise
        self.covariance_given = covariance
        if covariance is None:
            covariance = _covariance(kernel, X, noise, mesh)
        self.factor = cho_factor(covariance, mesh=mesh)

    def variance(self) -> jax.Array:
        """(n,): the diagonal of the covariance."""
        return self.kernel(self.X) + self.noise.diagonal()

    def covariance(self) -> jax.Array:
        """(n, n), of what is factored; made anew, as only its factor is kept."""
        if self.covariance_given is not None:
            return self.covariance_given
        return _covariance(self.kernel, self.X, self.noise, None)

    def normalization(self) -> jax.Array:
        """(log(det(K)) + n log(2 pi)) / 2."""
        return logdet(self.factor) / 2 + len(self.factor._diagonal) * np.log(2 * np.pi) / 2

    def solve_triangular(self, y: jax.Array, *, transpose: bool = False) -> jax.Array:
        """F^-1 y, or with transpose F^-T y; y is (n, ...)."""
        factor = self.factor
        return self._by_columns(factor.half_solve_adjoint if transpose else factor.half_solve, y)

    def dot_triangular(self, y: jax.Array) -> jax.Array:
        """F y; y is (n, ...)."""
        return self._by_columns(self.factor.half_product, y)

    def condition(self, kernel: Any, X_test: Any | None, noise: Any) -> jax.Array:
        """The covariance at some points, given the values at X.

        Args:
            kernel: Between X and X_test, and of X_test.
            X_test: m points; by default X.
            noise: Of the prediction.

        Returns:
            (m, m).
        """
        points = self.X if X_test is None else X_test
        half = self.solve_triangular(kernel(self.X, points))
        known = jnp.matmul(half.T, half, precision=jax.lax.Precision.HIGHEST)
        return kernel(points, points) + noise - known

    def _by_columns(self, function: Any, y: jax.Array) -> jax.Array:
        y = jnp.asarray(y)
        if jnp.promote_types(y.dtype, self.factor.dtype) == self.factor.dtype:
            y = y.astype(self.factor.dtype)
        columns = y.reshape(len(y), -1) if y.ndim > 2 else y
        return function(columns).reshape(y.shape)


def _mesh_of(points: Any) -> Mesh | None:
    """Of the first array that lies on one."""
    for leaf in jax.tree.leaves(points):
        sharding = None if isinstance(leaf, jax.core.Tracer) else getattr(leaf, "sharding", None)
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
            return sharding.mesh
    return None


def _require_auto(mesh: Mesh | None) -> None:
    if mesh is not None and AxisType.Explicit in mesh.axis_types:
        raise ValueError(
            f"the mesh has Explicit axes ({mesh.axis_names}), on which tinygp's kernels do not say "
            "where their results lie; pass one with Auto axes, "
            "jax.make_mesh(..., axis_types=(AxisType.Auto,) * number_of_axes)"
        )


@functools.partial(jax.jit, static_argnames="mesh")
def _covariance(kernel: Any, points: Any, noise: Any, mesh: Mesh | None) -> jax.Array:
    """(n, n), each device its own rows."""
    made = kernel(points, points) + noise
    if mesh is None:
        return made
    rows = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
    return jax.lax.with_sharding_constraint(made, rows)
