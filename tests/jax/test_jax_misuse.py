"""What is not accepted, each mistake by its name, and what is then said."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions import FACTOR_USES, FUNCTIONS, N, every_function, every_use, several_devices, solve
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

# Arguments


@pytest.mark.parametrize("assume_a", (None, "sym", "her", "POS", 1))
def test_other_assume_a_says_what_to_pass(assume_a):
    with pytest.raises(ValueError, match="assume_a='pos'"):
        shardsolve.solve(hermitian(N), sides(N), assume_a=assume_a)


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


@pytest.mark.parametrize(
    "value",
    (None, "abc", {}, object(), 1.0, (x for x in ())),
    ids=lambda value: type(value).__name__,  # the same in every process
)
@pytest.mark.parametrize("argument", ("a", "b"))
def test_object_that_is_no_array_is_a_type_error(argument, value):
    with pytest.raises(TypeError, match=rf"{argument} is a "):
        solve(*((value, sides(N)) if argument == "a" else (hermitian(N), value)))


@pytest.mark.parametrize(
    "a", ([[1.0, 2.0], [3.0]], [["a", "b"], ["c", "d"]], [[10**400]], [[None]]), ids=str
)
def test_lists_that_are_no_numbers_are_named(a):
    with pytest.raises((TypeError, ValueError), match="a is a list that is no array of numbers"):
        solve(a, [1.0, 2.0])


@pytest.mark.parametrize(
    ("a", "words"),
    [
        (np.eye(2).astype(str), "strings"),
        (np.eye(2).astype(bytes), "strings"),
        (np.zeros((2, 2), [("x", "f8")]), "records"),
        (np.zeros((2, 2), "M8[s]"), "times"),
        (np.ma.masked_array(np.eye(2)), "masked array, whose masked entries have no value"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arrays_of_other_things_than_numbers_are_named(a, words):
    with pytest.raises(TypeError, match=f"a is a .*{words}"):
        solve(a, sides(2))
    with pytest.raises(TypeError, match=f"b is a .*{words}"):
        shardsolve.krylov.solve(np.eye(2), a[0])


def test_lists_of_numbers_are_solved():
    a = [[2.0, 1.0], [1.0, 2.0]]
    assert np.allclose(solve(a, [3.0, 3.0]), [1, 1])
    assert np.allclose(shardsolve.slogdet(a), (1, np.log(3)))


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


@pytest.mark.parametrize("p", (None, np.inf, "fro"))
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


@pytest.mark.parametrize(
    ("keyword", "value"),
    [("mesh", jax.devices), ("mesh", "x"), *(("axis_name", name) for name in (5, ("x", 1), {"x"}))],
    ids=str,
)
def test_keyword_of_another_type_is_a_type_error(keyword, value):
    with pytest.raises(TypeError, match=f"^{keyword} is .*; pass "):
        solve(hermitian(N), sides(N), **{keyword: value})


@pytest.mark.parametrize("explicit", (False, True))
def test_mesh_without_devices_outside_jit_says_what_to_pass(explicit):
    """XLA's own words were "No registered implementation for untyped custom call"."""
    mesh = row_mesh(explicit=explicit)
    a, b = hermitian(N), sides(N)
    run = functools.partial(solve, mesh=mesh.abstract_mesh)
    says = r"^mesh is an AbstractMesh.*jax.make_mesh.*set_mesh"
    for given in (a, jnp.asarray(a), jax.device_put(a, jax.devices()[0])):
        with pytest.raises(ValueError, match=says):
            run(given, b)
        with pytest.raises(ValueError, match=says):
            shardsolve.cho_factor(given, mesh=mesh.abstract_mesh)
    assert solves(a, run(put(a, mesh, "x"), b), b)
    assert solves(a, jax.jit(run)(put(a, mesh, "x"), put(b, mesh)), b)
    with jax.set_mesh(mesh):
        assert solves(a, run(a, b), b)


@pytest.mark.parametrize("kind", ("mesh", "abstract_mesh"))
@pytest.mark.parametrize("function", ("solve", "cho_factor", "cho_solve", "logdet"))
def test_mesh_inside_of_a_shard_map_is_refused(function, kind):
    """It was ignored: the devices are those of the shard_map."""
    mesh = row_mesh()
    call = functools.partial(
        {
            "solve": solve,
            "cho_factor": lambda a, b, mesh: shardsolve.cho_factor(a, mesh=mesh),
            "cho_solve": lambda a, b, mesh: shardsolve.cho_solve(
                shardsolve.cho_factor(a), b, mesh=mesh
            ),
            "logdet": lambda a, b, mesh: shardsolve.logdet(a, mesh=mesh),
        }[function],
        mesh=mesh if kind == "mesh" else mesh.abstract_mesh,
    )
    rows = jax.sharding.PartitionSpec("x")
    mapped = jax.shard_map(call, mesh=mesh, in_specs=(rows, rows), out_specs=rows, check_vma=False)
    with pytest.raises(ValueError, match=r"^mesh= was given inside of .*\('x',\).*axis_name"):
        mapped(hermitian(N), sides(N))


def test_message_of_an_info_inside_jit_says_so():
    with pytest.raises(TypeError, match=r"info.message was read while JAX traces.*outside"):
        jax.jit(lambda a: solve(a, sides(N), full_output=True)[1].message)(hermitian(N))


def test_advice_for_a_list_of_another_dtype_can_be_followed():
    a = hermitian(N, "float32")
    with pytest.raises(TypeError, match=r"jnp.asarray\(b, a.dtype\)"):
        solve(a, sides(N).tolist())
    assert np.isfinite(solve(a, jnp.asarray(sides(N).tolist(), a.dtype))).all()


@pytest.mark.parametrize("dtype_b", DTYPES)
@pytest.mark.parametrize("dtype_a", DTYPES)
def test_advice_for_another_dtype_drops_no_imaginary_part(dtype_a, dtype_b):
    a, b = jnp.asarray(hermitian(N, dtype_a)), jnp.asarray(sides(N, None, dtype_b))
    if dtype_a == dtype_b:
        return
    with pytest.raises(TypeError) as raised:
        solve(a, b)
    said = str(raised.value)
    narrows = np.promote_types(dtype_a, dtype_b) != dtype_a
    assert ("jnp.asarray(b, a.dtype)" in said) == (not narrows or "if b may be rounded" in said)
    if np.dtype(dtype_b).kind == "c" and np.dtype(dtype_a).kind == "f":
        assert "jnp.asarray(b, a.dtype)" not in said
        both = np.promote_types(dtype_a, dtype_b)
        assert solves(a.astype(both), solve(a.astype(both), b.astype(both)), b.astype(both))


@pytest.mark.parametrize("argument", ("a", "b"))
@pytest.mark.parametrize("dtype", (">f8", ">c8", np.longdouble, np.clongdouble), ids=str)
def test_numpy_numbers_that_jax_has_not_say_what_to_do(dtype, argument):
    """They got JAX's own words."""
    narrow = {">f8": "float64", ">c8": "complex64", np.longdouble: "float64"}
    narrow = np.dtype(narrow.get(dtype, "complex128"))
    if np.dtype(dtype) == narrow:
        pytest.skip("not another dtype on this machine")
    system = {"a": hermitian(N, narrow), "b": sides(N, None, narrow)}
    system[argument] = system[argument].astype(dtype)
    with pytest.raises(TypeError, match=rf"^{argument} is a NumPy array of .*{argument}\.astype"):
        solve(**system)
    if np.dtype(dtype).isnative:
        back = system[argument].astype(narrow)
    else:
        back = system[argument].astype(system[argument].dtype.newbyteorder("="))
    assert np.isfinite(solve(**{**system, argument: back})).all()


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("eig", "jax.numpy.linalg.eig"),
        ("eigvals", "jax.numpy.linalg.eigvals"),
        ("expm", "matrix_function"),
        ("nothing_like_it", "cho_factor"),
    ],
)
def test_function_that_is_not_there_says_what_there_is(name, instead):
    with pytest.raises(AttributeError, match=rf"shardsolve has no {name}\b.*{instead}") as raised:
        getattr(shardsolve, name)
    assert raised.value.name == name
    assert not hasattr(shardsolve, name)
    assert name not in dir(shardsolve)


def test_module_for_differential_equations_needs_no_import_of_its_own(python):
    out = python("import shardsolve; print(shardsolve.fbpinn.Boxes([(0, 1)], counts=(3,)).count)")
    assert out == "3\n"


def test_module_without_a_name_still_behaves_as_one():
    import copy
    import doctest
    import inspect

    assert getattr(shardsolve, "schur", None) is None
    assert copy.copy(shardsolve.solve) is shardsolve.solve
    assert inspect.unwrap(shardsolve) is shardsolve
    doctest.testmod(shardsolve)
    with pytest.raises(ImportError, match="schur"):
        exec("from shardsolve import schur")
    with pytest.raises(
        AttributeError, match=r"^module 'shardsolve' has no attribute '__wrapped__'"
    ):
        shardsolve.__wrapped__  # noqa: B018


@pytest.mark.parametrize("assume_a", ("sym", "her"))
def test_other_kind_of_matrix_says_what_there_is(assume_a):
    with pytest.raises(ValueError, match=r"jax\.scipy\.linalg\.solve, on one device"):
        shardsolve.solve(hermitian(N), sides(N), assume_a=assume_a)


# A factor that is used where it was not made, or is none


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


@every_use
def test_batch_of_factors_outside_vmap_is_refused(use):
    """logdet was that of the first one."""
    a = np.stack([hermitian(N, seed=seed) for seed in range(3)])
    factors = jax.vmap(shardsolve.cho_factor)(a)
    with pytest.raises(ValueError, match=rf"\(3, {N}, {N}\).*jax.vmap"):
        FACTOR_USES[use](factors)
    with pytest.raises(ValueError, match=r"batch of factors.*jax.vmap"):
        jax.jit(FACTOR_USES[use])(factors)


OPTIONS_OF_A_FACTOR = {
    "inv_tile": ("tile", lambda factor: shardsolve.inv(factor, tile=-3)),
    "inv_overwrite": ("overwrite_a", lambda factor: shardsolve.inv(factor, overwrite_a=True)),
    "logdet": ("tile", lambda factor: shardsolve.logdet(factor, tile=8)),
    "slogdet": ("tile", lambda factor: shardsolve.slogdet(factor, tile=8)),
    "cond": ("tile", lambda factor: shardsolve.cond(factor, 1, tile=8)),
}


@pytest.mark.parametrize("use", OPTIONS_OF_A_FACTOR)
def test_option_of_the_factorisation_with_a_factor_is_refused(use):
    option, call = OPTIONS_OF_A_FACTOR[use]
    with pytest.raises(ValueError, match=f"^{option} cannot be used with a Factor"):
        call(shardsolve.cho_factor(hermitian(N)))


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


# The usual mistakes with devices and memory


@pytest.mark.devices
@several_devices
@pytest.mark.parametrize("way", ("eager", "jit"))
def test_arrays_on_different_devices_are_refused(way):
    first, last = jax.devices()[0], jax.devices()[-1]
    a, b = jax.device_put(hermitian(N), first), jax.device_put(sides(N), last)
    run = jax.jit(solve) if way == "jit" else solve
    said = "b was put on .*cho_factor.*mesh=" if way == "eager" else "devices"
    with pytest.raises(ValueError, match=said):
        run(a, b)


@several_devices
@pytest.mark.parametrize("array", ("the matrix or factor", "b"))
def test_array_put_on_other_devices_than_those_of_mesh_says_so(array):
    half = row_mesh(jax.devices()[: DEVICES // 2])
    a, b = hermitian(N), sides(N)
    given = (spread(a), b) if array != "b" else (a, spread(b))
    with pytest.raises(ValueError, match=rf"^{array} was put on .*device_put"):
        solve(*given, mesh=half)


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


OVERWRITTEN_AS_B = """
import jax, jax.numpy as jnp, numpy as np, shardsolve
where = jax.sharding.NamedSharding(
    jax.sharding.Mesh(np.array(jax.devices()), ("x",)), jax.sharding.PartitionSpec("x")
)
a = jax.device_put(4 * np.eye(24), where)
def use(b):
    return shardsolve.solve(a, b, assume_a="pos", overwrite_a=True)
try:
    use({b})
except ValueError as error:
    print(error)
print(bool(jnp.array_equal(use(jnp.copy(a)), np.eye(24))))
"""


@pytest.mark.parametrize("b", ("a", "jax.device_put(a, where)"))
def test_right_hand_side_in_the_memory_to_be_overwritten_is_refused(python, b):
    """In a process of its own: JAX ends it where a donated buffer comes twice."""
    said, answered = python(OVERWRITTEN_AS_B.format(b=b), seconds=60).splitlines()
    assert said.startswith("overwrite_a=True was given, and b lies in the memory of a")
    assert "jnp.copy(b)" in said
    assert answered == "True"


def test_numpy_matrix_may_be_both_and_be_overwritten():
    a = np.array(4 * np.eye(N))
    assert np.array_equal(solve(a, a, overwrite_a=True), np.eye(N))
    assert np.array_equal(a, 4 * np.eye(N))


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
import resource, time
import jax, numpy as np, shardsolve
from shardsolve import _library
n = 4096
mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
host = np.eye(n), np.ones(n)  # kept: who frees it, and when, is not ours to know
a, b = jax.block_until_ready(jax.device_put(host, rows))
_library.library().shardsolve_set_small_matrix(n)  # one rank, with a copy of the whole matrix
shardsolve.logdet(jax.device_put(np.eye(24), rows))

def address_space():
    with open("/proc/self/statm") as sizes:
        return int(sizes.read().split()[0]) * resource.getpagesize()

def try_with(matrices, call):
    used, before = address_space(), None
    while used != before:  # what XLA frees late would be room for the call
        time.sleep(0.2)
        used, before = address_space(), used
    limit = used + int(matrices * a.nbytes)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    try:
        print("answered", call() is not None)
    except shardsolve.SolverError as error:
        print(error.status.name, error)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)

try_with(1.25, lambda: shardsolve.cho_factor(a))  # room for the result alone
factor = jax.block_until_ready(shardsolve.cho_factor(a))
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
