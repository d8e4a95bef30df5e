"""The systems of lineax issue 174: lineax as shipped beside ours, on each device of this machine.

Linear systems of the beam (examples/beam_jax.py, dt = 0.005), each solved several times by the same
compiled program: by lineax's BiCGStab with Jacobi, by ours in its place, and by our cg. Products
are those with the dense matrix, those by `segment_sum`, as finite element codes assemble, and those
with our CSR. Prints for each run the verdict, the steps and the true relative residual, and whether
bits are the same; then whether all is as it has to be: ours converged in every run, with the same
status on all devices, and with our CSR with the same bits.

    python bench/lineax_on_gpus.py [--systems 1 2] [--platforms gpu] [--output gpu.json]
    python bench/lineax_on_gpus.py --read cpu.json gpu.json    (of two processes, run side by side)

Exit status: 0, or 1 if something is not as it has to be.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import scipy.sparse as sp

from shardsolve import CSR, krylov
from shardsolve import lineax as sx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import beam_jax as beam

RTOL = 1e-10
LINEAX = "lineax BiCGStab"


class System(NamedTuple):
    """A x = b of one step of Newton's method; rows of clamped unknowns are those of I."""

    name: str
    a: sp.csr_matrix
    b: np.ndarray

    @property
    def digest(self) -> str:
        """Of the numbers in it: were two processes given the same system?"""
        return hashlib.sha256(self.a.data.tobytes() + self.b.tobytes()).hexdigest()[:16]

    @property
    def cleared(self) -> sp.csr_matrix:
        """With the columns of clamped unknowns cleared, too: their increments are 0.

        The tangent of P = F S is then symmetric. The pattern stays.
        """
        rows = np.repeat(np.arange(beam.N), np.diff(self.a.indptr))
        keep = ~beam.CLAMPED[self.a.indices] | (self.a.indices == rows)
        return sp.csr_matrix((np.where(keep, self.a.data, 0.0), self.a.indices, self.a.indptr))


def assembled(case: beam.Case, u: jax.Array) -> sp.csr_matrix:
    """The derivative of the residual in u at the end of a step, rows eliminated."""
    of_element = jax.jit(jax.vmap(jax.jacfwd(lambda u: beam.force_of_element(case.law, u))))
    stiffness = np.asarray(of_element(u.reshape(-1, 3)[beam.MESH.elements]))
    shapes = beam.MESH.values
    mass = beam.DENSITY * np.einsum("p,pa,pb->ab", beam.MESH.volumes, shapes, shapes)
    element = (1 - case.alpha_m) / (case.beta * beam.DT**2) * np.einsum(
        "ab,ij->aibj", mass, np.eye(3)
    ) + (1 - case.alpha_f) * stiffness
    order, rows, columns, pointers = beam.places()
    values = np.concatenate([element.ravel(), np.zeros(beam.CLAMPED.sum())])[order]
    values = np.where(order >= element.size, 1.0, np.where(beam.CLAMPED[rows], 0.0, values))
    made = sp.csr_matrix((values, columns, pointers), (beam.N, beam.N))
    made.sum_duplicates()
    return made


def systems(wanted: list[int]) -> Iterator[System]:
    """Of steps 1 to 3 with P = F S, and 2 with P = S; those with these numbers, from 1."""
    chosen = (("stvk-alpha", {(2, 1), (1, 0), (3, 0)}), ("faulty-alpha", {(2, 0)}))
    made = 0
    for name, places in chosen:
        case = beam.CASES[name]
        motion = beam.Motion(*(jnp.zeros(beam.N) for _ in range(3)))
        for step in range(1, max(step for step, _ in places) + 1):
            if made >= max(wanted):
                return
            loads = jnp.asarray(beam.load((step - case.alpha_f) * beam.DT))
            u = motion.u
            m = beam.preconditioner(case, u)
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
    """Functions of the arrays that they need; `a` for its pattern, which all systems share."""
    rows = np.repeat(np.arange(beam.N), np.diff(a.indptr))
    columns = a.indices.copy()

    def scatter(arrays, x):
        return jax.ops.segment_sum(arrays["values"] * x[columns], rows, num_segments=beam.N)

    def own(arrays, x):
        return arrays["csr"] @ x

    return {"dense": lambda arrays, x: arrays["dense"] @ x, "scatter": scatter, "csr": own}


def solve_by_lineax(kind: type, limit: int, tag=frozenset()) -> Callable:
    """A function of a product, its arrays and b: x, the result, the steps, our status or -1."""
    # Ours are asked for a relative residual, which is what they keep.
    is_ours = kind.__module__.startswith("shardsolve")
    tolerances = {"rtol": 1e-8, "atol": 0.0} if is_ours else {"rtol": RTOL, "atol": RTOL}
    solver = kind(**tolerances, max_steps=limit)

    def solve(product, arrays, b):
        shape = jax.ShapeDtypeStruct(b.shape, b.dtype)
        operator = lx.FunctionLinearOperator(lambda x: product(arrays, x), shape, tag)
        diagonal = lx.FunctionLinearOperator(
            lambda x: arrays["scale"] * x, shape, lx.positive_semidefinite_tag
        )
        options = {"preconditioner": diagonal}
        solution = lx.linear_solve(operator, b, solver, options=options, throw=False)
        status = solution.stats.get("status", jnp.int32(-1))
        return solution.value, solution.result, solution.stats["num_steps"], status

    return solve


def verdict_of(result, status) -> str:
    """In a word: ours, or lineax's."""
    if int(status) >= 0:
        return krylov.KrylovStatus(int(status)).name.lower()
    names = {
        name: getattr(lx.RESULTS, name)
        for name in ("successful", "max_steps_reached", "breakdown", "singular", "stagnation")
        if hasattr(lx.RESULTS, name)
    }
    return next((name for name, one in names.items() if bool(result == one)), "other")


class Contest:
    """The programs of one device: each solver with each product, compiled once for all systems."""

    def __init__(self, device: jax.Device, limit: int, runs: int, pattern: sp.csr_matrix):
        self.device, self.runs = device, runs
        cg = solve_by_lineax(sx.CG, 2 * limit, lx.positive_semidefinite_tag)
        solvers = {
            LINEAX: solve_by_lineax(lx.BiCGStab, limit),
            "ours in its place": solve_by_lineax(sx.BiCGStab, 10 * limit),
            "ours, cg": cg,
        }
        self.programs = {
            (name, kind): jax.jit(
                lambda arrays, b, solve=solve, product=product: solve(product, arrays, b)
            )
            for name, solve in solvers.items()
            for kind, product in products(pattern).items()
            if (name, kind) != (LINEAX, "csr")
        }

    def run(self, system: System) -> Iterator[dict[str, Any]]:
        """A row of the table for each program; cg where the matrix is symmetric."""
        for (name, kind), program in self.programs.items():
            if name == "ours, cg" and not system.name.startswith("P = F S"):
                continue
            a = system.cleared if name == "ours, cg" else system.a
            with jax.default_device(self.device):
                arrays = {
                    "dense": jnp.asarray(a.toarray()),
                    "values": jnp.asarray(a.data),
                    "csr": CSR.of(a),
                    "scale": jnp.asarray(1 / a.diagonal()),
                }
                b = jnp.asarray(system.b)
                found = [jax.device_get(program(arrays, b)) for _ in range(self.runs)]
            yield {
                "system": system.name,
                "digest": system.digest,
                "platform": self.device.platform,
                "device": self.device.device_kind,
                "solver": name,
                "product": kind,
                "verdicts": [verdict_of(result, status) for _, result, _, status in found],
                "steps": [int(steps) for _, _, steps, _ in found],
                "residuals": [
                    float(np.linalg.norm(system.b - a @ x) / np.linalg.norm(system.b))
                    for x, *_ in found
                ],
                "bits": [hashlib.sha256(x.tobytes()).hexdigest()[:16] for x, *_ in found],
            }


def show(row: dict[str, Any]) -> None:
    """A line of the table."""
    runs = [
        f"{verdict} {steps} ({residual:.1e})"
        for verdict, steps, residual in zip(
            row["verdicts"], row["steps"], row["residuals"], strict=True
        )
    ]
    different = len(set(row["bits"]))
    same = "same bits" if different == 1 else f"{different} different results"
    text = ", ".join(runs if different > 1 else runs[:1])
    print(
        f"  {row['platform']:4} {row['solver']}, {row['product']}: {text}; {len(runs)} runs: {same}"
    )


def failures(rows: list[dict[str, Any]]) -> list[str]:
    """What is not as it has to be."""
    found = []
    groups = collections.defaultdict(list)
    for row in rows:
        if row["solver"] != LINEAX:
            groups[row["system"], row["solver"], row["product"]].append(row)
    for (system, solver, product), group in groups.items():
        what = f"{system}: {solver}, {product}"
        verdicts = {verdict for row in group for verdict in row["verdicts"]}
        if not all(verdict.startswith("converged") for verdict in verdicts):
            found.append(f"{what}: {', '.join(sorted(verdicts))}")
        elif len(verdicts) > 1:
            found.append(f"{what}: another status on another device: {sorted(verdicts)}")
        if max(residual for row in group for residual in row["residuals"]) > 1e-8 * (1 + 1e-6):
            found.append(f"{what}: a true residual is above 1e-8")
        if product == "csr":
            if any(len(set(row["bits"])) > 1 for row in group):
                found.append(f"{what}: other bits from run to run")
            if len({row["digest"] for row in group}) > 1:
                found.append(f"{what}: the devices were given different systems")
            elif len({bits for row in group for bits in row["bits"]}) > 1:
                found.append(f"{what}: other bits on another device")
    return found


def measure(given: argparse.Namespace) -> list[dict[str, Any]]:
    """All systems on all kinds of devices; written after each line."""
    kinds = {device.platform: device for device in [*jax.devices("cpu"), *jax.devices()]}
    print(f"jax {jax.__version__}, lineax {lx.__version__} with rtol = atol = {RTOL}; ours 1e-8, 0")
    contests, rows = [], []
    with jax.default_device(kinds["cpu"]):  # on any machine the same systems for all devices
        problems = list(systems(given.systems))
    for system in problems:
        print(system.name, flush=True)
        if not contests:
            contests = [
                Contest(kinds[platform], given.limit, given.runs, system.a)
                for platform in given.platforms
                if platform in kinds
            ]
        for contest in contests:
            for row in contest.run(system):
                rows.append(row)
                show(row)
                sys.stdout.flush()
                if given.output is not None:
                    given.output.write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def main() -> int:
    """Measures or reads; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", type=int, nargs="+", default=[1, 2, 3, 4], help="which")
    parser.add_argument("--platforms", nargs="+", default=["gpu", "cpu"], help="which of them")
    parser.add_argument("--limit", type=int, default=6000, help="steps of lineax's solver")
    parser.add_argument("--runs", type=int, default=4, help="of each program")
    parser.add_argument("--output", type=Path, help="a file for all figures, JSON")
    parser.add_argument("--read", type=Path, nargs="+", help="such files, instead of measuring")
    given = parser.parse_args()
    if given.read:
        rows = [row for file in given.read for row in json.loads(file.read_text())]
        rows.sort(key=lambda row: row["system"])  # stable
        for at, row in enumerate(rows):
            if at == 0 or row["system"] != rows[at - 1]["system"]:
                print(row["system"])
            show(row)
    else:
        rows = measure(given)
    wrong = failures(rows)
    print("\n".join(wrong) if wrong else "ours: all as it has to be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
