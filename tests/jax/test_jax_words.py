"""Words of SciPy, NumPy, JAX, lineax and PETSc: accepted if they mean the same, else explained."""

from __future__ import annotations

import inspect
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg
from functions import N
from krylov_systems import bits, convection, laplacian, right
from systems import hermitian, sides

import shardsolve
from shardsolve import _words, krylov

A, B = hermitian(N), sides(N)
SPARSE, RIGHT = laplacian(N), right(N)

# Each of ours with its words and those of others that it replaces.
PEERS = [
    (shardsolve.solve, _words.SOLVE, (scipy.linalg.solve, jax.scipy.linalg.solve)),
    (shardsolve.cho_factor, _words.CHO_FACTOR, (scipy.linalg.cho_factor,)),
    (shardsolve.cho_solve, _words.CHO_SOLVE, (scipy.linalg.cho_solve,)),
    (shardsolve.inv, _words.INV, (scipy.linalg.inv, jnp.linalg.inv)),
    (shardsolve.cholesky, _words.CHOLESKY, (scipy.linalg.cholesky, jnp.linalg.cholesky)),
    (
        shardsolve.eigh,
        _words.EIGH,
        (scipy.linalg.eigh, jax.scipy.linalg.eigh, np.linalg.eigh, jnp.linalg.eigh),
    ),
    (shardsolve.eigvalsh, _words.EIGH, (scipy.linalg.eigvalsh, jnp.linalg.eigvalsh)),
    (
        krylov.solve,
        _words.KRYLOV,
        (
            *(getattr(scipy.sparse.linalg, name) for name in ("cg", "minres", "bicgstab", "gmres")),
            jax.scipy.sparse.linalg.cg,
            jax.scipy.sparse.linalg.gmres,
        ),
    ),
]


@pytest.mark.parametrize(("ours", "words", "theirs"), PEERS, ids=lambda one: str(one)[:40])
def test_every_argument_of_what_it_replaces_is_known(ours, words, theirs):
    own = inspect.signature(ours).parameters
    for function in theirs:
        for word in list(inspect.signature(function).parameters)[1:]:
            assert word in own or word in words, (function, word)
    for word, meaning in words.items():
        assert word not in own, word
        if isinstance(meaning, _words.Is):
            assert meaning.here in own, word


def test_names_of_methods_and_preconditioners_mean_what_there_is():
    for table, accepted in (
        (_words.KRYLOV_METHODS, krylov.METHODS),
        (_words.PRECONDITIONERS, ("jacobi", None)),
    ):
        for word, meaning in table.items():
            assert word not in accepted
            assert isinstance(meaning, _words.Not) or meaning.here in accepted, word


# Where `ours` and `theirs` are the same call.
SAME = {
    "check_finite": (
        lambda: shardsolve.solve(A, B, assume_a="pos", check_finite=True, overwrite_b=False),
        lambda: shardsolve.solve(A, B, assume_a="pos"),
    ),
    "sym_pos": (
        lambda: shardsolve.solve(A, B, sym_pos=True),
        lambda: shardsolve.solve(A, B, assume_a="pos"),
    ),
    "not_sym_pos": (
        lambda: shardsolve.solve(A, B, sym_pos=False),
        lambda: shardsolve.solve(A, B, assume_a="gen"),
    ),
    "lower_of_cholesky": (
        lambda: (shardsolve.cholesky(A, lower=True), shardsolve.cholesky(A, lower=False)),
        lambda: (shardsolve.cholesky(A), shardsolve.cholesky(A, upper=True)),
    ),
    "inv": (lambda: shardsolve.inv(A, assume_a="pos"), lambda: shardsolve.inv(A)),
    "eigvals": (
        lambda: shardsolve.eigvalsh(A, eigvals=(1, 3), type=1, driver=None),
        lambda: shardsolve.eigvalsh(A, subset_by_index=(1, 3)),
    ),
    "scipy_cg": (
        lambda: krylov.solve(SPARSE, RIGHT, tol=1e-3, maxiter=50, M=SPARSE, callback=None),
        lambda: krylov.solve(SPARSE, RIGHT, rtol=1e-3, max_iterations=50, preconditioner=SPARSE),
    ),
    "scipy_defaults": (
        lambda: krylov.solve(SPARSE, RIGHT, tol=None, maxiter=None, M=None, x0=None, atol=0.0),
        lambda: krylov.solve(SPARSE, RIGHT),
    ),
    "scipy_minres": (
        lambda: krylov.solve(SPARSE, RIGHT, method="minres", shift=0.0, show=False, check=False),
        lambda: krylov.solve(SPARSE, RIGHT, method="minres"),
    ),
    "scipy_gmres": (
        lambda: krylov.solve(convection(N), RIGHT, method="gmres", restart=7, maxiter=None),
        lambda: krylov.solve(convection(N), RIGHT, method="fgmres", restart=7),
    ),
    "petsc": (
        lambda: krylov.solve(convection(N), RIGHT, ksp_type="bcgs", pc_type="none", max_it=90),
        lambda: krylov.solve(convection(N), RIGHT, method="bicgstab", max_iterations=90),
    ),
    "lineax": (
        lambda: krylov.solve(SPARSE, RIGHT, max_steps=60, throw=True),
        lambda: krylov.solve(SPARSE, RIGHT, max_iterations=60),
    ),
    "diagnose": (
        lambda: krylov.diagnose(SPARSE, tol=1e-3).trials[0].iterations,
        lambda: krylov.diagnose(SPARSE, rtol=1e-3).trials[0].iterations,
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_word_that_means_the_same_gives_the_same_bits(case):
    theirs, ours = (jax.tree.map(bits, call()) for call in SAME[case])
    assert theirs == ours


def test_lower_of_cholesky_is_that_of_scipy():
    np.testing.assert_allclose(
        shardsolve.cholesky(A, lower=True), scipy.linalg.cholesky(A, lower=True), atol=1e-12
    )


def test_gmres_is_that_of_scipy_to_the_iteration():
    """Without a preconditioner fgmres is gmres: the same residual after as many iterations."""
    residuals = []
    a = scipy.sparse.csr_array(np.asarray(convection(N).todense()))
    scipy.sparse.linalg.gmres(
        a, RIGHT, rtol=1e-8, restart=40, callback=residuals.append, callback_type="pr_norm"
    )
    _, info = krylov.solve(
        convection(N), RIGHT, method="gmres", rtol=1e-8, restart=40, full_output=True
    )
    assert info.iterations == len(residuals)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        # Dense
        (lambda: shardsolve.solve(A, B, assume_a="pos", lower=True), TypeError, "both triangles"),
        (lambda: shardsolve.eigh(A, UPLO="L"), TypeError, r"T \+ T\^H - diag\(T\)"),
        (lambda: shardsolve.eigvalsh(A, lower=True), TypeError, "eigvalsh has no argument 'lower'"),
        (lambda: shardsolve.cho_factor(A, lower=True), TypeError, r"shardsolve\.cholesky\(a\)"),
        (lambda: shardsolve.inv(A, check_finite=False), TypeError, "always looked for here: leave"),
        (lambda: shardsolve.eigh(A, b=A, type=2), TypeError, r"eigh\(l\.conj\(\)\.T @ a @ l\)"),
        (lambda: shardsolve.eigh(A, type=jnp.ones(2)), TypeError, "which is type 1"),
        (lambda: shardsolve.eigh(A, driver="evd"), TypeError, "no such choice here: leave it out"),
        (lambda: shardsolve.eigh(A, k=3), TypeError, r"subset_by_index=\(0, k - 1\)"),
        (lambda: shardsolve.solve(A, B, overwrite_b=True), TypeError, "b is always kept"),
        (lambda: shardsolve.solve(A, B, transposed=True), TypeError, r"pass a\.T"),
        (lambda: shardsolve.cholesky(A, overwrite_a=True), TypeError, "a is always kept"),
        (lambda: shardsolve.cholesky(A, symmetrize_input=True), TypeError, r"\(a \+ a\.conj\(\)"),
        (lambda: shardsolve.solve(A, B, assume_a="hermitian"), ValueError, "'pos'.*'minres'"),
        (lambda: shardsolve.solve(A, B, assume_a="diagonal"), ValueError, r"b / jnp\.diag\(a\)"),
        (lambda: shardsolve.solve(A, B, assume_a="upper triangular"), ValueError, "triangular,"),
        # Krylov
        (lambda: krylov.solve(SPARSE, RIGHT, callback=print), TypeError, "log=True, full_output"),
        (lambda: krylov.solve(SPARSE, RIGHT, shift=0.5), TypeError, r"- shift \* x"),
        (lambda: krylov.solve(SPARSE, RIGHT, throw=False), TypeError, "on_failure='best'"),
        (lambda: krylov.solve(SPARSE, RIGHT, ksp_rtol=1e-3), TypeError, "rtol= here, of the resid"),
        (
            lambda: krylov.solve(SPARSE, RIGHT, method="gmres", maxiter=10),
            TypeError,
            "counts cycles.*pass max_iterations=, maxiter times restart",
        ),
        (lambda: krylov.solve(SPARSE, RIGHT, tol=-1), ValueError, "rtol is -1"),
        (lambda: krylov.solve(SPARSE, RIGHT, method="preonly"), ValueError, "'preonly'.*cho_solve"),
        (lambda: krylov.solve(SPARSE, RIGHT, ksp_type="lsqr"), ValueError, "'lsqr'.*cg of A^H A"),
        (
            lambda: krylov.solve(SPARSE, RIGHT, method="tfqmr"),
            ValueError,
            "bicgstab, fgmres: .*any",
        ),
        (lambda: krylov.solve(SPARSE, RIGHT, preconditioner="ilu"), ValueError, "incomplete_lu"),
        (lambda: krylov.solve(SPARSE, RIGHT, pc_type="icc"), ValueError, "incomplete_cholesky"),
        (lambda: krylov.solve(SPARSE, RIGHT, pc_type="gamg"), ValueError, "'gamg'.*from_pyamg"),
        # Any
        (lambda: krylov.solve(SPARSE, RIGHT, nothing=1), TypeError, "no argument 'nothing'; there"),
        (lambda: shardsolve.solve(A, B, True), TypeError, "solve takes a and b by position, and 3"),
        (lambda: krylov.solve(SPARSE, RIGHT, RIGHT), TypeError, "by name: method, preconditioner"),
        (
            lambda: krylov.solve(SPARSE, RIGHT, tol=1e-3, rtol=1e-3),
            TypeError,
            "tol and rtol, which are the same: pass one",
        ),
    ],
)
def test_word_that_means_nothing_here_says_what_to_do(call, kind, message):
    message = message.replace("A^H", r"A\^H")
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("name", ("cg", "gmres", "LinearOperator", "spsolve", "nothing"))
def test_name_that_krylov_has_not_says_what_there_is(name):
    with pytest.raises(AttributeError, match=rf"shardsolve\.krylov has no {name}.*There are METHO"):
        getattr(krylov, name)
    assert not hasattr(krylov, "__wrapped__")


def test_functions_show_the_arguments_that_they_have():
    for function, *_ in PEERS:
        kinds = {one.kind for one in inspect.signature(function).parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds, function
        assert function.__doc__


def test_words_are_understood_inside_of_jit():
    ours = jax.jit(lambda b: krylov.solve(SPARSE, b, tol=1e-3, maxiter=50))(RIGHT)
    assert bits(ours) == bits(krylov.solve(SPARSE, RIGHT, rtol=1e-3, max_iterations=50))


def test_warning_of_eigh_names_the_line_that_called():
    """Of a pair whose B is so ill conditioned that residuals suffer."""
    x = np.sort(np.random.default_rng(1).uniform(size=65))
    b = np.exp(-((x[:, None] - x) ** 2) / 0.18) + 1e-10 * np.eye(65)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        shardsolve.eigh(hermitian(65) - np.eye(65), b)
    assert [one.filename for one in found] == [__file__]
