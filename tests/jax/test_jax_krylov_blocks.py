"""Preconditioners of blocks in JAX: exact and incomplete factors, which the library makes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from functions import several_devices
from jax.sharding import AxisType, PartitionSpec
from krylov_systems import bits, convection, grid, laplacian, on_mesh, right, same, solve
from systems import more

import shardsolve
from shardsolve import CSR, krylov
from shardsolve._krylov_records import KrylovStatus
from shardsolve._krylov_rounds import Place

ROWS, COLUMNS = 12, 16
N = ROWS * COLUMNS
# Boundaries within devices' rows, at their ends, and one block of all.
CUTS = ([0, 40, 41, 100, N], [0, 48, 96, 144, N], [0, N])
MADE = {
    "block_jacobi": krylov.block_jacobi,
    "incomplete_cholesky": krylov.incomplete_cholesky,
    "incomplete_lu": krylov.incomplete_lu,
}
every_kind = pytest.mark.parametrize("kind", MADE)
every_dtype = pytest.mark.parametrize(
    "dtype", ["float64", more("float32"), more("complex64"), "complex128"]
)


def system(kind, dtype="float64"):
    """(method, A, b)."""
    method = "bicgstab" if kind == "incomplete_lu" else "cg"
    return method, grid(method, dtype, ROWS, COLUMNS), right(N, dtype)


def dense(m, dtype=None):
    """M as a matrix."""
    eye = jnp.eye(N, dtype=dtype or m.data.dtype)
    return np.array(jax.vmap(lambda x: m.apply(x, Place(None)))(eye)).T


def epsilon(dtype):
    return float(jnp.finfo(dtype).eps)


# What they are


@every_kind
@every_dtype
def test_product_is_that_of_the_factors(kind, dtype):
    """ILU(0) and IC(0) of each block by their definition: L U is A where A has entries."""
    _, a, _ = system(kind, dtype)
    m = dense(MADE[kind](a, CUTS[0]))
    full = np.asarray(a.todense())
    for begin, end in zip(CUTS[0], CUTS[0][1:], strict=False):
        own = np.s_[begin:end, begin:end]
        product = np.linalg.inv(m[own])
        entries = np.ones_like(full[own], bool) if kind == "block_jacobi" else full[own] != 0
        assert np.abs(product - full[own])[entries].max() <= 200 * epsilon(dtype)
        m[own] = 0
    assert not m.any()


@every_kind
@every_dtype
def test_transpose_and_conjugate_are_those_of_the_product(kind, dtype):
    m = MADE[kind](system(kind, dtype)[1], CUTS[0])
    near = {"rtol": 0, "atol": 20 * epsilon(dtype)}
    np.testing.assert_allclose(dense(m.transposed()), dense(m).T, **near)
    assert bits(dense(m.conjugated())) == bits(dense(m).conj() + 0)
    x, y = right(N, dtype), right(N, dtype, 8)
    pulled = jax.linear_transpose(lambda x: m.apply(x, Place(None)), x)(y)[0]
    np.testing.assert_allclose(pulled, dense(m).T @ y, rtol=1e4 * epsilon(dtype), atol=near["atol"])


def test_band_with_rows_that_change_places_is_exact():
    values = right(N * N, seed=5).reshape(N, N)
    a = CSR.of(np.triu(np.tril(values, 7), -5))
    m = dense(krylov.block_jacobi(a, [0, N]))
    assert np.linalg.norm(m @ np.asarray(a.todense()) - np.eye(N)) <= 1e-8


@every_kind
def test_number_of_blocks_is_cut_as_by_the_library(kind):
    _, a, _ = system(kind)
    cut = np.frombuffer(MADE[kind](a, 4).plan.boundaries, np.int64)
    assert cut.tolist() == [0, 48, 96, 144, N]  # between lines of the grid
    assert bits(dense(MADE[kind](a, 4))) == bits(dense(MADE[kind](a, cut)))


def test_one_block_is_the_default_of_incomplete_factors():
    for kind in ("incomplete_cholesky", "incomplete_lu"):
        _, a, _ = system(kind)
        assert bits(dense(MADE[kind](a))) == bits(dense(MADE[kind](a, [0, N])))


def test_pivot_that_is_not_positive_shifts_the_diagonal():
    """Kershaw's matrix: positive definite, and IC(0) has a pivot below 0."""
    a = CSR.of(np.array([[3.0, -2, 0, 2], [-2, 3, -2, 0], [0, -2, 3, -2], [2, 0, -2, 3]]))
    x, info = solve(a, np.ones(4), preconditioner=krylov.incomplete_cholesky(a))
    assert info.is_converged and np.allclose(np.asarray(a.todense()) @ x, 1)


# Solves


@every_kind
def test_fewer_iterations_than_jacobi(kind):
    method, a, b = system(kind)
    plain = solve(a, b, method, preconditioner="jacobi")[1]
    for blocks in CUTS:
        info = solve(a, b, method, preconditioner=MADE[kind](a, blocks))[1]
        assert info.is_converged and info.iterations < 0.7 * plain.iterations


@every_kind
@every_dtype
@pytest.mark.parametrize("blocks", CUTS)
def test_traced_values_make_the_same_factors(kind, dtype, blocks):
    method, a, b = system(kind, dtype)
    rtol = 1e-4

    def solved(data, b):
        own = a.with_values(data)
        return krylov.solve(
            own, b, method=method, preconditioner=MADE[kind](own, blocks), rtol=rtol
        )

    m = MADE[kind](a, blocks)
    outside = krylov.solve(a, b, method=method, preconditioner=m, rtol=rtol)
    assert bits(jax.jit(solved)(a.data, b)) == bits(outside)


@every_kind
def test_lanes_have_the_bits_that_they_have_alone(kind):
    method, a, b = system(kind)
    m = MADE[kind](a, CUTS[0])
    several = np.stack([b, 0 * b, right(N, seed=9)])
    together = jax.vmap(lambda b: krylov.solve(a, b, method=method, preconditioner=m))(several)
    for x, b in zip(together, several, strict=True):
        assert bits(x) == bits(krylov.solve(a, b, method=method, preconditioner=m))

    def solved(data):
        own = a.with_values(data)
        return krylov.solve(own, b, method=method, preconditioner=MADE[kind](own, CUTS[0]))

    factors = np.array([1.0, 3.0])
    of_values = jax.vmap(lambda f: solved(f * a.data))(factors)
    for x, factor in zip(of_values, factors, strict=True):
        assert bits(x) == bits(solved(factor * a.data))


@pytest.mark.devices
@several_devices
@every_kind
@pytest.mark.parametrize("blocks", CUTS)
def test_bits_are_the_same_on_several_devices(kind, blocks):
    method, a, b = system(kind)
    m = MADE[kind](a, blocks)
    alone = solve(a, b, method, preconditioner=m)
    for axes in (AxisType.Auto, AxisType.Explicit):
        assert same(solve(a, on_mesh(b, axes), method, preconditioner=m), alone)


@pytest.mark.devices
@several_devices
@every_kind
@pytest.mark.parametrize("blocks", CUTS[:2])
def test_bits_are_the_same_inside_of_a_shard_map(kind, blocks):
    method, a, b = system(kind)
    m = MADE[kind](a, blocks)
    spread = on_mesh(b)
    inside = jax.jit(
        jax.shard_map(
            lambda b: krylov.solve(a, b, method=method, preconditioner=m, axis_name="x"),
            mesh=spread.sharding.mesh,
            in_specs=PartitionSpec("x"),
            out_specs=PartitionSpec("x"),
            check_vma=False,
        )
    )
    assert bits(inside(spread)) == bits(krylov.solve(a, b, method=method, preconditioner=m))


@pytest.mark.gpu_only
@pytest.mark.parametrize("kind", [*MADE, "chebyshev"])
@every_dtype
def test_bits_on_gpus_are_those_of_the_cpu(kind, dtype):
    make = MADE.get(kind, lambda a, _: krylov.chebyshev(a, 0.5, 9.5, 4))
    method, a, b = system(kind, dtype)
    options = {"rtol": 1e-4, "method": method}

    def solved(data, b):
        own = a.with_values(data)
        return krylov.solve(own, b, preconditioner=make(own, CUTS[0]), **options)

    with jax.default_device(jax.devices("cpu")[0]):
        cpu = solve(a, b, preconditioner=make(a, CUTS[0]), **options)
    assert same(solve(a, b, preconditioner=make(a, CUTS[0]), **options), cpu)
    assert bits(jax.jit(solved)(a.data, b)) == bits(cpu[0])


# Derivatives


@every_kind
@pytest.mark.parametrize("method", ["cg", "bicgstab", more("fgmres")])
@pytest.mark.parametrize("dtype", ["float64", more("complex128")])
def test_gradient_is_that_of_the_dense_solve(kind, method, dtype):
    if method != "cg" and kind == "incomplete_cholesky":
        a = grid("cg", dtype, ROWS, COLUMNS)
    else:
        a = grid(method, dtype, ROWS, COLUMNS)
    b, w = jnp.asarray(right(N, dtype)), right(N, dtype, 9)

    def loss(solve):
        return lambda data, b: jnp.real(jnp.vdot(w, jnp.sin(solve(data, b))))

    def ours(data, b):
        own = a.with_values(data)
        m = MADE[kind](own, CUTS[0])
        return krylov.solve(own, b, method=method, preconditioner=m, rtol=1e-10)

    def theirs(data, b):
        full = jnp.zeros(a.shape, data.dtype).at[a._pattern.rows, a.indices].set(data)
        return jnp.linalg.solve(full, b)

    shardsolve.last_failures()  # of tests before
    for wrap in (lambda f: f, jax.jit):
        found = wrap(jax.grad(loss(ours), (0, 1)))(a.data, b)
        for u, v in zip(found, jax.grad(loss(theirs), (0, 1))(a.data, b), strict=True):
            assert np.linalg.norm(u - v) <= 1e-7 * np.linalg.norm(v)
    assert not shardsolve.last_failures()


@pytest.mark.parametrize("method", ["cg", "bicgstab"])
@pytest.mark.parametrize("dtype", [more("float64"), "complex128"])
def test_gradient_with_chebyshev_is_that_of_the_dense_solve(method, dtype):
    a = grid(method, dtype, ROWS, COLUMNS)
    b, w = jnp.asarray(right(N, dtype)), right(N, dtype, 9)

    def ours(b):
        m = krylov.chebyshev(a, 0.5, 9.5, 4)
        x = krylov.solve(a, b, method=method, preconditioner=m, rtol=1e-10)
        return jnp.real(jnp.vdot(w, x))

    found = jax.jit(jax.grad(ours))(b)
    expected = jax.grad(lambda b: jnp.real(jnp.vdot(w, jnp.linalg.solve(a.todense(), b))))(b)
    assert np.linalg.norm(found - expected) <= 1e-7 * np.linalg.norm(expected)
    m = krylov.chebyshev(a, 0.5, 9.5, 4)
    near = {"rtol": 0, "atol": 1e-13}
    np.testing.assert_allclose(dense(m.transposed(), dtype), dense(m, dtype).T, **near)
    np.testing.assert_allclose(dense(m.conjugated(), dtype), dense(m, dtype).conj(), **near)
    pulled = jax.linear_transpose(lambda x: m.apply(x, Place(None)), b)(b)[0]
    np.testing.assert_allclose(pulled, dense(m, dtype).T @ b, rtol=1e-11)


# What does not fit


def without_diagonal():
    a = sp.lil_matrix(sp.diags([-1.0, 2.3, -1.0], [-1, 0, 1], (8, 8)))
    a[5, 5] = 0
    return CSR.of(sp.csr_matrix(a))


A = laplacian(8)
NEGATIVE = A.with_values(A.data.at[A._pattern.diagonal[3]].set(-1.0))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: krylov.incomplete_lu(without_diagonal()),
            ValueError,
            r"incomplete_lu needs all of the diagonal, and row 5 \(0-based\).* no entry there; use "
            "block_jacobi",
        ),
        (
            lambda: jax.jit(
                lambda d: krylov.incomplete_cholesky(without_diagonal().with_values(d))
            )(without_diagonal().data),
            ValueError,
            r"incomplete_cholesky needs all of the diagonal, and row 5",
        ),
        (
            lambda: krylov.incomplete_cholesky(NEGATIVE),
            ValueError,
            r"positive definite, and the diagonal of this one is -1 in row 3 .*; use incomplete_lu",
        ),
        (lambda: krylov.incomplete_cholesky(CSR.of(np.ones((8, 9)))), ValueError, r"\(n, n\)"),
        (lambda: krylov.incomplete_lu(A, [0, 5]), ValueError, "end with 8, or how many"),
        (lambda: krylov.incomplete_lu(A, [0.0, 8.0]), ValueError, "pass whole numbers"),
        (lambda: krylov.incomplete_lu(A, 9), ValueError, "9 blocks of a matrix of 8 rows.*1 to 8"),
        (lambda: krylov.block_jacobi(A, 0), ValueError, "0 blocks of a matrix of 8 rows"),
        (lambda: krylov.incomplete_lu(A, True), ValueError, "blocks is True"),
        (
            lambda: jax.jit(lambda d: krylov.block_jacobi(A.with_values(d), 2))(A.data),
            TypeError,
            "blocks is 2, and .* depends on the values of the matrix, which are traced",
        ),
        (
            lambda: jax.jit(lambda k: krylov.incomplete_lu(A, k))(2),
            TypeError,
            "blocks is traced",
        ),
        (
            lambda: krylov.solve(A, right(8), preconditioner=krylov.incomplete_lu(laplacian(9))),
            ValueError,
            "made of a matrix of 9 rows and b has 8",
        ),
        (
            lambda: krylov.solve(
                A, right(8), preconditioner=krylov.incomplete_lu(A.astype("float32"))
            ),
            TypeError,
            r"matrix of float32 and b is float64: make it of a\.astype\('float64'\)",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@every_kind
def test_pivot_of_0_is_found_by_the_solve(kind):
    if kind == "incomplete_cholesky":
        # Traced, its diagonal cannot be looked at.
        run = jax.jit(
            lambda d: (
                solve(A, right(8), preconditioner=krylov.incomplete_cholesky(A.with_values(d)))[
                    1
                ].status
            )
        )
        assert run(NEGATIVE.data) == KrylovStatus.NONFINITE_PRECONDITIONER
        return
    # Of L U the second pivot, and all of the second block.
    data = np.array([[1.0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 2, 1], [0, 0, 1, 2]])
    a = CSR.of(data)
    with pytest.raises(shardsolve.LinAlgError, match="nonfinite_preconditioner"):
        krylov.solve(a, np.ones(4), method="fgmres", preconditioner=MADE[kind](a, [0, 2, 4]))


def test_matrix_that_is_not_symmetric_is_found_by_cg():
    """IC(0) sees the lower triangle alone, as in C++."""
    a = convection(N)
    with pytest.raises(shardsolve.LinAlgError, match="nonsymmetric_operator"):
        krylov.solve(a, right(N), preconditioner=krylov.incomplete_cholesky(a))
