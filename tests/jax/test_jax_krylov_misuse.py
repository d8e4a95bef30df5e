"""Krylov solves: what is refused, with what was given, what is accepted and what to do."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from functions import several_devices
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from krylov_systems import N, laplacian, on_mesh, right

from shardsolve import CSR, krylov

A, B = laplacian(8), right(8)


def product(x):
    return A @ x


def by_numpy(x):
    return jnp.asarray(np.asarray(x) * 2)


def by_its_numbers(x):
    return x if x[0] > 0 else 2 * x


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        # b
        (lambda: krylov.solve(A, np.ones(8, int)), TypeError, "b has dtype int64"),
        (lambda: krylov.solve(A, np.ones(7)), ValueError, r"b has shape \(7,\).*pass \(8,\)"),
        (lambda: krylov.solve(A, np.ones((8, 2))), ValueError, "go through jax.vmap"),
        (
            lambda: krylov.solve(A, B.astype("float32")),
            TypeError,
            r"A is float64 and b is float32: pass both in one dtype, b by \.astype\('float64'\)$",
        ),
        (
            lambda: krylov.solve(A, B.astype(complex)),
            TypeError,
            r"A by \.astype\('complex128'\), or solve for b\.real and b\.imag$",
        ),
        (
            lambda: krylov.solve(A, B.astype("complex64")),
            TypeError,
            r"A and b by \.astype\('complex128'\), or solve for b\.real",
        ),
        (
            lambda: krylov.solve(A.astype(complex), B),
            TypeError,
            r"A is complex128 and b is float64: .*, b by \.astype\('complex128'\)$",
        ),
        (
            lambda: krylov.solve(A, B, preconditioner=A.astype(complex)),
            TypeError,
            r"the preconditioner is complex128 .*, A and b by \.astype\('complex128'\)$",
        ),
        (lambda: krylov.solve(product, {}), ValueError, "b holds no arrays"),
        (
            lambda: krylov.solve(product, (B, B.astype("float32"))),
            TypeError,
            "float32 and float64; pass all in one dtype",
        ),
        # A
        (lambda: krylov.solve("A", B), TypeError, "A is a str; pass a function"),
        (lambda: krylov.solve(CSR.of(np.ones((8, 9))), B), ValueError, "pass a square matrix"),
        (lambda: krylov.solve(np.ones((8, 9)), B), ValueError, "pass a square matrix"),
        (lambda: krylov.solve(lambda x: x[:4], B), ValueError, r"returns float64\[4\] for float64"),
        (lambda: krylov.solve(lambda x: x.astype("float32"), B), ValueError, r"float32\[8\] for"),
        (lambda: krylov.solve(lambda x: (x, x), B), ValueError, "has to return what it is given"),
        (
            lambda: krylov.solve(lambda x: A @ x + 1, B, check_linear=True),
            ValueError,
            "A is not linear",
        ),
        (lambda: krylov.solve(jnp.eye(8, dtype=int), B), TypeError, "A has dtype int64"),
        (lambda: krylov.solve(lambda x: 1j * x, B), ValueError, r"returns complex128\[8\] for"),
        (lambda: krylov.solve(by_numpy, B), TypeError, "A as a function .* write it with jax.nump"),
        (lambda: krylov.solve(by_its_numbers, B), TypeError, "looks at the numbers .* jax.lax"),
        # preconditioners of other sizes
        *(
            (
                lambda make=make: krylov.solve(A, B, preconditioner=make(laplacian(5))),
                ValueError,
                "made of a matrix of 5 rows and b has 8: make it of A",
            )
            for make in (
                krylov.incomplete_lu,
                krylov.chebyshev,
                lambda a: krylov.block_jacobi(a, [0, 2, 5]),
            )
        ),
        (
            lambda: krylov.solve(A, B, preconditioner=krylov.jacobi(np.ones(5))),
            ValueError,
            r"b has shape \(8,\) and the diagonal for jacobi has shape \(5,\); "
            r"pass one of \(8,\)$",
        ),
        (
            lambda: krylov.solve(A, B, preconditioner=laplacian(5)),
            ValueError,
            r"the preconditioner has shape \(5, 5\); pass one of \(8, 8\)$",
        ),
        (
            lambda: krylov.chebyshev(CSR.of(np.ones((8, 9))), 0.1, 1.0),
            ValueError,
            r"the matrix has shape \(8, 9\); pass a square one",
        ),
        # options
        (lambda: krylov.solve(A, B, method="lu"), ValueError, "cg, minres, bicgstab, fgmres"),
        (lambda: krylov.solve(A, B, rtol=-1), ValueError, "rtol is -1; finite numbers from 0 on"),
        (lambda: krylov.solve(A, B, rtol="1e-8"), ValueError, "rtol is '1e-8'"),
        (lambda: krylov.solve(A, B, rtol=True), ValueError, "rtol is True"),
        (lambda: krylov.solve(A, B, atol=np.nan), ValueError, "atol is nan"),
        (lambda: krylov.solve(A, B, rtol=0), ValueError, "rtol = 0 and atol = 0"),
        (lambda: krylov.solve(A, B, max_iterations=0), ValueError, "max_iterations is 0"),
        (lambda: krylov.solve(A, B, max_iterations=1.5), ValueError, "pass a whole number"),
        (lambda: krylov.solve(A, B, restart=2000), ValueError, "1 to 1000"),
        (lambda: krylov.solve(A, B, on_failure="ignore"), ValueError, "raise, best, nan"),
        *(
            (
                lambda name=name: krylov.solve(A, B, **{name: "yes"}),
                ValueError,
                f"{name} is 'yes'; pass True or False",
            )
            for name in ("log", "full_output", "check_linear")
        ),
        (lambda: krylov.solve(A, B, axis_name=3), TypeError, "axis_name is 3; pass the name"),
        (
            lambda: jax.jit(lambda r: krylov.solve(A, B, rtol=r))(1e-3),
            TypeError,
            "rtol is traced",
        ),
        (
            lambda: jax.jit(lambda k: krylov.solve(A, B, max_iterations=k))(10),
            TypeError,
            "max_iterations is traced",
        ),
        *(
            (
                lambda name=name, value=value: jax.jit(lambda v: krylov.solve(A, B, **{name: v}))(
                    value
                ),
                TypeError,
                f"{name} is traced.*make the argument of jit static",
            )
            for name, value in (
                ("atol", 1e-3),
                ("restart", 5),
                ("method", 1),
                ("log", True),
                ("full_output", True),
                ("on_failure", 1),
                ("check_linear", True),
            )
        ),
        (
            lambda: jax.jit(lambda low: krylov.chebyshev(A, low, 4.3, 3))(0.3),
            TypeError,
            "low is traced",
        ),
        (
            lambda: jax.jit(lambda blocks: krylov.block_jacobi(A, blocks))(np.array([0, 8])),
            TypeError,
            "blocks is traced",
        ),
        (lambda: jax.jit(lambda r: krylov.diagnose(A, rtol=r))(0.1), TypeError, "rtol is traced"),
        (lambda: jax.jit(lambda d: krylov.diagnose(A.with_values(d)))(A.data), TypeError, "traces"),
        # x0
        (lambda: krylov.solve(A, B, x0=np.ones(7)), ValueError, r"x0 is float64\[7\] and b is"),
        (lambda: krylov.solve(A, B, x0=B.astype("float32")), ValueError, r"x0 is float32\[8\]"),
        (lambda: krylov.solve(A, B, x0=np.ones(8, int)), TypeError, "x0 has dtype int64"),
        (lambda: krylov.solve(A, B, x0=(B, B)), ValueError, r"x0 is .* and b is float64\[8\]"),
        # M
        (lambda: krylov.solve(A, B, preconditioner="ilu"), ValueError, "'jacobi' alone"),
        (lambda: krylov.solve(product, B, preconditioner="jacobi"), TypeError, "A as a CSR"),
        (
            lambda: krylov.solve(A, B, preconditioner=krylov.jacobi(np.ones(7))),
            ValueError,
            "the diagonal for jacobi",
        ),
        (
            lambda: krylov.solve(A, B, preconditioner=krylov.jacobi(np.ones(8, "float32"))),
            TypeError,
            r"float32 and b is float64.*the diagonal for jacobi by \.astype\('float64'\)",
        ),
        (
            lambda: krylov.solve(A, B, preconditioner=CSR.of(np.eye(9))),
            ValueError,
            r"the preconditioner has shape \(9, 9\); pass one of \(8, 8\)",
        ),
        (
            lambda: krylov.solve(A, B, preconditioner=lambda r: r[:4]),
            ValueError,
            r"the preconditioner as a function returns float64\[4\] for float64\[8\]",
        ),
        (
            lambda: krylov.solve(A, B, preconditioner=lambda r: r.astype("float32")),
            ValueError,
            r"the preconditioner as a function returns float32\[8\]",
        ),
        (
            lambda: krylov.solve(A, B, preconditioner=by_numpy),
            TypeError,
            "the preconditioner as a function looks at the numbers",
        ),
        (lambda: krylov.jacobi(np.ones((2, 2))), ValueError, r"pass \(n,\), or a CSR"),
        (lambda: krylov.chebyshev(A, 2.0, 1.0, 3), ValueError, "0 < low < high"),
        (lambda: krylov.chebyshev(A, low=0.1), ValueError, "from 0.1 to None of degree 6 given"),
        (lambda: krylov.chebyshev(CSR.of(np.ones((8, 9)))), ValueError, r"\(n, n\)"),
        (
            lambda: krylov.chebyshev(CSR.of(np.full((8, 8), 1e308))),
            ValueError,
            "products with this matrix leave the range of float64",
        ),
        (
            lambda: krylov.chebyshev(CSR.of(np.triu(np.ones((8, 8))))),
            ValueError,
            "chebyshev is for Hermitian matrices",
        ),
        (
            lambda: jax.jit(lambda d: krylov.chebyshev(A.with_values(d)))(A.data),
            TypeError,
            "are traced: pass low and high",
        ),
        (
            lambda: krylov.solve(krylov.chebyshev(A, 0.3, 4.3, 3), B),
            TypeError,
            "A is a preconditioner, which is about the inverse",
        ),
        (lambda: krylov.solve(krylov.block_jacobi(A, 2), B), TypeError, "A is a preconditioner"),
        (lambda: krylov.block_jacobi(A, [0, 5]), ValueError, "end with 8"),
        (lambda: krylov.block_jacobi(A, [0, 5, 5, 8]), ValueError, "rise"),
        (lambda: krylov.from_pyamg(A), TypeError, "what a solver of PyAMG returned"),
        (lambda: krylov.solve(A, B, axis_name="x"), ValueError, "outside of shard_map"),
    ],
)
def test_what_makes_no_sense_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_array_of_float64_is_not_rounded_in_silence(python):
    program = """
import numpy as np, shardsolve
try:
    shardsolve.krylov.solve(lambda x: x, np.ones(3))
except TypeError as error:
    assert "64-bit types are off" in str(error), error
    print("refused")
"""
    assert python(program, JAX_ENABLE_X64="0").split() == ["refused"]


def test_solves_work_without_64_bit_types(python):
    program = """
import jax, numpy as np, scipy.sparse as sp, shardsolve
a = shardsolve.CSR.of(sp.diags([-1, 2.5, -1], [-1, 0, 1], (50, 50)).astype(np.float32))
b = np.linspace(1, 2, 50).astype(np.float32)
for method in shardsolve.krylov.METHODS:
    x, info = shardsolve.krylov.solve(a, b, method=method, rtol=1e-5, full_output=True, log=True)
    assert info.is_converged and len(info.log), info.message
    g = jax.grad(lambda b: shardsolve.krylov.solve(a, b, method=method, rtol=1e-5).sum())(b)
    assert g.dtype == np.float32
print("solved")
"""
    assert python(program, JAX_ENABLE_X64="0").split() == ["solved"]


@several_devices
def test_arrays_on_other_devices_are_named():
    first, last = jax.devices()[0], jax.devices()[-1]
    b = jax.device_put(right(8), first)
    a = A.with_values(jax.device_put(A.data, last))
    with pytest.raises(ValueError, match=r"the operator has an array on the devices \[\d\] and b"):
        krylov.solve(a, b)
    m = krylov.jacobi(jax.device_put(np.ones(8), last))
    with pytest.raises(ValueError, match="the preconditioner has an array on the devices"):
        krylov.solve(A, b, preconditioner=m)
    weights = jax.device_put(np.ones(8), last)
    with pytest.raises(ValueError, match=r"move one with jax\.device_put"):
        krylov.solve(lambda x: weights * x, b)

    with pytest.raises(ValueError, match="x0 has an array on the devices"):
        krylov.solve(A, b, x0=jax.device_put(B, last))


@several_devices
def test_arrays_on_another_mesh_are_named():
    devices = np.array(jax.devices())
    b = on_mesh(right())
    backwards = Mesh(devices[::-1], ("x",), axis_types=(AxisType.Auto,))
    weights = jax.device_put(np.full(N, 2.3), NamedSharding(backwards, PartitionSpec("x")))
    with pytest.raises(ValueError, match=r"on the devices .*, in this order: move one with"):
        krylov.solve(lambda x: weights * x, b)
    other = Mesh(devices, ("y",), axis_types=(AxisType.Auto,))
    weights = jax.device_put(np.full(N, 2.3), NamedSharding(other, PartitionSpec("y")))
    assert np.allclose(2.3 * krylov.solve(lambda x: weights * x, b), b)  # the same devices
    explicit = Mesh(devices, ("y",), axis_types=(AxisType.Explicit,))
    weights = jax.device_put(np.full(N, 2.3), NamedSharding(explicit, PartitionSpec("y")))
    with pytest.raises(ValueError, match="an array on another mesh than that of b: put it on that"):
        krylov.solve(lambda x: weights * x, on_mesh(right(), AxisType.Explicit))


@several_devices
def test_shard_map_that_checks_is_named():
    run = jax.shard_map(
        lambda b: krylov.solve(laplacian(), b, axis_name="x"),
        mesh=on_mesh(right()).sharding.mesh,
        in_specs=PartitionSpec("x"),
        out_specs=PartitionSpec("x"),
    )
    with pytest.raises(ValueError, match="pass check_vma=False"):
        jax.jit(run)(right(N))


def test_message_is_not_there_while_jax_traces():
    def run(b):
        return krylov.solve(A, b, full_output=True)[1].message

    with pytest.raises(TypeError, match="return info from the function"):
        jax.jit(run)(B)


def test_linear_functions_pass_the_check():
    assert np.isfinite(krylov.solve(product, B, check_linear=True)).all()
    assert np.isfinite(krylov.solve(sp.eye(8).tocsr(), jnp.asarray(B), check_linear=True)).all()
