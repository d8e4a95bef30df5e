"""cholesky: the factor in the order of the matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import systems
from systems import DTYPES, close, hermitian, put, row_mesh, spread

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


def test_rows_lie_where_those_of_the_matrix_do():
    a = put(hermitian(8 * systems.DEVICES), row_mesh(), "x")
    assert shardsolve.cholesky(a).sharding.is_equivalent_to(a.sharding, 2)


@pytest.mark.parametrize("row", [0, 7, 23])
def test_pivot_is_named_as_in_the_matrix(row):
    a = np.diag(np.where(np.arange(24) == row, -1.0, 1.0))
    with pytest.raises(shardsolve.LinAlgError) as caught:
        shardsolve.cholesky(spread(a), tile=2)
    assert caught.value.pivot == row


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradient_is_that_of_jax(dtype):
    a, mesh = hermitian(9, dtype), row_mesh()

    def value(factor):
        return lambda a: jnp.sum(jnp.abs(factor(a)) ** 3)

    ours = jax.grad(value(lambda a: shardsolve.cholesky(a, mesh=mesh)))(a)
    plain = lambda a: jnp.linalg.cholesky(systems.hermitian_part(a), symmetrize_input=False)  # noqa: E731
    assert close(ours, jax.grad(value(plain))(a))


def test_jit_without_a_mesh_says_what_to_pass():
    with pytest.raises(ValueError, match="mesh="):
        jax.jit(shardsolve.cholesky)(hermitian(4))
