"""Arguments of Krylov solves: what is accepted, where it lies, and the errors for what is not."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding

from shardsolve._calls import compiled
from shardsolve._check import as_array, how_to_agree
from shardsolve._cut import Cut, axes_of, manual_axes, place_like, place_whole, require_unchecked
from shardsolve._krylov_blocks import Blocks
from shardsolve._krylov_linear import Dense, Identity, Jacobi, Linear, Sparse, trace
from shardsolve._krylov_multigrid import Chebyshev, Multigrid
from shardsolve._krylov_rounds import Place
from shardsolve._sparse import CSR

# What JAX throws where a function wants numbers.
_NOT_TRACED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
MADE = (Identity, Jacobi, Sparse, Blocks, Chebyshev, Multigrid)
METHODS = ("cg", "minres", "bicgstab", "fgmres")
_MOST_RESTART = 1000  # of src/krylov/solve.cpp
_ROUNDS_AHEAD = 8  # on GPUs, as in C++


def require_square(matrix: CSR) -> None:
    """Throws if it is not."""
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"the matrix has shape {matrix.shape}; pass a square one, (n, n)")


def check_options(
    method: Any,
    rtol: Any,
    atol: Any,
    max_iterations: Any,
    restart: Any,
    log: Any,
) -> None:
    """Throws if one of them is traced or makes no sense; rtol None is that of the dtype."""
    require_known(
        method=method, rtol=rtol, atol=atol, max_iterations=max_iterations, restart=restart, log=log
    )
    require_flags(log=log)
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; accepted are {', '.join(METHODS)}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not _is_tolerance(value) and not (name == "rtol" and value is None):
            raise ValueError(f"{name} is {value!r}; finite numbers from 0 on are accepted")
    if rtol is not None and float(rtol) == 0.0 and float(atol) == 0.0:
        raise ValueError("rtol = 0 and atol = 0: no residual is that small; give one of them")
    for name, value, most in (
        ("max_iterations", max_iterations, 2**62),
        ("restart", restart, _MOST_RESTART),
    ):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or not 1 <= value <= most:
            upper = f" to {most}" if most < 2**62 else " or more"
            raise ValueError(f"{name} is {value!r}; pass a whole number, 1{upper}")


def require_known(**options: object) -> None:
    """Throws if one of them is traced."""
    for name, value in options.items():
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)):
            raise TypeError(
                f"{name} is traced, and options have to be known when a solve is traced: pass a "
                "Python value, or make the argument of jit static"
            )


def require_flags(**options: object) -> None:
    """Throws unless each of them is True or False."""
    for name, value in options.items():
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{name} is {value!r}; pass True or False")


def _is_tolerance(value: Any) -> bool:
    if isinstance(value, str | bytes | bool | np.bool_):
        return False
    try:
        number = float(value)
    except (TypeError, ValueError):
        return False
    return 0.0 <= number < math.inf


def flattened(b: Any, name: str) -> tuple[jax.Array, Callable, Any]:
    """A pytree as one vector, the way back, and the pytree with arrays as leaves."""
    leaves, tree = jax.tree.flatten(b)
    if (
        isinstance(b, list)
        and leaves
        and all(isinstance(leaf, int | float | complex) for leaf in leaves)
    ):
        leaves, tree = [b], jax.tree.structure(0)
    if not leaves:
        raise ValueError(f"{name} holds no arrays; pass an array, or a pytree of some")
    arrays = [as_array(leaf, name) for leaf in leaves]
    dtypes = sorted({array.dtype.name for array in arrays})
    if len(dtypes) > 1:
        raise TypeError(f"{name} has arrays of {' and '.join(dtypes)}; pass all in one dtype")
    like = jax.tree.unflatten(tree, arrays)
    flat, split = _raveled(arrays)
    return flat, lambda x: jax.tree.unflatten(tree, split(x)), like


def _raveled(arrays: list[jax.Array]) -> tuple[jax.Array, Callable[[jax.Array], list[jax.Array]]]:
    """One vector, and the way back. By their types cut by rows, if all are alike, or else whole."""
    specs = [tuple(jax.typeof(array).sharding.spec) for array in arrays]
    if len({spec[:1] for spec in specs}) > 1 or any(any(spec[1:]) for spec in specs):
        arrays = [place_whole(array) for array in arrays]
    if len(arrays) > 1:
        return ravel_pytree(arrays)
    shape = arrays[0].shape
    return arrays[0].reshape(-1), lambda x: [x.reshape(shape)]


def _is_like(tree: Any, other: Any) -> bool:
    """Whether structure, shapes and dtypes are the same; asks nothing of the caller's classes."""

    def shapes(tree: Any) -> list:
        return [(tuple(a.shape), np.dtype(a.dtype)) for a in jax.tree.leaves(tree)]

    structures: list[Any] = [jax.tree.structure(one) for one in (tree, other)]
    return structures[0] == structures[1] and shapes(tree) == shapes(other)


def guess(x0: Any, b_like: Any, b: jax.Array) -> jax.Array:
    """x0 as one vector; throws if it is not like b."""
    flat, _, like = flattened(x0, "x0")
    if not _is_like(like, b_like):
        raise ValueError(
            f"x0 is {_describe(like)} and b is {_describe(b_like)}; pass a guess like b"
        )
    return flat


def _describe(tree: Any) -> str:
    """Shapes and dtypes in a few words."""
    if isinstance(tree, jax.Array) or hasattr(tree, "shape"):
        return f"{np.dtype(tree.dtype).name}{list(tree.shape)}"
    parts = [
        f"{jax.tree_util.keystr(path)} {_describe(leaf)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]
    return f"{type(tree).__name__} of {', '.join(parts)}"


def is_sparse(a: object) -> bool:
    """Whether it is a sparse matrix of SciPy's or JAX's."""
    of_scipy = hasattr(a, "tocoo") and hasattr(a, "nnz")
    return of_scipy or (type(a).__name__ in ("BCOO", "BCSR") and hasattr(a, "nse"))


def _is_lineax(a: object) -> bool:
    return hasattr(a, "mv") and hasattr(a, "in_structure") and hasattr(a, "out_structure")


def linear(a: Any, b_like: Any, b: jax.Array, unravel: Callable, name: str) -> Linear:
    """What the user calls an operator, as the loop knows it."""
    if name == "A" and isinstance(a, (Blocks, Chebyshev, Multigrid)):
        raise TypeError(
            "A is a preconditioner, which is about the inverse of a matrix: pass the matrix as A, "
            "and this as preconditioner="
        )
    if isinstance(a, MADE):
        return a
    if isinstance(a, CSR) or is_sparse(a):
        sparse = CSR.of(a)
        require_fit(name, sparse.shape, sparse.dtype, b_like, b)
        return Sparse(sparse.data, sparse._pattern)
    if isinstance(a, jax.Array | np.ndarray):
        matrix = as_array(a, name)
        if matrix.ndim != 2:
            raise ValueError(f"{name} has shape {matrix.shape}; pass a square matrix, (n, n)")
        require_fit(name, matrix.shape, matrix.dtype, b_like, b)
        return Dense(matrix)
    function = a.mv if _is_lineax(a) else a
    if not callable(function):
        raise TypeError(
            f"{name} is a {type(a).__name__}; pass a function, a shardsolve.CSR, a SciPy sparse "
            "matrix, BCSR, BCOO, a square array or a lineax operator"
        )
    found = _shape_of_product(function, b_like, name)
    if not _is_like(found, b_like):
        raise ValueError(
            f"{name} as a function returns {_describe(found)} for {_describe(b_like)}; it has to "
            "return what it is given: the same structure, shapes and dtype"
        )

    def flat(x: jax.Array) -> jax.Array:
        made = jax.tree.leaves(function(jax.tree.map(place_like, unravel(x), b_like)))
        return place_like(_raveled(made)[0], x)

    return trace(flat, b, a)


def _shape_of_product(function: Callable, b_like: Any, name: str) -> Any:
    try:
        return jax.eval_shape(function, b_like)
    except _NOT_TRACED as error:
        raise TypeError(
            f"{name} as a function looks at the numbers that it is given, or makes a NumPy array "
            "of them, and JAX traces it: write it with jax.numpy and jax.lax, or pass a matrix. "
            f"JAX says: {str(error).splitlines()[0]}"
        ) from error
    except ValueError as error:
        if "mesh" not in str(error).lower():
            raise
        raise ValueError(
            f"{name} as a function works with an array on another mesh than that of b: put it on "
            f"that one, with jax.device_put(array, b.sharding) for example. JAX says: {error}"
        ) from error


def require_fit(
    name: str, shape: tuple[int, ...], dtype: np.dtype, b_like: Any, b: jax.Array
) -> None:
    """Throws if shape or dtype of a matrix are not those of b."""
    if shape[0] != shape[1]:
        raise ValueError(f"{name} has shape {shape}; pass a square matrix, (n, n)")
    if not hasattr(b_like, "ndim") or b_like.ndim != 1:
        raise ValueError(
            f"b is {_describe(b_like)} and {name} is a matrix {shape}; pass b as ({shape[0]},); "
            "several right-hand sides go through jax.vmap"
        )
    whole = b.shape[0] if not manual_axes() else shape[0]
    if whole != shape[0]:
        wanted = f"({shape[0]},)" if name == "A" else f"one of ({whole}, {whole})"
        raise ValueError(f"b has shape {b_like.shape} and {name} has shape {shape}; pass {wanted}")
    if dtype != b.dtype:
        raise TypeError(
            f"{name} is {np.dtype(dtype).name} and b is {b.dtype.name}: pass both in one dtype, "
            f"{_how_to_agree(name, np.dtype(dtype), np.dtype(b.dtype))}"
        )


def _how_to_agree(name: str, of_a: np.dtype, of_b: np.dtype) -> str:
    if name == "A":
        return how_to_agree("A", of_a, "b", of_b, "solve for b.real and b.imag")
    if of_a.kind == of_b.kind:
        return f"{name} by .astype('{of_b.name}'): it may be rounded"
    return how_to_agree(name, of_a, "A and b", of_b)


def place_of(b: jax.Array, axis_name: Any) -> Place:
    """Where the rows of b lie."""
    cut = _vector_cut(b, axis_name)
    if cut is not None and not cut.inside and isinstance(cut.mesh, Mesh):
        platform = next(iter(cut.mesh.devices.flat)).platform
    elif isinstance(b, jax.core.Tracer):
        chosen = getattr(jax.config, "jax_default_device")  # noqa: B009 (types do not know it)
        platform = getattr(chosen, "platform", None) or jax.default_backend()
    else:
        platform = next(iter(b.devices())).platform
    return Place(cut, 1 if platform == "cpu" else _ROUNDS_AHEAD)


def _vector_cut(b: jax.Array, axis_name: Any) -> Cut | None:
    """Along which axes the rows of b lie, where that is known and they divide evenly."""
    around = manual_axes()
    if axis_name is not None or around:
        names = [axis_name] if isinstance(axis_name, str) else axis_name
        if axis_name is not None and not (
            isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
        ):
            raise TypeError(
                f"axis_name is {axis_name!r}; pass the name of an axis of the shard_map around "
                "this call, or a tuple of some"
            )
        axes = axes_of(axis_name)
        missing = [axis for axis in axes if axis not in around]
        if missing:
            raise ValueError(
                f"axis_name is {axes!r}, but the axes of the shard_map around this call are "
                f"{around!r}; leave axis_name out outside of shard_map"
            )
        require_unchecked(b)
        return Cut(None, axes, tuple(axis for axis in around if axis not in axes))
    sharding = jax.typeof(b).sharding if isinstance(b, jax.core.Tracer) else b.sharding
    if not isinstance(sharding, NamedSharding) or sharding.mesh.empty:
        return None
    axes = axes_of(sharding.spec[0]) if len(sharding.spec) else ()
    parts = math.prod(sharding.mesh.shape[axis] for axis in axes)
    if not axes or parts == 1 or b.shape[0] % parts:
        return None
    return Cut(sharding.mesh, axes)


def require_devices(b: jax.Array, operator: Linear, m: Linear, x0: jax.Array | None) -> None:
    """Throws if something was put on other devices than b."""
    if isinstance(b, jax.core.Tracer) or not b.committed:
        return
    for name, tree in (("the operator", operator), ("the preconditioner", m), ("x0", x0)):
        for leaf in jax.tree.leaves(tree):
            known = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
            if not known or not leaf.committed:
                continue
            own, given = _device_numbers(leaf), _device_numbers(b)
            if own != given:
                order = ", in this order" if sorted(own) == sorted(given) else ""
                raise ValueError(
                    f"{name} has an array on the devices {own} and b lies on the devices {given}"
                    f"{order}: move one with jax.device_put"
                )


def _device_numbers(array: jax.Array) -> list[int]:
    """In the order of its mesh, if it has one."""
    sharding: Any = array.sharding
    if isinstance(sharding, NamedSharding):
        return [device.id for device in sharding.mesh.devices.flat]
    return sorted(device.id for device in sharding.device_set)


def require_linear(operator: Linear, b: jax.Array, place: Place) -> None:
    """Throws if A is not linear, as two random vectors show."""
    if isinstance(b, jax.core.Tracer):
        return
    keys = jax.random.split(jax.random.key(0))
    vectors = [place_like(jax.random.normal(key, b.shape, b.dtype), b) for key in keys]
    apart, size = map(float, jax.device_get(_nonlinearity(operator, *vectors, place)))
    if not apart <= 1e4 * jnp.finfo(b.dtype).eps * size:
        raise ValueError(
            f"A is not linear: ||A (u + 2 v) - A u - 2 A v|| = {apart:.1e}, where the "
            f"products are of size {size:.1e}; an affine function has to give up its "
            "constant, a nonlinear one be linearised with jax.linearize or jax.jvp"
        )


@functools.partial(compiled, static_argnums=3)
def _nonlinearity(
    operator: Linear, u: jax.Array, v: jax.Array, place: Place
) -> tuple[jax.Array, jax.Array]:
    """||A (u + 2 v) - A u - 2 A v||, and the size of the products."""
    products = [operator.apply(w, place) for w in (u, v, u + 2 * v)]
    apart = jnp.linalg.norm(products[2] - products[0] - 2 * products[1])
    sizes = [jnp.linalg.norm(product) for product in products]
    return apart, sum(sizes[1:], sizes[0])
