"""`solve --assume gen`: general square matrices, by LU."""

import json

import numpy as np
import pytest
from problems import DTYPES, ORDERS, normal, save, sides, solves, unit_roundoff


def general(n, dtype="float64", order="C"):
    """Neither Hermitian nor with large numbers on its diagonal."""
    return np.array(normal(np.random.default_rng(4), (n, n), dtype), order=order)


def write(folder, a, b):
    save(folder / "A.npy", a)
    save(folder / "b.npy", b)


@pytest.mark.parametrize("devices", (1, 3))
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_solve_every_dtype_and_order_passes_gate(command, tmp_path, dtype, order, devices):
    a, b = general(67, dtype, order), sides(67, 3, dtype)
    write(tmp_path, a, b)
    result = command(
        "solve", "A.npy", "b.npy", "-o", "x.npy", "--assume", "gen", "--devices", devices, "--json"
    )
    assert result.code == 0, result.err
    assert solves(a, np.load(tmp_path / "x.npy"), b)
    report = json.loads(result.out)
    u = unit_roundoff(a.dtype)
    assert report["status"] == "ok"
    assert 0 < report["backward_error"] < 10 * u
    assert 0 < report["component_error"] < 20 * u
    assert 1 <= report["growth"] < 50
    exact = 1 / np.linalg.cond(a.astype(np.complex128), 1)
    assert 0.9 * exact < report["rcond"] < 3.5 * exact


@pytest.mark.parametrize("devices", (1, 3))
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_in_place_is_certified_by_a_sketch(command, tmp_path, dtype, order, devices):
    a, b = general(67, dtype, order), sides(67, 3, dtype)
    write(tmp_path, a, b)
    words = ("solve", "A.npy", "b.npy", "-o", "x.npy", "--assume", "gen", "--in-place")
    report = command(*words, "--devices", devices, "--json").json()
    x, u = np.load(tmp_path / "x.npy"), unit_roundoff(a.dtype)
    wide = np.result_type(a.dtype, np.float64)
    residual = np.linalg.norm(a.astype(wide) @ x - b, axis=0)
    size = np.linalg.norm(a) * np.linalg.norm(x, axis=0) + np.linalg.norm(b, axis=0)
    error = max(residual / size)
    assert report["status"] == "ok" and report["component_error"] is None
    assert error < 10 * u and error / 3 < report["backward_error"] < 3 * error
    assert np.array_equal(np.load(tmp_path / "A.npy"), a)


@pytest.mark.parametrize("words", ((), ("--in-place",)), ids=("kept", "in_place"))
@pytest.mark.parametrize("devices", (1, 3))
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_inverse_every_dtype_and_order_passes_gate(
    command, tmp_path, dtype, order, devices, words
):
    a = general(67, dtype, order)
    save(tmp_path / "A.npy", a)
    arguments = ("inverse", "A.npy", "-o", "X.npy", "--assume", "gen", *words)
    report = command(*arguments, "--devices", devices, "--json").json()
    x, u = np.load(tmp_path / "X.npy"), unit_roundoff(a.dtype)
    assert x.dtype == a.dtype and x.flags.f_contiguous == a.flags.f_contiguous
    assert np.array_equal(np.load(tmp_path / "A.npy"), a)
    wide = np.result_type(a.dtype, np.float64)
    # Of a file in C order it is A^H that is inverted.
    left, right = (a, x) if order == "F" else (x, a)
    residual = np.linalg.norm(left.astype(wide) @ right - np.eye(67), 1 if order == "F" else np.inf)
    size = np.linalg.norm(a, 1) * np.linalg.norm(x, 1)
    assert residual / size < 10 * u
    assert report["status"] == "ok" and 0 < report["backward_error"] < 10 * u
    assert 0.9 * report["rcond"] < 1 / size < 1.1 * report["rcond"]


def test_lu_inverse_that_is_nearly_none_is_told(command, tmp_path):
    grown = np.tril(-np.ones((70, 70)), -1) + np.eye(70)
    grown[:, -1] = 1 + 0.3 / np.arange(3, 73)
    save(tmp_path / "A.npy", np.asfortranarray(grown))
    words = ("inverse", "A.npy", "-o", "X.npy", "--assume", "gen", "--devices", 1)
    assert command(*words).code == 0
    assert np.allclose(grown @ np.load(tmp_path / "X.npy"), np.eye(70))
    result = command(*words, "--force", "--in-place", "--json")
    assert result.code == 1 and json.loads(result.out)["status"] == "inaccurate"
    result = command("inverse", "A.npy", "-o", "Y.npy", "--in-place")
    assert result.code == 2 and "--in-place given without --assume gen" in result.err


def test_lu_in_place_is_for_general_matrices(command, tmp_path):
    write(tmp_path, np.eye(3), np.ones(3))
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy", "--in-place")
    assert result.code == 2 and "--in-place given without --assume gen" in result.err


def test_lu_report_tells_growth_and_the_error_by_components(command, tmp_path):
    write(tmp_path, general(30), sides(30, 2))
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy", "--assume", "gen")
    assert result.code == 0 and result.err == ""
    for label in ("backward error", "by components", "growth", "rcond"):
        assert label in result.out


@pytest.mark.parametrize("order", ORDERS)
def test_lu_singular_matrix_has_no_answer_and_names_the_pivot(command, tmp_path, order):
    write(tmp_path, np.ones((3, 3), order=order), np.ones(3))
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy", "--assume", "gen", "--json")
    assert result.code == 1
    report = json.loads(result.out)
    assert report["status"] == "singular" and report["pivot"]["rows_before"] == 1
    assert "shardsolve: error: 'A.npy': the matrix is singular: at step 2" in result.err
    assert not (tmp_path / "x.npy").exists()


@pytest.mark.parametrize("kind", ("gen", "pos"))
def test_nearly_singular_matrix_has_an_answer_and_a_warning(command, tmp_path, kind):
    n = 16
    a = 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0)  # Hilbert's
    if kind == "pos":
        a = np.eye(n)
        a[2, 7] = a[7, 2] = np.finfo(float).eps - 1
    write(tmp_path, a, np.ones(n))
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy", "--assume", kind)
    assert result.code == 0
    assert result.err.startswith("shardsolve: warning: 'A.npy': the matrix is singular to working")
    assert "no digit of it is certain" in result.out
    assert solves(a, np.load(tmp_path / "x.npy"), np.ones(n))


def test_lu_nonfinite_entry_is_named_as_the_file_has_it(command, tmp_path):
    for order in ORDERS:
        a = general(20, order=order)
        a[5, 7] = np.inf
        save(tmp_path / f"{order}.npy", a)
        save(tmp_path / "b.npy", sides(20, None))
        result = command("solve", f"{order}.npy", "b.npy", "-o", "x.npy", "--assume", "gen")
        assert result.code == 1
        assert "row 5, column 7" in result.err


def test_lu_other_words_are_refused_and_logdet_takes_positive_definite_alone(command, tmp_path):
    write(tmp_path, general(5), sides(5, None))
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy", "--assume", "sym")
    assert result.code == 2 and "pos and gen are accepted" in result.err
    result = command("logdet", "A.npy", "--assume", "gen")
    assert result.code == 2 and "pos is accepted" in result.err


@pytest.mark.parametrize("order", ORDERS)
def test_lu_one_complex_row_is_not_conjugated(command, tmp_path, order):
    """An array of one entry is in C order as NumPy writes it, and its one column is no row."""
    write(tmp_path, np.array([[1 + 2j]], order=order), np.array([5 + 0j]))
    words = ("solve", "A.npy", "b.npy", "-o", "x.npy", "--assume", "gen")
    assert command(*words).code == 0
    assert np.allclose(np.load(tmp_path / "x.npy"), 1 - 2j)


def test_lu_of_no_rows_has_an_answer(command, tmp_path):
    write(tmp_path, np.zeros((0, 0)), np.zeros(0))
    assert command("solve", "A.npy", "b.npy", "-o", "x.npy", "--assume", "gen").code == 0


def test_lu_inverse_of_a_singular_matrix_is_warned_of(command, tmp_path):
    a = np.random.default_rng(0).integers(-3, 4, (8, 8)).astype("float64")
    a[:, -1] = a[:, 0]
    save(tmp_path / "A.npy", a)
    result = command("inverse", "A.npy", "-o", "X.npy", "--assume", "gen", "--quiet")
    assert result.code == 0
    assert "singular to working precision" in result.err
