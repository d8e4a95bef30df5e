"""Factors in files: the same files that the command line and C++ write and read."""

from __future__ import annotations

import ctypes
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from shardsolve import _library
from shardsolve._check import DTYPES, check_factor
from shardsolve._cholesky import Factor
from shardsolve._cut import find_cut
from shardsolve._records import FACTOR_DEVICES, FACTOR_WORDS, VERDICT_WORDS, raise_if_failed


class _Whole(ctypes.Structure):
    """WholeFactor in jax/factor_files.hpp."""

    _fields_ = (
        ("dtype", ctypes.c_uint8),
        ("n", ctypes.c_int64),
        ("slab", ctypes.c_void_p),
        ("diagonal", ctypes.c_void_p),
        ("log_determinant", ctypes.c_void_p),
        ("record", ctypes.c_void_p),
    )


class _Shape(ctypes.Structure):
    """FactorShape in jax/factor_files.hpp."""

    _fields_ = (("dtype", ctypes.c_int32), ("ranks", ctypes.c_int32), ("n", ctypes.c_int64))


def save_factor(factor: Factor, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Writes a factor to a file, which appears complete or not at all.

    The arrays are brought to the host first, which needs room for one more copy of the matrix, of
    a complex one for two.

    Args:
        factor: Of one matrix, not of a batch; not inside of `jit`, `grad` or `vmap`.
        path: The file.
        overwrite: Replace a file that exists.

    Raises:
        SolverError: If the file exists or cannot be written.
        LinAlgError: If there is no factor.
        ValueError: If it lies on devices of several processes, is a batch, or JAX is tracing.
    """
    factor = check_factor(factor, Factor)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(factor)):
        raise ValueError(
            "save_factor was called while JAX traces, and the factor has no numbers yet: return "
            "it from the function that is transformed (jit, grad, vmap), and save it outside"
        )
    raise_if_failed(factor._record)
    if not factor._slab.is_fully_addressable:
        raise ValueError(
            "this factor lies on devices of several processes, and can only be saved from one: "
            "factor again on devices of one process (jax.local_devices())"
        )
    # The arrays are those of conj(A); the file is about A.
    arrays = (
        _conjugate(np.asarray(factor._slab, order="C")),
        *(np.ascontiguousarray(part) for part in jax.tree.leaves(factor)[1:]),
    )
    verdict = np.zeros(VERDICT_WORDS, np.int32)
    _library.library().shardsolve_save_factor(
        ctypes.byref(_whole(arrays)), os.fsencode(path), bool(overwrite), _pointer(verdict)
    )
    raise_if_failed(verdict)


def load_factor(path: str | os.PathLike[str], *, sharding: Sharding | None = None) -> Factor:
    """Reads a factor that `save_factor`, the command line or C++ has written.

    Args:
        path: The file. Everything in it is checked before it is used.
        sharding: Where the factor is to lie: a sharding of its (n, n) slab, with as many parts of
            rows as devices have made it, or any if one has; by default the first devices.

    Raises:
        SolverError: If the file is missing, damaged or of another kind.
        ValueError: If it does not fit the sharding.
        TypeError: If it is of 64-bit numbers, and these are off.
    """
    library, verdict, shape = _library.library(), np.zeros(VERDICT_WORDS, np.int32), _Shape()
    name = os.fsencode(path)
    library.shardsolve_factor_shape(name, ctypes.byref(shape), _pointer(verdict))
    raise_if_failed(verdict)
    dtype = np.dtype(DTYPES[shape.dtype])
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise TypeError(
            f"the factor in {os.fspath(path)} is {dtype.name}, and 64-bit types are off: set "
            "jax.config.update('jax_enable_x64', True) first"
        )
    real = np.empty(0, dtype).real.dtype
    arrays = (
        np.empty((shape.n, shape.n), dtype),
        np.empty(shape.n, real),
        np.empty(1, real),
        np.empty(FACTOR_WORDS, np.int32),
    )
    library.shardsolve_load_factor(name, ctypes.byref(_whole(arrays)), _pointer(verdict))
    raise_if_failed(verdict)
    if sharding is None:
        sharding = _first_devices(shape.ranks, shape.n)
    slab = jax.device_put(_conjugate(arrays[0]), sharding)
    cut = find_cut(slab, None, None)
    assert cut is not None  # a concrete array
    parts = cut.parts
    if shape.ranks not in (1, parts):
        raise ValueError(
            f"this factor was made on {shape.ranks} devices and the sharding has {parts} parts of "
            "rows: they must be as many"
        )
    arrays[3][FACTOR_DEVICES] = parts
    whole = _replicated(sharding)
    return Factor(slab, *(jax.device_put(jnp.asarray(part), whole) for part in arrays[1:]))


def _first_devices(parts: int, n: int) -> Sharding:
    devices = jax.devices()
    if len(devices) < parts:
        raise ValueError(
            f"this factor was made on {parts} devices and {len(devices)} are there: factor again"
        )
    mesh = jax.sharding.Mesh(np.array(devices[:parts]), ("devices",))
    # JAX cuts arrays evenly or not at all; a replicated one is used by all devices too.
    return NamedSharding(mesh, PartitionSpec("devices" if n % parts == 0 else None, None))


def _replicated(sharding: Sharding) -> Sharding:
    if isinstance(sharding, NamedSharding):
        return NamedSharding(sharding.mesh, PartitionSpec())
    return sharding


def _conjugate(a: np.ndarray) -> np.ndarray:
    """np.conj copies real numbers, too."""
    return np.conj(a) if np.iscomplexobj(a) else a


def _whole(arrays: tuple[np.ndarray, ...]) -> _Whole:
    slab = arrays[0]
    return _Whole(
        DTYPES.index(slab.dtype.name), slab.shape[0], *(_pointer(array) for array in arrays)
    )


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
