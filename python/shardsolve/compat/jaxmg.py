"""JAXMg's names and arguments: change the import, keep the code.

Of JAXMg 0.0.9 and 1.4, as far as these agree with each other: `potrs`, `potri`, `syevd` and their
`_shardmap_ctx` forms, and `potri_symmetrize`. What is different: the devices may be CPUs, one
process may drive them all, `T_A` may be anything (the largest block, up to 1024; no condition on
the shape), there is no padding to choose, and gradients exist.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardsolve
from shardsolve import _cholesky, _eigh
from shardsolve._check import check_matrix, check_right_hand_side, check_tile
from shardsolve._cut import axes_of, find_cut, inside_shard_map

__all__ = [
    "potri",
    "potri_shardmap_ctx",
    "potri_symmetrize",
    "potrs",
    "potrs_shardmap_ctx",
    "syevd",
    "syevd_shardmap_ctx",
]

Specs = P | Sequence[P] | None
Meshes = Mesh | AbstractMesh | None
NO_ANSWER = 7  # cusolverStatus_t: CUSOLVER_STATUS_INTERNAL_ERROR, what programs for JAXMg look for


def potrs(
    a: jax.Array,
    b: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    in_specs: Specs = None,
    return_status: bool = False,
    pad: bool = True,
    *,
    matrix_specs: Specs = None,
    return_logdet: bool = False,
    donate: bool = False,
) -> jax.Array | tuple[jax.Array, ...]:
    """Solves a x = b, as `shardsolve.solve`; never raises for the numbers, as JAXMg.

    Args:
        a: (n, n), Hermitian positive definite.
        b: (n, k) or (n,).
        T_A: Largest columns of a block.
        mesh: Devices; by default those of `a`. An AbstractMesh stands for the mesh that `a` is on.
        in_specs: PartitionSpec of `a`, alone or the first of several.
        return_status: Also return 0, or 7 if there is no answer, as JAXMg 0.0.9 for any reason;
            which one, `shardsolve.solve` says.
        pad: Not needed; accepted.
        matrix_specs: The name of `in_specs` in 1.4.
        return_logdet: Also return log(det(a)).
        donate: Give up `a`, as JAXMg does by default; here the caller keeps it by default.

    Returns:
        x, or (x, status), (x, logdet) or (x, logdet, status). NaN if there is no answer.
    """
    mesh = _with_devices(mesh, a)
    axes = _axes(matrix_specs if matrix_specs is not None else in_specs)
    a = _on(check_matrix(a, inside=False), mesh, axes)
    factor = _factor(a, T_A, mesh, donate)
    b = check_right_hand_side(factor.shape, factor.dtype, b)
    cut = find_cut(factor._slab, mesh, None, b)
    x, _ = _cholesky._cho_solve(factor, b, cut, False)
    results = [x]
    if return_logdet:
        results.append(_cholesky._logdet(factor, cut))
    if return_status:
        results.append(_status(factor))
    return results[0] if len(results) == 1 else tuple(results)


def potri(
    a: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    in_specs: Specs = None,
    return_status: bool = False,
    pad: bool = True,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """The whole inverse, as `shardsolve.inv`. Arguments as in `potrs`."""
    mesh = _with_devices(mesh, a)
    a = _on(check_matrix(a, inside=False), mesh, _axes(in_specs))
    factor = _factor(a, T_A, mesh)
    inverse, _ = shardsolve.inv(factor, full_output=True)
    return (inverse, _status(factor)) if return_status else inverse


def potrs_shardmap_ctx(
    a: jax.Array, b: jax.Array, T_A: int, pad: bool = True
) -> tuple[jax.Array, jax.Array]:
    """`potrs` inside of the caller's shard_map, on a device's own rows of `a` and all of `b`.

    Returns:
        x, whole on every device as b is, and the status, (1,).
    """
    axes = tuple(jax.sharding.get_abstract_mesh().manual_axes)
    rows, n = check_matrix(a, inside=True).shape
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise ValueError(
            f"b has shape {b.shape} and a device's rows of a have shape {a.shape}; pass all of b "
            f"to every device, ({n},) or ({n}, k)"
        )
    own = lax.dynamic_slice_in_dim(b, lax.axis_index(axes) * rows, rows)
    factor = shardsolve.cho_factor(a, tile=_tile(T_A), axis_name=axes)
    x = shardsolve.cho_solve(factor, own, axis_name=axes)
    return lax.all_gather(x, axes, tiled=True), _status(factor)[None]


def potri_shardmap_ctx(a: jax.Array, T_A: int, pad: bool = True) -> tuple[jax.Array, jax.Array]:
    """`potri` inside of the caller's shard_map.

    Returns:
        A device's own rows of the whole inverse, and the status, (1,).
    """
    factor = shardsolve.cho_factor(a, tile=_tile(T_A))
    inverse, _ = shardsolve.inv(factor, full_output=True)
    return inverse, _status(factor)[None]


def potri_symmetrize(a: jax.Array) -> jax.Array:
    """The upper triangle of `a`, and below it its conjugate transpose, where `a` lies.

    JAXMg's `potri_shardmap_ctx` needs it; ours gives the whole inverse, which this leaves as it is.
    """
    mirrored = jnp.conj(jnp.triu(a, 1).T)
    sharding = jax.typeof(a).sharding
    if not sharding.mesh.empty:  # with Explicit axes the transpose is cut the other way
        mirrored = jax.sharding.reshard(mirrored, sharding)
    return jnp.triu(a) + mirrored


def syevd(
    a: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    in_specs: Specs = None,
    return_eigenvectors: bool = True,
    return_status: bool = False,
    pad: bool = True,
    *,
    matrix_specs: Specs = None,
    donate: bool = False,
) -> jax.Array | tuple[jax.Array, ...]:
    """Eigenvalues and eigenvectors, as `shardsolve.eigh`; never raises for the numbers.

    Args:
        a: (n, n), Hermitian.
        T_A: Not needed; a positive number is accepted.
        mesh: As in `potrs`.
        in_specs: As in `potrs`.
        return_eigenvectors: Whether to return them; the values alone take less time.
        return_status: Also return 0, or 7 if there is no answer.
        pad: Not needed; accepted.
        matrix_specs: The name of `in_specs` in 1.4.
        donate: As in `potrs`.

    Returns:
        w, (n,), ascending and whole on all devices, and v, (n, n), with the vector of w[j] in
        column j, where `a` lies: (w, v) or w, and then the status. NaN if there is no answer.
    """
    specs = matrix_specs if matrix_specs is not None else in_specs
    *found, status = _syevd(a, T_A, mesh, specs, return_eigenvectors, donate)
    if return_status:
        found.append(status)
    return found[0] if len(found) == 1 else tuple(found)


def syevd_shardmap_ctx(
    a: jax.Array,
    T_A: int,
    mesh: Meshes | bool = None,
    matrix_specs: Specs | bool = None,
    *,
    in_specs: Specs = None,
    return_eigenvectors: bool = True,
    pad: bool = True,
) -> tuple[jax.Array, ...]:
    """`syevd` in the caller's shard_map as in 0.0.9, or in the caller's jit as in 1.4.

    Args:
        a: In a shard_map a device's own rows, elsewhere all of the matrix.
        T_A: As in `syevd`.
        mesh: As in `syevd`. In 0.0.9 the third argument is return_eigenvectors, which is taken too.
        matrix_specs: As in `syevd`; in 0.0.9 the fourth argument is pad.
        in_specs: As in `syevd`.
        return_eigenvectors: As in `syevd`.
        pad: Not needed; accepted.

    Returns:
        In a shard_map w, a device's own columns of v, (n, rows of a), and the status, (1,).
        Elsewhere first what 1.4 calls a_work, which is `a` here, then w, v and the status, (1,).
        Without v if return_eigenvectors is False.
    """
    if isinstance(mesh, bool):
        return_eigenvectors, mesh = mesh, None
    if isinstance(matrix_specs, bool):
        matrix_specs = None
    if not inside_shard_map():
        specs = matrix_specs if matrix_specs is not None else in_specs
        *found, status = _syevd(a, T_A, mesh, specs, return_eigenvectors, donate=False)
        return a, *found, status[None]
    *found, status = _syevd(a, T_A, None, None, return_eigenvectors, donate=False)
    if return_eigenvectors and a.shape[0] != a.shape[1]:
        # With a square one every device has a matrix of its own.
        axes = tuple(jax.sharding.get_abstract_mesh().manual_axes)
        found[1] = lax.all_to_all(found[1], axes, 1, 0, tiled=True)
    return *found, status[None]


def _syevd(
    a: jax.Array, tile: int, mesh: Meshes, specs: Specs, vectors: bool, donate: bool
) -> tuple[jax.Array, ...]:
    """Values, vectors if they are wanted, status."""
    _tile(tile)
    inside = inside_shard_map()
    a = check_matrix(a, inside)
    mesh = _with_devices(mesh, a)
    used = a if inside else _on(a, mesh, _axes(specs))
    cut, all_ = find_cut(used, mesh, None), _eigh.Wanted(0, a.shape[1])
    if not vectors:
        w, info = _eigh._eigvalsh(donate, used, None, cut, all_)[:2]
        return w, _status_of(info.verdict)
    w, v, info = _eigh._eigh(donate, used, None, cut, all_)[:3]
    return w, v if inside else _where(v, a), _status_of(info.verdict)


def _where(result: jax.Array, a: jax.Array) -> jax.Array:
    """A result where `a` of the same shape lies, if somebody has put it there."""
    if isinstance(a, jax.core.Tracer):
        typed = jax.typeof(a).sharding
        return result if typed.mesh.empty else jax.sharding.reshard(result, typed)
    known = a.committed and a.sharding.device_set == result.sharding.device_set
    return jax.device_put(result, a.sharding) if known else result


def _with_devices(mesh: Meshes, a: jax.Array) -> Meshes:
    """For an AbstractMesh the mesh that a matrix lies on, if it is such a one."""
    if not isinstance(mesh, AbstractMesh) or isinstance(a, jax.core.Tracer):
        return mesh
    sharding = getattr(a, "sharding", None)
    known = isinstance(sharding, NamedSharding) and sharding.mesh.shape == mesh.shape
    return sharding.mesh if known else mesh


def _axes(specs: Specs) -> tuple[str, ...] | None:
    """Those that cut the matrix, if specs say so."""
    if specs is None:
        return None
    spec = specs if isinstance(specs, P) else next(iter(specs))
    return tuple(axis for entry in spec for axis in axes_of(entry)) or None


def _on(a: jax.Array, mesh: Meshes, axes: tuple[str, ...] | None) -> jax.Array:
    """`a` where mesh and specs say, if they do and it is not there."""
    if not isinstance(mesh, Mesh) or isinstance(a, jax.core.Tracer) or a.shape[0] % mesh.size:
        return a
    wanted = NamedSharding(mesh, P(axes or tuple(mesh.axis_names), None))
    return a if a.sharding == wanted else jax.device_put(a, wanted)


def _factor(a: jax.Array, tile: int, mesh: Meshes, donate: bool = False) -> shardsolve.Factor:
    """As cho_factor, but for raising: JAXMg never does for the numbers."""
    return _cholesky._factor(donate, a, find_cut(a, mesh, None), _tile(tile))


def _tile(largest: int) -> int:
    """No more than GPUs can do."""
    return min(check_tile(largest), 1024)


def _status(factor: shardsolve.Factor) -> jax.Array:
    return _status_of(factor.info.verdict)


def _status_of(verdict: jax.Array) -> jax.Array:
    return jnp.where(verdict[0] == 0, 0, NO_ANSWER).astype(jnp.int32)
