"""One of several processes that solve together: started by test_jax_processes.py.

    process_program.py <part> <number> <processes> <address:port> <folder>

With one process it drives all devices and leaves whole arrays in the folder; each of several leaves
the pieces of its own devices, and those have to be the same bits. Which devices a process has is in
its environment.
"""

from __future__ import annotations

import os
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardsolve
from shardsolve import _library, krylov, natural

PART, NUMBER, PROCESSES = sys.argv[1], *map(int, sys.argv[2:4])
COORDINATOR, FOLDER = sys.argv[4:6]
if PROCESSES > 1:
    jax.distributed.initialize(
        coordinator_address=COORDINATOR,
        num_processes=PROCESSES,
        process_id=NUMBER,
        local_device_ids=[int(gpu) for gpu in os.environ.get("OWN_GPUS", "").split()] or None,
    )
DEVICES = len(jax.devices())
shardsolve.set_timeout(60)
ROWS = P("x")
MESH = jax.make_mesh((DEVICES,), ("x",), axis_types=(AxisType.Auto,))
saved: dict[str, np.ndarray] = {}


def put(value, spec=ROWS, mesh=MESH):
    """A global array; every process has the value."""
    value = np.asarray(value)
    return jax.make_array_from_callback(value.shape, NamedSharding(mesh, spec), lambda i: value[i])


def keep(name: str, tree) -> None:
    """Every piece that lies here, with where it belongs in the name."""
    for number, leaf in enumerate(jax.tree.leaves(tree)):
        for shard in leaf.addressable_shards:
            where = ",".join(
                f"{part.start or 0}:{size if part.stop is None else part.stop}"
                for part, size in zip(shard.index, leaf.shape, strict=True)
            )
            device = f"{jax.devices().index(shard.device)}"
            saved[f"{name} {number}|{where}|{device}"] = np.asarray(shard.data)


def matrix(n: int, dtype=np.float64, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(1000 * n + seed)
    a = random.standard_normal((n, n))
    if np.issubdtype(dtype, np.complexfloating):
        a = a + 1j * random.standard_normal((n, n))
    return (a @ a.conj().T / n + np.eye(n)).astype(dtype)


def right(n: int, k: int = 3, dtype=np.float64) -> np.ndarray:
    return np.random.default_rng(n + k).standard_normal((n, k)).astype(dtype)


def solve(a, b, **options):
    return shardsolve.solve(a, b, assume_a="pos", **options)


# Between systems that one rank solves for all, of which there are few here, and others.
_library.library().shardsolve_set_small_matrix(256)

# ---- parts


def eager() -> None:
    """What users do outside of jit; small systems, which one rank solves, and others."""
    for n, dtype in ((100, np.complex64), (300, np.float64)):
        a, b = put(matrix(n, dtype)), put(right(n, dtype=dtype))
        keep(f"solve {n}", solve(a, b, full_output=True))
        factor = shardsolve.cho_factor(a)
        keep(f"factor {n}", factor)
        keep(f"cho_solve {n}", shardsolve.cho_solve(factor, b))
        keep(f"inv {n}", shardsolve.inv(factor, full_output=True))
        keep(f"slogdet {n}", shardsolve.slogdet(factor))
        keep(f"cond {n}", shardsolve.cond(factor, 1))


def shardings() -> None:
    """Other cuts and meshes, rows that do not divide evenly, the factor in natural order."""
    keep("replicated", solve(put(matrix(301), P()), put(right(301), P())))
    keep("columns", solve(put(matrix(300), P(None, "x")), put(right(300))))
    devices = np.array(jax.devices())
    square = Mesh(devices.reshape(2, -1), ("x", "y"))
    keep("groups", solve(put(matrix(300), P("x", None), square), put(right(300), P(), square)))
    turned = Mesh(devices.reshape(2, -1)[::-1].T.ravel(), ("x",))  # 2, 0, 3, 1
    keep("turned", solve(put(matrix(300), mesh=turned), put(right(300), mesh=turned)))
    keep("natural", shardsolve.cholesky(put(matrix(256))))
    typed = jax.make_mesh((DEVICES,), ("x",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(typed):
        keep("explicit", jax.jit(solve)(put(matrix(300), mesh=typed), put(right(300), mesh=typed)))
    if PROCESSES > 1:  # on devices of one process alone, all at a time
        own = Mesh(np.array(jax.local_devices()), ("x",))
        x = solve(put(matrix(300), mesh=own), put(right(300), mesh=own))
        assert np.abs(matrix(300) @ np.asarray(x) - right(300)).max() < 1e-12


def eigenpairs() -> None:
    """By one rank and by all of them, some of them, and of a matrix without an answer."""
    for n, dtype in ((100, np.complex64), (300, np.float64)):
        a = put(matrix(n, dtype))
        keep(f"eigh {n}", shardsolve.eigh(a, full_output=True))
        keep(f"eigh by index {n}", shardsolve.eigh(a, subset_by_index=(2, 9)))
        keep(f"eigh by value {n}", shardsolve.eigh(a, subset_by_value=(0.0, 2.0)))
        keep(f"eigvalsh {n}", jax.jit(shardsolve.eigvalsh)(a))
        other = put(matrix(n, dtype, 1))
        keep(f"two matrices {n}", shardsolve.eigh(a, other, full_output=True))
    bad = matrix(300)
    bad[7, 250] += 1
    keep("eigh not Hermitian", shardsolve.eigh(put(bad), full_output=True))


def natural_gradients() -> None:
    """By either side, eager and under jit; and what a half of a factor gives."""
    random = np.random.default_rng(3)
    for name, (n, p) in {"samples": (300, 700), "parameters": (640, 280)}.items():
        derivatives, f = random.standard_normal((n, p)), random.standard_normal(n)
        given = put(derivatives), put(f), 1e-3
        x, info = natural.solve(*given, full_output=True)
        assert info.status == shardsolve.Status.OK, info
        shift = 1e-3 * np.eye(p)
        derivatives, f = derivatives - derivatives.mean(0), f - f.mean()
        wanted = np.linalg.solve(derivatives.T @ derivatives / n + shift, derivatives.T @ f / n)
        assert np.abs(np.asarray(x) - wanted).max() < 1e-9 * np.abs(wanted).max()
        keep(f"natural by {name}", (x, info))
        with jax.set_mesh(MESH):
            keep(f"natural by {name} in jit", jax.jit(natural.solve)(*given))
    factor, b = shardsolve.cho_factor(put(matrix(300))), put(right(300))
    keep("half solves", (factor.half_solve(b), factor.half_solve_adjoint(b)))
    keep("half products", (factor.half_product(b), factor.half_product_adjoint(b)))
    loss = jax.grad(lambda b, factor: jnp.sum(factor.half_solve(b) ** 3))
    keep("half gradient", jax.jit(loss)(b, factor))


def vector() -> None:
    """One right-hand side, for which GPUs that reach each other's memory have a kernel."""
    with shardsolve.trace(f"{FOLDER}/vector{NUMBER}.json"):
        keep("vector", solve(put(matrix(300)), put(right(300, 1)[:, 0])))


def traced() -> None:
    """Under jit: gradients, loops, batches, a shard_map of the user's."""
    a, b = put(matrix(300)), put(right(300))
    keep("gradient", jax.jit(jax.value_and_grad(shardsolve.logdet))(a))
    loss = jax.value_and_grad(lambda a, b: jnp.sum(jnp.square(solve(a, b))), (0, 1))
    keep("loss", jax.jit(loss)(a, b))

    @jax.jit
    def loop(a, b):
        def turn(x, _):
            x = solve(a, x)
            return x, jnp.max(jnp.abs(x))

        return lax.scan(turn, b, length=5)

    keep("loop", loop(a, b))
    several = put(np.stack([matrix(260, seed=seed) for seed in range(3)]), P(None, "x"))
    keep("batch", jax.jit(jax.vmap(solve, (0, None)))(several, put(right(260))))
    mapped = jax.shard_map(
        solve, mesh=MESH, in_specs=(P("x"), P("x")), out_specs=P("x"), check_vma=False
    )
    keep("mapped", jax.jit(mapped)(a, b))


def flight() -> None:
    """Many calls under way at a time, independent of each other, in one program and in several."""
    matrices = [put(matrix(300, seed=seed)) for seed in range(4)]
    b = put(right(300))

    @jax.jit
    def independent(matrices, b):
        return [solve(a, b) for a in matrices], [shardsolve.logdet(a) for a in matrices[::-1]]

    # One after the other, nobody waits; XLA runs them at the same time as it likes.
    under_way = [independent(matrices, b * (1 + i)) for i in range(4)]
    keep("under way", under_way)
    first = solve(matrices[0], b)
    for _ in range(30):
        assert jax.block_until_ready(solve(matrices[0], b)) is not None
    keep("after many", (first, solve(matrices[0], b)))


def reasons() -> None:
    """Why there is no answer: the same in all processes, and the next call works."""
    b = put(right(300))
    bad = matrix(300)
    bad[200, 200] = -1
    nan = matrix(300)
    nan[7, 250] = nan[250, 7] = np.nan
    for name, a in (("indefinite", bad), ("nan", nan)):
        try:
            solve(put(a), b)
            raise AssertionError(f"{name}: no error")
        except shardsolve.LinAlgError as error:
            saved[f"{name} text|"] = np.frombuffer(str(error).encode(), np.uint8)
        keep(name, solve(put(a), b, full_output=True))
        keep(f"after {name}", solve(put(matrix(300)), b))


def traces() -> None:
    with shardsolve.trace(f"{FOLDER}/trace{NUMBER}.json"):
        jax.block_until_ready(solve(put(matrix(300)), put(right(300))))
        jax.block_until_ready(solve(put(matrix(100)), put(right(100))))


def differ() -> None:
    """Processes that do not make the same call: said in all, and the next call works."""
    a, b = put(matrix(300)), put(right(300))
    try:
        solve(a, b, tile=16 * (1 + NUMBER))
        raise AssertionError("no error")
    except shardsolve.SolverError as error:
        assert error.status == shardsolve.Status.INVALID_ARGUMENT, error
        assert "do not make the same call: rank 0 has a factorisation of n = 300" in str(error)
        assert f"tile 16, rank {DEVICES // 2} has" in str(error), error
        assert "tile 32. Every" in str(error), error
    try:
        shardsolve.save_factor(shardsolve.cho_factor(a), f"{FOLDER}/factor")
        raise AssertionError("no error")
    except ValueError as error:
        assert "several processes" in str(error), error
    jax.block_until_ready(solve(a, b))


def lose(signal_number: int | None) -> None:
    """The last process is lost in the middle of a call: the others name one of its ranks.

    By a signal to itself; without one, by whoever reads how long a call takes.
    """
    # In narrow tiles, and large on GPUs: what takes no time cannot be interrupted.
    n, tile = (2500, 2) if jax.default_backend() == "cpu" else (24576, 64)
    rows = NamedSharding(MESH, ROWS)
    a = jax.jit(lambda: jnp.ones((n, n)) + n * jnp.eye(n), out_shardings=rows)()
    b = put(right(n))
    solve(a, b, tile=tile)
    begin = time.monotonic()
    solve(a, b, tile=tile)
    took = time.monotonic() - begin
    shardsolve.set_timeout(2)
    print(f"TAKES {took}", flush=True)
    if NUMBER == PROCESSES - 1 and signal_number is not None:
        threading.Timer(took / 3, lambda: os.kill(os.getpid(), signal_number)).start()
    begin = time.monotonic()
    try:
        solve(a, b, tile=tile)
        text = "no error"
    except shardsolve.SolverError as error:
        text = str(error)
    print(f"REPORT {time.monotonic() - begin:.1f} {took:.1f} {text}", flush=True)
    os._exit(0)  # JAX would wait for the others


def lose_in_a_loop(signal_number: int) -> None:
    """The last process is lost somewhere in a loop, between two calls as a rule, where XLA waits.

    The others name its rank, and end by themselves.
    """
    n = 2048
    a, b = put(np.ones((n, n)) + np.eye(n)), put(right(n, 1))
    turn = jax.jit(lambda a, b: (solve(a, b), shardsolve.eigvalsh(a)))
    jax.block_until_ready(turn(a, b))
    shardsolve.set_timeout(2)
    if NUMBER == PROCESSES - 1:
        threading.Timer(3, lambda: os.kill(os.getpid(), signal_number)).start()
    begin = last = time.monotonic()
    try:
        while last < begin + 60:
            jax.block_until_ready(turn(a, b))
            last = time.monotonic()
        text = "no error"
    except Exception as error:
        text = " ".join(str(error).split())
    print(f"REPORT {time.monotonic() - last:.1f} {text}", flush=True)
    sys.exit(1)


def lose_in_rounds(signal_number: int, in_jit: bool) -> None:
    """The last process is lost somewhere in Krylov solves, whose sums are XLA's alone."""
    n = 512 * DEVICES
    off = np.full(n - 1, -1.0)
    a = krylov.CSR.of(scipy.sparse.diags([off, np.full(n, 2.5), off], [-1, 0, 1]))
    b = put(np.ones(n), mesh=jax.make_mesh((DEVICES,), ("x",), axis_types=(AxisType.Explicit,)))
    step = jax.jit(lambda b: krylov.solve(a, b))
    shardsolve.set_timeout(2)
    begin = last = time.monotonic()
    try:
        with shardsolve.watch(MESH) as watched:
            jax.block_until_ready(step(b) if in_jit else krylov.solve(a, b))
            if NUMBER == PROCESSES - 1:
                threading.Timer(3, lambda: os.kill(os.getpid(), signal_number)).start()
            else:
                threading.Timer(3, lambda: print(f"LOST {time.time()}", flush=True)).start()
            while last < begin + 60:
                if in_jit:
                    watched.run(step, b)
                else:
                    krylov.solve(a, b)
                last = time.monotonic()
        text = "no error"
    except Exception as error:
        status = getattr(getattr(error, "status", None), "name", type(error).__name__)
        text = f"{status} " + " ".join(str(error).split())
    print(f"REPORT {text}", flush=True)
    sys.exit(1)


parts = {
    part.__name__: part
    for part in (
        *(eager, shardings, eigenpairs, natural_gradients, vector),
        *(traced, flight, reasons, traces, differ),
    )
}
if PART in ("kill", "stop", "cut"):
    lose({"kill": 9, "stop": 19, "cut": None}[PART])
if PART.endswith("-in-a-loop"):
    lose_in_a_loop({"kill": 9, "stop": 19}[PART.split("-")[0]])
if "-in-rounds" in PART:
    lose_in_rounds({"kill": 9, "stop": 19}[PART.split("-")[0]], PART.endswith("of-jit"))
for name in PART.split(","):
    parts[name]()
np.savez(f"{FOLDER}/{PROCESSES}-{NUMBER}.npz", **saved)
