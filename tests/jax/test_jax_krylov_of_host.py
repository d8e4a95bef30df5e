"""Krylov solves of SciPy's matrices and NumPy's vectors: NumPy comes back, in SciPy's precision."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg
from krylov_systems import bits, right
from systems import more

import shardsolve
from shardsolve import krylov

N = 40
A = sp.diags_array([-1.0, 2.5, -1.0], offsets=[-1, 0, 1], shape=(N, N), format="csr")
B = right(N)
EXACT = np.linalg.solve(A.toarray(), B)
INDEFINITE = sp.diags_array([1.0, -2.0])
FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
KINDS = {
    **{f"{name}_array": getattr(sp, f"{name}_array") for name in FORMATS},
    **{f"{name}_matrix": getattr(sp, f"{name}_matrix") for name in FORMATS},
    "numpy": lambda a: a.toarray(),
}
DTYPES = ("bool", "int32", "uint8", "float16", "float32", "float64", "complex64", "complex128")
with_and_without_64_bits = pytest.mark.parametrize("x64", [more(True), False])


@with_and_without_64_bits
@pytest.mark.parametrize("kind", KINDS)
def test_any_format_gives_numpy_in_double(kind, x64):
    with jax.enable_x64(x64):
        x = krylov.solve(KINDS[kind](A), B)
        assert jnp.zeros(1).dtype == ("float64" if x64 else "float32")  # as it was
    assert type(x) is np.ndarray
    assert x.dtype == "float64"
    np.testing.assert_allclose(x, EXACT, atol=1e-7)
    x[0] = 0  # it is the caller's


@pytest.mark.parametrize("of_b", DTYPES)
@pytest.mark.parametrize("of_a", DTYPES)
def test_dtype_is_that_of_scipy(of_a, of_b):
    a = 3 * np.eye(4)
    matrix = a.astype(of_a) if of_a == "float16" else sp.csr_array(a.astype(of_a))
    b = np.ones(4, of_b)
    theirs = scipy.sparse.linalg.cg(matrix, b)[0]
    with jax.enable_x64(False):
        ours = krylov.solve(matrix, b)
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)


@with_and_without_64_bits
@pytest.mark.parametrize("m", ["jacobi", "block_jacobi", "chebyshev", "scipy", "numpy", "function"])
def test_preconditioner_of_any_kind(m, x64):
    with jax.enable_x64(x64):
        made = {
            "jacobi": lambda: krylov.jacobi(A),
            "block_jacobi": lambda: krylov.block_jacobi(A, [0, 20, N]),
            "chebyshev": lambda: krylov.chebyshev(A, 0.5, 4.5, 3),
            "scipy": lambda: (2 * sp.eye_array(N)).astype(int),
            "numpy": lambda: np.eye(N, dtype=np.float32),
            "function": lambda: lambda r: r / 2.5,
        }[m]()
        x, info = krylov.solve(A, B, M=made, x0=np.zeros(N, int), full_output=True, log=True)
    np.testing.assert_allclose(x, EXACT, atol=1e-7)
    assert info.residual.dtype == "float64"
    assert info.residual <= 1e-8
    assert len(info.log) > info.iterations
    assert "converged_rtol" in info.message


def test_bits_are_those_of_jax():
    ours = krylov.solve(A, B, preconditioner="jacobi")
    assert bits(ours) == bits(krylov.solve(shardsolve.CSR.of(A), B, preconditioner="jacobi"))


def test_diagnosis_needs_no_64_bits():
    with jax.enable_x64(False):
        assert krylov.diagnose(A).definiteness == "positive definite"
        assert krylov.diagnose(A.astype(int)).method == "cg"


def test_lists_are_vectors():
    assert krylov.solve(sp.eye_array(3), [1, 2, 3]).tolist() == [1.0, 2.0, 3.0]


def test_what_is_of_jax_stays_of_jax():
    assert isinstance(krylov.solve(A, jnp.asarray(B)), jax.Array)
    assert isinstance(krylov.solve(shardsolve.CSR.of(A), B), jax.Array)
    assert isinstance(krylov.solve(A, B, x0=jnp.zeros(N)), jax.Array)
    inside = jax.jit(lambda s: s * krylov.solve(A, B))(2.0)
    np.testing.assert_allclose(inside, 2 * EXACT, atol=1e-7)
    lanes = jax.vmap(lambda b: krylov.solve(A, b))(np.stack([B, 2 * B]))
    np.testing.assert_allclose(lanes[1], 2 * EXACT, atol=1e-7)
    gradient = jax.grad(lambda s: krylov.solve(A, B, M=lambda r: r / s).sum())(2.5)
    assert abs(gradient) < 1e-6  # x does not depend on it


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: krylov.solve(A, B[:, None]), ValueError, r"pass b as \(40,\)"),
        (lambda: krylov.solve(A, B, x0=1j * B), ValueError, r"x0 is complex128\[40\] and b"),
        (lambda: krylov.solve(A, B.astype(np.longdouble)), TypeError, "longdouble|float128"),
        (lambda: krylov.solve(A, np.array(["a"] * N)), (TypeError, ValueError), "dtype|str"),
        (lambda: krylov.solve(INDEFINITE, [1, 1]), np.linalg.LinAlgError, "minres"),
        (
            lambda: krylov.solve(shardsolve.CSR.of(A.astype("float32")), B.astype("float32"),
                                 preconditioner=krylov.chebyshev(A, 0.5, 4.5, 3)),
            TypeError,
            r"was made of a matrix of float64 and b is float32: make it of a\.astype\('float32'\)",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_failure_that_is_asked_for_is_numpy():
    x, info = krylov.solve(INDEFINITE, [1, 1], full_output=True)
    assert isinstance(x, np.ndarray)
    assert info.status == krylov.KrylovStatus.INDEFINITE_OPERATOR
    assert not info.is_converged
    x = krylov.solve(INDEFINITE, [1, 1], on_failure="nan")
    assert np.isnan(x).all()


def test_package_needs_no_scipy(python):
    program = """
import sys
sys.modules["scipy.sparse"] = None  # an import of it fails
import numpy as np, shardsolve
print(shardsolve.krylov.solve(2 * np.eye(3), np.ones(3)).tolist())
"""
    assert python(program, JAX_ENABLE_X64="0").strip() == "[0.5, 0.5, 0.5]"


def test_numbers_in_another_order_of_bytes_are_taken():
    x = krylov.solve(A, B.astype(">f8"), x0=np.zeros(N, np.longdouble))
    np.testing.assert_allclose(x, EXACT, atol=1e-7)


@pytest.mark.parametrize("name", ["A", "b", "x0"])
def test_masked_arrays_are_refused(name):
    masked = {"A": np.ma.masked_array(A.toarray()), "b": np.ma.masked_array(B, B > 0)}
    masked["x0"] = masked["b"]
    given = {"A": A, "b": B, **{name: masked[name]}}
    with pytest.raises(TypeError, match=f"{name} is a masked array"):
        krylov.solve(**given)
