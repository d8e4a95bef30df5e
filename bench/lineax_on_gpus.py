"""The systems of lineax issue 174: lineax as shipped beside ours, on each device of this machine.

Linear systems of the beam (examples/beam_jax.py, dt = 0.005), each solved four times by the same
compiled program: by lineax's BiCGStab with Jacobi, by ours in its place, and by our cg. Products
are those with the dense matrix, those by `segment_sum`, as finite element codes assemble, and those
with our CSR. Prints for each run the verdict, the steps and the true relative residual, and whether
bits are the same.

    python bench/lineax_on_gpus.py [--systems 1 2] [--platforms gpu] [--limit 6000]
"""

from __future__ import annotations

import argparse
import collections
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import scipy.sparse as sp

from shardsolve import CSR, krylov
from shardsolve import lineax as sx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import beam_jax as beam

RUNS = 4
RTOL = 1e-10


class System(NamedTuple):
    """A x = b of one step of Newton's method; rows of clamped unknowns are those of I."""

    name: str
    a: sp.csr_matrix
    b: np.ndarray


def assembled(case: beam.Case, u: jax.Array) -> sp.csr_matrix:
    """The derivative of the residual in u at the end of a step, rows eliminated."""
    of_element = jax.jit(jax.vmap(jax.jacfwd(lambda u: beam.force_of_element(case.law, u))))
    stiffness = np.asarray(of_element(u.reshape(-1, 3)[beam.MESH.elements]))
    shapes = beam.MESH.values
    mass = beam.DENSITY * np.einsum("p,pa,pb->ab", beam.MESH.volumes, shapes, shapes)
    element = (1 - case.alpha_m) / (case.beta * beam.DT**2) * np.einsum(
        "ab,ij->aibj", mass, np.eye(3)
    ) + (1 - case.alpha_f) * stiffness
    count = len(beam.MESH.elements)
    unknowns = (3 * beam.MESH.elements[:, :, None] + np.arange(3)).reshape(count, 81)
    rows, columns = np.repeat(unknowns, 81, axis=1).ravel(), np.tile(unknowns, (1, 81)).ravel()
    values = np.where(beam.CLAMPED[rows], 0.0, element.ravel())
    ends = np.flatnonzero(beam.CLAMPED)
    places = (np.concatenate([rows, ends]), np.concatenate([columns, ends]))
    return sp.csr_matrix((np.concatenate([values, np.ones(len(ends))]), places), (beam.N, beam.N))


def systems(wanted: list[int]) -> Iterator[System]:
    """Of steps 1 to 3 with P = F S, and 2 with P = S; those with these numbers, from 1."""
    chosen = (("stvk-alpha", {(2, 1), (1, 0), (3, 0)}), ("faulty-alpha", {(2, 0)}))
    made = 0
    for name, places in chosen:
        case = beam.CASES[name]
        motion = beam.Motion(*(jnp.zeros(beam.N) for _ in range(3)))
        m = krylov.block_jacobi(beam.matrix_at_rest(case), [0, 300, 600, 900, beam.N])
        for step in range(1, max(step for step, _ in places) + 1):
            if made >= max(wanted):
                return
            loads = jnp.asarray(beam.load((step - case.alpha_f) * beam.DT))
            u = motion.u
            for newton in range(8):
                made += (step, newton) in places
                if (step, newton) in places and made in wanted:
                    mean = (1 - case.alpha_f) * u + case.alpha_f * motion.u
                    right = -np.asarray(beam.residual(case, u, motion, loads))
                    law = "P = F S" if case.law == "stvk" else "P = S"
                    yield System(
                        f"{law}, step {step}, Newton {newton}", assembled(case, mean), right
                    )
                u, _, left = beam.newton_step(case, beam.solve_with_shardsolve, u, motion, loads, m)
                if left < 1e-8:
                    break
            motion = beam.motion_after(case, u, motion)


def products(a: sp.csr_matrix) -> dict[str, Callable]:
    """Functions of the arrays that they need, made when they are traced."""
    rows = np.repeat(np.arange(beam.N), np.diff(a.indptr))

    def scatter(arrays, x):
        return jax.ops.segment_sum(arrays["values"] * x[a.indices], rows, num_segments=beam.N)

    def own(arrays, x):
        return arrays["csr"] @ x

    return {"dense": lambda arrays, x: arrays["dense"] @ x, "scatter": scatter, "csr": own}


def solve_by_lineax(kind: type, limit: int, tag=frozenset()) -> Callable:
    def solve(product, arrays, b):
        shape = jax.ShapeDtypeStruct(b.shape, b.dtype)
        operator = lx.FunctionLinearOperator(lambda x: product(arrays, x), shape, tag)
        diagonal = lx.FunctionLinearOperator(
            lambda x: arrays["scale"] * x, shape, lx.positive_semidefinite_tag
        )
        # Ours are asked for a relative residual, which is what they keep.
        own = kind.__module__.startswith("shardsolve")
        tolerances = {"rtol": 1e-8, "atol": 0.0} if own else {"rtol": RTOL, "atol": RTOL}
        solver = kind(**tolerances, max_steps=limit)
        options = {"preconditioner": diagonal}
        solution = lx.linear_solve(operator, b, solver, options=options, throw=False)
        status = solution.stats.get("status", jnp.int32(-1))
        return solution.value, solution.result, solution.stats["num_steps"], status

    return solve


def verdict_of(result, status) -> str:
    if int(status) >= 0:
        return krylov.KrylovStatus(int(status)).name.lower()
    names = {
        name: getattr(lx.RESULTS, name)
        for name in ("successful", "max_steps_reached", "breakdown", "singular", "stagnation")
        if hasattr(lx.RESULTS, name)
    }
    return next((name for name, one in names.items() if bool(result == one)), "other")


def run(system: System, device: jax.Device, limit: int) -> None:
    """Prints what each solver says of one system on one device."""
    solvers = {
        "lineax BiCGStab": (solve_by_lineax(lx.BiCGStab, limit), system.a),
        "ours in its place": (solve_by_lineax(sx.BiCGStab, 10 * limit), system.a),
    }
    if system.name.startswith("P = F S"):
        # Columns of clamped unknowns cleared, too: their increments are 0, and A is symmetric.
        keep = sp.diags((~beam.CLAMPED).astype(float))
        clamp = sp.diags(beam.CLAMPED.astype(float))
        cleared = sp.csr_matrix(keep @ system.a @ keep + clamp)
        cg = solve_by_lineax(sx.CG, 2 * limit, lx.positive_semidefinite_tag)
        solvers["ours, cg"] = (cg, cleared)
    for (name, (solve, a)), kind in (
        (solver, kind) for solver in solvers.items() for kind in ("dense", "scatter", "csr")
    ):
        if name == "lineax BiCGStab" and kind == "csr":
            continue
        with jax.default_device(device):
            arrays = {
                "dense": jnp.asarray(a.toarray()),
                "values": jnp.asarray(a.data),
                "csr": CSR.of(a),
                "scale": jnp.asarray(1 / a.diagonal()),
            }
            product = products(a)[kind]
            compiled = jax.jit(
                lambda arrays, b, solve=solve, product=product: solve(product, arrays, b)
            )
            b = jnp.asarray(system.b)
            found = [jax.device_get(compiled(arrays, b)) for _ in range(RUNS)]
        bits = collections.Counter(x.tobytes() for x, *_ in found)
        runs = ", ".join(
            f"{verdict_of(result, status)} {int(steps)} "
            f"({np.linalg.norm(system.b - a @ x) / np.linalg.norm(system.b):.1e})"
            for x, result, steps, status in (found if len(bits) > 1 else found[:1])
        )
        same = "same bits" if len(bits) == 1 else f"{len(bits)} different results"
        print(f"  {device.platform:4} {name}, {kind}: {runs}; {RUNS} runs: {same}", flush=True)


def main() -> None:
    """All systems on all kinds of devices."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", type=int, nargs="+", default=[1, 2, 3, 4], help="which")
    parser.add_argument("--platforms", nargs="+", default=["gpu", "cpu"], help="which of them")
    parser.add_argument("--limit", type=int, default=6000, help="steps of lineax's solver")
    given = parser.parse_args()
    kinds = {device.platform: device for device in [*jax.devices("cpu"), *jax.devices()]}
    print(f"jax {jax.__version__}, lineax {lx.__version__} with rtol = atol = {RTOL}; ours 1e-8, 0")
    for system in systems(given.systems):
        print(system.name)
        for platform in given.platforms:
            if platform in kinds:
                run(system, kinds[platform], given.limit)


if __name__ == "__main__":
    main()
