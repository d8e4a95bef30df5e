"""Arguments: what is accepted, and the errors for what is not."""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard, TypeVar

import jax
import jax.numpy as jnp
import numpy as np


class Shaped(Protocol):
    """What is asked of a factor here."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, n), unless it is a batch."""


Kind = TypeVar("Kind", bound=Shaped)
DTYPES = ("float32", "float64", "complex64", "complex128")


def kind_of_matrix(assume_a: str) -> str:
    """One name of each kind: "pos" or "gen"."""
    kinds = {"pos": "pos", "positive definite": "pos", "gen": "gen", "general": "gen"}
    if isinstance(assume_a, str) and assume_a in kinds:
        return kinds[assume_a]
    raise ValueError(
        f"assume_a is {assume_a!r}; pass assume_a='pos' if the matrix is Hermitian positive "
        "definite, or 'gen' for any square matrix"
    )


def as_array(value: object, name: str) -> jax.Array:
    """A JAX array of one of DTYPES, without a silent change of precision."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose masked entries have no value: pass "
            f"{name}.filled(value), or the rows and columns that count"
        )
    if isinstance(value, np.ndarray | np.generic):
        require_jax_dtype(value.dtype, name)
        canonical = jax.dtypes.canonicalize_dtype(value.dtype)
        if canonical != value.dtype and value.dtype.name in DTYPES:
            raise TypeError(
                f"{name} is a NumPy array of {value.dtype.name}, which JAX would turn into "
                f"{canonical.name}, as 64-bit types are off: set jax.config.update("
                f"'jax_enable_x64', True) first, or pass {name}.astype('{canonical.name}') if "
                "that is meant"
            )
    tracer = isinstance(value, jax.core.Tracer)
    if isinstance(value, jax.Array) and not tracer and value.is_deleted():
        raise RuntimeError(
            f"{name} has been deleted: its memory was given up, by overwrite_a=True or by "
            "donation; keep a copy, or do not give it up"
        )
    if not isinstance(value, jax.Array | np.ndarray | np.generic | list | tuple):
        raise TypeError(f"{name} is a {type(value).__name__}; pass an array")
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError, OverflowError) as fault:
        if not isinstance(value, list | tuple):
            raise
        raise no_array(value, name, fault) from fault
    if array.dtype.name not in DTYPES:
        raise TypeError(
            f"{name} has dtype {array.dtype.name}; accepted are {', '.join(DTYPES)}: convert it, "
            f"for example with {name}.astype(jnp.float32)"
        )
    if not all(isinstance(size, int) for size in array.shape):
        raise TypeError(
            f"{name} has shape {array.shape}, with a size that is a symbol of jax.export: sizes "
            "have to be known; export a program for each"
        )
    return array


def no_array(value: object, name: str, fault: Exception) -> Exception:
    """Of a list that NumPy makes no numbers of, for that reason."""
    kind = TypeError if isinstance(fault, TypeError) else ValueError
    return kind(
        f"{name} is a {type(value).__name__} that is no array of numbers: pass rows of equal "
        "length, of numbers that a float has"
    )


def require_jax_dtype(dtype: np.dtype, name: str) -> None:
    """Throws for NumPy's numbers that JAX has not: wider than double, or of another byte order."""
    if not dtype.isnative and dtype.newbyteorder("=").name in DTYPES:
        raise TypeError(
            f"{name} is a NumPy array of {dtype.newbyteorder('=').name} whose bytes are in another "
            f"order than this machine's ({dtype.str}); pass "
            f"{name}.astype({name}.dtype.newbyteorder('='))"
        )
    if dtype.kind == "O":
        raise TypeError(
            f"{name} is a NumPy array of objects; accepted are {', '.join(DTYPES)}: convert it, "
            f"for example with {name}.astype(float)"
        )
    if dtype.kind in "USmM" or dtype.names is not None:
        kinds = {"U": "strings", "S": "strings", "m": "times", "M": "times"}
        raise TypeError(
            f"{name} is a NumPy array of {kinds.get(dtype.kind, 'records')}; accepted are "
            f"{', '.join(DTYPES)}"
        )
    if dtype.type in (np.longdouble, np.clongdouble) and dtype.name not in DTYPES:
        narrow = "complex128" if dtype.kind == "c" else "float64"
        raise TypeError(
            f"{name} is a NumPy array of {dtype.name}; accepted are {', '.join(DTYPES)}: pass "
            f"{name}.astype('{narrow}'), which rounds it"
        )


def check_matrix(a: object, inside: bool) -> jax.Array:
    """A square matrix; inside of a shard_map some rows of one."""
    a = as_array(a, "a")
    if a.ndim != 2 or (not inside and a.shape[0] != a.shape[1]):
        raise ValueError(
            f"a has shape {a.shape}; pass a square matrix, (n, n); several go through jax.vmap"
        )
    return a


def check_tile(tile: object) -> int:
    """Columns of a block; 0 stands for the library's choice."""
    if tile is None:
        return 0
    if isinstance(tile, bool) or not isinstance(tile, int | np.integer) or tile < 1:
        raise ValueError(
            f"tile is {tile!r}; pass a positive whole number of columns, or leave it out"
        )
    return int(tile)


def check_indices(subset: object, n: int) -> tuple[int, int]:
    """Which of n eigenvalues are wanted, as first and one after the last; None: all."""
    if subset is None:
        return 0, n
    numbers = _two(subset, "subset_by_index", "(first, last), two whole numbers")
    if any(isinstance(value, bool) or not isinstance(value, int | np.integer) for value in numbers):
        raise TypeError(
            f"subset_by_index is {subset!r}; pass (first, last), two whole numbers that are known "
            "before JAX traces, as they decide the shape of the result"
        )
    first, last = (int(number) for number in numbers)
    if not 0 <= first <= last < n:
        raise ValueError(
            f"subset_by_index is {subset!r} and there are {n} eigenvalues; pass (first, last) with "
            "0 <= first <= last < n: both are included, and counted from 0"
        )
    return first, last + 1


def check_interval(
    subset: object, by_index: object, a: jax.Array, b: jax.Array | None
) -> np.ndarray:
    """The interval in which eigenvalues are wanted, of the real type of the dtype."""
    if by_index is not None:
        raise ValueError("subset_by_index and subset_by_value were given: pass one of them")
    if isinstance(a, jax.core.Tracer) or isinstance(b, jax.core.Tracer):
        raise TypeError(
            "subset_by_value was given where JAX traces, and how many eigenvalues lie in it is not "
            "known then: call outside of jit, vmap and grad, or pass subset_by_index"
        )
    text = "(low, high), two numbers"
    numbers = _two(subset, "subset_by_value", text)
    try:
        low, high = (float(number) for number in numbers)
    except (TypeError, ValueError) as error:
        raise TypeError(f"subset_by_value is {subset!r}; pass {text}") from error
    if not low < high:
        raise ValueError(
            f"subset_by_value is {subset!r}, which is empty; pass (low, high) with low < high: "
            "eigenvalues w with low < w <= high are found"
        )
    return np.array([low, high], np.finfo(a.dtype).dtype)


def _two(subset: Any, name: str, text: str) -> tuple[Any, Any]:
    try:
        first, second = subset
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} is {subset!r}; pass {text}") from error
    return first, second


def check_second_matrix(shape: tuple[int, ...], dtype: np.dtype, b: object) -> jax.Array:
    """Of the shape and dtype of the first; inside of a shard_map the same rows of it."""
    b = as_array(b, "b")
    if b.dtype != dtype:
        raise TypeError(
            f"a has dtype {np.dtype(dtype).name} and b has dtype {b.dtype.name}; pass both in "
            f"the same, {_how_to_agree(np.dtype(dtype), np.dtype(b.dtype))}"
        )
    if b.shape != shape:
        raise ValueError(f"b has shape {b.shape} and a has shape {shape}; pass two of one shape")
    return b


def check_any_matrix(a: object) -> jax.Array:
    """A matrix of any shape that has rows and columns."""
    a = as_array(a, "a")
    if a.ndim != 2 or 0 in a.shape:
        raise ValueError(
            f"a has shape {a.shape}; pass a matrix with rows and columns, (m, n); several go "
            "through jax.vmap"
        )
    return a


def check_right_hand_side(
    shape: tuple[int, ...], dtype: np.dtype, b: object, name: str = "b"
) -> jax.Array:
    """(n,) or (n, k), of the matrix's dtype and rows."""
    b = as_array(b, name)
    if b.dtype != dtype:
        raise TypeError(
            f"a has dtype {np.dtype(dtype).name} and {name} has dtype {b.dtype.name}; pass both in "
            f"the same, {_how_to_agree(np.dtype(dtype), np.dtype(b.dtype), name)}"
        )
    rows = shape[-2]
    if b.ndim not in (1, 2) or b.shape[0] != rows:
        raise ValueError(
            f"{name} has shape {b.shape} and a has shape {tuple(shape)}; pass {name} as ({rows},) "
            f"or ({rows}, k)"
        )
    return b


def refuse_shared(a: object, b: object) -> None:
    """Throws if `a`, whose memory is to be used up, lies in the same memory as `b`.

    JAX would end the process. Only arrays of the caller's own: those that are made of NumPy's here
    may share its memory, and then JAX copies.
    """

    def known(value: object) -> TypeGuard[jax.Array]:
        tracer = isinstance(value, jax.core.Tracer)
        return isinstance(value, jax.Array) and not tracer and not value.is_deleted()

    if not (known(a) and known(b)):
        return
    if a is b or not _places(a).isdisjoint(_places(b)):
        raise ValueError(
            "overwrite_a=True was given, and b lies in the memory of a, which would be "
            "overwritten: pass a copy as b, jnp.copy(b), or leave overwrite_a out"
        )


def _places(array: jax.Array) -> set[tuple[jax.Device, int]]:
    """Where the parts of an array begin, of those that this process has."""
    return {
        (shard.device, shard.data.unsafe_buffer_pointer())
        for shard in array.addressable_shards
        if shard.data.size
    }


def _how_to_agree(of_a: np.dtype, of_b: np.dtype, b: str = "b") -> str:
    """Advice for dtypes that differ, by which no digit and no imaginary part is lost unsaid."""
    both = np.promote_types(of_a, of_b)
    if both == of_a:
        return f"for example jnp.asarray({b}, a.dtype)"
    if both == of_b:
        widened = f"for example jnp.asarray(a, {b}.dtype)"
    else:
        widened = f"for example both as jnp.{both.name}"
    if of_b.kind == "c" and of_a.kind != "c":
        return f"{widened}, or {b}'s real and imaginary parts as columns of a's dtype"
    return f"{widened}, or jnp.asarray({b}, a.dtype) if {b} may be rounded to that"


def how_to_agree(a: str, of_a: np.dtype, b: str, of_b: np.dtype, by_parts: str = "") -> str:
    """The same for a matrix and a vector, by their names; `by_parts`: what a real matrix allows."""
    both = np.promote_types(of_a, of_b)
    names = [name for name, dtype in ((a, of_a), (b, of_b)) if dtype != both]
    advice = f"{' and '.join(names)} by .astype('{both.name}')"
    is_wide = of_b.kind == "c" and of_a.kind != "c" and by_parts
    return f"{advice}, or {by_parts}" if is_wide else advice


def check_factor(factor: object, kind: type[Kind], maker: str = "cho_factor") -> Kind:
    """What `maker` has returned, of one matrix."""
    if not isinstance(factor, kind):
        raise TypeError(
            f"the factor is a {type(factor).__name__}; pass what shardsolve.{maker} returned "
            "(that of jax.scipy.linalg is of another form)"
        )
    if len(factor.shape) != 2:
        raise ValueError(
            f"the factor has shape {factor.shape}: it is a batch of factors; use it through "
            "jax.vmap, or take one, with jax.tree.map(lambda leaf: leaf[0], factor)"
        )

    def on_device(leaf: jax.Array | np.ndarray) -> jax.Array:
        return as_array(leaf, "the factor") if leaf.dtype.kind in "fc" else jnp.asarray(leaf)

    # NumPy arrays are what jax.device_get and checkpoints make of it.
    host = any(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(factor))
    return jax.tree.map(on_device, factor) if host else factor


def refuse_for_factor(maker: str = "cho_factor", **options: object) -> None:
    """Throws if options of a factorisation are given where a Factor is."""
    given = [name for name, value in options.items() if value is not None and value is not False]
    if given:
        raise ValueError(
            f"{' and '.join(given)} cannot be used with a Factor, which is made already: pass "
            f"that to {maker}, or leave it out"
        )


def number_or_nan(value: Any) -> float:
    """What compares as a number; NaN, which no comparison holds of, of what is none."""
    try:
        return float(jax.device_get(value))
    except (TypeError, ValueError):
        return float("nan")


def rounded_down(limit: float, dtype: Any) -> float:
    """So that comparing with it in a shorter dtype is comparing with the number given."""
    short = np.asarray(limit, dtype)
    return float(short if float(short) <= limit else np.nextafter(short, np.zeros((), dtype)))
