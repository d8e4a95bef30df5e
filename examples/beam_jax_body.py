"""The body of beam_jax.py: its mesh, its forces and its mass.

Hexahedra of 27 nodes, x slowest and z fastest, with 27 Gauss points.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

BOX = np.array([[0.0, -0.05, -0.1], [8.0, 0.05, 0.1]])
DIVISIONS = (8, 2, 2)
YOUNG, POISSON, DENSITY = 210e3, 0.3, 7.8e-3
LAMBDA = YOUNG * POISSON / ((1 + POISSON) * (1 - 2 * POISSON))
MU = YOUNG / (2 * (1 + POISSON))
LOAD_END = 0.2


class Mesh(NamedTuple):
    """Elements, and the values and gradients of the shape functions at the Gauss points."""

    elements: np.ndarray  # (elements, 27): numbers of nodes
    values: np.ndarray  # (27 points, 27 nodes)
    gradients: np.ndarray  # (27 points, 27 nodes, 3)
    volumes: np.ndarray  # (27 points,)
    nodes: np.ndarray  # (nodes, 3): positions


def make_mesh() -> Mesh:
    """The cantilever."""
    along = [2 * count + 1 for count in DIVISIONS]
    number = np.arange(np.prod(along)).reshape(along)
    elements = np.array(
        [
            number[2 * i : 2 * i + 3, 2 * j : 2 * j + 3, 2 * k : 2 * k + 3].ravel()
            for i, j, k in itertools.product(*map(range, DIVISIONS))
        ]
    )
    points, weights = np.polynomial.legendre.leggauss(3)
    lagrange = np.array([points * (points - 1) / 2, 1 - points**2, points * (points + 1) / 2]).T
    slopes = np.array([points - 0.5, -2 * points, points + 0.5]).T
    half = (BOX[1] - BOX[0]) / np.array(DIVISIONS) / 2

    def product(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.einsum("pa,qb,rc->pqrabc", x, y, z).reshape(27, 27)

    gradients = np.stack(
        [
            product(*(slopes / half[axis] if axis == at else lagrange for axis in range(3)))
            for at in range(3)
        ],
        axis=-1,
    )
    volumes = np.einsum("p,q,r->pqr", weights, weights, weights).ravel() * np.prod(half)
    axes = [np.linspace(*BOX[:, axis], along[axis]) for axis in range(3)]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    return Mesh(elements, product(lagrange, lagrange, lagrange), gradients, volumes, nodes)


MESH = make_mesh()
N = MESH.nodes.size
TIP = int(np.argmin(np.abs(MESH.nodes - [8.0, 0.0, 0.0]).sum(axis=1)))
CLAMPED = np.repeat(MESH.nodes[:, 0] == 0.0, 3)


def stress(law: str, f: jax.Array) -> jax.Array:
    """P for deformation gradients F, (..., 3, 3)."""
    identity = jnp.eye(3)
    turned = jnp.swapaxes(f, -1, -2)
    strain = (f + turned) / 2 - identity if law == "linear" else (turned @ f - identity) / 2
    trace = jnp.trace(strain, axis1=-2, axis2=-1)[..., None, None]
    second = LAMBDA * trace * identity + 2 * MU * strain
    return f @ second if law == "stvk" else second  # "faulty" forgets the factor F


def force_of_element(law: str, u: jax.Array) -> jax.Array:
    """(27, 3) -> (27, 3): the integral of P grad N_a."""
    f = jnp.eye(3) + jnp.einsum("ai,paj->pij", u, MESH.gradients)
    return jnp.einsum("p,pij,paj->ai", MESH.volumes, stress(law, f), MESH.gradients)


def internal_force(law: str, u: jax.Array) -> jax.Array:
    """Of all elements, (n,)."""
    of_elements = jax.vmap(functools.partial(force_of_element, law))(
        u.reshape(-1, 3)[MESH.elements]
    )
    return jnp.zeros((N // 3, 3)).at[MESH.elements].add(of_elements).ravel()


def mass_product(v: jax.Array) -> jax.Array:
    """M v with the consistent mass matrix, which is alike along each axis."""
    of_element = DENSITY * np.einsum("p,pa,pb->ab", MESH.volumes, MESH.values, MESH.values)
    products = jnp.einsum("ab,ebi->eai", of_element, v.reshape(-1, 3)[MESH.elements])
    return jnp.zeros((N // 3, 3)).at[MESH.elements].add(products).ravel()


def load(t: float) -> np.ndarray:
    """Nodal forces of the force on each unit of volume at time t."""
    share = t / LOAD_END if t <= LOAD_END + 1e-12 else 0.0
    shares = np.tile(MESH.volumes @ MESH.values, len(MESH.elements))
    of_node = np.bincount(MESH.elements.ravel(), shares, N // 3)
    return (of_node[:, None] * share * np.array([0.0, 1.0, 1.5])).ravel()


def rigid_body_modes() -> np.ndarray:
    """(n, 6): three translations and three rotations, which cost no energy.

    Multigrid has to know them: krylov.from_pyamg of a hierarchy with B=rigid_body_modes().
    """
    x, y, z = MESH.nodes.T
    zero, one = np.zeros_like(x), np.ones_like(x)
    along = [[one, zero, zero], [zero, one, zero], [zero, zero, one]]
    around = [[zero, -z, y], [z, zero, -x], [-y, x, zero]]
    return np.array([np.stack(mode, axis=-1).ravel() for mode in along + around]).T
