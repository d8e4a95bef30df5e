"""Factors in files: the same files that C++ writes and reads."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from shardsolve import _library
from shardsolve._check import DTYPES, check_factor
from shardsolve._cholesky import Factor
from shardsolve._cut import find_cut
from shardsolve._lu import LuFactor
from shardsolve._records import (
    EMPTY_LU,
    FACTOR_DEVICES,
    FACTOR_WORDS,
    VERDICT_WORDS,
    raise_if_failed,
)


class _Whole(ctypes.Structure):
    """WholeFactor in jax/factor_files.hpp."""

    _fields_ = (
        ("kind", ctypes.c_uint8),
        ("dtype", ctypes.c_uint8),
        ("n", ctypes.c_int64),
        ("parts", ctypes.c_void_p * 6),
    )


class _Shape(ctypes.Structure):
    """FactorShape in jax/factor_files.hpp."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("ranks", ctypes.c_int64),
        ("n", ctypes.c_int64),
    )


_KINDS = (Factor, LuFactor)  # FactorKind


def save_factor(
    factor: Factor | LuFactor, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Writes a factor to a file, which appears complete or not at all.

    The arrays are brought to the host first, which needs room for one more copy of them; of a
    complex Cholesky factor for two.

    Args:
        factor: Of `cho_factor` or `lu_factor`, of one matrix, not of a batch; not inside of `jit`,
            `grad` or `vmap`.
        path: The file.
        overwrite: Replace a file that exists.

    Raises:
        SolverError: If the file exists or cannot be written.
        LinAlgError: If there is no factor.
        ValueError: If it lies on devices of several processes, is a batch, or JAX is tracing.
    """
    if isinstance(factor, LuFactor):
        factor = check_factor(factor, LuFactor, "lu_factor")
        if factor._matrix is None:
            raise ValueError(
                "the factor has overwritten its matrix, which belongs into the file: make it "
                "without overwrite_a"
            )
    else:
        factor = check_factor(factor, Factor, "cho_factor or lu_factor")
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
    arrays = [np.ascontiguousarray(part) for part in jax.tree.leaves(factor)]
    if isinstance(factor, Factor):  # its arrays are those of conj(A); the file is about A
        arrays[0] = _conjugate(arrays[0])
    verdict = np.zeros(VERDICT_WORDS, np.int32)
    _library.library().shardsolve_save_factor(
        ctypes.byref(_whole(type(factor), arrays)),
        os.fsencode(path),
        bool(overwrite),
        _pointer(verdict),
    )
    raise_if_failed(verdict)


def load_factor(
    path: str | os.PathLike[str], *, sharding: Sharding | None = None
) -> Factor | LuFactor:
    """Reads a factor that `save_factor` or C++ has written: a Cholesky or an LU factor.

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
    kind = _KINDS[shape.kind]
    arrays = _empty(kind, shape.n, dtype)
    library.shardsolve_load_factor(name, ctypes.byref(_whole(kind, arrays)), _pointer(verdict))
    raise_if_failed(verdict)
    if kind is Factor:
        arrays[0] = _conjugate(arrays[0])
    if sharding is None:
        sharding = _first_devices(shape.ranks, shape.n)
    matrices = sum(array.ndim == 2 for array in arrays)  # they come first
    slabs = [jax.device_put(array, sharding) for array in arrays[:matrices]]
    cut = find_cut(slabs[0], None, None)
    assert cut is not None  # a concrete array
    parts = cut.parts
    if shape.ranks not in (1, parts):
        raise ValueError(
            f"this factor was made on {shape.ranks} devices and the sharding has {parts} parts of "
            "rows: they must be as many"
        )
    arrays[-1][FACTOR_DEVICES] = parts
    whole = _replicated(sharding)
    rest = [jax.device_put(jnp.asarray(array), whole) for array in arrays[matrices:]]
    return kind(*slabs, *rest)


def _empty(kind: type, n: int, dtype: np.dtype) -> list[np.ndarray]:
    """The arrays of a factor, in the order of its class."""
    real = np.empty(0, dtype).real.dtype
    if kind is Factor:
        shapes = [((n, n), dtype), (n, real), (1, real), (FACTOR_WORDS, np.int32)]
    else:
        shapes = [((n, n), dtype), ((n, n), dtype), (n, np.int32), (1, dtype), (1, real)]
        shapes.append((len(EMPTY_LU), np.int32))
    return [np.empty(shape, of) for shape, of in shapes]


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


def _whole(kind: type, arrays: Sequence[np.ndarray]) -> _Whole:
    slab = arrays[0]
    pointers = (ctypes.c_void_p * 6)(*(array.ctypes.data for array in arrays))
    return _Whole(_KINDS.index(kind), DTYPES.index(slab.dtype.name), slab.shape[0], pointers)


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
