"""Which problem it is: what a file says of its problem, and how another one differs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from shardsolve.fbpinn._equations import Equations
from shardsolve.fbpinn._jet import fields_of
from shardsolve.fbpinn._net import Mlp
from shardsolve.fbpinn._prepared import on_cpu

_LETTERS = 16  # of a hash


def description(problem: Equations) -> dict[str, str]:
    """What distinguishes a problem, by name. Functions are what JAX traces of them."""
    boxes = problem.boxes
    arrays = [array for level in boxes.levels for array in (level.centers, level.half_widths)]
    found = {
        "boxes": f"{boxes!r}, {_hash(*arrays)}",
        "axes": " ".join(problem.axes.names),
        "fields": " ".join(problem.fields),
        "net": _net(problem),
        "seed": str(problem.seed),
        "coefficients": ", ".join(f"{name}={one!r}" for name, one in problem.unknown.given.items())
        or "none",
        "number of terms": str(len(problem.prepared)),
    }
    point = jax.ShapeDtypeStruct((boxes.dimensions,), np.float64)
    if not isinstance(problem.net, Mlp):
        start = problem.net.parameters(boxes.count, problem.seed)
        of_a_box = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), start
        )
        found["net: function"] = program(problem.net.features, of_a_box, point)
    if problem.constrain is not None:
        values = [jax.ShapeDtypeStruct((), np.float64)] * len(problem.fields)
        found["constrain"] = program(problem._constrain, point, values)
    else:
        found["constrain"] = "none"
    for term, given in zip(problem.prepared, problem._given["terms"], strict=True):
        found[f"{term.name}: points"] = f"{len(term.points)} points, {_hash(term.points)}"
        found[f"{term.name}: values"] = _hash(term.values)
        found[f"{term.name}: weight"] = repr(term.weight)
        found[f"{term.name}: function"] = _residual(problem, term.name, given)
    return found


def _net(problem: Equations) -> str:
    if isinstance(problem.net, Mlp):
        return repr(problem.net)
    start = problem.net.parameters(problem.boxes.count, problem.seed)
    shapes = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(start)]
    return f"Net with parameters {', '.join(shapes)}"


def _residual(problem: Equations, name: str, term: Any) -> str:
    every = problem.axes.orders()

    def call(x: jax.Array, jets: jax.Array, c: jax.Array) -> jax.Array:
        def get(field: int, order: Any) -> jax.Array:
            return jets[field, every.index(order)]

        return problem._call(name, term, x, fields_of(problem.axes, problem.fields, get), c)

    return program(
        call,
        jax.ShapeDtypeStruct((problem.boxes.dimensions,), np.float64),
        jax.ShapeDtypeStruct((len(problem.fields), len(every)), np.float64),
        jax.ShapeDtypeStruct(problem.unknown.start.shape, np.float64),
    )


def program(function: Callable[..., Any], *arguments: Any) -> str:
    """A hash of what JAX traces of it, without places in memory, and of arrays in there."""
    with on_cpu():
        traced = jax.make_jaxpr(function)(*arguments)
    text = re.sub(r" at 0x[0-9a-f]+", "", str(traced.jaxpr))
    return _hash(text.encode(), *_constants(traced))


def _constants(traced: Any) -> list[Any]:
    """Of a traced function, and of those that are compiled in it."""
    found = list(getattr(traced, "consts", ()))
    for equation in getattr(traced, "jaxpr", traced).eqns:
        for value in equation.params.values():
            for one in value if isinstance(value, list | tuple) else (value,):
                if hasattr(one, "eqns") or hasattr(one, "jaxpr"):
                    found += _constants(one)
    return found


def _hash(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:_LETTERS]


def differences(mine: dict[str, str], its: dict[str, str], same_jax: bool) -> list[str]:
    """Sentences: what a file's problem has and this one has not.

    Functions are compared only if the same JAX traced them.
    """
    found = []
    for name in dict.fromkeys([*its, *mine]):
        one, other = its.get(name), mine.get(name)
        is_function = name.endswith("function") or name == "constrain"
        if one == other or (is_function and not same_jax and None not in (one, other)):
            continue
        if is_function or name.endswith(("values", "points")):
            found.append(f"{name} differ" + ("s" if is_function else ""))
        else:
            found.append(f"{name} was {one}, and is {other}")
    return found


def require_same(path: Any, problem: Equations, meta: dict[str, Any]) -> None:
    """Throws unless a file is of this problem."""
    same_jax = meta["jax"] == jax.__version__
    found = differences(description(problem), meta["problem"], same_jax)
    if found:
        raise ValueError(
            f"{path} is of another problem: {'; '.join(found)}. Give the problem that it was "
            "written for, or another path"
        )
