"""`lstsq`: least squares with matrices of any shape."""

import json

import numpy as np
import pytest
from problems import DTYPES, ORDERS, normal, save, sides, unit_roundoff

SHAPES = {"tall": (67, 9), "wide": (9, 67), "square": (20, 20)}


def matrix(m, n, dtype="float64", order="C"):
    return np.array(normal(np.random.default_rng(4), (m, n), dtype), order=order)


def write(folder, a, b):
    save(folder / "A.npy", a)
    save(folder / "b.npy", b)


def near(x, exact, dtype):
    assert x.shape == exact.shape
    assert np.abs(x - exact).max() <= 1e5 * unit_roundoff(dtype) * np.abs(exact).max()
    return True


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_lstsq_every_dtype_order_and_shape_is_numpys(command, tmp_path, dtype, order, shape):
    m, n = SHAPES[shape]
    a, b = matrix(m, n, dtype, order), sides(m, 3, dtype, order)
    write(tmp_path, a, b)
    result = command("lstsq", "A.npy", "b.npy", "-o", "x.npy", "--devices", 3, "--json")
    assert result.code == 0, result.err
    x = np.load(tmp_path / "x.npy")
    assert x.dtype == a.dtype and x.flags.f_contiguous == (order == "F")
    assert near(x, np.linalg.lstsq(a, b, rcond=None)[0], dtype)
    report = json.loads(result.out)
    assert report["status"] == "ok"
    assert (report["rows"], report["n"], report["rank"], report["rhs"]) == (m, n, min(m, n), 3)
    assert 0 < report["backward_error"] < 10 * unit_roundoff(dtype)
    assert 0 < report["rcond"] < 1


def test_lstsq_one_column_keeps_its_shape(command, tmp_path):
    a, b = matrix(30, 4), sides(30, None)
    write(tmp_path, a, b)
    result = command("lstsq", "A.npy", "b.npy", "-o", "x.npy")
    assert result.code == 0 and result.err == ""
    assert near(np.load(tmp_path / "x.npy"), np.linalg.lstsq(a, b, rcond=None)[0], "float64")
    for words in ("Found the x with the least ||b - A x||", "30 x 4", "of rank 4 (full)", "rcond"):
        assert words in result.out


def test_lstsq_rank_that_is_not_full_is_told(command, tmp_path):
    a = np.arange(1.0, 10.0).reshape(3, 3)
    write(tmp_path, a, a)
    result = command("lstsq", "A.npy", "b.npy", "-o", "x.npy")
    assert result.code == 0 and "the shortest x" in result.out and "of rank 2 (of 3)" in result.out
    exact = np.array([[5, 2, -1], [2, 2, 2], [-1, 2, 5]]) / 6
    assert np.allclose(np.load(tmp_path / "x.npy"), exact, rtol=0, atol=1e-14)
    assert "rcond" not in result.out  # of R it is rounding


def test_lstsq_rank_rcond_decides(command, tmp_path):
    write(tmp_path, np.diag([1.0, 1e-3]), np.ones(2))
    arguments = ("lstsq", "A.npy", "b.npy", "-o", "x.npy", "--json", "--force")
    assert command(*arguments).json()["rank"] == 2
    assert command(*arguments, "--rank-rcond", "1e-2").json()["rank"] == 1


def test_lstsq_bad_input_is_named(command, tmp_path):
    a, b = matrix(9, 3), sides(9, 2)
    arguments = ("lstsq", "A.npy", "b.npy", "-o", "x.npy")
    a[7, 2] = np.nan
    write(tmp_path, a, b)
    result = command(*arguments)
    assert result.code != 0 and result.says("'A.npy'", "row 7, column 2")
    a[7, 2] = 1
    b[8, 1] = np.inf
    write(tmp_path, a, b)
    assert command(*arguments).says("'b.npy'", "right-hand side", "row 8, column 1")
    write(tmp_path, a, sides(8, 2))
    assert command(*arguments).says("(8, 2)", "(9,) or (9, k)")
    write(tmp_path, a, sides(9, 2, "float32"))
    assert command(*arguments).says("float64", "float32", "same dtype")
    write(tmp_path, np.ones(9), b)
    assert command(*arguments).says("(m, n)", "A[:, None]")
    write(tmp_path, np.ones((9, 0)), b)
    assert command(*arguments).says("rows and columns")
    write(tmp_path, a.astype(int), b)
    assert command(*arguments).code != 0
    write(tmp_path, a, sides(9, 2))
    for limit in ("0", "1", "-1", "nan", "few"):
        result = command(*arguments, f"--rank-rcond={limit}")
        assert result.code != 0 and result.says("between 0 and 1")
    assert not (tmp_path / "x.npy").exists()
