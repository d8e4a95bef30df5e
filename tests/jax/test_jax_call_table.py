"""The library's table of calls, as Python asks for it, and what does not fit it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from systems import DEVICES, hermitian, row_mesh, spread

import shardsolve
from shardsolve import _calls, _library, _records
from shardsolve._calls import Call
from shardsolve._cut import Cut
from shardsolve._library import Buffer, Row


def test_statuses_are_those_of_the_library():
    own = {status.name.lower(): status.value for status in shardsolve.Status}
    assert own == _library.description()["statuses"]


def test_records_are_as_long_as_those_of_the_library():
    described = _library.description()
    assert described["verdict_words"] == _records.VERDICT_WORDS
    assert described["factor_words"] == _records.FACTOR_WORDS == len(_records.EMPTY_FACTOR)
    assert described["statuses"]["invalid_argument"] == _records.FAILURE


def test_every_call_of_the_table_is_one_of_python_and_the_other_way_round():
    python = {call.name for call in vars(_calls).values() if isinstance(call, Call)}
    assert python == {name for name, row in _library.rows().items() if not row.local}


@pytest.mark.parametrize("call", [c for c in vars(_calls).values() if isinstance(c, Call)])
def test_rule_and_empty_results_fit_the_row(call):
    operands, results = (side.split(",") for side in call.rule.split("->"))
    assert len(operands) == len(call.row.operands)
    assert len(results) == len(call.row.results) == len(call.empty)


# What only a bug of ours brings about: said clearly, before any memory is touched.

SLAB = jax.ShapeDtypeStruct((4, 4), "float64")
DIAGONAL = jax.ShapeDtypeStruct((4,), "float64")
RECORD = jax.ShapeDtypeStruct((12,), "int32")
SOLUTION = SLAB  # as many columns as unknowns, where nothing else is said
ERROR = jax.ShapeDtypeStruct((1,), "float64")
GIVEN = (SLAB, DIAGONAL, RECORD, SOLUTION, ERROR)
RESULTS = (ERROR, jax.ShapeDtypeStruct((5,), "int32"))
ATTRIBUTES = {"call": "cholesky_condition", "n": np.int64(4), "ranks": np.int64(1)}


def call_with(given=GIVEN, results=RESULTS, attributes=ATTRIBUTES):
    run = jax.ffi.ffi_call(_library.target("cholesky_condition"), results)
    place = jnp.zeros(2, jnp.int32)
    arrays = [jnp.zeros(one.shape, one.dtype) for one in given]
    return jax.block_until_ready(jax.jit(lambda *a: run(*a, **attributes))(place, *arrays))


def test_call_by_hand_that_fits_its_row_is_made():
    assert call_with()[1].shape == (5,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"given": GIVEN[:4]}, "4 operands, where 5 belong"),
        ({"given": (*GIVEN, SLAB)}, "6 operands, where 5 belong"),
        ({"given": (DIAGONAL, SLAB, *GIVEN[2:])}, r"slab of cholesky_condition .* \(4\), where"),
        (
            {"given": (SLAB, RECORD, DIAGONAL, SOLUTION, ERROR)},
            "diagonal of cholesky_condition has",
        ),
        (
            {"given": (SLAB, jax.ShapeDtypeStruct((4,), "float32"), *GIVEN[2:])},
            "diagonal of cholesky_condition has",
        ),
        ({"results": RESULTS[:1]}, "5 operands and 1 results, where 5 and 2 belong"),
        ({"results": RESULTS[::-1]}, "rcond of cholesky_condition has"),
        ({"attributes": {**ATTRIBUTES, "call": "cholesky"}}, "there is no call cholesky"),
        ({"attributes": {**ATTRIBUTES, "tile": np.int64(3)}}, "4 attributes; call, n, ranks"),
        ({"attributes": {**ATTRIBUTES, "n": np.int32(4)}}, "3 attributes; call, n, ranks"),
        (
            {"attributes": {**ATTRIBUTES, "call": "cholesky_factor", "Tile": np.int64(3)}},
            "without its option tile",
        ),
        (
            {"attributes": {**ATTRIBUTES, "call": "cholesky_factor", "tile": np.float64(3)}},
            "without its option tile, or with one of another type",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_call_that_does_not_fit_its_row_is_refused(change, message):
    with pytest.raises(Exception, match="internal: ") as raised:
        call_with(**change)
    assert raised.match(message)


# What a row can say and no call of today does: a result that is cut by columns.


class Transposing:
    """Stands in for the library: its columns are the rows of a Hermitian matrix, conjugated."""

    def __init__(self, seen):
        self.seen = seen

    def __call__(self, target, shapes, input_output_aliases=None):
        def call(place, slab, **attributes):
            self.seen.update(attributes)
            assert [tuple(shape.shape) for shape in shapes] == [slab.shape]
            return (slab,)

        return call


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("n", [4 * DEVICES, 4 * DEVICES - 1], ids=["even", "uneven"])
@pytest.mark.parametrize("way", ["eager", "jit", "auto"])
def test_columns_of_a_result_lie_where_the_row_says(monkeypatch, way, n, dtype):
    slab, columns = (Buffer("a", "matrix", ("w", "n"), turned) for turned in (False, True))
    options = {"limit": "float64", "values_only": "bool", "first": "int64"}
    row = Row("eigenvectors", (slab,), (columns,), 0, None, None, None, options, local=False)
    monkeypatch.setattr(_library, "rows", lambda: {"eigenvectors": row})
    seen = {}
    monkeypatch.setattr(jax.ffi, "ffi_call", Transposing(seen))
    call = Call("eigenvectors", rule="i j -> k i", empty=(0,))
    a = hermitian(n, dtype)
    cut = None if way == "auto" else Cut(row_mesh(), row_mesh().axis_names)
    given = {"limit": 0.5, "values_only": True, "first": 2}

    def run(a):
        return call(cut, a, **given)[0]

    z = (run if way == "eager" else jax.jit(run))(spread(a))
    assert np.array_equal(z, a)
    if n % DEVICES == 0:
        expected = NamedSharding(row_mesh(), PartitionSpec(None, row_mesh().axis_names))
        assert z.sharding.is_equivalent_to(expected, 2)
    assert {key: type(seen[key]) for key in given} == {
        "limit": np.float64,
        "values_only": np.bool_,
        "first": np.int64,
    }
