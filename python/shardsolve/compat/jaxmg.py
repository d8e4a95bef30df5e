"""JAXMg's names and arguments: change the import, keep the code.

Of JAXMg 0.0.9 and 1.4.1, as far as these agree with each other: `potrs`, `potri`, `syevd` and their
`_shardmap_ctx` forms, and `potri_symmetrize`. What is different: the devices may be CPUs, one
process may drive them all, `T_A` may be anything (the largest block, up to 1024; no condition on
the shape), there is no padding to choose, and gradients exist. And of 1.4.1 `lu_solve`, `qr`,
`least_squares`, `gesvd` and `polar`.

`install()` lets `import jaxmg` find this module, for code of others that imports it by that name.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardsolve
from shardsolve import _cholesky, _eigh, _lu
from shardsolve._calls import compiled
from shardsolve._check import as_array, check_any_matrix, check_matrix, check_right_hand_side
from shardsolve._cut import Cut, axes_of, find_cut, inside_shard_map, manual_axes

__all__ = [
    "__version__",
    "device_supports_vmm",
    "gesvd",
    "gesvd_shardmap_ctx",
    "install",
    "least_squares",
    "least_squares_shardmap_ctx",
    "lu_solve",
    "lu_solve_shardmap_ctx",
    "polar",
    "polar_shardmap_ctx",
    "potri",
    "potri_shardmap_ctx",
    "potri_symmetrize",
    "potrs",
    "potrs_shardmap_ctx",
    "qr",
    "qr_shardmap_ctx",
    "syevd",
    "syevd_shardmap_ctx",
]

__version__ = "1.4.1"  # of the JAXMg whose names these are: what programs for it ask for

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
    _require_flags(return_status=return_status, pad=pad, return_logdet=return_logdet, donate=donate)
    factor, x, status, cut = _potrs(a, b, T_A, mesh, _one_of(matrix_specs, in_specs), donate)
    results = [x]
    if return_logdet:
        results.append(_cholesky._logdet(factor, cut))
    if return_status:
        results.append(status)
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
    _require_flags(return_status=return_status, pad=pad)
    a = check_matrix(a, inside=False)
    mesh = _with_devices(mesh, a)
    a = _on(a, mesh, _axes(in_specs, mesh, a))
    factor = _factor(a, T_A, mesh)
    inverse, info = shardsolve.inv(factor, full_output=True)
    return (inverse, _status_of(info.verdict)) if return_status else inverse


def potrs_shardmap_ctx(
    a: jax.Array,
    b: jax.Array,
    T_A: int,
    mesh: Meshes | bool = None,
    matrix_specs: Specs = None,
    *,
    in_specs: Specs = None,
    return_logdet: bool = False,
    pad: bool = True,
) -> tuple[jax.Array, ...]:
    """`potrs` in the caller's shard_map as in 0.0.9, or in the caller's jit as in 1.4.

    Args:
        a: In a shard_map a device's own rows, elsewhere all of the matrix.
        b: All of it, (n,) or (n, k).
        T_A: As in `potrs`.
        mesh: As in `potrs`. In 0.0.9 the fourth argument is pad, which is taken too.
        matrix_specs: As in `potrs`.
        in_specs: As in `potrs`.
        return_logdet: Also return log(det(a)), before the status.
        pad: Not needed; accepted.

    Returns:
        In a shard_map x, whole on every device as b is, and the status, (1,). Elsewhere first what
        1.4 calls a_work, then x and the status, (1,). It is the memory of the factor: return it
        from a `jit` that donates `a`, and the factor takes the place of `a`.
    """
    if isinstance(mesh, bool):
        mesh = None
    _require_flags(pad=pad, return_logdet=return_logdet)
    specs = _one_of(matrix_specs, in_specs)
    if inside_shard_map():
        return _potrs_inside(a, b, T_A, return_logdet)
    factor, x, status, cut = _potrs(a, b, T_A, mesh, specs, donate=False)
    logdet = (_cholesky._logdet(factor, cut),) if return_logdet else ()
    return factor._slab, x, *logdet, status[None]


def _potrs(
    a: jax.Array, b: jax.Array, tile: int, mesh: Meshes, specs: Specs, donate: bool
) -> tuple[shardsolve.Factor, jax.Array, jax.Array, Cut | None]:
    """The factor, x, status, and how they are cut."""
    a = check_matrix(a, inside=False)
    mesh = _with_devices(mesh, a)
    a = _on(a, mesh, _axes(specs, mesh, a))
    factor = _factor(a, tile, mesh, donate)
    b = check_right_hand_side(factor.shape, factor.dtype, b)
    cut = find_cut(factor._slab, mesh, None, b)
    x, info = _cholesky._cho_solve(factor, b, cut, False)
    return factor, x, _status_of(info.verdict), cut


def _potrs_inside(
    a: jax.Array, b: jax.Array, tile: int, return_logdet: bool
) -> tuple[jax.Array, ...]:
    """On a device's own rows of `a` and all of `b`: x, log(det(a)) if it is wanted, status."""
    a, b = _own_rows_and_all(a, b)
    rows, n = a.shape
    factor = shardsolve.cho_factor(a, tile=_tile(tile))
    logdet = (shardsolve.logdet(factor),) if return_logdet else ()
    solve = functools.partial(shardsolve.cho_solve, factor, full_output=True, estimate_rcond=False)
    if rows == n:  # every device has a matrix of its own
        x, info = solve(b)
    else:
        axes = manual_axes()
        own = lax.dynamic_slice_in_dim(b, lax.axis_index(axes) * rows, rows)
        x, info = solve(own, axis_name=axes)
        x = lax.all_gather(x, axes, tiled=True)
    return x, *logdet, _status_of(info.verdict)[None]


def _own_rows_and_all(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A device's own rows of `a` and all of `b`, as arrays."""
    a, b = check_matrix(a, inside=True), as_array(b, "b")
    n = a.shape[1]
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise ValueError(
            f"b has shape {b.shape} and a device's rows of a have shape {a.shape}; pass all of b "
            f"to every device, ({n},) or ({n}, k)"
        )
    return a, b


def lu_solve(
    a: jax.Array,
    b: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    matrix_specs: Specs = None,
    *,
    in_specs: Specs = None,
    return_status: bool = False,
    pad: bool = True,
    donate: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Solves a x = b for a general square matrix; never raises for the numbers.

    Arguments as in `potrs`. `a` is kept even if it is donated: the answer is certified with it. So
    x solves a system beside this one by rounding; how near to a singular one that is,
    `shardsolve.solve` says.

    Returns:
        x, or (x, status). NaN if there is no answer.
    """
    _require_flags(return_status=return_status, pad=pad, donate=donate)
    x, status = _lu_solve(a, b, T_A, mesh, _one_of(matrix_specs, in_specs))[1:]
    return (x, status) if return_status else x


def lu_solve_shardmap_ctx(
    a: jax.Array,
    b: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    matrix_specs: Specs = None,
    *,
    in_specs: Specs = None,
    pad: bool = True,
) -> tuple[jax.Array, ...]:
    """`lu_solve` in the caller's shard_map or jit. Arguments and results as of its `potrs` form."""
    _require_flags(pad=pad)
    if not inside_shard_map():
        factor, x, status = _lu_solve(a, b, T_A, mesh, _one_of(matrix_specs, in_specs))
        return factor._slab, x, status[None]
    a, b = _own_rows_and_all(a, b)
    rows, n = a.shape
    factor = shardsolve.lu_factor(a, tile=_tile(T_A))
    if rows == n:  # every device has a matrix of its own
        x, info = shardsolve.lu_solve(factor, b, full_output=True, estimate_rcond=False)
        return x, _status_of(info.verdict)[None]
    axes = manual_axes()
    own = lax.dynamic_slice_in_dim(b, lax.axis_index(axes) * rows, rows)
    x, info = shardsolve.lu_solve(
        factor, own, axis_name=axes, full_output=True, estimate_rcond=False
    )
    return lax.all_gather(x, axes, tiled=True), _status_of(info.verdict)[None]


def _lu_solve(
    a: jax.Array, b: jax.Array, tile: int, mesh: Meshes, specs: Specs
) -> tuple[shardsolve.LuFactor, jax.Array, jax.Array]:
    """The factor, x, status."""
    a = check_matrix(a, inside=False)
    mesh = _with_devices(mesh, a)
    a = _on(a, mesh, _axes(specs, mesh, a))
    factor = _lu._factor(False, a, find_cut(a, mesh, None), _tile(tile))
    b = check_right_hand_side(factor.shape, factor.dtype, b)
    cut = find_cut(factor._slab, mesh, None, b)
    x, info = _lu._lu_solve(factor, b, cut, _lu.PLAIN, False)
    return factor, x, _status_of(info.verdict)


def potri_shardmap_ctx(a: jax.Array, T_A: int, pad: bool = True) -> tuple[jax.Array, jax.Array]:
    """`potri` inside of the caller's shard_map.

    Returns:
        A device's own rows of the whole inverse, and the status, (1,).
    """
    _require_flags(pad=pad)
    _require_shard_map("potri")
    factor = shardsolve.cho_factor(a, tile=_tile(T_A))
    inverse, info = shardsolve.inv(factor, full_output=True)
    return inverse, _status_of(info.verdict)[None]


def potri_symmetrize(a: jax.Array) -> jax.Array:
    """The upper triangle of `a`, and below it its conjugate transpose, where `a` lies.

    JAXMg's `potri_shardmap_ctx` needs it; ours gives the whole inverse, which this leaves as it is.
    """
    if np.ndim(a) != 2 or np.shape(a)[0] != np.shape(a)[1]:
        raise ValueError(f"a has shape {np.shape(a)}; pass a square matrix, (n, n)")
    a = jnp.asarray(a)
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
    _require_flags(return_status=return_status, pad=pad, donate=donate)
    specs = _one_of(matrix_specs, in_specs)
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
    _require_flags(pad=pad)
    specs = _one_of(matrix_specs, in_specs)
    if not inside_shard_map():
        *found, status = _syevd(a, T_A, mesh, specs, return_eigenvectors, donate=False)
        return a, *found, status[None]
    *found, status = _syevd(a, T_A, mesh, specs, return_eigenvectors, donate=False)
    if return_eigenvectors and a.shape[0] != a.shape[1]:
        # With a square one every device has a matrix of its own.
        found[1] = lax.all_to_all(found[1], manual_axes(), 1, 0, tiled=True)
    return *found, status[None]


def install() -> None:
    """Lets `import jaxmg` find this module, in this process, until it ends.

    For code of others that imports `jaxmg`, as NetKet's distributed solvers do. Call it before.

    Raises:
        RuntimeError: If JAXMg itself has been imported: who has its functions would keep them.
    """
    ours = sys.modules[__name__]
    there = sys.modules.setdefault("jaxmg", ours)
    if there is not ours:
        raise RuntimeError(
            f"jaxmg {getattr(there, '__version__', '')} was imported before, from "
            f"{getattr(there, '__file__', None)}: call shardsolve.compat.jaxmg.install() before "
            "anything imports jaxmg, or uninstall it"
        )


def device_supports_vmm(device: int = 0) -> bool:
    """Whether a CUDA device has virtual memory management, as the CUDA driver says.

    Args:
        device: Its number, from 0.

    Raises:
        RuntimeError: If there is no CUDA driver, or no such device.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise RuntimeError(
            f"there is no CUDA driver here ({error}); only CUDA devices can be asked"
        ) from error
    handle, answer = ctypes.c_int(), ctypes.c_int()
    supports_vmm = 102  # CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
    failed = (
        driver.cuInit(0)
        or driver.cuDeviceGet(ctypes.byref(handle), int(device))
        or driver.cuDeviceGetAttribute(ctypes.byref(answer), supports_vmm, handle)
    )
    if failed:
        raise RuntimeError(
            f"the CUDA driver answers {failed} when asked about device {device}: pass the number "
            "of a device that nvidia-smi lists"
        )
    return bool(answer.value)


def qr(
    a: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    matrix_specs: Specs = None,
    *,
    in_specs: Specs = None,
    return_status: bool = False,
    pad: bool = True,
    donate: bool = False,
) -> tuple[jax.Array, ...]:
    """Factors a = q r, as `shardsolve.qr`; never raises for the numbers.

    Args:
        a: (m, n), m >= n.
        T_A: Not needed; a positive number is accepted.
        mesh: As in `potrs`.
        matrix_specs: As in `potrs`.
        in_specs: Its other name.
        return_status: As in `potrs`.
        pad: Not needed; accepted.
        donate: As in `potrs`; accepted, a is kept.

    Returns:
        (q, r), or (q, r, status). NaN if there is no answer. Of the results of this function and
        the next three those with as many rows or columns as a is long are cut as a is; the others
        are the same on all devices.
    """
    _require_flags(return_status=return_status, pad=pad, donate=donate)
    *found, info = _on_any_shape(shardsolve.qr, a, T_A, mesh, _one_of(matrix_specs, in_specs))
    return (*found, _status_of(info.verdict)) if return_status else tuple(found)


def qr_shardmap_ctx(
    a: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    matrix_specs: Specs = None,
    *,
    in_specs: Specs = None,
    pad: bool = True,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`qr` in the caller's jit: q, r and the status, (1,)."""
    _require_flags(pad=pad)
    specs = _one_of(matrix_specs, in_specs)
    q, r, info = _on_any_shape(shardsolve.qr, a, T_A, mesh, specs)
    return q, r, _status_of(info.verdict)[None]


def least_squares(
    a: jax.Array,
    b: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    matrix_specs: Specs = None,
    *,
    in_specs: Specs = None,
    return_status: bool = False,
    pad: bool = True,
    donate: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Finds x with the least ||a x - b||, as `shardsolve.least_squares`, of any shape here.

    Arguments as in `qr`; b: (m,) or (m, k). Never raises for the numbers.

    Returns:
        x, (n,) or (n, k), the same on all devices, or (x, status). NaN if there is no answer.
    """
    _require_flags(return_status=return_status, pad=pad, donate=donate)
    specs = _one_of(matrix_specs, in_specs)
    x, info = _on_any_shape(shardsolve.least_squares, a, T_A, mesh, specs, b)
    return (x, _status_of(info.verdict)) if return_status else x


def least_squares_shardmap_ctx(
    a: jax.Array,
    b: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    matrix_specs: Specs = None,
    *,
    in_specs: Specs = None,
    pad: bool = True,
) -> tuple[jax.Array, ...]:
    """`least_squares` in the caller's jit: a, b, which are kept here, x and the status, (1,)."""
    _require_flags(pad=pad)
    specs = _one_of(matrix_specs, in_specs)
    x, info = _on_any_shape(shardsolve.least_squares, a, T_A, mesh, specs, b)
    return a, b, x, _status_of(info.verdict)[None]


def gesvd(
    a: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    matrix_specs: Specs = None,
    *,
    in_specs: Specs = None,
    compute_u: bool = True,
    compute_vh: bool = True,
    full_matrices: bool = False,
    return_status: bool = False,
    pad: bool = True,
    donate: bool = False,
) -> jax.Array | tuple[jax.Array, ...]:
    """Singular values and vectors, as `shardsolve.svd`; never raises for the numbers.

    Arguments as in `qr`, of any shape. Square u and vh, `full_matrices`, only of a square a.

    Returns:
        (u, s, vh), without u or vh if compute_u or compute_vh is False, or s; and the status.
    """
    _require_flags(return_status=return_status, donate=donate)
    *found, status = _gesvd(
        a, T_A, mesh, _one_of(matrix_specs, in_specs), compute_u, compute_vh, full_matrices, pad
    )
    if return_status:
        found.append(status)
    return found[0] if len(found) == 1 else tuple(found)


def gesvd_shardmap_ctx(
    a: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    matrix_specs: Specs = None,
    *,
    in_specs: Specs = None,
    compute_u: bool = True,
    compute_vh: bool = True,
    full_matrices: bool = False,
    pad: bool = True,
) -> tuple[jax.Array, ...]:
    """`gesvd` in the caller's jit: a, which is kept here, u, s, vh and the status, (1,)."""
    *found, status = _gesvd(
        a, T_A, mesh, _one_of(matrix_specs, in_specs), compute_u, compute_vh, full_matrices, pad
    )
    return a, *found, status[None]


def polar(
    a: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    matrix_specs: Specs = None,
    *,
    in_specs: Specs = None,
    compute_h: bool = True,
    return_status: bool = False,
    pad: bool = True,
    donate: bool = False,
) -> jax.Array | tuple[jax.Array, ...]:
    """The polar factors of a = u h, as `shardsolve.polar`; never raises for the numbers.

    Arguments as in `qr`. u has orthonormal columns here whatever the rank.

    Returns:
        (u, h), or u if compute_h is False; and the status.
    """
    _require_flags(compute_h=compute_h, return_status=return_status, pad=pad, donate=donate)
    specs = _one_of(matrix_specs, in_specs)
    u, h, info = _on_any_shape(shardsolve.polar, a, T_A, mesh, specs)
    found = [u, *([h] if compute_h else [])]
    if return_status:
        found.append(_status_of(info.verdict))
    return found[0] if len(found) == 1 else tuple(found)


def polar_shardmap_ctx(
    a: jax.Array,
    T_A: int,
    mesh: Meshes = None,
    matrix_specs: Specs = None,
    *,
    in_specs: Specs = None,
    compute_h: bool = True,
    pad: bool = True,
) -> tuple[jax.Array, ...]:
    """`polar` in the caller's jit: u, h if it is wanted, and the status, (1,)."""
    _require_flags(compute_h=compute_h, pad=pad)
    specs = _one_of(matrix_specs, in_specs)
    u, h, info = _on_any_shape(shardsolve.polar, a, T_A, mesh, specs)
    return u, *([h] if compute_h else []), _status_of(info.verdict)[None]


def _gesvd(
    a: jax.Array,
    tile: int,
    mesh: Meshes,
    specs: Specs,
    compute_u: bool,
    compute_vh: bool,
    full_matrices: bool,
    pad: bool,
) -> list[jax.Array]:
    """What is wanted of u, s and vh, and the status."""
    _require_flags(compute_u=compute_u, compute_vh=compute_vh, full_matrices=full_matrices, pad=pad)
    whole = {"full_matrices": full_matrices}
    u, s, vh, info = _on_any_shape(shardsolve.svd, a, tile, mesh, specs, **whole)
    wanted = [*([u] if compute_u else []), s, *([vh] if compute_vh else [])]
    return [*wanted, _status_of(info.verdict)]


def _on_any_shape(
    function: Callable[..., tuple],
    a: jax.Array,
    tile: int,
    mesh: Meshes,
    specs: Specs,
    *more: jax.Array,
    **options: bool,
) -> tuple:
    """What a function for matrices of any shape gives with full_output."""
    _tile(tile)
    if inside_shard_map():
        raise ValueError(
            f"JAXMg's {function.__name__} was called inside of a shard_map: call it outside, as it "
            f"opens one of its own; or call shardsolve.{function.__name__} with axis_name= there"
        )
    a = check_any_matrix(a)
    mesh = _with_devices(mesh, a)
    a = _on(a, mesh, _axes(specs, mesh, a))
    return function(a, *more, mesh=mesh, full_output=True, **options)


def _syevd(
    a: jax.Array, tile: int, mesh: Meshes, specs: Specs, vectors: bool, donate: bool
) -> tuple[jax.Array, ...]:
    """Values, vectors if they are wanted, status."""
    _tile(tile)
    _require_flags(return_eigenvectors=vectors)
    inside = inside_shard_map()
    a = check_matrix(a, inside)
    mesh = mesh if inside else _with_devices(mesh, a)
    axes = _axes(specs, mesh, a)
    used = a if inside else _on(a, mesh, axes)
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
    """For an AbstractMesh the mesh that a matrix lies on, if it is such a one.

    Under `jit`, if none is given, the one that is set: as there, and a program may set several.
    """
    if isinstance(a, jax.core.Tracer):
        around = jax.sharding.get_abstract_mesh()
        return around if mesh is None and not around.empty else mesh
    if not isinstance(mesh, AbstractMesh):
        return mesh
    sharding = getattr(a, "sharding", None)
    if isinstance(sharding, NamedSharding) and sharding.mesh.shape == mesh.shape:
        return sharding.mesh
    return mesh


def _one_of(matrix_specs: Specs, in_specs: Specs) -> Specs:
    """The specs by either of their names."""
    if matrix_specs is not None and in_specs is not None:
        raise ValueError(
            f"matrix_specs is {matrix_specs!r} and in_specs {in_specs!r}, which are two names of "
            "one argument: pass one of them"
        )
    return in_specs if matrix_specs is None else matrix_specs


def _axes(specs: Specs, mesh: Meshes, a: jax.Array) -> tuple[str, ...] | None:
    """Those that cut the matrix, if specs say so."""
    if specs is None:
        return None
    given = [specs] if isinstance(specs, P) else specs
    if not isinstance(given, Sequence) or not given or not all(isinstance(s, P) for s in given):
        raise TypeError(
            f"the specs of the matrix are {specs!r}; pass a PartitionSpec, as P('x', None), or "
            "a tuple that begins with it"
        )
    axes = tuple(axis for entry in given[0] for axis in axes_of(entry))
    known = _known_axes(mesh, a)
    missing = [axis for axis in axes if known and axis not in known]
    if missing or len(given[0]) > 2 or len(set(axes)) < len(axes):
        raise ValueError(
            f"the spec of the matrix is {given[0]!r}; pass one of at most two entries, rows and "
            "columns, that names each axis once"
            + (f", of the mesh's axes {known!r}" if known else "")
        )
    return axes or None


def _known_axes(mesh: Meshes, a: jax.Array) -> tuple[str, ...]:
    """Of the mesh that is given, that the matrix lies on, or that is set; none: not known."""
    if isinstance(mesh, Mesh | AbstractMesh):
        return tuple(mesh.axis_names)
    if not isinstance(a, jax.core.Tracer) and isinstance(a.sharding, NamedSharding):
        return tuple(a.sharding.mesh.axis_names)
    return tuple(jax.sharding.get_abstract_mesh().axis_names)


def _require_flags(**flags: object) -> None:
    """Throws if something else came where True or False belongs: JAXMg's orders differ."""
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{name} is {value!r}; pass True or False")


def _require_shard_map(name: str) -> None:
    if not inside_shard_map():
        raise ValueError(
            f"{name}_shardmap_ctx was called outside of a shard_map, whose devices do the work: "
            f"call it in jax.shard_map(..., check_vma=False), or call {name}"
        )


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
    """T_A, and no more than GPUs can do."""
    if isinstance(largest, bool) or not isinstance(largest, int | np.integer) or largest < 1:
        raise ValueError(
            f"T_A is {largest!r}; pass a positive whole number, the largest columns of a block, "
            "for example 256"
        )
    return min(int(largest), 1024)


@compiled
def _status_of(verdict: jax.Array) -> jax.Array:
    return jnp.where(verdict[0] == 0, 0, NO_ANSWER).astype(jnp.int32)
