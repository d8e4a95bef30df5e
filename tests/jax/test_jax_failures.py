"""What goes wrong, each mistake by its name, and what is then said."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems import (
    DEVICES,
    DTYPES,
    hermitian,
    put,
    row_mesh,
    sides,
    solves,
    spread,
)

import shardsolve
from shardsolve import Status

N = 24
solve = functools.partial(shardsolve.solve, assume_a="pos")
several_devices = pytest.mark.skipif(DEVICES == 1, reason="needs two devices")


def indefinite(dtype="float64", row=13):
    a = hermitian(N, dtype)
    a[row, row] = -1
    return a


def with_entry(a, row, column, value):
    a = a.copy()
    a[row, column] = value
    return a


def not_hermitian(dtype="float64"):
    return with_entry(hermitian(N, dtype), 3, 17, 1)


BAD = {
    Status.NOT_POSITIVE_DEFINITE: indefinite,
    Status.NOT_HERMITIAN: not_hermitian,
    Status.NONFINITE_INPUT: lambda dtype="float64": with_entry(hermitian(N, dtype), 20, 2, np.nan),
}
every_failure = pytest.mark.parametrize("status", BAD, ids=lambda status: status.name.lower())

FUNCTIONS = {
    "solve": lambda a: solve(a, sides(N, None, a.dtype)),
    "cho_factor": shardsolve.cho_factor,
    "inv": shardsolve.inv,
    "logdet": shardsolve.logdet,
    "slogdet": shardsolve.slogdet,
    "cond": lambda a: shardsolve.cond(a, 1),
}
every_function = pytest.mark.parametrize("function", FUNCTIONS)


# Outside of jit: an exception


@pytest.mark.devices
@every_failure
@every_function
def test_bad_matrix_outside_jit_raises_with_status(function, status):
    with pytest.raises(shardsolve.LinAlgError) as raised:
        FUNCTIONS[function](spread(BAD[status]()))
    assert raised.value.status is status
    assert isinstance(raised.value, np.linalg.LinAlgError)
    assert (raised.value.pivot is None) == (status is not Status.NOT_POSITIVE_DEFINITE)


@pytest.mark.parametrize("dtype", DTYPES)
@every_failure
def test_bad_matrix_of_every_dtype_raises_with_status(status, dtype):
    with pytest.raises(shardsolve.LinAlgError) as raised:
        solve(spread(BAD[status](dtype)), sides(N, None, dtype))
    assert raised.value.status is status


@pytest.mark.devices
@pytest.mark.parametrize("row", (0, 1, 12, 23))
@pytest.mark.parametrize("tile", (None, 4))
@pytest.mark.parametrize("spec", (("x",), (None, "x")), ids=str)
def test_indefinite_matrix_names_the_row(spec, row, tile):
    """A negative entry on the diagonal of a diagonal matrix: no other row can be meant."""
    a = np.eye(N)
    a[row, row] = -1
    with pytest.raises(shardsolve.LinAlgError, match=rf"\b{row}\b") as raised:
        shardsolve.cho_factor(put(a, row_mesh(), *spec), tile=tile)
    assert raised.value.pivot == row


def test_singular_matrix_is_not_positive_definite():
    with pytest.raises(shardsolve.LinAlgError) as raised:
        solve(spread(np.zeros((N, N))), sides(N))
    assert raised.value.status is Status.NOT_POSITIVE_DEFINITE


@pytest.mark.parametrize("value", (np.nan, np.inf, -np.inf))
@pytest.mark.parametrize("entry", ((0, 0), (2, 20), (20, 2), (23, 0), (0, 23), (13, 13)), ids=str)
def test_nonfinite_matrix_names_row_and_column(entry, value):
    """As the user's array has it: not its transpose."""
    a = with_entry(hermitian(N), *entry, value)
    with pytest.raises(shardsolve.LinAlgError) as raised:
        shardsolve.cho_factor(spread(a))
    assert raised.value.status is Status.NONFINITE_INPUT
    assert names(str(raised.value), entry), str(raised.value)


@pytest.mark.devices
@pytest.mark.parametrize("entry", ((2, 20), (20, 2)), ids=str)
@pytest.mark.parametrize("spec", (("x",), (None, "x"), ()), ids=str)
def test_nonfinite_matrix_in_any_sharding_names_row_and_column(spec, entry):
    a = with_entry(hermitian(N), *entry, np.nan)
    for run in (solve, jax.jit(functools.partial(solve, full_output=True))):
        try:
            info = run(put(a, row_mesh(), *spec), sides(N))[1]
            status, message = info.status, info.message
        except shardsolve.LinAlgError as error:
            status, message = error.status, str(error)
        assert status == Status.NONFINITE_INPUT
        assert names(message, entry), message


def names(text: str, entry: tuple[int, int]) -> bool:
    """Row first."""
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").replace(":", " ").split()
    numbers = [int(word) for word in words if word.isdigit()]
    return list(entry) == numbers[:2]


@pytest.mark.devices
@pytest.mark.parametrize("entry", ((3, 17), (17, 3)), ids=str)
@pytest.mark.parametrize("spec", (("x",), (None, "x")), ids=str)
def test_not_hermitian_matrix_names_an_entry_of_the_pair(spec, entry):
    a = with_entry(hermitian(N), *entry, 100.0)
    with pytest.raises(shardsolve.LinAlgError) as raised:
        shardsolve.cho_factor(put(a, row_mesh(), *spec))
    assert raised.value.status is Status.NOT_HERMITIAN
    assert names(str(raised.value), (3, 17)) or names(str(raised.value), (17, 3))


@pytest.mark.parametrize("spec", (("x",), (None, "x")), ids=str)
def test_complex_matrix_that_is_symmetric_is_not_hermitian(spec):
    a = hermitian(N, "complex128")
    symmetric = np.tril(a) + np.tril(a, -1).T
    with pytest.raises(shardsolve.LinAlgError) as raised:
        shardsolve.cho_factor(put(symmetric, row_mesh(), *spec))
    assert raised.value.status is Status.NOT_HERMITIAN


def test_complex_diagonal_with_imaginary_part_is_not_hermitian():
    a = with_entry(hermitian(N, "complex128"), 5, 5, 1 + 1j)
    with pytest.raises(shardsolve.LinAlgError) as raised:
        shardsolve.cho_factor(spread(a))
    assert raised.value.status is Status.NOT_HERMITIAN


@pytest.mark.parametrize("value", (np.nan, np.inf))
@pytest.mark.parametrize("k", (None, 3))
def test_nonfinite_right_hand_side_names_row_and_column(value, k):
    b = sides(N, k)
    entry = (14, 0) if k is None else (14, 2)
    b[entry if k else 14] = value
    with pytest.raises(shardsolve.LinAlgError, match="right-hand side") as raised:
        solve(spread(hermitian(N)), b)
    assert raised.value.status is Status.NONFINITE_INPUT
    assert raised.value.pivot is None
    assert "14" in str(raised.value)
    if k:
        assert names(str(raised.value), entry), str(raised.value)


def test_answer_beyond_the_range_is_an_overflow():
    a, b = hermitian(N) * 1e-200, sides(N) * 1e200
    with pytest.raises(shardsolve.LinAlgError) as raised:
        solve(spread(a), b)
    assert raised.value.status is Status.OVERFLOW


@pytest.mark.parametrize("status", Status)
def test_status_says_what_to_do(status):
    assert status.advice.endswith((".", "set_timeout."))


def test_good_call_after_a_bad_one_is_good():
    with pytest.raises(shardsolve.LinAlgError):
        solve(spread(indefinite()), sides(N))
    assert solves(hermitian(N), solve(spread(hermitian(N)), sides(N)), sides(N))


# Inside of jit, or with full_output: NaN and an Info


@pytest.mark.devices
@pytest.mark.parametrize("way", ("eager", "jit", "explicit", "mesh"))
@every_failure
def test_bad_matrix_with_full_output_gives_nan_and_info(status, way):
    run = functools.partial(solve, full_output=True)
    a, b = BAD[status](), sides(N, 2)
    given = put(a, row_mesh(explicit=True), "x") if way == "explicit" else spread(a)
    right = put(b, row_mesh(explicit=True), "x") if way == "explicit" else b
    if way == "mesh":
        run = functools.partial(run, mesh=row_mesh())
    x, info = (run if way == "eager" else jax.jit(run))(given, right)
    assert x.shape == b.shape
    assert np.isnan(x).all()
    assert info.status is status
    assert np.isnan(info.backward_error)
    assert np.isnan(info.rcond)
    assert info.message
    assert (info.pivot >= 0) == (status is Status.NOT_POSITIVE_DEFINITE)


@every_failure
@every_function
def test_bad_matrix_inside_jit_gives_nan(function, status):
    out = jax.jit(FUNCTIONS[function])(spread(BAD[status]()))
    if function == "cho_factor":
        assert out.info.status is status
    else:
        assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(out))


@pytest.mark.parametrize("value", (np.nan, np.inf))
def test_nonfinite_right_hand_side_inside_jit_gives_nan_and_info(value):
    b = with_entry(sides(N, 3), 14, 2, value)
    x, info = jax.jit(functools.partial(solve, full_output=True))(spread(hermitian(N)), b)
    assert np.isnan(x).all()
    assert info.status is Status.NONFINITE_INPUT
    assert "right-hand side" in info.message


@pytest.mark.parametrize("value", (np.nan, np.inf))
def test_nonfinite_inside_jit_is_not_an_answer_of_zeros(value):
    gradient = jax.jit(jax.grad(lambda a: jnp.sum(solve(a, sides(N)))))(
        spread(with_entry(hermitian(N), 5, 5, value))
    )
    assert np.isnan(gradient).all()


@pytest.mark.parametrize("way", ("eager", "jit"))
def test_batch_with_one_bad_member_spoils_only_that(way):
    a = np.stack([hermitian(N), indefinite(), hermitian(N, seed=2)])
    b = sides(N, 3).T.copy()
    run = jax.vmap(functools.partial(solve, full_output=True))
    x, info = (jax.jit(run) if way == "jit" else run)(put(a, row_mesh(), None, "x"), b)
    assert solves(a[0], x[0], b[0])
    assert solves(a[2], x[2], b[2])
    assert np.isnan(x[1]).all()
    assert info.status.tolist() == [Status.OK, Status.NOT_POSITIVE_DEFINITE, Status.OK]
    assert info.pivot[1] >= 13
    assert info.pivot.tolist()[::2] == [-1, -1]
    assert np.isnan(info.backward_error).tolist() == [False, True, False]


def test_batch_of_one_matrix_with_one_bad_right_hand_side_says_so():
    b = with_entry(sides(N, 3).T, 1, 5, np.nan)
    x, info = jax.vmap(lambda b: solve(spread(hermitian(N)), b, full_output=True))(b)
    assert np.isnan(x[1]).all()
    assert np.asarray(info.verdict).reshape(-1, 5)[:, 0].max() == Status.NONFINITE_INPUT


def test_info_of_a_batch_can_be_read():
    """message is of one problem; of several it is still a sentence, of the first that failed."""
    a = np.stack([hermitian(N), indefinite(), hermitian(N)])
    _, info = jax.vmap(lambda a: solve(a, sides(N), full_output=True))(a)
    assert "pivot" in info.message or "definite" in info.message


# A factor that failed, or is used where it was not made

FACTOR_USES = {
    "cho_solve": lambda factor: shardsolve.cho_solve(factor, sides(N)),
    "inv": shardsolve.inv,
    "logdet": shardsolve.logdet,
    "slogdet": shardsolve.slogdet,
    "cond": lambda factor: shardsolve.cond(factor, 1),
}
every_use = pytest.mark.parametrize("use", FACTOR_USES)


@every_use
def test_failed_factor_inside_jit_gives_nan(use):
    factor = jax.jit(shardsolve.cho_factor)(spread(indefinite()))
    assert factor.info.status is Status.NOT_POSITIVE_DEFINITE
    out = jax.jit(FACTOR_USES[use])(factor)
    assert all(np.isnan(leaf).all() for leaf in jax.tree.leaves(out))


@every_use
def test_failed_factor_outside_jit_raises(use):
    """Outside of jit nobody should have to look for NaN."""
    factor = jax.jit(shardsolve.cho_factor)(spread(indefinite()))
    with pytest.raises(shardsolve.LinAlgError) as raised:
        FACTOR_USES[use](factor)
    assert raised.value.status is Status.NOT_POSITIVE_DEFINITE
    assert raised.value.pivot == factor.info.pivot


@pytest.mark.devices
@several_devices
@pytest.mark.parametrize("use", ("cho_solve", "inv", "cond"))
def test_factor_on_another_number_of_devices_says_so(use):
    factor = shardsolve.cho_factor(spread(hermitian(N)))
    half = row_mesh(jax.devices()[: DEVICES // 2])
    moved = jax.tree.map(
        lambda leaf: put(np.array(leaf), half, *(("x",) if leaf.shape[0] == N else ())), factor
    )
    with pytest.raises((shardsolve.SolverError, ValueError), match=rf"{DEVICES} devices"):
        FACTOR_USES[use](moved)


TYPED_ELSEWHERE = {
    "factor_on_a_device": lambda moved, factor, a: shardsolve.cho_solve(moved, sides(N)),
    "factor_on_a_mesh": lambda moved, factor, a: jax.jit(
        functools.partial(shardsolve.cho_solve, mesh=other_mesh())
    )(factor, sides(N)),
    "matrix_on_a_device": lambda moved, factor, a: solve(
        jax.device_put(a, jax.devices()[0]), sides(N)
    ),
    "matrix_on_a_mesh": lambda moved, factor, a: jax.jit(
        functools.partial(solve, mesh=other_mesh())
    )(a, sides(N)),
}


def other_mesh():
    return jax.sharding.Mesh(np.array(jax.devices()), ("other",))


@several_devices
@pytest.mark.parametrize("use", TYPED_ELSEWHERE)
def test_explicit_type_of_another_mesh_says_what_to_do(use):
    """Put on a bare device an array keeps its type: JAX's own words were KeyError('x')."""
    a = put(hermitian(N), row_mesh(explicit=True), "x")
    factor = shardsolve.cho_factor(a)
    moved = jax.device_put(factor, jax.devices()[0])
    with pytest.raises(ValueError, match=r"\('x',\) by its type.*where it was made.*device_put"):
        TYPED_ELSEWHERE[use](moved, factor, a)


@pytest.mark.parametrize("function", ("cho_solve", "solve", "logdet"))
def test_scipy_factor_is_refused(function):
    import jax.scipy.linalg

    theirs = jax.scipy.linalg.cho_factor(hermitian(N))
    with pytest.raises(TypeError, match=r"cho_factor|array"):
        if function == "cho_solve":
            shardsolve.cho_solve(theirs, sides(N))
        elif function == "solve":
            solve(theirs, sides(N))
        else:
            shardsolve.logdet(theirs)


# Arguments


@pytest.mark.parametrize("assume_a", (None, "gen", "sym", "her", "POS", 1))
def test_assume_a_missing_or_other_says_what_to_pass(assume_a):
    keywords = {} if assume_a is None else {"assume_a": assume_a}
    with pytest.raises(ValueError, match="assume_a='pos'"):
        shardsolve.solve(hermitian(N), sides(N), **keywords)


@pytest.mark.parametrize("shape", ((), (N,), (N, N + 1), (2, N, N), (0, 3)), ids=str)
@every_function
def test_matrix_of_wrong_shape_is_a_value_error(function, shape):
    with pytest.raises(ValueError, match="square"):
        FUNCTIONS[function](jnp.zeros(shape))


@pytest.mark.parametrize("shape", ((), (N + 1,), (N - 1, 2), (1, N), (2, N, 1)), ids=str)
@pytest.mark.parametrize("way", ("eager", "jit"))
def test_right_hand_side_of_wrong_shape_is_a_value_error(shape, way):
    run = jax.jit(solve) if way == "jit" else solve
    with pytest.raises(ValueError, match="b has shape"):
        run(spread(hermitian(N)), np.zeros(shape))
    with pytest.raises(ValueError, match="b has shape"):
        shardsolve.cho_solve(shardsolve.cho_factor(spread(hermitian(N))), np.zeros(shape))


@pytest.mark.parametrize("dtype", ("int32", "int64", "bool", "float16", "bfloat16", "uint8"))
def test_matrix_of_integers_or_halves_is_a_type_error(dtype):
    with pytest.raises(TypeError, match=rf"a has dtype {dtype}.*float32"):
        solve(jnp.eye(N, dtype=dtype), sides(N))
    with pytest.raises(TypeError, match=rf"b has dtype {dtype}"):
        solve(hermitian(N), jnp.ones(N, dtype))


@pytest.mark.parametrize("dtype_b", DTYPES)
@pytest.mark.parametrize("dtype_a", DTYPES)
def test_mixed_dtypes_are_a_type_error(dtype_a, dtype_b):
    a, b = hermitian(N, dtype_a), sides(N, None, dtype_b)
    if dtype_a == dtype_b:
        assert solves(a, solve(a, b), b)
        return
    with pytest.raises(TypeError, match=rf"{dtype_a} .*{dtype_b}"):
        solve(a, b)
    with pytest.raises(TypeError, match=rf"{dtype_a} .*{dtype_b}"):
        jax.jit(solve)(a, b)


@pytest.mark.parametrize("value", (None, "abc", {}, object(), 1.0, (x for x in ())), ids=repr)
@pytest.mark.parametrize("argument", ("a", "b"))
def test_object_that_is_no_array_is_a_type_error(argument, value):
    with pytest.raises(TypeError, match=rf"{argument} is a "):
        solve(*((value, sides(N)) if argument == "a" else (hermitian(N), value)))


def test_ragged_or_worded_lists_are_an_error():
    with pytest.raises((TypeError, ValueError)):
        solve([[1.0, 2.0], [3.0]], [1.0, 2.0])
    with pytest.raises((TypeError, ValueError)):
        solve([["a", "b"], ["c", "d"]], [1.0, 2.0])


def test_lists_of_numbers_are_solved():
    assert np.allclose(solve([[2.0, 1.0], [1.0, 2.0]], [3.0, 3.0]), [1, 1])


def test_numpy_double_with_x64_off_says_so(python):
    """float32 because x64 is off: no silent loss of precision."""
    out = python(
        """
import numpy as np, shardsolve, jax.numpy as jnp
for a, b in ((np.eye(4), np.ones(4, np.float32)), (np.eye(4, dtype=np.float32), np.ones(4))):
    try:
        shardsolve.solve(a, b, assume_a="pos")
    except TypeError as error:
        print(error)
x = shardsolve.solve(jnp.eye(4) * 2, jnp.ones(4), assume_a="pos")
assert x.dtype == "float32" and np.allclose(x, 0.5, rtol=1e-6)
""",
        JAX_ENABLE_X64="0",
    )
    first, second = out.splitlines()
    assert first.startswith("a is a NumPy array of float64")
    assert second.startswith("b is a NumPy array of float64")
    assert "jax_enable_x64" in first


@pytest.mark.parametrize("p", (2, None, np.inf, "fro"))
def test_cond_other_norm_is_not_implemented(p):
    with pytest.raises(NotImplementedError, match="p=1"):
        shardsolve.cond(hermitian(N), p)


@pytest.mark.parametrize("tile", (-1, 2**40, 1.5, "big"))
def test_tile_that_makes_no_sense_is_refused(tile):
    if tile == 2**40:  # more than there are columns: one tile
        assert solves(hermitian(N), solve(hermitian(N), sides(N), tile=tile), sides(N))
        return
    with pytest.raises((TypeError, ValueError)):
        solve(spread(hermitian(N)), sides(N), tile=tile)


# The usual mistakes with devices and memory


@pytest.mark.devices
@several_devices
@pytest.mark.parametrize("way", ("eager", "jit"))
def test_arrays_on_different_devices_are_refused(way):
    first, last = jax.devices()[0], jax.devices()[-1]
    a, b = jax.device_put(hermitian(N), first), jax.device_put(sides(N), last)
    run = jax.jit(solve) if way == "jit" else solve
    with pytest.raises(ValueError, match="devices"):
        run(a, b)


DELETED = """
import jax, numpy as np, shardsolve
where = jax.sharding.NamedSharding(
    jax.sharding.Mesh(np.array(jax.devices()), ("x",)), jax.sharding.PartitionSpec("x")
)
def use(a, **keywords):
    return shardsolve.{use}
if {warm}:
    use(jax.device_put(np.eye(24), where))
a = jax.device_put(np.eye(24), where)
shardsolve.{use_up}
try:
    print("answered", use(a))
except (RuntimeError, ValueError) as error:
    print(error)
"""
USES_OF_A = {
    "solve": 'solve(a, np.ones(24), assume_a="pos"{})',
    "cho_factor": "cho_factor(a{})",
    "inv": "inv(a{})",
}


@pytest.mark.parametrize("warm", (False, True), ids=("first_call", "compiled_before"))
@pytest.mark.parametrize("function", USES_OF_A)
def test_overwritten_matrix_used_again_is_an_error(python, function, warm):
    """In a process of its own: jax 0.10.2 crashes where its own functions get such an array."""
    use_up = USES_OF_A[function].format(", overwrite_a=True")
    use = USES_OF_A[function].format("")
    out = python(DELETED.format(use=use, use_up=use_up, warm=warm))
    assert "deleted" in out, out


def test_debug_nans_raises_of_its_own():
    with jax.debug_nans(True):
        assert solves(hermitian(N), solve(spread(hermitian(N)), sides(N)), sides(N))
        factor = shardsolve.cho_factor(spread(hermitian(N)))
        assert solves(hermitian(N), shardsolve.cho_solve(factor, sides(N)), sides(N))
        assert np.isfinite(shardsolve.inv(factor)).all()
        with pytest.raises((FloatingPointError, shardsolve.LinAlgError)):
            solve(spread(indefinite()), sides(N))


def test_tracer_without_sharding_is_solved_on_one_device():
    a, b = hermitian(N), sides(N)
    assert solves(a, jax.jit(lambda: solve(jnp.asarray(a), jnp.asarray(b)))(), b)


def test_gradient_needs_no_synchronisation_before_it():
    a, b = spread(hermitian(N)), spread(sides(N))
    run = jax.jit(jax.grad(lambda a: jnp.sum(solve(a, b) ** 2)))
    at_once = run(jax.jit(lambda a: a * 2)(a))
    ready = jax.block_until_ready(jax.jit(lambda a: a * 2)(a))
    assert np.array_equal(at_once, run(ready))


# Memory

SHORT_OF_MEMORY = """
import resource
import jax, numpy as np, shardsolve
from shardsolve import _library
n = 4096
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
a, b = jax.device_put(np.eye(n), rows), jax.device_put(np.ones(n), rows)
_library.library().shardsolve_set_small_matrix(n)  # one rank, with a copy of the whole matrix
shardsolve.logdet(jax.device_put(np.eye(24), rows))

def try_with(matrices, call):
    with open("/proc/self/statm") as sizes:
        used = int(sizes.read().split()[0]) * resource.getpagesize()
    limit = used + int(matrices * a.nbytes)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        print("answered", call())
    except shardsolve.SolverError as error:
        print(error.status.name, error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)

try_with(1.25, lambda: shardsolve.cho_factor(a))  # room for the result alone
factor = shardsolve.cho_factor(a)
try_with(0.5, lambda: shardsolve.cho_solve(factor, b))
print(bool((np.asarray(shardsolve.cho_solve(factor, b)) == 1).all()))
"""


@several_devices
@pytest.mark.slow
@pytest.mark.one_rank
def test_copies_for_one_rank_without_memory_are_an_error_and_the_process_goes_on(python):
    factor, solution, after = python(SHORT_OF_MEMORY).splitlines()
    assert factor.startswith("OUT_OF_MEMORY there is not enough memory")
    assert solution.startswith("OUT_OF_MEMORY there is not enough memory")
    assert after == "True"
