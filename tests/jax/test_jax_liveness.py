"""Many calls at once: none waits for ever, none gets another's answer, none leaves memory behind.

Rounds: SHARDSOLVE_TEST_ROUNDS. Loops bound what is in flight, as XLA:CPU itself hangs otherwise:
see conftest.py.
"""

import functools
import gc
import os
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P
from systems import DEVICES, close, grid_mesh, hermitian, put, row_mesh, sides, solves, spread

import shardsolve

pytestmark = [pytest.mark.liveness, pytest.mark.devices]

N = 12
ROUNDS = int(os.environ.get("SHARDSOLVE_TEST_ROUNDS", "20"))
IN_FLIGHT = 8
solve = functools.partial(shardsolve.solve, assume_a="pos")
several_devices = pytest.mark.skipif(DEVICES == 1, reason="one device waits for nobody")


def scaled(count):
    """The same system with answers that differ: a matrix, right-hand sides, solutions."""
    a, b = hermitian(N), sides(N)
    x = np.linalg.solve(a, b)
    return a, [b * (i + 1) for i in range(count)], [x * (i + 1) for i in range(count)]


def test_solves_in_flight_each_get_their_own_answer():
    a, bs, xs = scaled(IN_FLIGHT)
    run, given = jax.jit(solve), spread(a)
    rights = [spread(b) for b in bs]
    for _ in range(ROUNDS):
        for got, expected in zip([run(given, b) for b in rights], xs, strict=True):
            assert close(got, expected)


def test_equal_calls_in_one_program_each_get_their_own_answer():
    """Two calls that are equal in everything but their operands."""
    a, bs, xs = scaled(6)
    run = jax.jit(lambda a, *bs: [solve(a * (i + 1.0), b) for i, b in enumerate(bs)])
    given = spread(a), *(spread(b) for b in bs)
    for _ in range(ROUNDS):
        assert all(
            close(got, x / (i + 1)) for i, (got, x) in enumerate(zip(run(*given), xs, strict=True))
        )


@several_devices
def test_solves_on_several_meshes_at_once_do_not_mix():
    devices = jax.devices()
    half = DEVICES // 2
    meshes = [
        row_mesh(),
        row_mesh(devices[::-1]),
        row_mesh(devices[:half]),
        row_mesh(devices[half:]),
        row_mesh(devices[:1]),
        row_mesh(devices[half - 1 :: half][:2]),
    ]
    a, bs, xs = scaled(len(meshes) + 1)
    run = jax.jit(solve)
    given = [(put(a, mesh, "x"), put(b, mesh, "x")) for mesh, b in zip(meshes, bs, strict=False)]
    given.append((put(a, grid_mesh(), "y"), put(bs[-1], grid_mesh())))
    for _ in range(ROUNDS):
        for got, x in zip([run(*arguments) for arguments in given], xs, strict=True):
            assert close(got, x)


@several_devices
def test_solves_among_sums_in_one_program_end():
    """Collectives of XLA that depend on no solve, between solves that depend on none of them."""
    mesh = row_mesh()
    a, bs, xs = scaled(4)

    def sums(c):
        return jax.shard_map(
            lambda c: lax.psum(c * lax.axis_index("x"), "x"),
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P(),
        )(c)

    @jax.jit
    def run(a, bs, c):
        return [(solve(a, b), sums(c * (i + 1))) for i, b in enumerate(bs)]

    c = spread(np.ones(DEVICES))
    total = DEVICES * (DEVICES - 1) / 2
    given = spread(a), [spread(b) for b in bs], c
    for _ in range(ROUNDS):
        for i, ((x, s), expected) in enumerate(zip(run(*given), xs, strict=True)):
            assert close(x, expected)
            assert s[0] == total * (i + 1)


@several_devices
def test_sums_in_flight_beside_solves_end():
    mesh = row_mesh()
    a, bs, xs = scaled(4)
    total = jax.jit(
        jax.shard_map(lambda c: lax.psum(c, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    )
    run, given, ones = jax.jit(solve), spread(a), spread(np.ones(DEVICES))
    for _ in range(ROUNDS):
        pairs = [(run(given, b), total(ones)) for b in bs]
        for (x, s), expected in zip(pairs, xs, strict=True):
            assert close(x, expected)
            assert s[0] == DEVICES


def in_threads(*works):
    """Runs each in its own thread; what one raises is raised here."""
    failures = []

    def guarded(work):
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_four_threads_in_opposite_order_each_get_their_own_answers():
    a, bs, xs = scaled(4)
    forth = list(zip([spread(b) for b in bs], xs, strict=True))
    back = forth[::-1]
    run, given = jax.jit(solve), spread(a)
    factor = shardsolve.cho_factor(given)

    def work(order, call):
        for _ in range(ROUNDS):
            for b, x in order:
                assert close(call(b), x)

    by_jit, by_factor = (
        functools.partial(run, given),
        functools.partial(shardsolve.cho_solve, factor),
    )
    in_threads(
        *(
            functools.partial(work, order, call)
            for order, call in (
                (forth, by_jit),
                (back, by_jit),
                (forth, by_factor),
                (back, by_factor),
            )
        )
    )


@several_devices
def test_four_threads_on_different_meshes_do_not_wait_for_each_other():
    a, b = hermitian(N), sides(N)
    devices = jax.devices()
    meshes = (row_mesh(), row_mesh(devices[::-1]), row_mesh(devices[: DEVICES // 2]), grid_mesh())

    def work(mesh):
        given, right = put(a, mesh, mesh.axis_names), put(b, mesh, mesh.axis_names)
        for _ in range(ROUNDS):
            assert solves(a, solve(given, right), b)

    in_threads(*(functools.partial(work, mesh) for mesh in meshes))


def test_failures_in_flight_beside_answers_do_not_mix():
    a, b = hermitian(N), sides(N)
    bad = a.copy()
    bad[5, 5] = -1
    run = jax.jit(functools.partial(solve, full_output=True))
    good, wrong = spread(a), spread(bad)
    for _ in range(ROUNDS):
        for i, (x, info) in enumerate([run(m, b) for m in (good, wrong, good, wrong)]):
            assert info.status == i % 2
            assert solves(a, x, b) if i % 2 == 0 else np.isnan(x).all()


def test_scan_of_many_solves_ends():
    a, b = spread(hermitian(N) + np.eye(N)), spread(sides(N))
    steps = 10 * ROUNDS
    run = jax.jit(lambda b: lax.scan(lambda x, _: (solve(a, x), None), b, length=steps)[0])
    values, vectors = np.linalg.eigh(hermitian(N) + np.eye(N))
    expected = vectors @ (values ** -float(steps) * (vectors.T @ sides(N)))
    assert close(run(b), expected, 1e5 * steps)


def test_batches_of_different_shape_in_flight_each_get_their_answer():
    run = jax.jit(solve)
    systems = [(hermitian(n), sides(n, k)) for n in (N, 2 * N, 5) for k in (None, 2)]
    given = [(spread(a), spread(b)) for a, b in systems]
    for _ in range(ROUNDS):
        answers = [run(*arguments) for arguments in given]
        assert all(solves(a, x, b) for (a, b), x in zip(systems, answers, strict=True))


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.more
@pytest.mark.slow
def test_thousand_small_solves_do_not_grow_memory():
    """A leak of a right-hand side's buffers alone would be 8 MB; a thread's stack touches more."""
    n = 48
    a, b = spread(hermitian(n)), spread(sides(n, 20))
    run = jax.jit(functools.partial(solve, full_output=True))

    def many(count):
        for _ in range(count):
            jax.block_until_ready(run(a, b))
        gc.collect()
        return resident_bytes()

    many(200)
    before = many(100)
    after = many(1000)
    assert after - before < 6 << 20, f"{(after - before) / 1e6:.1f} MB"


@pytest.mark.slow
def test_thousand_eager_failures_do_not_grow_memory_or_threads():
    a, b = spread(-np.eye(N)), sides(N)

    def many(count):
        for _ in range(count):
            with pytest.raises(shardsolve.LinAlgError):
                solve(a, b)
        gc.collect()
        return resident_bytes(), len(list(Path("/proc/self/task").iterdir()))

    many(200)
    memory, threads = many(100)
    more_memory, more_threads = many(1000)
    assert more_memory - memory < 6 << 20
    assert more_threads <= threads + 4


ON_ONE_CORE = """
import functools, threading
import jax, numpy as np, shardsolve
n, rounds = {n}, {rounds}
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
a, b = jax.device_put(4 * np.eye(n), sharding), jax.device_put(np.ones(n), sharding)
run = jax.jit(functools.partial(shardsolve.solve, assume_a="pos"))
def work(sign):
    for i in range(rounds):
        answers = [run(a, b * (sign * j)) for j in range(1, 5)]
        for j, x in enumerate(answers, 1):
            assert np.allclose(x, sign * j / 4), (i, j, x)
failed = []
def guarded(sign):
    try:
        work(sign)
    except BaseException as failure:
        failed.append(failure)
threads = [threading.Thread(target=guarded, args=(sign,)) for sign in (1.0, -1.0)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not failed, failed
print("fine")
"""


@pytest.mark.slow
@pytest.mark.parametrize("devices", sorted({DEVICES, 6}))
def test_threads_on_one_core_end(python, devices):
    out = python(
        ON_ONE_CORE.format(n=N, rounds=ROUNDS),
        prefix=("taskset", "-c", str(min(os.sched_getaffinity(0)))),
        seconds=100 + ROUNDS,
        XLA_FLAGS=f"--xla_force_host_platform_device_count={devices}",
        NPROC=str(2 * devices),
    )
    assert out == "fine\n"


MISSING = """
import jax, numpy as np, shardsolve
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P
from shardsolve import _library
shardsolve.solve(np.eye(4), np.ones(4), assume_a="pos")
_library.library().shardsolve_set_time_limit(2.0)
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
n = {n}
def local(a, b):
    return lax.cond(
        lax.axis_index("x") {who},
        lambda a, b: shardsolve.solve(a, b, assume_a="pos", axis_name="x"),
        lambda a, b: b,
        a, b,
    )
rows = P("x")
run = jax.jit(
    jax.shard_map(local, mesh=mesh, in_specs=(rows, rows), out_specs=rows, check_vma=False)
)
for _ in range(2):  # the second time is as the first
    try:
        print("answered", np.asarray(run(4 * np.eye(n), np.ones(n))))
    except Exception as error:
        print(str(error).splitlines()[0])
_library.library().shardsolve_set_time_limit(60.0)
a = jax.device_put(4 * np.eye(n), jax.sharding.NamedSharding(mesh, rows))
x = shardsolve.solve(a, np.ones(n), assume_a="pos")
assert np.allclose(x, 0.25), x
print("and on")
"""


@several_devices
@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "came", "missing"),
    (
        ("== 0", "0", ", ".join(map(str, range(1, DEVICES)))),
        ("!= 1", ", ".join(str(i) for i in range(DEVICES) if i != 1), "1"),
    ),
    ids=("one_came", "one_missing"),
)
def test_rank_that_does_not_come_is_named_and_the_process_goes_on(python, who, came, missing):
    out = python(MISSING.format(n=N, who=who)).splitlines()
    assert len(out) == 3, out
    for line in out[:2]:
        assert f"Ranks that came: {came}; ranks that did not: {missing}." in line, line
    assert out[2] == "and on"


def test_gradient_of_many_steps_in_flight_ends():
    """Training: each step's gradient needs the step before, nobody waits in between."""
    points = spread(np.linspace(0, 1, N))
    y = spread(sides(N))

    @jax.jit
    def step(scale):
        def loss(scale):
            k = jnp.exp(-((points[:, None] - points[None]) ** 2) / scale) + jnp.eye(N)
            factor = shardsolve.cho_factor(k)
            return y @ shardsolve.cho_solve(factor, y) + shardsolve.logdet(factor)

        return scale - 1e-3 * jax.grad(loss)(scale)

    scale = jnp.float64(0.5)
    for _ in range(ROUNDS):
        scale = step(scale)
    assert np.isfinite(scale)
    assert scale != 0.5
