"""Networks in boxes: each argument of each function with what is not accepted gets a sentence."""

from __future__ import annotations

import functools
import linecache
import math
import re
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardsolve.fbpinn as fb

pytestmark = pytest.mark.filterwarnings("ignore::shardsolve.fbpinn.TrainingWarning")


def square() -> fb.Boxes:
    return fb.Boxes([(0, 1), (0, 1)], (2, 2))


def value(x, u):
    return u.v - 1


def base() -> dict:
    terms = [fb.Interior(value, (9, 9))]
    return {"boxes": square(), "axes": "x y", "net": fb.Mlp([4]), "terms": terms}


def problem(residual=value, **options) -> fb.Problem:
    return fb.Problem(**{**base(), "terms": [fb.Interior(residual, (9, 9))], **options})


def with_coefficients(residual) -> fb.Problem:
    return problem(residual, coefficients={"k": fb.Grid1D(3), "a": fb.Scalar(2.0)})


@functools.cache
def trained() -> fb.Run:
    return problem().train()


@functools.cache
def loss() -> fb.Loss:
    return trained().problem.loss()


# Words that a message has to have. What a newcomer writes, and what the message says of it.
WORDS = {
    "u + 1": (lambda: problem(lambda x, u: u + 1), "u.v for its value"),
    "sin(u)": (lambda: problem(lambda x, u: jnp.sin(u)), "u.v in place of u"),
    "np.sin(u)": (lambda: problem(lambda x, u: np.sin(u)), "u.v for its value"),
    "u(x)": (lambda: problem(lambda x, u: u(x)), "u.v for its value"),
    "return u": (lambda: problem(lambda x, u: u), "u.v for its value"),
    "2 * u of several": (
        lambda: problem(lambda x, u: 2 * u, fields="p q"),
        "u has the fields 'p q' and is no number: write u.p.v",
    ),
    "x + 1": (lambda: problem(lambda x, u: u.v + (x + 1)), "write x.x for a coordinate"),
    "x[2]": (lambda: problem(lambda x, u: u.v + x[2]), "a point has 2 coordinates"),
    "no return": (lambda: problem(lambda x, u: None), "returned nothing (None)"),
    "a text": (lambda: problem(lambda x, u: "u.v"), "returned a str"),
    "a dict": (lambda: problem(lambda x, u: {"r": u.v}), "returned a dict"),
    "if": (lambda: problem(lambda x, u: u.v if u.v > 0 else u.x), "jnp.where in place of if"),
    "math.sin": (lambda: problem(lambda x, u: math.sin(u.v)), "jax.numpy in place of"),
    "np.sin of a number": (lambda: problem(lambda x, u: np.sin(u.v)), "jax.numpy in place of"),
    "u.v in constrain": (
        lambda: problem(constrain=lambda x, u: x.x * u.v),
        "write u, not u.v",
    ),
    "u.p.v in constrain": (
        lambda: problem(
            lambda x, u: (u.p.v, u.q.v), fields="p q", constrain=lambda x, u: (u.p.v, u.q)
        ),
        "write u.p, not u.p.v",
    ),
    "constrain without return": (
        lambda: problem(constrain=lambda x, u: None),
        "returned nothing (None)",
    ),
    "constrain of one": (lambda: problem(constrain=lambda u: u), "gets two, the point x"),
    "c.k * u.v": (
        lambda: with_coefficients(lambda x, u, c: c.k * u.v + c.a),
        "c.k is a function: call it",
    ),
    "c.k(x)": (lambda: with_coefficients(lambda x, u, c: c.k(x) * u.v * c.a), "x[0] or x by"),
    "c.a(x.x)": (lambda: with_coefficients(lambda x, u, c: c.a(x.x) * u.v), "calls a number"),
    "c + 1": (lambda: with_coefficients(lambda x, u, c: (c + 1) * u.v), "by its name, c.k"),
    "c.b": (lambda: with_coefficients(lambda x, u, c: c.b * u.v), "the coefficients are 'k a'"),
    "numbers as coefficients": (lambda: problem(coefficients={"a": 1.0}), "such as Scalar(1.0)"),
    "a function as activation": (lambda: fb.Mlp([4], jnp.tanh), "Net(features, init)"),
    "a class as how": (lambda: problem().train(fb.LeastSquares), "the class LeastSquares given"),
    "a mesh as how": (lambda: problem().train(loss().mesh), "devices go through mesh="),
    "a number as mesh": (lambda: problem().train(mesh=2), "jax.make_mesh((2,)"),
    "values that are nan": (
        lambda: problem(terms=[fb.Data(np.zeros((1, 2)), [np.nan], value)]),
        "values[0] is not finite",
    ),
    "a derivative that is none": (lambda: trained().evaluate([[0, 0]], "t"), "letters of the axes"),
    "a constant reference": (
        lambda: trained().error(np.ones(3), np.zeros((3, 2))),
        "the same at all 3 points",
    ),
    "reference and points swapped": (
        lambda: trained().error(np.zeros((3, 2)), lambda x: x.x),
        "the reference comes first",
    ),
    "a level of other axes": (lambda: square().with_level(fb.Boxes((0, 1), 2)), "1 axes"),
    "networks in jit": (
        lambda: jax.jit(lambda p: loss().gather(p))(loss().parameters()),
        "outside of jit",
    ),
    "new points of no term": (
        lambda: loss().with_points({1: (9, 9)}),
        "points by the number of a term, 0 to 0",
    ),
    "new points in a list": (lambda: trained().problem.with_points([(9, 9)]), "{0: points}"),
    "new measurements without values": (
        lambda: problem(terms=fb.Data([[0, 0]], [1], value)).with_points({0: [[0, 1.0]]}),
        "a pair (points, values)",
    ),
    "too many boxes": (lambda: fb.Boxes([(0, 1)] * 2, (2000, 2000)), "at most 1048576 boxes"),
}


@pytest.mark.parametrize("name", WORDS)
def test_message_says_what_to_write(name: str):
    make, words = WORDS[name]
    with pytest.raises((ValueError, TypeError, AttributeError, IndexError)) as caught:
        make()
    assert words in str(caught.value)
    require_sentence(caught.value)


def require_sentence(error: BaseException) -> None:
    """It is raised by a statement of the package, and not by what the package calls."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    lines = [linecache.getline(last.filename, n) for n in range(last.lineno - 12, last.lineno + 1)]
    is_ours = "shardsolve/fbpinn/" in last.filename and re.search(r"\braise\b", "".join(lines))
    assert is_ours, f"{type(error).__name__}: {error} at {last.filename}:{last.lineno}"
    assert re.search("accepted|write|return|read|given|needs|comes|call|JAX|pass", str(error))


@pytest.mark.parametrize(
    ("make", "same"),
    [
        (lambda: fb.Mlp(16), lambda: fb.Mlp([16])),
        (lambda: fb.Boxes((0, 1), 4).centers.tolist(), lambda: fb.Boxes([(0, 1)], (4,)).centers),
        (lambda: problem(axes=["x", "y"]).axes.names, lambda: ["x", "y"]),
        (lambda: problem(lambda x, u: u.p.v, fields=["p", "q"]).fields, lambda: ["p", "q"]),
        (lambda: square().grid([3, 4]).tolist(), lambda: square().grid((3, 4))),
        (lambda: problem(terms=fb.Interior(value, (9, 9))).orders, lambda: [(0, 0)]),
        (lambda: problem(terms=iter(base()["terms"])).orders, lambda: [(0, 0)]),
        (lambda: placed(fb.Interior(value, 5)), lambda: placed(fb.Interior(value, (5,)))),
        (lambda: placed(fb.Data([0, 1], [1, 2], value)), lambda: [[0.0], [1.0]]),
        (lambda: placed(fb.Boundary(value, where="x = 1")), lambda: [[1.0]]),
        (lambda: trained().problem.plan().points, lambda: 81),
        (lambda: unpacked(), lambda: [(0, 0)]),
    ],
)
def test_what_is_natural_is_accepted(make, same):
    assert np.all(make() == same())


def placed(term) -> list:
    boxes = fb.Boxes([(0, 1)], (2,))
    return fb.Problem(boxes, axes="x", terms=[term]).prepared[0].points.tolist()


def unpacked() -> list:
    def residual(x, u):
        first, second = x
        p, q = u
        return p.v + q.v * first * second

    return problem(residual, fields="p q").orders


# Of a wrong type, shape or size, for any argument.
JUNK = {
    "None": lambda: None,
    "a negative number": lambda: -1,
    "nan": lambda: np.nan,
    "infinity": lambda: np.inf,
    "a complex number": lambda: 1j,
    "a word": lambda: "ab",
    "bytes": lambda: b"x",
    "an empty list": lambda: [],
    "rows of different lengths": lambda: [[0, 1], [0]],
    "words": lambda: ["a", "b"],
    "a dict": lambda: {"a": 1},
    "an object": object,
    "a class": lambda: fb.LeastSquares,
    "a function without arguments": lambda: lambda: 0,
    "a function of NumPy": lambda: np.hypot,
    "no numbers": lambda: np.zeros(0),
    "three axes": lambda: np.zeros((2, 3, 2)),
    "an array of words": lambda: np.array(["a"]),
    "an array of nan": lambda: np.array([np.nan, 1.0, np.nan]),
    "complex numbers": lambda: np.array([1j]),
    "a huge number": lambda: 10**30,
    "a generator": lambda: (n for n in range(2)),
    "other options": lambda: fb.PlacementCosts(),
    "limits in the wrong order": lambda: ((1, 0),),
}


def in_a_problem(kind):
    return lambda **given: problem(terms=[fb.Interior(value, (9, 9)), kind(**given)])


POINTS = np.random.default_rng(0).uniform(0, 1, (5, 2))
# Each function, with arguments that are accepted.
CALLS = {
    "Boxes": (
        lambda: fb.Boxes,
        {"domain": [(0, 1)] * 2, "counts": (2, 2), "overlap": 2.9},
    ),
    "Boxes.from_arrays": (
        lambda: fb.Boxes.from_arrays,
        {"centers": [[0.0, 0.0], [1, 1]], "half_widths": [[1.0, 1]] * 2, "domain": [(0, 1)] * 2},
    ),
    "with_level": (lambda: square().with_level, {"level": square()}),
    "grid": (lambda: square().grid, {"counts": (3,), "fixed": {0: 1.0}}),
    "Mlp": (lambda: fb.Mlp, {"widths": [4], "activation": "tanh", "scale": 1.0}),
    "Net": (
        lambda: lambda **given: problem(net=fb.Net(**given)),
        {"features": lambda p, x: jnp.sin(p @ x), "init": lambda key: jnp.ones((3, 2))},
    ),
    "Scalar": (lambda: fb.Scalar, {"init": 1.0}),
    "Grid1D": (
        lambda: fb.Grid1D,
        {"nodes": 3, "init": 1.0, "domain": (0, 1), "kind": "linear"},
    ),
    "Interior": (
        lambda: in_a_problem(fb.Interior),
        {"residual": value, "points": (9, 9), "weight": 1.0},
    ),
    "Boundary": (
        lambda: in_a_problem(fb.Boundary),
        {"residual": value, "points": (9,), "where": "x = 0", "weight": 1.0},
    ),
    "Data": (
        lambda: in_a_problem(fb.Data),
        {"points": POINTS, "values": np.zeros(5), "measured": value, "weight": 1.0},
    ),
    "Problem": (
        lambda: fb.Problem,
        {**base(), "fields": "u", "constrain": lambda x, u: u, "coefficients": {}, "seed": 0},
    ),
    "LeastSquares": (
        lambda: fb.LeastSquares,
        {
            "max_iterations": 3,
            "tolerance": 1e-5,
            "rank_tolerance": 1e-12,
            "method": "factor",
            "cg_tolerance": 1e-8,
            "max_cg_steps": 9,
            "chunk": 64,
        },
    ),
    "LevenbergMarquardt": (
        lambda: fb.LevenbergMarquardt,
        {
            "max_steps": 2,
            "gradient_tolerance": 1e-8,
            "step_tolerance": 1e-9,
            "damping": 1e-6,
            "equations": "cheaper",
            "start": fb.LeastSquares(),
        },
    ),
    "PlacementCosts": (
        lambda: fb.PlacementCosts,
        {"seconds_per_pair": 1.0, "latency": 1.0, "seconds_per_byte": 1.0},
    ),
    "train": (lambda: trained().problem.train, {"how": None, "mesh": None}),
    "loss": (
        lambda: trained().problem.loss,
        {
            "mesh": None,
            "exchange": "halo",
            "owner": None,
            "costs": None,
            "dtype": None,
            "batch": None,
        },
    ),
    "with_points": (lambda: trained().problem.with_points, {"points": {0: (9, 9)}}),
    "nodes": (
        lambda: with_coefficients(lambda x, u, c: u.v * c.k(x.x) * c.a).nodes,
        {"name": "k"},
    ),
    "values": (lambda: trained().problem.values, {"function": lambda x: x.x, "points": POINTS}),
    "evaluate": (
        lambda: trained().evaluate,
        {"points": POINTS, "derivative": "v", "chunk": 100},
    ),
    "error": (lambda: trained().error, {"reference": lambda x: x.x, "points": POINTS}),
    "a loss": (lambda: loss(), {"parameters": None}),
    "parameters": (lambda: loss().parameters, {"start": None}),
    "gather": (lambda: loss().gather, {"parameters": None}),
    "networks": (lambda: loss().networks, {"parameters": None}),
    "require_finite": (lambda: loss().require_finite, {"parameters": None}),
}
# What is accepted although it is among the junk for others.
FINE = {
    ("Boxes.from_arrays", "domain", "None"),
    ("Grid1D", "domain", "None"),
    ("Grid1D", "init", "a negative number"),
    ("Grid1D", "init", "a huge number"),
    ("Interior", "weight", "a huge number"),
    ("Boundary", "weight", "a huge number"),
    ("Data", "weight", "a huge number"),
    ("LevenbergMarquardt", "damping", "a huge number"),
    ("LeastSquares", "chunk", "None"),
    ("Mlp", "scale", "a huge number"),
    ("PlacementCosts", "seconds_per_pair", "a huge number"),
    ("PlacementCosts", "latency", "a huge number"),
    ("PlacementCosts", "seconds_per_byte", "a huge number"),
    ("Problem", "net", "None"),
    ("Problem", "constrain", "None"),
    ("Problem", "coefficients", "None"),
    ("Problem", "fields", "a word"),
    ("Problem", "fields", "words"),
    ("Problem", "axes", "words"),
    *((call, "points", "limits in the wrong order") for call in ("Interior", "values", "evaluate")),
    ("Scalar", "init", "a negative number"),
    ("Scalar", "init", "a huge number"),
    ("error", "points", "None"),
    ("evaluate", "chunk", "a huge number"),
    ("loss", "costs", "other options"),
    ("loss", "batch", "a huge number"),
    *(("loss", name, "None") for name in ("mesh", "owner", "costs", "dtype", "batch")),
    *(("train", name, "None") for name in ("how", "mesh")),
    ("parameters", "start", "None"),
    # Functions of the caller's own, whose errors are theirs.
    ("Net", "init", "an empty list"),
    ("values", "function", "a class"),
    ("error", "reference", "a class"),
}


@pytest.mark.parametrize("name", CALLS)
def test_junk_gets_a_sentence(name: str):
    find, accepted = CALLS[name]
    call = find()
    for argument in accepted:
        for kind, make in JUNK.items():
            if (name, argument, kind) in FINE:
                continue
            given = {**accepted, argument: make()}
            try:
                call(**given)
            except (ValueError, TypeError, AttributeError) as error:
                require_sentence(error)
            else:
                pytest.fail(f"{name}({argument}={kind}) is accepted")
