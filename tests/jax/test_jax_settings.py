"""Every function under the settings with which JAX refuses what it would do by itself.

That is to convert dtypes, to add axes, and to move what nobody has put anywhere.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from krylov_systems import laplacian
from systems import general, hermitian, more, normal, put, row_mesh, sides, spread

import shardsolve
from shardsolve import krylov, natural
from shardsolve.compat import jaxmg

N = 24
T_A = 8
solve = functools.partial(shardsolve.solve, assume_a="pos")


def rectangle(m, n, dtype):
    return normal(np.random.default_rng(5), (m, n), dtype)


ARGUMENTS = {
    "h": hermitian,
    "h2": lambda n, dtype: hermitian(n, dtype, seed=3),
    "g": general,
    "tall": lambda n, dtype: rectangle(n, n // 2, dtype),
    "wide": lambda n, dtype: rectangle(n // 2, n, dtype),
    "o": lambda n, dtype: rectangle(n, 2 * n, dtype),
    "b": lambda n, dtype: sides(n, None, dtype),
    "half": lambda n, dtype: sides(n // 2, None, dtype),
    "twice": lambda n, dtype: sides(2 * n, None, dtype),
    "c": lambda n, dtype: sides(n, 3, dtype),
}


def with_factor(name):
    return lambda a, b: getattr(shardsolve.cho_factor(a), name)(b)


def gradient(o, f, **options):
    mode = "holomorphic" if o.dtype.kind == "c" else "real"
    return natural.solve(o, f, 0.01, **{"mode": mode, **options})


# The names of the arguments, and what is called with them.
CALLS = {
    "solve": ("h b", solve),
    "solve_gen": ("g c", shardsolve.solve),
    "inv": ("h", shardsolve.inv),
    "inv_gen": ("g", lambda a: shardsolve.inv(a, assume_a="gen")),
    "cho_solve": ("h c", lambda a, b: shardsolve.cho_solve(shardsolve.cho_factor(a), b)),
    "lu_solve": ("g b", lambda a, b: shardsolve.lu_solve(shardsolve.lu_factor(a), b, 1)),
    "half_solve": ("h b", with_factor("half_solve")),
    "half_product": ("h c", with_factor("half_product_adjoint")),
    "logdet": ("h", shardsolve.logdet),
    "slogdet": ("g", lambda a: shardsolve.slogdet(a, assume_a="gen")),
    "det": ("g", shardsolve.det),
    "cond": ("g", lambda a: shardsolve.cond(a, 1, assume_a="gen")),
    "cond_2": ("tall", lambda a: shardsolve.cond(a, 2)),
    "lu": ("g", shardsolve.lu),
    "cholesky": ("h", shardsolve.cholesky),
    "eigh": ("h", shardsolve.eigh),
    "eigh_of_two": ("h h2", shardsolve.eigh),
    "eigh_by_index": ("h", lambda a: shardsolve.eigh(a, subset_by_index=(1, 3))),
    "eigh_by_value": ("h", lambda a: shardsolve.eigh(a, subset_by_value=(0.5, 2))),
    "eigvalsh": ("h", shardsolve.eigvalsh),
    "eigvalsh_of_two": ("h h2", shardsolve.eigvalsh),
    "matrix_function": ("h", functools.partial(shardsolve.matrix_function, jnp.exp)),
    "trace_function": ("h", functools.partial(shardsolve.trace_function, jnp.log)),
    "qr": ("tall", lambda a: shardsolve.qr(a, full_output=True)),
    "qr_in_rows": ("g", shardsolve.qr),
    "qr_r": ("tall", lambda a: shardsolve.qr(a, "r")),
    "pinv": ("tall", shardsolve.pinv),
    "pinv_wide": ("wide", shardsolve.pinv),
    "svd": ("tall", lambda a: shardsolve.svd(a, full_output=True)),
    "svd_wide": ("wide", shardsolve.svd),
    "svdvals": ("tall", shardsolve.svdvals),
    "matrix_rank": ("tall", shardsolve.matrix_rank),
    "matrix_rank_rtol": ("tall", lambda a: shardsolve.matrix_rank(a, 0.1)),
    "polar": ("tall", lambda a: shardsolve.polar(a, full_output=True)),
    "least_squares": ("tall b", shardsolve.least_squares),
    "least_squares_wide": ("wide half", shardsolve.least_squares),
    "lstsq": ("tall c", shardsolve.lstsq),
    "ridge": ("tall b", lambda a, b: shardsolve.ridge(a, b, 0.1)),
    "ridge_wide": ("wide half", lambda a, b: shardsolve.ridge(a, b, 0.1)),
    "ridge_eps": ("tall b", lambda a, b: shardsolve.ridge(a, b, jnp.linalg.norm(b))),
    "natural": ("o b", gradient),
    "natural_momentum": ("o b twice", lambda o, f, m: gradient(o, f, momentum=m)),
    "natural_smooth": ("o b", functools.partial(gradient, solver="smooth_pinv")),
    "natural_complex": ("o b", functools.partial(gradient, mode="complex")),
    "potrs": (
        "h b",
        lambda a, b: jaxmg.potrs(a, b, T_A, return_status=True, return_logdet=True),
    ),
    "potri": ("h", lambda a: jaxmg.potri(a, T_A, return_status=True)),
    "jaxmg_lu_solve": ("g b", lambda a, b: jaxmg.lu_solve(a, b, T_A, return_status=True)),
    "syevd": ("h", lambda a: jaxmg.syevd(a, T_A, return_status=True)),
    "jaxmg_qr": ("tall", lambda a: jaxmg.qr(a, T_A, return_status=True)),
    "jaxmg_least_squares": (
        "tall b",
        lambda a, b: jaxmg.least_squares(a, b, T_A, return_status=True),
    ),
    "gesvd": ("tall", lambda a: jaxmg.gesvd(a, T_A, return_status=True)),
    "jaxmg_polar": ("tall", lambda a: jaxmg.polar(a, T_A, return_status=True)),
    "krylov": ("h b", krylov.solve),
    "krylov_checked": (
        "h b",
        lambda a, b: krylov.solve(lambda x: a @ x, b, method="minres", check_linear=True),
    ),
    "krylov_nan": ("h b", functools.partial(krylov.solve, on_failure="nan")),
}
NOT_TRACED = {"eigh_by_value", "krylov_checked"}
ON_ONE_DEVICE = {"solve", "cond_2", "eigh", "matrix_rank", "lstsq", "ridge", "syevd"}
LIKE_OTHERS = {
    *("eigh_by_index", "natural_momentum", "natural_smooth", "natural_complex"),
    *("pinv_wide", "least_squares_wide", "ridge_wide", "jaxmg_qr", "jaxmg_least_squares"),
    *("qr_r", "cho_solve", "solve_gen", "krylov_nan", "half_product", "potri"),
}
HAVE_NO_DERIVATIVE = {"cond", "matrix_rank", "matrix_rank_rtol"}
CONSTANT = {"o"}  # no derivatives by it

SETTINGS = {
    "dtypes": lambda: jax.numpy_dtype_promotion("strict"),
    "ranks": lambda: jax.numpy_rank_promotion("raise"),
}


def arguments(call, dtype, n=N):
    names, function = CALLS[call]
    return function, names.split(), [ARGUMENTS[name](n, dtype) for name in names.split()]


@pytest.mark.parametrize(
    ("call", "where"),
    [more(call, "several") if call in LIKE_OTHERS else (call, "several") for call in CALLS]
    + [(call, "one") if call in ON_ONE_DEVICE else more(call, "one") for call in CALLS],
)
def test_call_does_what_jax_would_not(call, where):
    function, _, values = arguments(call, "float64")
    values = [spread(one) if where == "several" else jax.device_put(one) for one in values]
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        jax.block_until_ready(function(*values))  # what is compiled may hold constants
        with jax.transfer_guard("disallow"):
            jax.block_until_ready(function(*values))


@pytest.mark.parametrize(
    ("setting", "dtype", "n"),  # sizes have ways of their own
    (
        ("dtypes", "complex128", 130),
        ("ranks", "float64", 130),
        more("dtypes", "complex128", N),
        more("dtypes", "float32", N),
        more("ranks", "complex64", N),
    ),
)
@pytest.mark.parametrize("call", [call for call in CALLS if call not in NOT_TRACED])
def test_derivative_does_what_jax_would_not(call, setting, dtype, n):
    function, names, values = arguments(call, dtype, n)

    def scalar(*values):
        leaves = jax.tree.leaves(function(*values))
        sizes = [jnp.sum(jnp.square(jnp.abs(one))) for one in leaves if one.dtype.kind in "fc"]
        return sum(sizes[1:], sizes[0])

    by = tuple(i for i, name in enumerate(names) if name not in CONSTANT)
    run = function if call in HAVE_NO_DERIVATIVE else jax.grad(scalar, by)
    with SETTINGS[setting]():
        jax.make_jaxpr(run)(*values)


@pytest.mark.parametrize("preconditioner", ("jacobi", "block_jacobi", "chebyshev"))
def test_sparse_matrix_transfers_nothing_by_itself(preconditioner):
    everywhere = row_mesh()
    a = jax.tree.map(lambda data: put(data, everywhere), laplacian(4 * N))
    b = spread(sides(4 * N))
    made = {
        "jacobi": krylov.jacobi,
        "block_jacobi": lambda a: krylov.block_jacobi(a, 4),
        "chebyshev": krylov.chebyshev,
    }[preconditioner]

    # Of a CSR alone: its pattern lies on the host, and products outside of a solve bring it along.
    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        jax.block_until_ready((a @ b, a.T.data, a.diagonal(), a.todense()))
        m = made(a)
        jax.block_until_ready(krylov.solve(a, b, preconditioner=m))
        with jax.transfer_guard("disallow"):
            jax.block_until_ready(krylov.solve(a, b, preconditioner=m))


def residuals(params, x):
    return jnp.tanh(jnp.dot(x, params["w"])) + params["b"] - 1


@pytest.mark.parametrize(
    "options", ({}, {"momentum": 0.5, "adapt": True, "chunk": 5}), ids=("usual", "chunks")
)
def test_optimiser_transfers_nothing_by_itself(options):
    optimiser = natural.natural_gradient(residuals, 0.01, **options)
    batch = spread(rectangle(N, 36, "float64"))
    params = {"w": put(np.full(36, 0.1), row_mesh()), "b": put(np.float64(0), row_mesh())}

    def run():
        return optimiser.update(batch, optimiser.init(params), params)

    with jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        jax.block_until_ready(run())
        with jax.transfer_guard("disallow"):
            jax.block_until_ready(run())


def test_few_rows_promote_no_rank():
    a = np.diag([1.0, 2.0, 3.0]).astype("float32")
    with jax.numpy_rank_promotion("raise"):
        w = shardsolve.eigh(jnp.asarray(a), full_output=True)[0]
    np.testing.assert_allclose(w, [1, 2, 3], rtol=1e-6)
