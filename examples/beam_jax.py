"""The beam of examples/beam in JAX: finite elements, and a tangent that nobody has to write.

The internal force is a function of the displacements; its tangent is `jax.jvp` of that, applied
inside of `shardsolve.krylov.solve`. The same program runs on the CPU and on GPUs.

    python examples/beam_jax.py stvk-alpha --until 0.2
    python examples/beam_jax.py                # all cases, 400 steps each, against the reference
    python examples/beam_jax.py stvk-newmark --lineax
                                               # linear solves through lineax.linear_solve
"""

from __future__ import annotations

import argparse
import functools
import itertools
import time
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve import CSR, krylov

jax.config.update("jax_enable_x64", True)

BOX = np.array([[0.0, -0.05, -0.1], [8.0, 0.05, 0.1]])
DIVISIONS = (8, 2, 2)
YOUNG, POISSON, DENSITY = 210e3, 0.3, 7.8e-3
LOAD_END, WHOLE_TIME, STEPS = 0.2, 2.0, 400
DT = WHOLE_TIME / STEPS
LAMBDA = YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
MU = YOUNG / (2 * (1 + POISSON))


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


# The body: hexahedra of 27 nodes, x slowest and z fastest, 27 Gauss points.


class Mesh(NamedTuple):
    """Elements, and the values and gradients of the shape functions at the Gauss points."""

    elements: np.ndarray  # (elements, 27): numbers of nodes
    values: np.ndarray  # (27 points, 27 nodes)
    gradients: np.ndarray  # (27 points, 27 nodes, 3)
    volumes: np.ndarray  # (27 points,)
    nodes: np.ndarray  # (nodes, 3): positions


def make_mesh() -> Mesh:
    """The cantilever."""
    along = [2 * count + 1 for count in DIVISIONS]
    number = np.arange(np.prod(along)).reshape(along)
    elements = np.array(
        [
            number[2 * i : 2 * i + 3, 2 * j : 2 * j + 3, 2 * k : 2 * k + 3].ravel()
            for i, j, k in itertools.product(*map(range, DIVISIONS))
        ]
    )
    points, weights = np.polynomial.legendre.leggauss(3)
    lagrange = np.array([points * (points - 1) / 2, 1 - points**2, points * (points + 1) / 2]).T
    slopes = np.array([points - 0.5, -2 * points, points + 0.5]).T
    half = (BOX[1] - BOX[0]) / np.array(DIVISIONS) / 2

    def product(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.einsum("pa,qb,rc->pqrabc", x, y, z).reshape(27, 27)

    gradients = np.stack(
        [
            product(*(slopes / half[axis] if axis == at else lagrange for axis in range(3)))
            for at in range(3)
        ],
        axis=-1,
    )
    volumes = np.einsum("p,q,r->pqr", weights, weights, weights).ravel() * np.prod(half)
    axes = [np.linspace(*BOX[:, axis], along[axis]) for axis in range(3)]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return Mesh(elements, product(lagrange, lagrange, lagrange), gradients, volumes, nodes)


MESH = make_mesh()
N = MESH.nodes.size
TIP = int(np.argmin(np.abs(MESH.nodes - [8.0, 0.0, 0.0]).sum(axis=1)))
CLAMPED = np.repeat(MESH.nodes[:, 0] == 0.0, 3)


def stress(law: str, f: jax.Array) -> jax.Array:
    """P for deformation gradients F, (..., 3, 3)."""
    identity = jnp.eye(3)
    turned = jnp.swapaxes(f, -1, -2)
    strain = (f + turned) / 2 - identity if law == "linear" else (turned @ f - identity) / 2
    trace = jnp.trace(strain, axis1=-2, axis2=-1)[..., None, None]
    second = LAMBDA * trace * identity + 2 * MU * strain
    return f @ second if law == "stvk" else second  # "faulty" forgets the factor F


def force_of_element(law: str, u: jax.Array) -> jax.Array:
    """(27, 3) -> (27, 3): the integral of P grad N_a."""
    f = jnp.eye(3) + jnp.einsum("ai,paj->pij", u, MESH.gradients)
    return jnp.einsum("p,pij,paj->ai", MESH.volumes, stress(law, f), MESH.gradients)


def internal_force(law: str, u: jax.Array) -> jax.Array:
    """Of all elements, (n,)."""
    of_elements = jax.vmap(functools.partial(force_of_element, law))(
        u.reshape(-1, 3)[MESH.elements]
    )
    return jnp.zeros((N // 3, 3)).at[MESH.elements].add(of_elements).ravel()


def mass_product(v: jax.Array) -> jax.Array:
    """M v with the consistent mass matrix, which is alike along each axis."""
    of_element = DENSITY * np.einsum("p,pa,pb->ab", MESH.volumes, MESH.values, MESH.values)
    products = jnp.einsum("ab,ebi->eai", of_element, v.reshape(-1, 3)[MESH.elements])
    return jnp.zeros((N // 3, 3)).at[MESH.elements].add(products).ravel()


def load(t: float) -> np.ndarray:
    """Nodal forces of the force on each unit of volume at time t."""
    share = t / LOAD_END if t <= LOAD_END + 1e-12 else 0.0
    shares = np.tile(MESH.volumes @ MESH.values, len(MESH.elements))
    of_node = np.bincount(MESH.elements.ravel(), shares, N // 3)
    return (of_node[:, None] * share * np.array([0.0, 1.0, 1.5])).ravel()


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


def matrix_at_rest(case: Case) -> CSR:
    """That tangent, assembled, for u = 0: what the preconditioner is made of."""
    beta = case.beta
    stiffness = jax.jit(jax.jacfwd(functools.partial(force_of_element, case.law)))(
        jnp.zeros((27, 3))
    )
    of_mass = DENSITY * np.einsum("p,pa,pb->ab", MESH.volumes, MESH.values, MESH.values)
    mass = np.einsum("ab,ij->aibj", of_mass, np.eye(3))
    damping = (1 - case.alpha_f) * case.gamma / (beta * DT) * case.damping
    element = ((1 - case.alpha_m) / (beta * DT**2) + damping) * mass
    element = element + (1 - case.alpha_f + damping) * np.asarray(stiffness)
    unknowns = (3 * MESH.elements[:, :, None] + np.arange(3)).reshape(len(MESH.elements), 81)
    rows, columns = np.repeat(unknowns, 81, axis=1).ravel(), np.tile(unknowns, (1, 81)).ravel()
    values = np.tile(element.reshape(81 * 81), len(MESH.elements))
    values = np.where(CLAMPED[rows] | CLAMPED[columns], 0.0, values)
    ends = np.flatnonzero(CLAMPED)
    import scipy.sparse as sp

    return CSR.of(
        sp.coo_matrix(
            (
                np.concatenate([values, np.ones(len(ends))]),
                (np.concatenate([rows, ends]), np.concatenate([columns, ends])),
            ),
            (N, N),
        )
    )


def solve_with_shardsolve(case: Case, product, b: jax.Array, m) -> tuple[jax.Array, jax.Array]:
    """The step of Newton's method, and how many iterations it took."""
    method = "bicgstab" if case.law == "faulty" else "cg"
    x, info = krylov.solve(
        product, b, method=method, preconditioner=m, rtol=1e-8, max_iterations=20000,
        full_output=True,
    )  # fmt: skip
    return x, info.iterations


def solve_with_lineax(case: Case, product, b: jax.Array, m) -> tuple[jax.Array, jax.Array]:
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
    return solution.value, solution.stats["num_steps"]


@functools.partial(jax.jit, static_argnames=("case", "solve"))
def newton_step(case, solve, u, before, loads, m):
    """From u on: the next u, the iterations of its linear solve, the norm of what was left."""
    left = residual(case, u, before, loads)
    step, iterations = solve(case, tangent(case, u, before, loads), -left, m)
    u = u + step
    return u, iterations, jnp.linalg.norm(residual(case, u, before, loads))


def simulate(name: str, until: float = WHOLE_TIME, solve=solve_with_shardsolve):
    """Tips after each step, (steps, 3), and iterations of all linear solves."""
    case = CASES[name]
    size_of = jax.jit(lambda u, before, loads: jnp.linalg.norm(residual(case, u, before, loads)))
    # Whole cross sections: four blocks.
    m = krylov.block_jacobi(matrix_at_rest(case), [0, 300, 600, 900, N])
    motion = Motion(*(jnp.zeros(N) for _ in range(3)))
    tips, total = [], 0
    for step in range(round(until / DT)):
        loads = jnp.asarray(load((step + 1 - case.alpha_f) * DT))
        u = motion.u
        goal = max(1e-8, 1e-9 * float(size_of(u, motion, loads)))
        for _ in range(25):
            u, iterations, left = newton_step(case, solve, u, motion, loads, m)
            total += int(iterations)
            if left <= goal:
                break
        else:
            raise RuntimeError(f"step {step + 1}: Newton's method did not converge: {left:.2e}")
        motion = motion_after(case, u, motion)
        tips.append(np.asarray(motion.u).reshape(-1, 3)[TIP])
    return np.array(tips), total


def main() -> None:
    """Runs what was asked for, and compares it with the reference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="*", choices=[*CASES, []], help="all by default")
    parser.add_argument("--until", type=float, default=WHOLE_TIME, help="time at which to stop")
    parser.add_argument("--lineax", action="store_true", help="solve through lineax")
    given = parser.parse_args()
    solve = solve_with_lineax if given.lineax else solve_with_shardsolve
    for name in given.case or CASES:
        begin = time.perf_counter()
        tips, iterations = simulate(name, given.until, solve)
        seconds = time.perf_counter() - begin
        print(f"{name}: {len(tips)} steps, {iterations} iterations, {seconds:.1f} s")
        for t, expected in zip((0.2, 1.0, 2.0), CASES[name].tips, strict=True):
            if t <= given.until + DT / 2:
                tip = tips[round(t / DT) - 1, 1:]
                off = np.abs(tip - expected).max()
                verdict = "ok  " if off <= 1e-5 else "FAIL"
                print(f"  {verdict} tip at t = {t}: {tip[0]:9.6f} {tip[1]:9.6f}, off by {off:.1e}")


if __name__ == "__main__":
    main()
