"""Factors in files: the same files that C++ writes and reads."""

from __future__ import annotations

import ctypes
import json
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from shardsolve import _library
from shardsolve._by_name import ByName, text
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

_KINDS: dict[str, type] = {"cholesky": Factor, "lu": LuFactor}  # as in the files


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
    kind = next(kind for kind, of in _KINDS.items() if isinstance(factor, of))
    named = zip(_empty(kind, 0, factor.dtype), jax.tree.leaves(factor), strict=True)
    arrays = {name: np.asarray(part) for name, part in named}
    if kind == "cholesky":  # its arrays are those of conj(A); the file is about A
        arrays["slab"] = _conjugate(arrays["slab"])
    verdict, by_name = np.zeros(VERDICT_WORDS, np.int32), ByName()
    _library.library().shardsolve_save_factor(
        _whole(by_name, kind, arrays),
        _encoded(path),
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
            rows as devices have made it, or any if one has (of few rows one does the work, however
            they are cut); by default as many of the first devices.

    Raises:
        SolverError: If the file is missing, damaged or of another kind.
        ValueError: If it does not fit the sharding.
        TypeError: If it is of 64-bit numbers, and these are off; for another kind of sharding.
    """
    library, verdict, by_name = _library.library(), np.zeros(VERDICT_WORDS, np.int32), ByName()
    if sharding is not None and not isinstance(sharding, Sharding):
        raise TypeError(
            f"sharding is a {type(sharding).__name__}; pass a jax.sharding.Sharding, such as "
            'NamedSharding(mesh, PartitionSpec("x", None)), or None'
        )
    name, found = _encoded(path), ctypes.c_char_p()
    library.shardsolve_factor_shape(name, ctypes.byref(found), _pointer(verdict))
    raise_if_failed(verdict)
    shape = json.loads(found.value or b"")
    library.shardsolve_free(found)
    kind, n, ranks, dtype = shape["kind"], shape["n"], shape["ranks"], np.dtype(shape["dtype"])
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise TypeError(
            f"the factor in {os.fspath(path)} is {dtype.name}, and 64-bit types are off: set "
            "jax.config.update('jax_enable_x64', True) first"
        )
    arrays = _empty(kind, n, dtype)
    library.shardsolve_load_factor(name, _whole(by_name, kind, arrays), _pointer(verdict))
    raise_if_failed(verdict)
    if kind == "cholesky":
        arrays["slab"] = _conjugate(arrays["slab"])
    # The numbers are known, whatever JAX traces around this call.
    with jax.ensure_compile_time_eval():
        return _placed(kind, arrays, ranks, sharding or _first_devices(ranks, n))


def _placed(
    kind: str, arrays: dict[str, np.ndarray], ranks: int, sharding: Sharding
) -> Factor | LuFactor:
    slabs = {
        name: jax.device_put(array, sharding) for name, array in arrays.items() if array.ndim == 2
    }
    cut = find_cut(slabs["slab"], None, None)
    assert cut is not None  # a concrete array
    parts = cut.parts
    if ranks not in (1, parts):
        raise ValueError(
            f"this factor was made on {ranks} devices and the sharding has {parts} parts of "
            "rows: they must be as many"
        )
    arrays["record"][FACTOR_DEVICES] = parts
    whole = _replicated(sharding)
    return _KINDS[kind](
        *(
            slabs[name] if name in slabs else jax.device_put(jnp.asarray(array), whole)
            for name, array in arrays.items()
        )
    )


def _encoded(path: str | os.PathLike[str]) -> bytes:
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError(f"the path {name!r} holds a null byte, at which it would end")
    return name


def _empty(kind: str, n: int, dtype: np.dtype) -> dict[str, np.ndarray]:
    """The arrays of a factor, in the order of its class, by the names of factor_files.hpp."""
    real = np.empty(0, dtype).real.dtype
    shapes: dict[str, tuple[Any, Any]]
    if kind == "cholesky":
        shapes = {
            "slab": ((n, n), dtype),
            "diagonal": (n, real),
            "log_determinant": (1, real),
            "record": (FACTOR_WORDS, np.int32),
        }
    else:
        shapes = {
            "slab": ((n, n), dtype),
            "matrix": ((n, n), dtype),
            "rows": (n, np.int32),
            "sign": (1, dtype),
            "log_modulus": (1, real),
            "record": (len(EMPTY_LU), np.int32),
        }
    return {name: np.empty(shape, of) for name, (shape, of) in shapes.items()}


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


def _whole(by_name: ByName, kind: str, arrays: dict[str, np.ndarray]) -> bytes:
    """A factor as the library takes it; the arrays live as long as `by_name` does."""
    slab = arrays["slab"]
    return text(
        {
            "kind": kind,
            "dtype": DTYPES.index(slab.dtype.name),
            "n": len(slab),
            **{name: by_name.array(array, array.dtype) for name, array in arrays.items()},
        }
    )


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
