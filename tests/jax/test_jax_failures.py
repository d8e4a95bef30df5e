"""Systems without an answer, each by its name, and what is then said or returned."""

import copy
import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from functions import FACTOR_USES, FUNCTIONS, N, every_function, every_use, solve
from systems import (
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


@pytest.mark.parametrize("copied", (lambda e: pickle.loads(pickle.dumps(e)), copy.copy))
def test_exceptions_go_to_other_processes_and_back(copied):
    """As concurrent.futures sends them."""
    for error in (
        shardsolve.LinAlgError("text", Status.NOT_POSITIVE_DEFINITE, 3),
        shardsolve.SolverError("text", Status.DEVICE),
    ):
        received = copied(error)
        assert type(received) is type(error)
        assert str(received) == "text"
        assert vars(received) == vars(error)


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
    assert np.isnan(x).all()  # one solve, one verdict
    assert np.asarray(info.verdict)[:, 0].tolist() == [Status.NONFINITE_INPUT] * 3
    assert "row 5, column 1 " in info.message


def test_info_of_a_batch_can_be_read():
    """message is of one problem; of several it is still a sentence, of the first that failed."""
    a = np.stack([hermitian(N), indefinite(), hermitian(N)])
    _, info = jax.vmap(lambda a: solve(a, sides(N), full_output=True))(a)
    assert "pivot" in info.message or "definite" in info.message


def test_message_of_an_old_failure_is_its_own_or_none(tmp_path):
    of_nothing = jax.tree.map(jnp.zeros_like, shardsolve.cho_factor(hermitian(N)))
    _, info = shardsolve.cho_solve(of_nothing, sides(N), full_output=True)
    text = info.message
    assert text.startswith("this factor was made of 0 rows")
    for failures in (200, 100):
        assert info.message == text
        for _ in range(failures):
            with pytest.raises(shardsolve.SolverError, match="nothing"):
                shardsolve.load_factor(tmp_path / "nothing")
    assert info.message.startswith("the text of this failure is no longer kept")


@every_function
def test_debug_nans_outside_jit_gives_our_reason(function):
    """It was JAX's "FloatingPointError in gather"."""
    with jax.debug_nans(True):
        FUNCTIONS[function](spread(hermitian(N)))
        with pytest.raises(shardsolve.LinAlgError, match="not positive definite"):
            FUNCTIONS[function](spread(indefinite()))


@every_use
def test_debug_nans_with_a_failed_factor_gives_our_reason(use):
    factor = jax.jit(shardsolve.cho_factor)(spread(indefinite()))
    with jax.debug_nans(True), pytest.raises(shardsolve.LinAlgError, match="positive definite"):
        FACTOR_USES[use](factor)


def test_debug_nans_with_full_output_gives_the_info():
    with jax.debug_nans(True):
        _, info = solve(spread(indefinite()), sides(N), full_output=True)
        assert info.status is Status.NOT_POSITIVE_DEFINITE


def test_debug_nans_under_vmap_is_not_passed_over():
    """There nobody reads the verdict: NaN must not pass in silence."""
    given = spread(indefinite())[None]
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        jax.vmap(lambda a: solve(a, sides(N)))(given)


@pytest.mark.parametrize("full_output", (False, True))
def test_debug_nans_inside_jit_raises(full_output):
    """JAX runs the program again without jit: if it then meets our exception, so much the better"""
    run = jax.jit(functools.partial(solve, full_output=full_output))
    with jax.debug_nans(True), pytest.raises((FloatingPointError, shardsolve.LinAlgError)):
        run(spread(indefinite()), sides(N))


def test_factor_and_info_are_compared_by_identity():
    """Field by field their arrays have no truth value, and no hash."""
    a, b = hermitian(N), sides(N)
    for one, other in (
        [shardsolve.cho_factor(a) for _ in range(2)],
        [solve(a, b, full_output=True)[1] for _ in range(2)],
    ):
        assert one == one and one != other
        assert len({one, other}) == 2


# A factor that failed


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
