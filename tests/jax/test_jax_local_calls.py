"""Calls that each device makes by itself: the dot product whose bits do not depend on devices."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions import several_devices
from jax import lax
from jax.sharding import PartitionSpec as P
from systems import DEVICES, DTYPES, more, normal, put, row_mesh

from shardsolve import _library
from shardsolve._local import dot

LENGTHS = (1, 2, 7, 8, 63, 64, 65, 127, 128, 129, 1000, 2048, 2049, 5000, 70000)


def fused(a, b, c, real):
    """a b + c of float32 numbers, rounded once but for 1 in 10^8: float64 holds the product."""
    return (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(real)


def reference(x: np.ndarray, y: np.ndarray, product) -> np.ndarray:
    """The order of src/runtime/fixed_dot.hpp, with `product` instead of a fused multiply-add."""
    real = x.real.dtype
    missing = -len(x) % 64
    x, y = (np.pad(a, (0, missing)).reshape(-1, 8, 8) for a in (x, y))
    parts = np.zeros((2, len(x), 8), real)
    for step in range(8):
        xr, xi, yr, yi = x[:, step].real, x[:, step].imag, y[:, step].real, y[:, step].imag
        parts[0] = product(xr, yr, parts[0], real)
        if np.iscomplexobj(x):
            parts[0] = product(xi, yi, parts[0], real)
            parts[1] = product(xr, yi, parts[1], real)
            parts[1] = product(-xi, yr, parts[1], real)
    for half in (4, 2, 1):
        parts = parts[..., :half] + parts[..., half : 2 * half]
    sums = parts[..., 0]
    while sums.shape[1] > 1:
        sums = np.pad(sums, ((0, 0), (0, sums.shape[1] % 2)))
        sums = sums[:, ::2] + sums[:, 1::2]
    return sums[0, 0] + 1j * sums[1, 0] if np.iscomplexobj(x) else sums[0, 0]


def pair(n: int, dtype: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return normal(rng, (n,), dtype), normal(rng, (n,), dtype)


def bits(value) -> bytes:
    return np.asarray(value).tobytes()


def on_devices(x, y, devices: int, n: int | None = None):
    """The same product with the rows on several devices."""
    n = len(x) if n is None else n
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("x",))
    padded = [put(np.pad(a, (0, -len(a) % devices)), mesh, "x") for a in (x, y)]
    run = jax.shard_map(
        lambda x, y: dot(x, y, axes="x", n=n),
        mesh=mesh,
        in_specs=(P("x"), P("x")),
        out_specs=P(),
        check_vma=False,
    )
    return jax.jit(run)(*padded)


# The answer


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LENGTHS)
def test_dot_is_as_accurate_as_its_tree(n, dtype):
    x, y = pair(n, dtype)
    wide = np.complex256 if np.dtype(dtype).kind == "c" else np.longdouble
    exact = np.vdot(x.astype(wide), y.astype(wide))
    depth = 10 + np.log2(n) + (8 if np.dtype(dtype).kind == "c" else 0)
    bound = depth * np.finfo(dtype).eps * float(np.abs(x) @ np.abs(y))
    assert abs(complex(dot(x, y)) - complex(exact)) <= bound


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("n", LENGTHS)
def test_dot_has_the_bits_of_the_order_that_is_written_down(n, dtype):
    x, y = pair(n, dtype)
    assert bits(dot(x, y)) == bits(reference(x, y, fused).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dot_of_whole_numbers_is_exact(dtype):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-8, 9, 3001).astype(dtype) for _ in range(2))
    if np.dtype(dtype).kind == "c":
        x, y = x * np.dtype(dtype).type(1 + 2j), y * np.dtype(dtype).type(2 - 1j)
    assert complex(dot(x, y)) == complex(np.vdot(x, y))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dot_has_the_same_bits_each_time_and_on_the_cpu(dtype):
    x, y = pair(70001, dtype)
    first = bits(dot(x, y))
    assert all(bits(dot(x, y)) == first for _ in range(20))
    cpu = jax.devices("cpu")[0]
    assert bits(dot(jax.device_put(x, cpu), jax.device_put(y, cpu))) == first


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nonfinite_entry_reaches_the_sum(value):
    x, y = pair(1000, "float64")
    x[999] = value
    assert not np.isfinite(dot(x, np.abs(y)))


def test_dot_of_nothing_is_zero():
    assert dot(jnp.zeros(0), jnp.zeros(0)) == 0
    assert dot(jnp.zeros((3, 0)), jnp.zeros((3, 0))).shape == (3,)
    assert dot(jnp.zeros((0, 3)), jnp.zeros((0, 3))).shape == (0,)


def test_vectors_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match="float32 and y is float64"):
        dot(jnp.zeros(3, "float32"), jnp.zeros(3))
    with pytest.raises(ValueError, match="one shape"):
        dot(jnp.zeros(3), jnp.zeros(4))


# The same bits however it is called


@several_devices
@pytest.mark.parametrize("dtype", ["float32", more("float64"), more("complex64"), "complex128"])
@pytest.mark.parametrize("n", [*LENGTHS, 64 * DEVICES, 4096 * DEVICES, 4096 * DEVICES - 1])
def test_dot_has_the_same_bits_on_any_number_of_devices(n, dtype):
    x, y = pair(n, dtype, n)
    alone = bits(dot(x, y))
    for devices in range(2, DEVICES + 1):
        assert bits(on_devices(x, y, devices)) == alone, devices


@several_devices
def test_rows_beyond_n_are_not_looked_at():
    x, y = pair(1000, "float64")
    x[990:] = np.nan
    assert bits(on_devices(x, y, DEVICES, 990)) == bits(dot(x[:990], y[:990]))
    assert bits(dot(x, y, n=990)) == bits(dot(x[:990], y[:990]))


@pytest.mark.parametrize("n", [100, 5000])
def test_batch_and_vmap_have_the_bits_of_their_items(n):
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 3, 5, n))
    pairs = zip(x.reshape(-1, n), y.reshape(-1, n), strict=True)
    expected = np.array([dot(*one) for one in pairs]).reshape(3, 5)
    assert bits(dot(x, y)) == bits(expected)
    assert bits(jax.vmap(dot)(x, y)) == bits(expected)
    assert bits(jax.jit(jax.vmap(jax.vmap(dot)))(x, y)) == bits(expected)
    by_first = jax.vmap(lambda y: dot(x[0, 0], y))(y[0])
    assert bits(by_first) == bits(np.array([dot(x[0, 0], one) for one in y[0]]))


@several_devices
def test_batch_and_vmap_on_several_devices_have_the_bits_of_their_items():
    n = 300 * DEVICES
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((2, 3, n))
    expected = bits(np.array([dot(*one) for one in zip(x, y, strict=True)]))

    def own(x, y):
        return dot(x, y, axes="x"), jax.vmap(lambda x, y: dot(x, y, axes="x"))(x, y)

    run = jax.shard_map(own, mesh=row_mesh(), in_specs=P(None, "x"), out_specs=P(), check_vma=False)
    for result in jax.jit(run)(x, y):
        assert bits(result) == expected


# In loops


def conjugate_gradients(multiply, b, steps: int, axes=()):
    """The norms of all residuals, and how many steps were taken, by a while_loop."""

    def one(state):
        step, x, r, p, rho, norms = state
        q = multiply(p)
        alpha = rho / dot(p, q, axes=axes)
        x, r = x + alpha * p, r - alpha * q
        new = dot(r, r, axes=axes)
        return step + 1, x, r, r + (new / rho) * p, new, norms.at[step].set(new)

    def goes_on(state):
        return (state[0] < steps) & (state[4] > 0)

    start = (0, jnp.zeros_like(b), b, b, dot(b, b, axes=axes), jnp.zeros(steps))
    return lax.while_loop(goes_on, one, start)


def test_while_loop_of_dots_has_the_bits_of_calls_one_by_one():
    n, steps = 1200, 25
    x = np.random.default_rng(5).standard_normal((steps, n))

    def body(state):
        step, sums = state
        return step + 1, sums.at[step].set(dot(jnp.asarray(x)[step], jnp.asarray(x)[0]))

    _, sums = jax.jit(
        lambda: lax.while_loop(lambda state: state[0] < steps, body, (0, jnp.zeros(steps)))
    )()
    assert bits(sums) == bits(np.array([dot(one, x[0]) for one in x]))


@pytest.mark.devices
def test_conjugate_gradients_converge_in_a_while_loop_and_repeat_to_the_bit():
    n = 64 * DEVICES
    scale = jnp.linspace(1.0, 2.0, n)
    b = np.random.default_rng(4).standard_normal(n)
    alone = jax.jit(lambda b: conjugate_gradients(lambda p: scale * p, b, 30))
    first = alone(b)
    assert np.linalg.norm(scale * first[1] - b) <= 1e-12 * np.linalg.norm(b)
    assert all(bits(alone(b)[5]) == bits(first[5]) for _ in range(5))
    run = jax.shard_map(
        lambda scale, b: conjugate_gradients(lambda p: scale * p, b, 30, "x")[1],
        mesh=row_mesh(),
        in_specs=P("x"),
        out_specs=P("x"),
        check_vma=False,
    )
    spread_over_all = jax.jit(run)
    x = spread_over_all(scale, b)
    assert np.linalg.norm(scale * x - b) <= 1e-12 * np.linalg.norm(b)
    assert all(bits(spread_over_all(scale, b)) == bits(x) for _ in range(5))


def test_lanes_of_a_batched_while_loop_have_the_bits_of_single_ones():
    """Each ends at another step. XLA only moves numbers here: its sums may round as they like."""
    b = np.random.default_rng(6).standard_normal((3, 200))
    limits = np.array([3, 9, 6])

    def sums_of(b, limit):
        def body(state):
            step, v, sums = state
            return step + 1, jnp.roll(v, 1), sums.at[step].set(dot(v, b))

        start = (0, b, jnp.zeros(10))
        return lax.while_loop(lambda state: state[0] < limit, body, start)[2]

    batched = jax.jit(jax.vmap(sums_of))(b, limits)
    single = [jax.jit(sums_of)(*one) for one in zip(b, limits, strict=True)]
    assert bits(batched) == bits(np.array(single))


# What only a bug of ours brings about


def local_call(results, *operands, name="dot", **attributes):
    run = jax.ffi.ffi_call(_library.target(name), results)
    return jax.block_until_ready(run(*operands, **{"call": name, **attributes}))


ONE, TWO = (jax.ShapeDtypeStruct((length,), "float64") for length in (1, 2))
X = jnp.ones(5)


@pytest.mark.parametrize(
    ("results", "operands", "attributes", "message"),
    [
        ((ONE,), (X, X), {}, "2 operands, 1 results and 1 attributes, where 2, 2 and 1"),
        ((ONE, ONE), (X, X[:4]), {}, "y of dot has 4 elements, where 5 belong"),
        ((TWO, ONE), (X, X), {}, "dot of dot has 2 elements, where 1 belong"),
        ((ONE, TWO), (X, X), {}, "work of dot has 2 elements, where 1 belong"),
        ((ONE, ONE), (X, X.astype("float32")), {}, "y of dot has XLA's element type"),
        ((ONE, ONE), (X[None], X), {}, None),  # a batch of one
        ((ONE, ONE), (jnp.ones((2, 5)), X), {}, "a batch of 2, where type .* batch of 1 belong"),
        ((ONE, ONE), (X, X), {"call": "cholesky_solve"}, "of a local call belong"),
        ((ONE, ONE), (X, X), {"n": np.int64(3)}, "and 2 attributes, where"),
    ],
)
def test_local_call_that_does_not_fit_its_row_is_refused(results, operands, attributes, message):
    if message is None:
        assert local_call(results, *operands, **attributes)[0] == 5
        return
    with pytest.raises(Exception, match="internal: .*" + message):
        local_call(results, *operands, **attributes)


def test_every_way_to_cut_a_few_rows_has_the_same_bits():
    """All devices' parts made here, for cuts that lie anywhere in leaves."""
    n = 300
    x, y = pair(n, "float64")
    alone = bits(dot(x, y))
    for rows in itertools.chain(range(1, 140), (150, 192, 200, 256, 299)):
        ranks = -(-n // rows)
        own = [np.pad(a, (0, ranks * rows - n)).reshape(ranks, rows) for a in (x, y)]
        length = rows // 64 + 1 + 4 * 64
        (parts,) = local_call(
            (jax.ShapeDtypeStruct((ranks, length), "float64"),),
            *own,
            np.arange(ranks, dtype=np.int32)[:, None],
            name="dot_parts",
            n=np.int64(n),
        )
        result, _ = local_call(
            (ONE, ONE), parts.ravel(), name="dot_of_parts", n=np.int64(n), rows=np.int64(rows)
        )
        assert bits(result[0]) == alone, rows
