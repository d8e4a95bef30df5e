"""A step of minSR on GPUs, from O and f to x, beside the product it is made of and NetKet's way.

    PYTHONPATH=python python bench/natural_on_gpus.py [--samples 8192] [--parameters 100000]
                                                      [--stages answers step parts memory devices]
                                                      [--platform cuda] [--seconds 1.0]

Stages, each with its own time; what does not fit into it is left out, with a line that says so:
`answers`: what a GPU does differently: products in single precision, the ladder without a transfer
to the host, each way to solve, all beside NumPy in double precision.
`step`: seconds of `natural.solve`, of O O^T by `jnp` (the aim is half of it, times 1.25), and of
what NetKet does by default: O O^T and `jax.scipy.linalg.cho_solve` (srt.py of its 3.23, written out
here: it need not be installed). Each x is put into the equations of the parameters.
`parts`: seconds of what a step is made of, and of a step with other ways to make the Gram matrix.
`memory`: bytes that the compiled step takes, beside what the documentation says, and the refusal.
`devices`: with several GPUs a step on all of them beside one.

O is made on the device. Prints JSON, a line for each finding. Exit status: 0, or 1 if an answer is
wrong.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable

BUDGETS = {"answers": 18, "step": 14, "parts": 20, "memory": 6, "devices": 20}
SHIFT = 1e-3
STARTED = time.perf_counter()
failures: list[str] = []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--parameters", type=int, default=100_000)
    parser.add_argument("--stages", nargs="+", choices=list(BUDGETS), default=list(BUDGETS))
    parser.add_argument("--platform", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=1.0, help="for the runs of a line")
    options = parser.parse_args()
    os.environ["JAX_ENABLE_X64"] = "1"
    os.environ["JAX_PLATFORMS"] = "cuda,cpu" if options.platform == "cuda" else "cpu"
    import jax

    first = jax.devices()[0]
    tell("machine", device=first.device_kind, devices=len(jax.devices()), jax=jax.__version__)
    stages = {
        "answers": answers,
        "step": step,
        "parts": parts,
        "memory": memory,
        "devices": devices,
    }
    for name in options.stages:
        budget = Budget(name, BUDGETS[name])
        try:
            stages[name](options, budget)
        except Exception as error:  # the next stage has its own figures
            failures.append(name)
            tell(name, failed=f"{type(error).__name__}: {error}"[:600])
        tell(name, stage_seconds=round(budget.spent(), 1))
    tell("end", failures=failures)
    return 1 if failures else 0


class Budget:
    """The time of a stage."""

    def __init__(self, stage: str, seconds: float):
        self.stage, self.seconds, self.start = stage, seconds, time.perf_counter()

    def spent(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self.start

    def has(self, what: str) -> bool:
        """Whether there is time for one more; says so if not."""
        if self.spent() < self.seconds:
            return True
        tell(self.stage, left_out=what)
        return False


def tell(stage: str, **found) -> None:
    at = round(time.perf_counter() - STARTED, 1)
    print(json.dumps({"at": at, "stage": stage, **found}), flush=True)


def check(stage: str, what: str, error: float, limit: float, **more) -> None:
    is_right = bool(error < limit)
    if not is_right:
        failures.append(what)
    tell(stage, check=what, error=float(f"{error:.2e}"), limit=limit, ok=is_right, **more)


# Answers, beside NumPy


def answers(options: argparse.Namespace, budget: Budget) -> None:
    import jax
    import jax.numpy as jnp
    import numpy as np

    import shardsolve
    import shardsolve.netket
    from shardsolve import natural
    from shardsolve._cut import Cut
    from shardsolve._gram import gram

    rng = np.random.default_rng(0)
    mesh = mesh_of(1)

    def normal(*shape, is_complex: bool = False):
        real = rng.standard_normal(shape)
        return real + 1j * rng.standard_normal(shape) if is_complex else real

    def wanted(o, f, mode="real", shift=SHIFT, start=0):
        o, f = o - o.mean(0), f - f.mean()
        s, right = o.conj().T @ o / len(o), o.conj().T @ f / len(o)
        if mode == "complex":
            s, right = s.real, right.real
        return np.linalg.solve(s + shift * np.eye(len(s)), right + shift * start)

    def away(x, true) -> float:
        return float(np.abs(np.asarray(x) - true).max() / np.abs(true).max())

    # Rows that strips do not share equally; a product with fewer bits shows at once.
    for dtype, limit in (("float32", 2e-6), ("float64", 1e-14), ("complex64", 2e-6)):
        if not budget.has(f"Gram matrix in {dtype}"):
            return
        a = normal(2085, 3000, is_complex=dtype[0] == "c")
        a = a.astype(dtype)
        made = np.asarray(jax.jit(lambda a: gram(a, Cut(mesh, ("x",))))(a))
        high = a.astype("complex128" if dtype[0] == "c" else "float64")
        true = high @ high.conj().T
        error = float(np.abs(made - true).max() / np.abs(true).max())
        is_hermitian = bool(np.array_equal(made, made.conj().T))
        check("answers", f"Gram matrix, {dtype}", error, limit, hermitian=is_hermitian)
        if not is_hermitian:
            failures.append(f"Gram matrix, {dtype}: not Hermitian")

    # Rounding makes this matrix indefinite with a shift of 1e-8, in single precision.
    samples = rng.standard_normal((512, 100)).astype("float32")
    given = samples - samples.mean(0), np.ones(512, "float32")

    def run(o, f):
        return natural.solve(o, f, 1e-8, side="samples", scale=1 / 512, full_output=True)

    if budget.has("ladder"):
        import warnings

        warnings.simplefilter("ignore")
        compiled = jax.jit(run).lower(*given).compile()
        on_device = jax.device_put(given, jax.devices()[0])
        jax.block_until_ready(on_device)
        with jax.transfer_guard("disallow"):
            x, info = jax.block_until_ready(compiled(*on_device))
        figures = {"shift": float(info.shift), "status": info.status.name}
        check("answers", "ladder ends at 1e-6", abs(float(info.shift) / 1e-6 - 1), 1e-5, **figures)

    o, f = normal(300, 700) + 2, normal(300) + 3
    complex_o, complex_f = normal(150, 90, is_complex=True) + 2, normal(150, is_complex=True)
    start = 0.1 * normal(700)
    for what, given, more in (
        ("samples", (o, f), {}),
        ("parameters", (o[:, :200], f), {"side": "parameters"}),
        ("momentum", (o, f), {"momentum": start}),
        ("complex", (complex_o, complex_f), {"mode": "complex"}),
        ("holomorphic", (complex_o, complex_f), {"mode": "holomorphic"}),
        ("smooth_pinv", (o, f), {"solver": "smooth_pinv"}),
    ):
        if not budget.has(what):
            return
        mode = more.get("mode", "real")
        true = wanted(*given, mode, start=more.get("momentum", 0))
        check("answers", what, away(natural.solve(*given, SHIFT, **more), true), 1e-10)

    if budget.has("nan"):
        bad = o.copy()
        bad[5, 7] = np.nan
        x, info = jax.jit(lambda o: natural.solve(o, f, SHIFT, full_output=True))(bad)
        named = "O: " in info.message and "row 5, column 7" in info.message
        check("answers", "NaN is named", 0.0 if named and np.isnan(x).all() else 1.0, 0.5)
    if budget.has("vmap"):
        both = np.stack([o[:64], o[64:128]]), np.stack([f[:64], f[64:128]])
        x = jax.vmap(lambda o, f: natural.solve(o, f, SHIFT))(*both)
        error = max(away(x[i], wanted(both[0][i], both[1][i])) for i in range(2))
        check("answers", "vmap", error, 1e-10)
    if budget.has("chunks"):

        def residuals(theta, batch):
            return jnp.tanh(batch @ theta[:300].reshape(3, 100)) @ theta[300:] - batch[:, 0]

        batch, theta = jnp.asarray(normal(256, 3)), jnp.asarray(normal(400)) / 10
        found = []
        for chunk in (None, 60):
            optimiser = natural.natural_gradient(residuals, 1e-4, chunk=chunk)
            found.append(optimiser.update(batch, optimiser.init(theta), theta)[0])
        check("answers", "chunks of samples", away(found[1], np.asarray(found[0])), 1e-8)
    if budget.has("netket"):
        m = normal(300, 300)
        matrix, right = m @ m.T / 300 + np.eye(300), normal(300)
        true = np.linalg.solve(matrix, right)
        for solver in (shardsolve.netket.shift_ladder(), shardsolve.netket.pinv_smooth()):
            x, _ = jax.jit(solver)(matrix, right)
            check("answers", type(solver).__name__, away(x, true), 1e-11)
    if budget.has("half solves"):

        def white(a, y, solve):
            return jnp.sum(jnp.cos(solve(a, y)))

        def ours(a, y):
            return shardsolve.cho_factor(a).half_solve(y)

        def plain(a, y):
            return jnp.linalg.solve(jnp.linalg.cholesky((a + a.T) / 2), y)

        got = jax.jit(jax.value_and_grad(lambda a, y: white(a, y, ours), (0, 1)))(matrix, right)
        true = jax.jit(jax.value_and_grad(lambda a, y: white(a, y, plain), (0, 1)))(matrix, right)
        leaves = zip(jax.tree.leaves(got), jax.tree.leaves(true), strict=True)
        error = max(away(one, np.asarray(other)) for one, other in leaves)
        check("answers", "half solve and its gradient", error, 1e-10)


# Seconds


def system(options: argparse.Namespace, mesh=None):
    """O and f, made on the devices; the mean over samples is no small part of either."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    n, parameters = options.samples, options.parameters

    def make(key):
        keys = jax.random.split(key)
        o = jax.random.normal(keys[0], (n, parameters)) + jnp.linspace(-1, 1, parameters)
        return o, jax.random.normal(keys[1], (n,)) + 3

    where = None
    if mesh is not None:
        where = NamedSharding(mesh, PartitionSpec("x", None)), NamedSharding(mesh, PartitionSpec())
    return jax.block_until_ready(jax.jit(make, out_shardings=where)(jax.random.key(0)))


def left(o, f, x) -> float:
    """How far x is from the equations of the parameters: relative to their right side."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def run(o, f, x):
        high = jax.lax.Precision.HIGHEST
        mean = jnp.mean(o, axis=0)

        def centred(v):
            return jnp.matmul(o, v, precision=high) - mean @ v

        def back(z):
            return jnp.matmul(z, o, precision=high) - mean * jnp.sum(z)

        right = back(f - jnp.mean(f)) / len(o)
        difference = back(centred(x)) / len(o) + SHIFT * x - right
        return jnp.linalg.norm(difference) / jnp.linalg.norm(right)

    return float(run(o, f, x))


def timed(stage: str, what: str, options: argparse.Namespace, run: Callable, *given, **more):
    """Compiles, runs, tells the median; returns it and the result."""
    import jax

    begin = time.perf_counter()
    compiled = jax.jit(run).lower(*given).compile()
    compiling = time.perf_counter() - begin
    result = jax.block_until_ready(compiled(*given))
    seconds: list[float] = []
    end = time.perf_counter() + options.seconds
    while len(seconds) < 3 or (len(seconds) < 15 and time.perf_counter() < end):
        begin = time.perf_counter()
        jax.block_until_ready(compiled(*given))
        seconds.append(time.perf_counter() - begin)
    tell(
        stage,
        what=what,
        seconds=round(statistics.median(seconds), 5),
        least=round(min(seconds), 5),
        most=round(max(seconds), 5),
        runs=len(seconds),
        compiling=round(compiling, 1),
        **more,
    )
    return statistics.median(seconds), result


def product(o):
    """O O^T, all of it."""
    import jax
    from jax import lax

    return lax.dot_general(o, o, (((1,), (1,)), ((), ())), precision=jax.lax.Precision.HIGHEST)


def netkets(o, f):
    """What NetKet does by default with O, which its Jacobian gives it centred."""
    import jax
    import jax.numpy as jnp

    n = len(o)
    o = o - jnp.mean(o, axis=0)
    f = (f - jnp.mean(f)) * jnp.sqrt(1 / n)
    o = o * jnp.sqrt(1 / n)
    matrix = o @ o.T
    matrix = matrix + SHIFT * jnp.eye(n, dtype=matrix.dtype)
    factor, lower = jax.scipy.linalg.cho_factor(matrix, lower=False)
    return o.T @ jax.scipy.linalg.cho_solve((factor, lower), f)


def ours(o, f, mesh=None):
    from shardsolve import natural

    return natural.solve(o, f, SHIFT, mesh=mesh)


def mesh_of(count: int):
    """The first devices."""
    import jax
    from jax.sharding import AxisType

    return jax.make_mesh(
        (count,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:count]
    )


def step(options: argparse.Namespace, budget: Budget) -> None:
    o, f = system(options)
    mesh = mesh_of(1)
    n, parameters = options.samples, options.parameters
    size = {"samples": n, "parameters": parameters}
    whole, _ = timed("step", "O O^T by jnp", options, product, o, **size)
    tell("step", gemm_tflops=round(2 * n * n * parameters / whole / 1e12, 2))
    aim = whole / 2 * 1.25
    found, x = timed("step", "natural.solve", options, functools.partial(ours, mesh=mesh), o, f)
    check("step", "x of natural.solve in its equations", left(o, f, x), 1e-11)
    tell("step", aim=round(aim, 5), seconds=round(found, 5), of_aim=round(found / aim, 3))
    if not budget.has("NetKet's way"):
        return
    theirs, y = timed("step", "NetKet's way", options, netkets, o, f)
    check("step", "x of NetKet's way in its equations", left(o, f, y), 1e-11)
    tell("step", of_netkets=round(found / theirs, 3))
    if not budget.has("natural.solve without a mesh"):
        return
    timed("step", "natural.solve without a mesh", options, ours, o, f)


def parts(options: argparse.Namespace, budget: Budget) -> None:
    """What a step is made of, and other ways to make the Gram matrix."""
    import jax
    import jax.numpy as jnp

    from shardsolve import _gram, _shifted
    from shardsolve._cut import Cut
    from shardsolve.natural import _solve

    o, f = system(options)
    mesh = mesh_of(1)
    plan = _solve._Plan(True, True, False, "cholesky", 10, False, "float64")
    scale = jnp.asarray(1 / options.samples)

    def by_syrk(a):
        """By cuBLAS: half of the product."""
        n = len(a)
        lower = jax.lax.linalg.symmetric_product(a, jnp.zeros((n, n), a.dtype))
        below = jnp.tril(lower, -1)
        return below + below.T + jnp.where(jnp.eye(n, dtype=bool), lower, 0)

    def by_strips(strips):
        def run(a):
            _gram._STRIPS = strips
            return strips_of_ours(a)

        return run

    def in_two(a):
        """Blocks of the halves of the rows, of their halves, ..."""

        def square(first, count):
            if count <= max(options.samples // 8, 256):
                rows = a[first : first + count]
                return _gram._product(rows, rows)
            half = count // 2
            upper, lower = a[first : first + half], a[first + half : first + count]
            off = _gram._product(upper, lower)
            top = jnp.concatenate([square(first, half), off], 1)
            rest = jnp.concatenate([off.T, square(first + half, count - half)], 1)
            return jnp.concatenate([top, rest])

        return square(0, len(a))

    strips_of_ours, strips_before = _gram._square, _gram._STRIPS
    wholes: dict[str, Callable] = {
        "symmetric_product": by_syrk,
        "16 strips": by_strips(16),
        "in two": in_two,
        "all of the product": product,
    }

    def whole(name: str) -> None:
        """A step with another way; programs are kept, so those of before have to go."""
        _gram._square = wholes[name]
        jax.clear_caches()
        try:
            run = functools.partial(ours, mesh=mesh)
            _, x = timed("parts", f"step, Gram matrix by {name}", options, run, o, f)
            check("parts", f"x by {name}", left(o, f, x), 1e-11)
        except Exception as error:
            tell("parts", what=name, failed=f"{type(error).__name__}: {error}"[:400])
        finally:
            _gram._square, _gram._STRIPS = strips_of_ours, strips_before
            jax.clear_caches()

    def factored(matrix, f):
        shift, cut = jnp.asarray(SHIFT), Cut(mesh, ("x",))
        add = _shifted.adder(matrix, cut, options.samples)
        return _shifted.solve(add, cut.place(f), shift, shift, cut, 10, False)[0]

    pieces: dict[str, tuple[Callable, Callable]] = {
        "Gram matrix, symmetric_product": (by_syrk, lambda: (o,)),
        "Gram matrix, 8 strips": (by_strips(8), lambda: (o,)),
        "centre and scale": (lambda o, f: _solve._prepared(o, f, scale, plan), lambda: (o, f)),
        "O^T z": (lambda o, f: _solve.times(o.T, f, None), lambda: (o, f)),
        "factor and solve": (factored, lambda: (product(o[:, : 2 * options.samples]), f)),
    }
    order = ["symmetric_product", "16 strips", *pieces, "in two", "all of the product"]
    for name in order:
        if not budget.has(name):
            break
        if name in wholes:
            whole(name)
        else:
            run, given = pieces[name]
            timed("parts", name, options, run, *given())
            _gram._STRIPS = strips_before


def memory(options: argparse.Namespace, budget: Budget) -> None:
    """Bytes beside O, and what is refused."""
    import jax
    import jax.numpy as jnp

    n, parameters = options.samples, options.parameters
    mesh = mesh_of(1)
    o = jax.ShapeDtypeStruct((n, parameters), jnp.float64)
    f = jax.ShapeDtypeStruct((n,), jnp.float64)
    run = jax.jit(functools.partial(ours, mesh=mesh))
    took = run.lower(o, f).compile().memory_analysis().temp_size_in_bytes
    stated = 8 * (4 * n * parameters + 3 * n * n)
    stats = jax.devices()[0].memory_stats() or {}
    tell(
        "memory",
        beside_o_gb=round(took / 1e9, 2),
        stated_gb=round(stated / 1e9, 2),
        peak_of_all_gb=round(stats.get("peak_bytes_in_use", 0) / 1e9, 2),
        limit_gb=round(stats.get("bytes_limit", 0) / 1e9, 2),
    )
    check("memory", "taken of what is stated", took / stated, 1.0)
    limit = stats.get("bytes_limit", 100e9)
    wide = jax.ShapeDtypeStruct((n, int(limit / (16 * n))), jnp.float64)  # half of the memory
    try:
        run.lower(wide, f)
        check("memory", "O of half of the memory is refused", 1.0, 0.5)
    except MemoryError as error:
        check("memory", "O of half of the memory is refused", 0.0, 0.5, words=str(error))


def devices(options: argparse.Namespace, budget: Budget) -> None:
    """All GPUs beside one."""
    import jax

    if len(jax.devices()) < 2:
        tell("devices", left_out="there is one device")
        return
    found = {}
    for count in (1, len(jax.devices())):
        if not budget.has(f"{count} devices"):
            return
        mesh = mesh_of(count)
        o, f = system(options, mesh)
        run = functools.partial(ours, mesh=mesh)
        found[count], x = timed("devices", f"natural.solve, {count}", options, run, o, f)
        check("devices", f"x of {count} devices", left(o, f, x), 1e-11)
    tell("devices", times_as_fast=round(found[1] / found[count], 3))
    if budget.has("messages behind products"):
        text = jax.jit(run).lower(o, f).compile().as_text()
        started = text.count("collective-permute-start")
        behind = re.findall(r"collective-permute-start(?:(?!-done).)*?gemm", text, re.DOTALL)
        tell("devices", messages_started=started, with_a_product_behind=len(behind))


if __name__ == "__main__":
    sys.exit(main())
