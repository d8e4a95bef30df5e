"""cholesky: the factor in the order of the matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from jax.sharding import NamedSharding, PartitionSpec
from systems import DTYPES, close, hermitian, more, put, row_mesh, spread

import shardsolve

pytestmark = pytest.mark.devices

SEEN = ("float64", None)  # with every size


@pytest.mark.parametrize(
    ("n", "dtype", "tile"),
    [
        *((n, "float64", None) for n in (0, 1, 5, 33, 64)),
        *((33, dtype, tile) for dtype in DTYPES for tile in (None, 3) if (dtype, tile) != SEEN),
        (64, "complex64", 3),
    ],
)
def test_cholesky_is_that_of_numpy(n, dtype, tile):
    a = hermitian(n, dtype)
    factor = shardsolve.cholesky(spread(a), tile=tile)
    assert close(factor, np.linalg.cholesky(a) if n else a)
    assert np.array_equal(np.triu(factor, 1), np.zeros((n, n)))


def test_upper_is_the_conjugate_transpose():
    a = spread(hermitian(24, "complex128"))
    lower = np.asarray(shardsolve.cholesky(a))
    assert np.array_equal(shardsolve.cholesky(a, upper=True), lower.conj().T)


@pytest.mark.parametrize("upper", [False, True])
def test_nothing_is_promoted(upper):
    a = hermitian(13)
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        factor = shardsolve.cholesky(spread(a), upper=upper, tile=2)
    assert close(factor.T if upper else factor, np.linalg.cholesky(a))


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_rows_lie_where_those_of_the_matrix_do(upper, explicit):
    a = put(hermitian(8 * systems.DEVICES), row_mesh(explicit=explicit), "x")
    for run in (shardsolve.cholesky, jax.jit(shardsolve.cholesky, static_argnames="upper")):
        assert run(a, upper=upper).sharding.is_equivalent_to(a.sharding, 2)


@pytest.mark.parametrize("row", [0, 7, 23])
def test_pivot_is_named_as_in_the_matrix(row):
    a = np.diag(np.where(np.arange(24) == row, -1.0, 1.0))
    with pytest.raises(shardsolve.LinAlgError) as caught:
        shardsolve.cholesky(spread(a), tile=2)
    assert caught.value.pivot == row


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("cut", [("x", None), (None, "x"), ()], ids=["rows", "columns", "whole"])
@pytest.mark.parametrize("where", [(19, 19), (19, 4), (4, 19)])
def test_bad_entry_is_named_as_in_the_matrix(where, cut, compiled):
    a = np.eye(24)
    a[where] = np.nan
    if where[0] != where[1]:
        a[where[::-1]] = 0.0
    given = put(a, row_mesh(), *cut)
    if compiled:
        assert np.isnan(jax.jit(lambda a: shardsolve.cholesky(a, tile=1))(given)).all()
        return
    with pytest.raises(shardsolve.LinAlgError, match=rf"\b{where[0]}\b.*\b{where[1]}\b"):
        shardsolve.cholesky(given, tile=1)


@pytest.mark.parametrize("way", systems.WAYS)
@pytest.mark.parametrize("upper", [False, more(True)])
@pytest.mark.parametrize("dtype", [more("float64"), "complex128"])
def test_gradient_is_that_of_jax(dtype, upper, way):
    n = 12
    a = hermitian(n, dtype)

    def value(factor):
        # Its second factor tells the entries apart, so that a transposed gradient is another one.
        weights = jnp.arange(n * n).reshape(n, n)
        return lambda a: jnp.sum(jnp.abs(factor(a)) ** 3 * weights)

    def plain(a):
        lower = jnp.linalg.cholesky(systems.hermitian_part(a), symmetrize_input=False)
        return lower.conj().T if upper else lower

    compiled, place = systems.WAYS[way]
    ours = compiled(jax.grad(value(lambda a: shardsolve.cholesky(a, upper=upper))))(place(a))
    assert close(ours, jax.grad(value(plain))(a))


# Of a function of one matrix, functions of two.
TRANSFORMS = {
    "vmap_grad": lambda f: jax.vmap(jax.grad(f)),
    "grad_vmap": lambda f: jax.grad(lambda a: jnp.sum(jax.vmap(f)(a) ** 2)),
    "second_order": lambda f: jax.vmap(lambda a: jax.jvp(jax.grad(f), (a,), (a.T + 2.0,))[1]),
    "reverse_twice": lambda f: jax.grad(lambda a: jnp.sum(jnp.abs(jax.vmap(jax.grad(f))(a)))),
    "many_tangents": lambda f: lambda a: jax.jacfwd(f)(a[0]),
}


@pytest.mark.parametrize("way", [more("eager"), "jit"])
@pytest.mark.parametrize("upper", [False, more(True)])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_of_the_gradient_are_those_of_jax(transform, upper, way):
    n = 12  # rows that 1, 2, 4 and 6 devices share equally
    weights = 1.0 + jnp.arange(n * n).reshape(n, n)

    def plain(a):
        lower = jnp.linalg.cholesky(systems.hermitian_part(a), symmetrize_input=False)
        return lower.T if upper else lower

    def transformed(factor):
        return TRANSFORMS[transform](lambda a: jnp.sum(factor(a) ** 3 * weights))

    batch = systems.batch(2, n)
    ours = transformed(lambda a: shardsolve.cholesky(a, upper=upper))
    ours = (jax.jit(ours) if way == "jit" else ours)(systems.spread_batch(batch))
    assert close(ours, transformed(plain)(batch))


GRADIENTS_OF_A_BATCH = """
import jax, jax.numpy as jnp, numpy as np, shardsolve
n = 240
m = np.random.default_rng(0).standard_normal((4, n, n))
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "x"))
a = jax.device_put(m @ m.swapaxes(1, 2) / n + np.eye(n), where)
run = jax.jit(jax.vmap(jax.grad(lambda a: jnp.sum(shardsolve.cholesky(a) ** 2))))
# The sum of squares of a factor is the trace of its matrix.
print(float(abs(np.asarray(run(a)) - np.eye(n)).max()) < 1e-12)
"""


@pytest.mark.slow
@pytest.mark.cpu_only
def test_gradients_of_a_batch_end_with_a_thread_for_each_device(python):
    """They hung in the triangular solve of a batch, unless there were more threads."""
    assert python(GRADIENTS_OF_A_BATCH, seconds=60, NPROC=str(systems.DEVICES)) == "True\n"


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("upper", [False, more(True)])
def test_batch_is_factored_one_by_one(upper, compiled):
    batch = systems.batch(3, 12, "complex128")
    run = jax.vmap(lambda a: shardsolve.cholesky(a, upper=upper))
    factors = (jax.jit(run) if compiled else run)(systems.spread_batch(batch))
    lower = np.linalg.cholesky(batch)
    assert close(factors, lower.conj().swapaxes(1, 2) if upper else lower)


@pytest.mark.parametrize("upper", [False, more(True)])
@pytest.mark.parametrize("n", [2, 13, 6 * systems.DEVICES + 1, 41])
def test_rows_in_unequal_parts_inside_of_a_program(n, upper):
    """There each device has as many as the first, and what it has beyond the matrix is anything."""
    rows = NamedSharding(row_mesh(), PartitionSpec("x", None))

    @jax.jit
    def run(a):
        return shardsolve.cholesky(jax.lax.with_sharding_constraint(a, rows), tile=2, upper=upper)

    a = hermitian(n, "complex128")
    lower = np.linalg.cholesky(a)
    assert close(run(a), lower.conj().T if upper else lower)


@pytest.mark.skipif(systems.DEVICES == 1, reason="one device has nobody to send to")
@pytest.mark.parametrize("cut", [("x", None), (None, "x")], ids=["rows", "columns"])
def test_matrix_is_never_gathered(cut):
    n = 16 * systems.DEVICES
    text = systems.compiled_text(shardsolve.cholesky, put(hermitian(n), row_mesh(), *cut))
    assert systems.FACTOR_CALL in text
    assert "all-gather" not in text
    assert systems.largest_collective(text) <= n * n // systems.DEVICES
