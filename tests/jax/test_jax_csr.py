"""Sparse matrices by rows: where they come from, products, derivatives, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax.experimental import sparse
from krylov_systems import bits
from systems import DTYPES, more, normal, put, row_mesh

from shardsolve import CSR


def random_matrix(m=40, n=30, dtype="float64", seed=1) -> sp.coo_matrix:
    rng = np.random.default_rng(seed)
    places = sp.random(m, n, 0.2, random_state=rng, format="coo")
    return sp.coo_matrix((normal(rng, (places.nnz,), dtype), (places.row, places.col)), (m, n))


def in_lanes(a: CSR, x: np.ndarray) -> np.ndarray:
    """The order of src/runtime/sparse_row_sum.hpp, for float32: float64 holds a product."""
    lanes = a._pattern.lanes
    data, y = np.asarray(a.data), np.zeros(a.shape[0], np.float32)
    for row in range(a.shape[0]):
        sums = np.zeros(lanes, np.float32)
        for place, k in enumerate(range(a.indptr[row], a.indptr[row + 1])):
            lane = place % lanes
            exact = np.float64(data[k]) * np.float64(x[a.indices[k]]) + np.float64(sums[lane])
            sums[lane] = np.float32(exact)
        while len(sums) > 1:
            half = len(sums) // 2
            sums = sums[:half] + sums[half:]
        y[row] = sums[0]
    return y


SOURCES = {
    "coo": lambda a: a,
    "csr": lambda a: a.tocsr(),
    "csc": lambda a: a.tocsc(),
    "lil": lambda a: a.tolil(),
    "dia": lambda a: a.todia(),
    "array": lambda a: sp.csr_array(a),
    "bcoo": lambda a: sparse.BCOO.from_scipy_sparse(a),
    "bcsr": lambda a: sparse.BCSR.from_scipy_sparse(a.tocsr()),
    "dense": lambda a: a.toarray(),
    "csr of ours": lambda a: CSR.of(a),
}


@pytest.mark.parametrize("source", SOURCES)
def test_matrix_comes_from_everything_that_is_one(source):
    a = random_matrix()
    made = CSR.of(SOURCES[source](a))
    assert np.array_equal(made.todense(), a.toarray())
    assert np.array_equal(CSR.of(made.T).todense(), a.toarray().T)
    assert (np.diff(made.indptr) >= 0).all()


def test_entries_of_one_place_are_added_and_zeros_stay():
    row, column = np.array([1, 0, 1, 1]), np.array([2, 0, 0, 2])
    a = CSR.of(sp.coo_matrix((np.array([1.0, 0.0, 3.0, 4.0]), (row, column)), (2, 3)))
    assert (a.nse, a.indices.tolist(), a.data.tolist()) == (3, [0, 0, 2], [0.0, 3.0, 5.0])
    unsorted = CSR(np.array([1.0, 2.0, 3.0]), [2, 0, 2], [0, 0, 3], (2, 3))
    assert unsorted.data.tolist() == [2.0, 4.0]
    traced = jax.jit(lambda d: CSR(d, [2, 0, 2], [0, 0, 3], (2, 3)))(jnp.array([1.0, 2.0, 3.0]))
    assert traced.data.tolist() == [2.0, 4.0]


def test_matrix_that_is_known_may_be_made_inside_jit():
    dense = np.array([[2.0, 0.0], [1.0, 3.0]])
    for given in (dense, dense.tolist(), jnp.array(dense)):
        y = jax.jit(lambda x, given=given: CSR.of(given) @ x)(np.ones(2))
        assert y.tolist() == [2.0, 4.0]

    def with_a_traced_entry(value):
        return CSR.of([[value, 0.0], [1.0, 3.0]]).todense()

    with pytest.raises(TypeError, match="a dense matrix is traced here"):
        jax.jit(with_a_traced_entry)(2.0)


def test_values_may_have_another_dtype():
    a = CSR.of(np.array([[2.0, 0.0], [1.0, 3.0]]))
    assert a.astype("float32").dtype == np.float32
    assert (a.astype(complex) @ (1j * np.ones(2))).tolist() == [2j, 4j]
    with pytest.raises(TypeError, match=r"with_values\(a\.data\.real\)"):
        a.astype("complex64").astype("float32")


def test_padding_of_jax_formats_is_dropped():
    a = sparse.BCOO.fromdense(jnp.eye(3), nse=7)
    assert CSR.of(a).nse == 3
    assert CSR.of(sparse.BCSR.from_bcoo(a)).todense().tolist() == np.eye(3).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_product_is_as_accurate_as_its_sums(dtype):
    a = random_matrix(dtype=dtype)
    x = normal(np.random.default_rng(2), (30,), dtype)
    assert np.allclose(CSR.of(a) @ x, a @ x, rtol=1e-5, atol=40 * np.finfo(dtype).eps)
    columns = normal(np.random.default_rng(3), (30, 4), dtype)
    product = CSR.of(a) @ columns
    assert all(bits(product[:, j]) == bits(CSR.of(a) @ columns[:, j]) for j in range(4))


@pytest.mark.parametrize("density", [0.02, 0.3, 1.0])
def test_product_has_the_bits_of_the_order_that_is_written_down(density):
    rng = np.random.default_rng(4)
    a = CSR.of(sp.random(50, 80, density, random_state=rng, dtype=np.float32, format="csr"))
    x = rng.standard_normal(80).astype("float32")
    assert bits(a @ x) == bits(in_lanes(a, x))


def test_product_has_the_same_bits_under_transformations_and_on_devices():
    a = CSR.of(random_matrix(64, 64))
    x = np.random.default_rng(5).standard_normal((3, 64))
    alone = [bits(a @ one) for one in x]
    assert [bits(y) for y in jax.vmap(lambda x: a @ x)(x)] == alone
    assert [bits(y) for y in jax.jit(jax.vmap(lambda x: a @ x))(x)] == alone
    values = jnp.stack([a.data, a.data])
    both = jax.vmap(lambda data, x: a.with_values(data) @ x)(values, x[:2])
    assert [bits(y) for y in both] == alone[:2]
    nested = jax.vmap(lambda d: jax.vmap(lambda x: a.with_values(d) @ x)(x))(values)
    assert [bits(y) for y in nested[1]] == alone
    assert bits(a @ put(x[0], row_mesh(), "x")) == alone[0]
    _, scanned = jax.lax.scan(lambda carry, x: (carry, a @ x), 0, x)
    assert [bits(y) for y in scanned] == alone


def test_new_values_compile_nothing_anew():
    a = CSR.of(random_matrix(30, 30))
    traces = []

    @jax.jit
    def product(a, x):
        traces.append(1)
        return a @ x

    x = np.ones(30)
    for factor in (1.0, 2.0, 3.0):
        assert np.allclose(product(a.with_values(factor * a.data), x), factor * (a @ x))
    product(CSR.of(random_matrix(30, 30)), x)  # another object, the same pattern
    assert len(traces) == 1


@pytest.mark.parametrize("dtype", ["float64", more("complex128")])
def test_derivatives_of_a_product_are_those_of_the_dense_one(dtype):
    a = CSR.of(random_matrix(9, 7, dtype))
    x = normal(np.random.default_rng(6), (7,), dtype)

    def sparse_loss(data, x):
        return jnp.sum(jnp.abs(jnp.sin(a.with_values(data) @ x)) ** 2)

    def dense_loss(data, x):
        dense = jnp.zeros(a.shape, dtype).at[a._pattern.rows, a.indices].set(data)
        return jnp.sum(jnp.abs(jnp.sin(dense @ x)) ** 2)

    ours, theirs = (jax.jit(jax.grad(f, (0, 1)))(a.data, x) for f in (sparse_loss, dense_loss))
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, rtol=1e-12), ours, theirs)
    if dtype == "float64":
        ours, theirs = (
            jax.jit(jax.hessian(f, (0, 1)))(a.data, x) for f in (sparse_loss, dense_loss)
        )
        jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, atol=1e-12), ours, theirs)
        of_matrix = jax.grad(lambda m: jnp.sum((m @ x) ** 2))(a)
        assert isinstance(of_matrix, CSR)


def test_empty_matrices_have_products():
    for shape in ((0, 0), (3, 0), (0, 3), (3, 3)):
        a = CSR(np.zeros(0), np.zeros(0, int), np.zeros(shape[0] + 1, int), shape)
        assert (a @ np.ones(shape[1])).tolist() == [0.0] * shape[0]


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: CSR(np.ones(2), [0, 3], [0, 1, 2], (2, 3)), ValueError, r"at \(1, 3\), outside"),
        (lambda: CSR(np.ones(2), [0, 1], [0, 2], (2, 3)), ValueError, r"indptr has shape \(2,\)"),
        (lambda: CSR(np.ones(2), [0, 1], [0, 3, 2], (2, 3)), ValueError, "falls at row 1"),
        (lambda: CSR(np.ones(3), [0, 1], [0, 1, 2], (2, 3)), ValueError, r"data has shape \(3,\)"),
        (lambda: CSR(np.ones(2), [0.0, 1.0], [0, 1, 2], (2, 3)), TypeError, "whole numbers"),
        (lambda: CSR(np.ones(2, int), [0, 1], [0, 1, 2], (2, 3)), TypeError, "dtype int64"),
        (lambda: CSR.of(np.ones(3)), ValueError, r"shape \(3,\); pass a matrix"),
        (lambda: CSR.of("matrix"), TypeError, "is a str; pass an array"),
        (lambda: CSR.of(sparse.BCOO.fromdense(jnp.ones((2, 3, 3)), n_batch=1)), ValueError, "vmap"),
        (lambda: CSR.of(np.eye(3)).with_values(np.ones(4)), ValueError, r"pass \(3,\)"),
        (lambda: CSR.of(np.eye(3)) @ np.ones(4), ValueError, r"pass \(3,\) or"),
        (lambda: CSR.of(np.eye(3)) @ np.ones(3, "float32"), TypeError, "is float64 and x is"),
        (
            lambda: CSR.of(np.eye(3)) @ (1j * np.ones(3)),
            TypeError,
            r"A by \.astype\('complex128'\), or multiply x\.real and x\.imag",
        ),
        (lambda: jax.jit(CSR.of)(np.eye(3)), TypeError, "traced here"),
        (
            lambda: jax.jit(lambda i: CSR(np.ones(2), i, [0, 1, 2], (2, 3)))(np.array([0, 1])),
            TypeError,
            "indices is traced",
        ),
        (
            lambda: jax.jit(lambda p: CSR(np.ones(2), [0, 1], p, (2, 3)))(np.array([0, 1, 2])),
            TypeError,
            "indptr is traced",
        ),
    ],
)
def test_what_is_no_sparse_matrix_is_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        make()
