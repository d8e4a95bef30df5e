"""Systems of SciPy and NumPy: solved in their own precision, whatever JAX is set to.

JAX without 64-bit types has no float64. For as long as such a call takes they are switched on, in
this thread alone, and what a solve returns is NumPy's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve._check import no_array, require_jax_dtype


def numpy_for_numpy(solve: Callable) -> Callable:
    """Has krylov.solve return NumPy's arrays where it is given NumPy's and SciPy's alone."""

    @functools.wraps(solve)
    def run(A: Any, b: Any, *, x0: Any = None, preconditioner: Any = None, **options: Any) -> Any:
        if not _are_of_host(A, b, x0):
            return solve(A, b, x0=x0, preconditioner=preconditioner, **options)
        A, b, x0, preconditioner = _in_one_dtype(A, b, x0, preconditioner)
        with jax.enable_x64(True):
            found = solve(A, b, x0=x0, preconditioner=preconditioner, **options)
        return jax.tree.map(_to_host, found)

    return run


def in_own_precision(function: Callable) -> Callable:
    """Has JAX know 64-bit types while a function works with a matrix of NumPy's or SciPy's."""

    @functools.wraps(function)
    def run(a: Any, *args: Any, **options: Any) -> Any:
        if not is_of_host(a):
            return function(a, *args, **options)
        with jax.enable_x64(True):
            return function(widened(a), *args, **options)

    return run


def is_of_host(a: object) -> bool:
    """Whether it is a sparse matrix of SciPy's or an array of NumPy's."""
    return isinstance(a, np.ndarray) or (hasattr(a, "tocoo") and hasattr(a, "nnz"))


def _are_of_host(A: object, b: object, x0: object) -> bool:
    """Whether nothing of JAX's is asked for: outside of jit, and none of these is JAX's."""
    if not is_of_host(A) or isinstance(jnp.zeros(()), jax.core.Tracer):
        return False
    vectors = [b] if x0 is None else [b, x0]
    leaves = jax.tree.leaves(vectors)
    return all(isinstance(vector, np.ndarray | list) for vector in vectors) and not any(
        isinstance(leaf, jax.Array) for leaf in leaves
    )


def _in_one_dtype(A: Any, b: Any, x0: Any, preconditioner: Any) -> tuple[Any, ...]:
    """In that of SciPy's solvers: the common one of A and b."""
    for name, given in (("A", A), ("b", b), ("x0", x0)):
        if isinstance(given, np.ma.MaskedArray):
            raise TypeError(
                f"{name} is a masked array, whose masked entries have no value: pass "
                f"{name}.filled(value), or the rows and columns that count"
            )
    A, b = widened(A), widened(_array(b, "b"))
    dtype = np.result_type(A.dtype, b.dtype)

    def converted(a: Any) -> Any:
        if not is_of_host(a) or (a.dtype.kind == "c" and dtype.kind != "c"):
            return a
        return a.astype(dtype, copy=False)

    x0 = None if x0 is None else _array(x0, "x0")
    return converted(A), converted(b), converted(x0), converted(preconditioner)


def _array(value: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError) as fault:
        raise no_array(value, name, fault) from fault
    if array.dtype.kind not in "biufc":
        require_jax_dtype(array.dtype, name)
    return array


def widened(a: Any) -> Any:
    """float64 of whole numbers, booleans and halves, as in SciPy's solvers."""
    is_narrow = a.dtype.kind in "biu" or a.dtype == np.float16
    return a.astype(np.float64) if is_narrow else a


def _to_host(leaf: jax.Array) -> Any:
    """An array of NumPy's that may be written to; one that is traced stays."""
    return leaf if isinstance(leaf, jax.core.Tracer) else np.array(jax.device_get(leaf))
