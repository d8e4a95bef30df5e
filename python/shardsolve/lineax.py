"""Krylov solvers for lineax: change one import, keep the code.

    import lineax as lx
    import shardsolve.lineax as sx

    solution = lx.linear_solve(operator, vector, solver=sx.BiCGStab(rtol=1e-8, atol=0.0))

The solvers are those of `shardsolve.krylov`: the same verdict on any device, and a reason for every
failure. What lineax has a word for is in `solution.result`; the rest is in `solution.stats`:
`num_steps`, `max_steps`, and `status` (of shardsolve.krylov.KrylovStatus), `residual`, `restarts`,
`margin`, `error_estimate`. Converged is ||b - A x||_2 <= max(rtol ||b||_2, atol), with b - A x
computed anew, where lineax looks at each element. Transposed solves, those of gradients, take rtol
alone. With rtol = 0 and atol = 0 `max_steps` are made, unless nothing more is to be gained. lineax
raises where a transposed solve fails, whatever `throw` says; `shardsolve.krylov.solve` does not.

Needs lineax: pip install 'shardsolve[lineax]'.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

try:
    import equinox as eqx
    import equinox.internal as eqxi
    import lineax as lx
except ImportError as error:
    raise ImportError(
        "shardsolve.lineax needs lineax, which is not installed: pip install 'shardsolve[lineax]'"
    ) from error

from shardsolve import krylov
from shardsolve._krylov_arguments import MADE
from shardsolve._sparse import CSR
from shardsolve.krylov import KrylovInfo, KrylovStatus

__all__ = ["CG", "FGMRES", "MINRES", "BiCGStab"]

_SINGULAR = lx.RESULTS.singular
_NEVER = 1e-30  # a tolerance that only max_steps ends
_RESULTS = {
    KrylovStatus.MAX_ITERATIONS: lx.RESULTS.max_steps_reached,
    KrylovStatus.STAGNATED: getattr(lx.RESULTS, "stagnation", _SINGULAR),
    KrylovStatus.ACCURACY_LIMIT: getattr(lx.RESULTS, "stagnation", _SINGULAR),
    KrylovStatus.BREAKDOWN_RHO: lx.RESULTS.breakdown,
    KrylovStatus.BREAKDOWN_SIGMA: lx.RESULTS.breakdown,
    KrylovStatus.BREAKDOWN_OMEGA: lx.RESULTS.breakdown,
    KrylovStatus.BREAKDOWN_HESSENBERG: lx.RESULTS.breakdown,
    KrylovStatus.NONFINITE_RHS: getattr(lx.RESULTS, "nonfinite_input", _SINGULAR),
    KrylovStatus.NONFINITE_GUESS: getattr(lx.RESULTS, "nonfinite_input", _SINGULAR),
}

# How a solve of a number of steps ends, where no tolerance was asked for.
_AS_FAR_AS_ASKED = (
    KrylovStatus.MAX_ITERATIONS,
    KrylovStatus.STAGNATED,
    KrylovStatus.ACCURACY_LIMIT,
    KrylovStatus.SINGULAR_OPERATOR,
)


def _result_of(info: KrylovInfo, has_tolerance: bool) -> lx.RESULTS:
    status = info.report[0]
    result = lx.RESULTS.where(info.is_converged, lx.RESULTS.successful, _SINGULAR)
    words = dict(_RESULTS)
    if not has_tolerance:
        words |= dict.fromkeys(_AS_FAR_AS_ASKED, lx.RESULTS.successful)
    for number, one in words.items():
        result = lx.RESULTS.where(status == number, one, result)
    return result


def _number(value: Any) -> Any:
    """Arrays that hold one number that is known are that number."""
    is_known = isinstance(value, np.generic | np.ndarray | jax.Array)
    if is_known and not isinstance(value, jax.core.Tracer) and np.size(value) == 1:
        return float(np.asarray(value).reshape(()))
    return value


def __getattr__(name: str) -> object:
    if name == "GMRES":
        raise AttributeError(
            "shardsolve.lineax has no GMRES: FGMRES(rtol, atol, max_steps, restart) stands for it"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Krylov(lx.AbstractLinearSolver):
    """What the solvers share. Their state: the operator, its sign, whether it was transposed."""

    rtol: float = eqx.field(converter=_number)
    atol: float = eqx.field(converter=_number)
    max_steps: int | None = None

    def __check_init__(self):
        if not self._has_tolerance and self.max_steps is None:
            raise ValueError(
                f"{type(self).__name__} was given rtol = 0, atol = 0 and no max_steps: it would "
                "never end; give one of them"
            )

    @property
    def _has_tolerance(self) -> bool:
        """Whether not only max_steps ends a solve."""
        return not all(
            isinstance(value, int | float) and value == 0 for value in (self.rtol, self.atol)
        )

    def _method(self) -> str:
        raise NotImplementedError

    def _restart(self) -> int:
        return 30

    def _require_tags(self, operator: lx.AbstractLinearOperator) -> bool:
        """Throws unless the method is one for such an operator; True if it is negative."""
        return False

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        """Checks the operator and linearises it."""
        del options
        if jax.tree.leaves(operator.in_structure()) != jax.tree.leaves(operator.out_structure()):
            raise ValueError(
                f"{type(self).__name__} solves square systems, and the operator maps "
                f"{operator.in_structure()} to {operator.out_structure()}: use lx.AutoLinearSolver "
                "or lx.LSMR for least squares"
            )
        negative = self._require_tags(operator)
        return lx.linearise(-operator if negative else operator), eqxi.Static((negative, False))

    def compute(self, state: Any, vector: Any, options: dict[str, Any]):
        """Solves; `options` may hold `y0`, and `preconditioner`.

        That is an operator, an array, a function, a CSR, or what `krylov.jacobi`,
        `incomplete_cholesky` and their like return.
        """
        operator, static = state
        negative, transposed = static.value
        size = sum(leaf.size for leaf in jax.tree.leaves(vector))
        steps = max(10 * size, 1) if self.max_steps is None else self.max_steps
        guess = options.get("y0")
        if negative and guess is not None:
            guess = jax.tree.map(jnp.negative, guess)
        solution, info = krylov.solve(
            operator,
            vector,
            method=self._method(),
            preconditioner=options.get("preconditioner"),
            rtol=self.rtol if self._has_tolerance else _NEVER,
            # A tolerance of the solve says nothing of the size of a cotangent.
            atol=0.0 if transposed and self.rtol > 0 else self.atol,
            max_iterations=steps,
            restart=self._restart(),
            x0=guess,
            full_output=True,
        )
        if negative:
            solution = jax.tree.map(jnp.negative, solution)
        stats = {
            "num_steps": info.iterations,
            "max_steps": self.max_steps,
            "status": info.report[0],
            "residual": info.residual,
            "restarts": info.restarts,
            "margin": info.margin,
            "error_estimate": info.error_estimate,
        }
        return solution, _result_of(info, self._has_tolerance), stats

    def transpose(self, state: Any, options: dict[str, Any]):
        """Of the transposed operator and preconditioner."""
        operator, static = state
        negative, _ = static.value
        return (operator.transpose(), eqxi.Static((negative, True))), _mapped(
            options, lambda m: _transposed(m, operator.out_structure())
        )

    def conj(self, state: Any, options: dict[str, Any]):
        """Likewise of the conjugates."""
        operator, static = state
        return (lx.conj(operator), static), _mapped(options, _conjugated)

    def assume_full_rank(self) -> bool:
        """A system has one solution."""
        return True

    def allow_dependent_columns(self, operator: lx.AbstractLinearOperator) -> bool:
        """That, as lineax 0.0.8 asks for it."""
        return False

    def allow_dependent_rows(self, operator: lx.AbstractLinearOperator) -> bool:
        """Likewise."""
        return False


def _mapped(options: dict[str, Any], change: Any) -> dict[str, Any]:
    if options.get("preconditioner") is None:
        return {}
    return {"preconditioner": change(options["preconditioner"])}


def _transposed(m: Any, structure: Any) -> Any:
    """The transpose of a preconditioner for vectors of this structure."""
    if isinstance(m, MADE):
        return m.transposed()
    if isinstance(m, CSR):
        return m.T
    if hasattr(m, "transpose"):
        return m.transpose()
    return lambda x: jax.linear_transpose(m, structure)(x)[0]


def _conjugated(m: Any) -> Any:
    if isinstance(m, MADE):
        return m.conjugated()
    if isinstance(m, CSR):
        return m.with_values(jnp.conj(m.data))
    if isinstance(m, lx.AbstractLinearOperator):
        return lx.conj(m)
    if hasattr(m, "conj"):
        return m.conj()
    return lambda x: jax.tree.map(jnp.conj, m(jax.tree.map(jnp.conj, x)))


class CG(_Krylov):
    """Conjugate gradients, in the place of lx.CG.

    For operators that are tagged positive or negative semidefinite; one that is not so in truth is
    named: status INDEFINITE_OPERATOR.

    Args:
        rtol: See the module.
        atol: See the module.
        max_steps: By default 10 times the number of unknowns.
    """

    def _method(self) -> str:
        return "cg"

    def _require_tags(self, operator: lx.AbstractLinearOperator) -> bool:
        negative = lx.is_negative_semidefinite(operator)
        if not (negative or lx.is_positive_semidefinite(operator)):
            raise ValueError(
                "CG solves positive or negative definite systems, and the operator is not tagged "
                "as such: pass lx.positive_semidefinite_tag, or use MINRES (symmetric), BiCGStab "
                "or FGMRES"
            )
        return negative


class MINRES(_Krylov):
    """The minimal residual method, for operators that are tagged symmetric; see CG."""

    def _method(self) -> str:
        return "minres"

    def _require_tags(self, operator: lx.AbstractLinearOperator) -> bool:
        definite = lx.is_positive_semidefinite(operator) or lx.is_negative_semidefinite(operator)
        is_complex = any(
            leaf.dtype.kind == "c" for leaf in jax.tree.leaves(operator.in_structure())
        )
        if is_complex and lx.is_symmetric(operator) and not definite:
            raise ValueError(
                "MINRES solves Hermitian systems, and the operator is complex and tagged "
                "symmetric, which is not Hermitian: use BiCGStab or FGMRES, or "
                "shardsolve.krylov.solve(method='minres') if it is Hermitian in truth"
            )
        if not definite and not lx.is_symmetric(operator):
            raise ValueError(
                "MINRES solves symmetric systems, and the operator is not tagged as such: pass "
                "lx.symmetric_tag, or use BiCGStab or FGMRES"
            )
        return False


class BiCGStab(_Krylov):
    """BiCGStab with restarts, in the place of lx.BiCGStab; see CG."""

    def _method(self) -> str:
        return "bicgstab"


class FGMRES(_Krylov):
    """Flexible GMRES, in the place of lx.GMRES; see CG.

    Args:
        rtol: See CG.
        atol: See CG.
        max_steps: See CG.
        restart: Vectors of a basis.
    """

    restart: int = 30

    def _method(self) -> str:
        return "fgmres"

    def _restart(self) -> int:
        return self.restart
