"""Krylov solves and their derivatives wherever A and b lie on a mesh, of one device or of all."""

from __future__ import annotations

import contextlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from krylov_systems import convection
from systems import DEVICES, more

from shardsolve import krylov

N = 12 * DEVICES
WEIGHTS, B = np.cos(np.arange(N)), np.sin(np.arange(N))
CSR = convection(N)
A = np.asarray(CSR.todense())

MESHES = {
    f"{kind.name.lower()}_{'one' if count == 1 else 'all'}": (kind, count)
    for kind in (AxisType.Explicit, AxisType.Auto)
    for count in (1, DEVICES)
}
OPERATORS = ("rows", "columns", "whole", "nowhere", "csr", "function")
SIDES = ("cut", "whole", "nowhere")
# The first of these fail or have failed each in its own way; paths of others are among them.
FIRST = {
    *(("explicit_one", operator, "cut") for operator in ("rows", "columns", "csr", "function")),
    *(("explicit_all", operator, "cut") for operator in ("columns", "whole", "function")),
    ("explicit_one", "rows", "whole"),
    ("auto_one", "rows", "cut"),
}
CASES = [
    case if case in FIRST else more(*case) for case in itertools.product(MESHES, OPERATORS, SIDES)
]


def mesh_of(name: str) -> Mesh:
    kind, count = MESHES[name]
    return Mesh(np.array(jax.devices()[:count]), ("x",), axis_types=(kind,))


def put(value, mesh: Mesh, where: str):
    specs = {"rows": ("x", None), "columns": (None, "x"), "cut": ("x",), "whole": ()}
    if where == "nowhere":
        return jnp.asarray(value)
    return jax.device_put(value, NamedSharding(mesh, PartitionSpec(*specs[where])))


def derivatives(solve, whole=lambda x: x):
    """Of a loss: value, gradients in both arguments, a tangent, a second derivative."""

    def run(a, b):
        def loss(a, b):
            return jnp.vdot(jnp.asarray(WEIGHTS), jnp.sin(whole(solve(a, b))))

        ones = jax.tree.map(jnp.ones_like, (a, b))
        value, gradients = jax.value_and_grad(loss, (0, 1))(a, b)
        tangent = jax.jvp(lambda b: loss(a, b), (b,), (ones[1],))[1]
        second = jax.jvp(jax.grad(loss, 1), (a, b), ones)[1]
        return solve(a, b), value, gradients, tangent, second

    return run


@pytest.mark.parametrize(("mesh", "operator", "side"), CASES)
def test_derivatives_are_those_of_a_dense_solve(mesh, operator, side):
    mesh = mesh_of(mesh)
    b = put(B, mesh, side)

    if operator == "function":
        a = put(WEIGHTS, mesh, side)

        def ours(a, b):
            return krylov.solve(lambda x: (3 + a) * x, b, method="fgmres", rtol=1e-12)

        def theirs(a, b):
            return b / (3 + a)
    else:
        a = CSR if operator == "csr" else put(A, mesh, operator)

        def ours(a, b):
            return krylov.solve(a, b, method="fgmres", rtol=1e-12)

        def theirs(a, b):
            return jnp.linalg.solve(a.todense() if operator == "csr" else a, b)

    is_explicit = mesh.axis_types[0] == AxisType.Explicit

    def whole(x):
        return jax.sharding.reshard(x, PartitionSpec()) if is_explicit else x

    host = a if operator == "csr" else jnp.asarray(np.asarray(a))
    expected = jax.jit(derivatives(theirs))(host, jnp.asarray(B))
    with jax.set_mesh(mesh) if is_explicit else contextlib.nullcontext():
        found = jax.jit(derivatives(ours, whole))(a, b)
    jax.tree.map(lambda u, v: np.testing.assert_allclose(u, v, rtol=0, atol=1e-9), found, expected)
    if is_explicit and side != "nowhere":
        assert found[0].sharding.is_equivalent_to(b.sharding, 1)


@pytest.mark.parametrize("count", [1, more(DEVICES)])
def test_pytree_guess_and_diagonal_on_explicit_axes(count):
    """Leaves that lie in different ways: x lies as b, leaf by leaf, and a function sees it so."""
    mesh = Mesh(np.array(jax.devices()[:count]), ("x",), axis_types=(AxisType.Explicit,))
    b = {"cut": put(B, mesh, "cut"), "whole": put(B[:4], mesh, "whole")}
    weights = jax.tree.map(lambda leaf: 3 + leaf, b)
    diagonal = put(np.concatenate([3 + B, 3 + B[:4]]), mesh, "whole")

    def product(x):
        return jax.tree.map(jnp.multiply, weights, x)

    def solved(b):
        m = krylov.jacobi(diagonal)
        return krylov.solve(product, b, preconditioner=m, x0=weights, rtol=1e-12)

    def loss(b):
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(solved(b)))

    with jax.set_mesh(mesh):
        x, gradient = jax.jit(lambda b: (solved(b), jax.grad(loss)(b)))(b)
        outside = solved(b)
    for name, leaf in b.items():
        exact = np.asarray(leaf) / np.asarray(weights[name])
        np.testing.assert_allclose(x[name], exact, atol=1e-11)
        np.testing.assert_allclose(outside[name], exact, atol=1e-11)
        np.testing.assert_allclose(gradient[name], 2 * exact / np.asarray(weights[name]), atol=1e-9)
        assert x[name].sharding.is_equivalent_to(leaf.sharding, 1)


@pytest.mark.parametrize("way", ["eager", more("jit")])
def test_gradient_by_b_of_a_dense_matrix_on_the_mesh_of_make_mesh(way):
    """Explicit axes from jax 0.9 on, if nothing is asked for; one device."""
    mesh = jax.make_mesh((1,), ("x",), devices=jax.devices()[:1])
    a, b = put(A + A.T, mesh, "rows"), put(B, mesh, "cut")

    def loss(b):
        return jnp.sum(krylov.solve(a, b, method="minres", rtol=1e-12) ** 2)

    with jax.set_mesh(mesh):
        gradient = (jax.grad(loss) if way == "eager" else jax.jit(jax.grad(loss)))(b)
    inverse = np.linalg.inv(A + A.T)
    np.testing.assert_allclose(gradient, 2 * inverse @ inverse @ B, atol=1e-9)


@pytest.mark.devices
@pytest.mark.parametrize("method", ["cg", "minres", "bicgstab", "fgmres"])
def test_rows_on_explicit_axes_and_a_vector_on_all_need_no_mesh_that_is_set(method):
    mesh = Mesh(np.array(jax.devices()), ("x",), axis_types=(AxisType.Explicit,))
    a = 2.0 * np.eye(4 * len(jax.devices())) + 0.01
    b = jax.device_put(np.ones(len(a)), NamedSharding(mesh, PartitionSpec()))
    cut = jax.device_put(a, NamedSharding(mesh, PartitionSpec("x")))
    x = krylov.solve(cut, b, method=method, rtol=1e-10)
    assert x.sharding.is_fully_replicated
    np.testing.assert_allclose(a @ np.asarray(x), 1, atol=1e-8)


@pytest.mark.skipif(DEVICES % 2 != 0 or DEVICES < 4, reason="two axes of a mesh")
@pytest.mark.parametrize("cut", [("x",), ("y",), (("x", "y"),), ()])
@pytest.mark.parametrize("is_set", [False, True])
@pytest.mark.parametrize(
    "kinds",
    [
        (AxisType.Auto, AxisType.Explicit),
        more((AxisType.Explicit, AxisType.Auto)),
        more((AxisType.Explicit, AxisType.Explicit)),
    ],
)
def test_axes_of_different_kinds_take_every_operator(kinds, is_set, cut):
    mesh = jax.make_mesh((2, DEVICES // 2), ("x", "y"), axis_types=kinds)
    b = jax.device_put(B, NamedSharding(mesh, PartitionSpec(*cut)))
    with jax.set_mesh(mesh) if is_set else contextlib.nullcontext():
        for operator, wanted in ((CSR, np.linalg.solve(A, B)), (lambda v: 4 * v, B / 4)):
            for options in ({}, {"check_linear": True}):
                x = krylov.solve(operator, b, method="bicgstab", rtol=1e-12, **options)
                assert np.abs(x - wanted).max() < 1e-9 * np.abs(wanted).max()
        assert krylov.diagnose(lambda v: 4 * v, like=b).is_hermitian
        if is_set:
            change = jax.grad(lambda b: krylov.solve(lambda v: 4 * v, b).sum())(b)
            assert np.abs(change - 0.25).max() < 1e-6
