"""The beam of examples/beam in JAX: finite elements, and a tangent that nobody has to write.

The internal force is a function of the displacements; its tangent is `jax.jvp` of that, applied
inside of `shardsolve.krylov.solve`. The same program runs on the CPU and on GPUs.

    python examples/beam_jax.py stvk-alpha --steps 40
    python examples/beam_jax.py          # all cases, 400 steps each; fails if a tip is off by 1e-5
    python examples/beam_jax.py --platforms cpu gpu            # and if a verdict is another one
    python examples/beam_jax.py stvk-newmark --lineax          # through lineax.linear_solve
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from beam_jax_body import (
    CLAMPED,
    DENSITY,
    MESH,
    TIP,
    N,
    force_of_element,
    internal_force,
    load,
    mass_product,
)

from shardsolve import CSR, krylov

WHOLE_TIME, STEPS = 2.0, 400
DT = WHOLE_TIME / STEPS
TOLERANCE = 1e-5  # of a tip
MANY_ITERATIONS = 150  # of a solve, after which the preconditioner is made anew


@dataclass(frozen=True)
class Case:
    """A law of elasticity, a scheme, Rayleigh damping, and the tip at t = 0.2, 1 and 2."""

    law: str
    alpha_f: float
    alpha_m: float
    damping: float
    tips: tuple[tuple[float, float], ...]

    @property
    def gamma(self) -> float:
        """Of Newmark's formulas."""
        return 0.5 - self.alpha_m + self.alpha_f

    @property
    def beta(self) -> float:
        """Likewise."""
        return 0.25 * (1 - self.alpha_m + self.alpha_f) ** 2


CASES = {
    "linear": Case(
        "linear", 0, 0, 1e-4, ((1.124644, 1.134534), (1.814813, 1.296101), (0.411043, -0.613130))
    ),
    "stvk-newmark": Case(
        "stvk", 0, 0, 0, ((1.114437, 1.121934), (1.902945, 1.282138), (-0.052077, -0.625837))
    ),
    "stvk-alpha": Case(
        "stvk", 0.4, 0.2, 0, ((1.114497, 1.121857), (1.879120, 1.262752), (-0.058279, -0.596590))
    ),
    "faulty-alpha": Case(
        "faulty", 0.4, 0.2, 0, ((1.124082, 1.133686), (1.837608, 1.248184), (0.137522, -0.346698))
    ),
}


# A time step


class Motion(NamedTuple):
    """Displacements, velocities, accelerations, (n,) each."""

    u: jax.Array
    v: jax.Array
    a: jax.Array


def motion_after(case: Case, u: jax.Array, before: Motion) -> Motion:
    """At the end of a step that ends with displacements u."""
    beta, gamma = case.beta, case.gamma
    a = (u - before.u - DT * before.v) / (beta * DT**2) - (1 - 2 * beta) / (2 * beta) * before.a
    return Motion(u, before.v + DT * ((1 - gamma) * before.a + gamma * a), a)


def residual(case: Case, u: jax.Array, before: Motion, loads: jax.Array) -> jax.Array:
    """Of M a + C v + f(u) = loads, in between the ends of the step, 0 where u is clamped."""
    after = motion_after(case, u, before)
    mean = [
        (1 - alpha) * new + alpha * old
        for alpha, new, old in zip(
            (case.alpha_f, case.alpha_f, case.alpha_m), after, before, strict=True
        )
    ]
    total = mass_product(mean[2]) + internal_force(case.law, mean[0]) - loads
    if case.damping:
        stiff = jax.jvp(functools.partial(internal_force, case.law), (jnp.zeros(N),), (mean[1],))[1]
        total = total + case.damping * (mass_product(mean[1]) + stiff)
    return jnp.where(CLAMPED, u, total)


def tangent(case: Case, u: jax.Array, before: Motion, loads: jax.Array):
    """The derivative of the residual as a function, clamped along rows and columns: symmetric."""

    def product(x: jax.Array) -> jax.Array:
        free = jnp.where(CLAMPED, 0.0, x)
        moved = jax.jvp(lambda u: residual(case, u, before, loads), (u,), (free,))[1]
        return jnp.where(CLAMPED, x, moved)

    return product


@functools.cache
def places() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Where entries of the elements' matrices go: an order by rows, rows, columns, row pointers."""
    unknowns = (3 * MESH.elements[:, :, None] + np.arange(3)).reshape(len(MESH.elements), 81)
    ends = np.flatnonzero(CLAMPED)
    rows = np.concatenate([np.repeat(unknowns, 81, axis=1).ravel(), ends])
    columns = np.concatenate([np.tile(unknowns, (1, 81)).ravel(), ends])
    order = np.argsort(rows, kind="stable")
    pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=N))])
    return order, rows[order], columns[order], pointers


def matrix_at(case: Case, u: jax.Array) -> CSR:
    """That tangent, assembled, for displacements u in between: what the preconditioner is of."""
    beta = case.beta
    of_element = jax.vmap(jax.jacfwd(functools.partial(force_of_element, case.law)))
    stiffness = of_element(u.reshape(-1, 3)[MESH.elements])
    of_mass = DENSITY * np.einsum("p,pa,pb->ab", MESH.volumes, MESH.values, MESH.values)
    mass = np.einsum("ab,ij->aibj", of_mass, np.eye(3))
    damping = (1 - case.alpha_f) * case.gamma / (beta * DT) * case.damping
    element = ((1 - case.alpha_m) / (beta * DT**2) + damping) * mass
    element = element + (1 - case.alpha_f + damping) * stiffness
    order, rows, columns, pointers = places()
    values = jnp.concatenate([element.ravel(), jnp.zeros(CLAMPED.sum())])[order]
    clamped = CLAMPED[rows] | CLAMPED[columns]
    # The ends of the list are 1 on the diagonal, all else of a clamped unknown is 0.
    values = jnp.where(order >= element.size, 1.0, jnp.where(clamped, 0.0, values))
    return CSR(values, columns, pointers, (N, N))


@functools.partial(jax.jit, static_argnames="case")
def preconditioner(case: Case, u: jax.Array):
    """The inverses of four blocks of that matrix, whole cross sections each."""
    return krylov.block_jacobi(matrix_at(case, u), [0, 300, 600, 900, N])


class Solved(NamedTuple):
    """A step of Newton's method, and of its linear solve how many iterations and which verdict."""

    x: jax.Array
    iterations: jax.Array
    status: jax.Array


def solve_with_shardsolve(case: Case, product, b: jax.Array, m) -> Solved:
    """Through shardsolve.krylov."""
    method = "bicgstab" if case.law == "faulty" else "cg"
    x, info = krylov.solve(
        product, b, method=method, preconditioner=m, rtol=1e-8, max_iterations=20000,
        full_output=True,
    )  # fmt: skip
    return Solved(x, info.iterations, info.report[0])


def solve_with_lineax(case: Case, product, b: jax.Array, m) -> Solved:
    """The same through lineax: two lines are another user's own, the rest is his code as it was."""
    import lineax as lx

    import shardsolve.lineax as sx  # 1: this import is new

    shape = jax.ShapeDtypeStruct(b.shape, b.dtype)
    psd = lx.positive_semidefinite_tag
    operator = lx.FunctionLinearOperator(product, shape, psd)
    pattern = m.pattern.product
    preconditioner = lx.FunctionLinearOperator(lambda r: pattern(m.data, r), shape, psd)
    kind = sx.BiCGStab if case.law == "faulty" else sx.CG  # 2: was lx.BiCGStab, lx.CG
    solver = kind(rtol=1e-8, atol=0.0, max_steps=20000)
    options = {"preconditioner": preconditioner}
    solution = lx.linear_solve(operator, b, solver, options=options, throw=False)
    return Solved(solution.value, solution.stats["num_steps"], solution.stats["status"])


SOLVERS = {"shardsolve": solve_with_shardsolve, "lineax": solve_with_lineax}


@functools.partial(jax.jit, static_argnames=("case", "solve"))
def newton_step(case, solve, u, before, loads, m):
    """From u on: the next u, its linear solve, the norm of what was left."""
    left = residual(case, u, before, loads)
    solved = solve(case, tangent(case, u, before, loads), -left, m)
    u = u + solved.x
    return u, solved, jnp.linalg.norm(residual(case, u, before, loads))


@functools.partial(jax.jit, static_argnames="case")
def size_of_residual(case, u, before, loads):
    """Its norm."""
    return jnp.linalg.norm(residual(case, u, before, loads))


class Run(NamedTuple):
    """What a simulation gave.

    Attributes:
        tips: (steps, 3): after each step.
        verdicts: Of the linear solves of each step, names of KrylovStatus.
        iterations: Of all of them.
        seconds: How long it took.
    """

    tips: np.ndarray
    verdicts: list[list[str]]
    iterations: int
    seconds: float

    @property
    def counted(self) -> dict[str, int]:
        """How often each verdict."""
        return dict(collections.Counter(itertools.chain.from_iterable(self.verdicts)))


def simulate(name: str, steps: int = STEPS, solve=solve_with_shardsolve) -> Run:
    """The first steps of a case."""
    begin = time.perf_counter()
    case = CASES[name]
    motion = Motion(*(jnp.zeros(N) for _ in range(3)))
    m = preconditioner(case, motion.u)
    tips, verdicts, total, most = [], [], 0, 0
    for step in range(steps):
        loads = jnp.asarray(load((step + 1 - case.alpha_f) * DT))
        u = motion.u
        if most > MANY_ITERATIONS:
            m, most = preconditioner(case, u), 0
        goal = max(1e-8, 1e-9 * float(size_of_residual(case, u, motion, loads)))
        verdicts.append([])
        for _ in range(25):
            u, solved, left = newton_step(case, solve, u, motion, loads, m)
            total += int(solved.iterations)
            most = max(most, int(solved.iterations))
            verdicts[-1].append(krylov.KrylovStatus(int(solved.status)).name.lower())
            if left <= goal:
                break
        else:
            raise RuntimeError(f"step {step + 1}: Newton's method did not converge: {left:.2e}")
        motion = motion_after(case, u, motion)
        tips.append(np.asarray(motion.u).reshape(-1, 3)[TIP])
    return Run(np.array(tips), verdicts, total, time.perf_counter() - begin)


# What is to hold


def judge(name: str, run: Run) -> bool:
    """Prints, and returns, whether tips are those of the reference and each solve converged."""
    is_good = all(verdict.startswith("converged") for verdict in run.counted)
    for t, expected in zip((0.2, 1.0, 2.0), CASES[name].tips, strict=True):
        if round(t / DT) <= len(run.tips):
            tip = run.tips[round(t / DT) - 1, 1:]
            off = np.abs(tip - expected).max()
            is_good = is_good and bool(off <= TOLERANCE)
            verdict = "ok  " if off <= TOLERANCE else "FAIL"
            print(f"  {verdict} tip at t = {t}: {tip[0]:9.6f} {tip[1]:9.6f}, off by {off:.1e}")
    return is_good


def agree(one: Run, other: Run) -> bool:
    """Prints, and returns, whether the solves of each step had the same verdicts."""
    apart = [
        step
        for step, (first, second) in enumerate(zip(one.verdicts, other.verdicts, strict=True), 1)
        if set(first) != set(second)
    ]
    off = np.abs(one.tips - other.tips).max()
    where = f"not in {len(apart)} steps, the first is {apart[0]}" if apart else "in every step"
    print(f"  {'FAIL' if apart else 'ok  '} the same verdicts {where}; tips differ by {off:.1e}")
    return not apart


def parse_options() -> argparse.Namespace:
    """What the caller asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="*", choices=[*CASES, []], help="all by default")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"of {DT} s each, {STEPS} make it")
    parser.add_argument("--lineax", action="store_true", help="solve through lineax")
    parser.add_argument(
        "--platforms", nargs="+", help="of JAX, one after the other: cpu gpu; its first by default"
    )
    parser.add_argument("--output", type=Path, help="a file for what was found, JSON")
    return parser.parse_args()


def main() -> int:
    """Runs what was asked for; returns the exit status, 1 if something is not as it has to be."""
    given = parse_options()
    solve = SOLVERS["lineax" if given.lineax else "shardsolve"]
    found, is_good = [], True
    for name in given.case or CASES:
        runs = []
        for platform in given.platforms or [jax.default_backend()]:
            with jax.default_device(jax.devices(platform)[0]):
                run = simulate(name, given.steps, solve)
            count = sum(run.counted.values())
            print(
                f"{name} on {platform}: {len(run.tips)} steps, {count} solves, "
                f"{run.iterations} iterations, {run.seconds:.1f} s; {run.counted}",
                flush=True,
            )
            is_good = judge(name, run) and is_good
            is_good = all([agree(runs[0], run)] if runs else []) and is_good
            runs.append(run)
            found.append({"case": name, "platform": platform, "lineax": given.lineax})
            found[-1] |= {"steps": given.steps, "iterations": run.iterations}
            found[-1] |= {"verdicts": run.counted, "seconds": run.seconds}
            found[-1] |= {"tips": run.tips.tolist()}
            if given.output is not None:
                given.output.write_text(json.dumps(found) + "\n")
    print("all as it has to be" if is_good else "FAIL")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
