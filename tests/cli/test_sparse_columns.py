"""`shardsolve solve` of sparse matrices: several right-hand sides, and Matrix Market files."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from problems import normal, save
from sparse_problems import hermitian, laplacian, residual, save_matrix, save_sparse_system

SOLVE = ("solve", "A.npz", "b.npy", "-o", "x.npy")


@pytest.fixture
def sparse(tmp_path):
    """A directory with A.npz, symmetric positive definite, and b.npy."""
    save_sparse_system(tmp_path)
    return tmp_path


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("devices", [1, 3])
def test_columns_are_solved_one_by_one(command, sparse, order, devices):
    a = sp.load_npz(sparse / "A.npz")
    b = np.random.default_rng(1).standard_normal((60, 3))
    b[:, 1] = 0.0
    save(sparse / "b.npy", np.array(b, order=order))
    save(sparse / "x0.npy", np.full((60, 3), 0.5))
    result = command(*SOLVE, "--guess", "x0.npy", "--devices", devices, "--json")
    assert result.code == 0, result.err
    x, report = np.load(sparse / "x.npy"), result.json()
    assert x.shape == (60, 3)
    assert all(residual(a, x[:, k], b[:, k]) <= 1e-8 for k in (0, 2))
    assert not x[:, 1].any()
    assert (report["rhs"], len(report["columns"])) == (3, 3)
    assert report["columns"][1]["status"] == "zero_rhs"
    worst = report["columns"][report["worst_column"]]
    assert worst["residual"] == max(one["residual"] for one in report["columns"])
    assert report["residual"] == worst["residual"]
    save(sparse / "b.npy", b[:, 2].copy())
    save(sparse / "x0.npy", np.full(60, 0.5))
    assert command(*SOLVE, "--guess", "x0.npy", "--force").code == 0
    assert np.load(sparse / "x.npy").tobytes() == x[:, 2].tobytes()  # as it is alone


def test_column_that_fails_is_named_and_captured(command, sparse):
    b = np.zeros((60, 3))
    b[:, 0] = sp.load_npz(sparse / "A.npz") @ np.ones(60)
    b[:, 2] = np.random.default_rng(1).standard_normal(60)
    save(sparse / "b.npy", b)
    save(sparse / "x0.npy", np.ones((60, 3)))
    options = ["--max-iterations", 9, "--capture", "c", "--log", "log", "--best", "best.npy"]
    result = command(*SOLVE, "--guess", "x0.npy", *options)
    assert result.code == 1
    assert result.says("'A.npz': column 2 of b (0-based): max_iterations", "replay 'c'")
    assert np.load(sparse / "best.npy").shape == (60, 3)
    assert not (sparse / "x.npy").exists()
    assert np.load(sparse / "c/b.npy").tobytes() == b[:, 2].tobytes()
    assert command("replay", "c").code == 0
    b[7, 1] = np.nan
    save(sparse / "b.npy", b[:, :2])
    save(sparse / "x0.npy", np.ones((60, 2)))
    report = command(*SOLVE, "--guess", "x0.npy", "--json").json()
    assert report["status"] == "nonfinite_rhs"
    assert report["entry"] == {"in": "b", "row": 7, "column": 1}
    save(sparse / "x0.npy", np.ones(60))
    result = command(*SOLVE, "--guess", "x0.npy")
    assert result.code == 2
    assert result.says("'x0.npy' has 1 columns and 'b.npy' 2", "as many as b")


@pytest.mark.parametrize("form", ["array", "coordinate"])
def test_right_hand_sides_may_be_matrix_market(command, sparse, form):
    a = sp.load_npz(sparse / "A.npz")
    b = np.random.default_rng(1).standard_normal((60, 2)) * (np.arange(60) % 3 > 0)[:, None]
    given = b if form == "array" else sp.coo_matrix(b)
    scipy.io.mmwrite(sparse / "b.mtx", given, precision=17)
    assert command("solve", "A.npz", "b.mtx", "-o", "x.npy").code == 0
    x = np.load(sparse / "x.npy")
    assert x.shape == (60, 2)
    assert all(residual(a, x[:, k], b[:, k]) <= 1e-8 for k in (0, 1))
    single = hermitian(60, "complex64")  # real numbers of a text fit any dtype
    save_matrix(sparse / "C.npz", single)
    assert command("solve", "C.npz", "b.mtx", "-o", "y.npy").code == 0
    y = np.load(sparse / "y.npy")
    assert y.dtype == np.complex64
    assert residual(single, y[:, 0], b[:, 0]) <= 2e-4
    scipy.io.mmwrite(sparse / "z.mtx", b * 1j)
    result = command("solve", "A.npz", "z.mtx", "-o", "z.npy")
    assert result.code == 2
    assert result.says("'z.mtx' holds a complex matrix", "A.astype(numpy.complex128)")


@pytest.mark.parametrize("symmetry", ["symmetric", "general"])
def test_dense_matrix_of_matrix_market_is_read(command, tmp_path, symmetry):
    a = laplacian(40).toarray() + 0.01
    scipy.io.mmwrite(tmp_path / "A.mtx", a, symmetry=symmetry, precision=17)
    b = normal(np.random.default_rng(0), (40,), "float64")
    save(tmp_path / "b.npy", b)
    assert command("solve", "A.mtx", "b.npy", "-o", "x.npy").code == 0
    assert residual(sp.csr_matrix(a), np.load(tmp_path / "x.npy"), b) <= 1e-8
