"""`shardsolve solve` of sparse matrices: answers, refusals, and what is left behind."""

import os
import pickle
import signal
import time
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from command import contents, finish, has_unnamed_files
from mpi import Processes, missing
from problems import DTYPES, normal, save
from sparse_problems import (
    convection,
    free_line,
    hermitian,
    laplacian,
    residual,
    save_matrix,
    save_sparse_system,
)

SOLVE = ("solve", "A.npz", "b.npy", "-o", "x.npy")


@pytest.fixture
def sparse(tmp_path):
    """A directory with A.npz, symmetric positive definite, and b.npy."""
    save_sparse_system(tmp_path)
    return tmp_path


def load(directory, matrix="A.npz"):
    return (
        sp.load_npz(directory / matrix),
        np.load(directory / "x.npy"),
        np.load(directory / "b.npy"),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", ["cg", "minres", "bicgstab", "fgmres", "auto"])
def test_every_method_and_dtype_solves(command, tmp_path, method, dtype):
    save_sparse_system(tmp_path, dtype=dtype)
    rtol = 1e-4 if dtype in ("float32", "complex64") else 1e-10
    result = command(*SOLVE, "--method", method, "--rtol", rtol, "--json", "--restart", 50)
    if method not in ("fgmres", "auto"):
        assert result.code == 2
        assert result.says("--restart 50", method, "fgmres")
        result = command(*SOLVE, "--method", method, "--rtol", rtol, "--json")
    assert result.code == 0, result.err
    a, x, b = load(tmp_path)
    assert (x.dtype, x.shape) == (b.dtype, b.shape)
    assert residual(a, x, b) <= rtol
    report = result.json()
    assert report["status"] in ("converged_rtol", "happy_breakdown")
    assert report["residual"] == pytest.approx(residual(a, x, b), rel=1e-2)
    assert (report["method"], report["preconditioner"], report["tile"]) == (method, "none", None)
    assert 0 < report["iterations"] <= report["matvecs"]
    assert report["restarts"] >= 0
    assert report["margin"] > 2
    assert report["is_marginal"] is False
    assert report["tolerance"] == pytest.approx(rtol)


@pytest.mark.parametrize(
    ("name", "blocks"),
    [("jacobi", None), ("block-jacobi", 4), ("ic0", None), ("ilu0", 3), ("chebyshev", None)],
)
def test_preconditioners_are_applied(command, tmp_path, name, blocks):
    a = laplacian(200) + sp.diags(np.linspace(0, 50, 200) ** 2)
    save_sparse_system(tmp_path, sp.csr_matrix(a))
    options = [] if blocks is None else ["--blocks", blocks]
    method = "fgmres" if name == "ilu0" else "cg"
    plain = command(*SOLVE, "--method", method, "--json").json()
    result = command(
        *SOLVE, "--method", method, "--preconditioner", name, *options, "--json", "--force"
    )
    assert result.code == 0, result.err
    report = result.json()
    assert report["iterations"] < plain["iterations"]
    assert report["preconditioner"] == name
    assert report["blocks"] == (1 if name == "ic0" else blocks)
    assert report.get("degree") == (6 if name == "chebyshev" else None)
    a, x, b = load(tmp_path)
    assert residual(a, x, b) <= 1e-8


def save_levels(directory, a, count=3):
    """Levels of a line with n = 2^k - 1 points, linear interpolation; returns A of the last."""
    directory.mkdir()
    for level in range(count):
        coarse = a.shape[0] // 2
        rows = np.arange(coarse)[:, None] * 2 + np.arange(3)
        values = np.tile([0.5, 1.0, 0.5], coarse)
        columns = np.repeat(np.arange(coarse), 3)
        p = sp.csr_matrix((values, (rows.ravel(), columns)), shape=(a.shape[0], coarse))
        sp.save_npz(directory / f"P{level}.npz", p)
        a = sp.csr_matrix(p.T @ a @ p)
        sp.save_npz(directory / f"A{level + 1}.npz", a)
    return a


def test_multigrid_takes_levels_of_a_folder(command, tmp_path):
    save_sparse_system(tmp_path, laplacian(511))
    save_levels(tmp_path / "levels", laplacian(511))
    options = ["--preconditioner", "multigrid", "--levels", "levels", "--json"]
    for devices in (1, 3):
        result = command(*SOLVE, *options, "--devices", devices, "--force")
        assert result.code == 0, result.err
        assert result.json()["preconditioner"] == "multigrid"
        assert result.json()["iterations"] < 15
    options += ["--max-iterations", 2, "--capture", "folder", "--force"]
    assert command(*SOLVE, *options).code == 1
    result = command("replay", "folder", "--devices", 2)
    assert (result.code, result.err) == (0, "")
    assert "cg with multigrid" in result.out
    names = {path.name for path in (tmp_path / "folder").iterdir()}
    assert {"P0.npz", "A1.npz", "P2.npz", "A3.npz"} < names
    assert command("replay", "folder", "--max-iterations", 50).code == 0
    options = ["--preconditioner", "jacobi", "--max-iterations", 2000]
    assert command("replay", "folder", *options).code == 0


def test_levels_that_do_not_fit_are_refused(command, tmp_path):
    save_sparse_system(tmp_path, laplacian(63))
    save_levels(tmp_path / "levels", laplacian(63), 2)
    (tmp_path / "none").mkdir()
    save_levels(tmp_path / "others", laplacian(31), 1)
    save_levels(tmp_path / "single", sp.csr_matrix(laplacian(63), dtype=np.float32), 1)
    for path in ("P0.npz", "A1.npz"):
        a = sp.load_npz(tmp_path / "single" / path).astype(np.float32)
        sp.save_npz(tmp_path / "single" / path, a)
    save_levels(tmp_path / "hole", laplacian(63), 2)
    (tmp_path / "hole/P1.npz").unlink()
    multigrid = ["--preconditioner", "multigrid"]
    for options, code, words in [
        (multigrid, 2, ["multigrid given without its levels", "--levels DIR"]),
        (["--levels", "levels"], 2, ["--levels 'levels' given", "multigrid"]),
        ([*multigrid, "--levels", "none"], 2, ["'none' has no A1.npz", "P0.npz"]),
        ([*multigrid, "--levels", "others"], 2, ["prolongation of level 0", "31 x 15", "63"]),
        ([*multigrid, "--levels", "single"], 2, ["float32", "A is float64"]),
        ([*multigrid, "--levels", "hole"], 3, ["hole/P1.npz", "No such file"]),
    ]:
        result = command(*SOLVE, *options)
        assert (result.code, result.out) == (code, ""), result.err
        assert result.says(*words)


def test_higher_degree_of_chebyshev_takes_fewer_iterations(command, sparse):
    save_sparse_system(sparse, laplacian(400))
    options = ["--preconditioner", "chebyshev", "--force", "--json"]
    few, many = (command(*SOLVE, *options, "--degree", degree).json() for degree in (2, 8))
    assert (few["degree"], many["degree"]) == (2, 8)
    assert few["iterations"] > 2 * many["iterations"]
    save_sparse_system(sparse, convection(60))
    result = command(*SOLVE, *options, "--method", "bicgstab")
    assert result.code == 2
    assert result.says("'A.npz'", "chebyshev is for Hermitian matrices", "block-jacobi")
    save_sparse_system(sparse, laplacian(60) - sp.identity(60))
    result = command(*SOLVE, *options, "--method", "minres")
    assert result.code == 2
    assert result.says("'A.npz'", "chebyshev is for positive definite matrices")


@pytest.mark.parametrize("form", ["csc", "coo", "csr", "stored", "mtx", "unnamed"])
def test_every_form_of_a_matrix_gives_the_same_bits(command, sparse, form):
    a = sp.load_npz(sparse / "A.npz")
    assert command(*SOLVE).code == 0
    expected = (sparse / "x.npy").read_bytes()
    name = "B.npz"
    if form == "mtx":
        name = "B.MTX"
        scipy.io.mmwrite(sparse / "B.mtx", a, symmetry="general", precision=17)
        (sparse / "B.mtx").rename(sparse / name)
    elif form == "stored":
        save_matrix(sparse / name, a, compressed=False)
    else:
        save_matrix(sparse / name, a if form == "unnamed" else a.asformat(form))
    if form == "unnamed":
        (sparse / name).rename(sparse / "B")
        name = "B"
    assert command("solve", name, "b.npy", "-o", "y.npy").code == 0
    assert (sparse / "y.npy").read_bytes() == expected


@pytest.mark.parametrize("order", ["C", "F"])
def test_column_gives_a_column(command, sparse, order):
    b = np.load(sparse / "b.npy").reshape(-1, 1)
    save(sparse / "b.npy", np.array(b, order=order))
    assert command(*SOLVE).code == 0
    a, x, b = load(sparse)
    assert x.shape == (60, 1)
    assert residual(a, x, b) <= 1e-8


def test_guess_is_where_it_begins(command, sparse):
    assert command(*SOLVE, "--rtol", 1e-12).code == 0
    (sparse / "x.npy").rename(sparse / "x0.npy")
    report = command(*SOLVE, "--guess", "x0.npy", "--json").json()
    assert (report["status"], report["iterations"]) == ("converged_at_start", 0)
    assert (report["guess"], report["output"]) == ("x0.npy", "x.npy")
    assert command("solve", "A.npz", "b.npy", "-o", "x0.npy", "--guess", "x0.npy").code == 2


def test_text_report_tells_the_verdict(command, sparse):
    result = command(*SOLVE, "--method", "cg", "--preconditioner", "jacobi", "--devices", 2)
    assert (result.code, result.err) == (0, "")
    for words in (
        "Solved A x = b by cg with jacobi",
        "'A.npz': 60 x 60, 178 entries, float64",
        "converged_rtol",
        "of 10000 at most",
        "recomputed; 1.0e-08 was asked for",
        "from 2 on it is safe",
        "on 2 CPU devices; reading",
        "'x.npy', float64 of shape (60,)",
    ):
        assert words in result.out, result.out
    assert command(*SOLVE, "--quiet", "--force").out == ""


def test_empty_system_and_zero_rhs_are_solved(command, tmp_path):
    save_matrix(tmp_path / "A.npz", sp.csr_matrix((0, 0)))
    save(tmp_path / "b.npy", np.zeros(0))
    for name in ("none", "ic0"):
        result = command(*SOLVE, "--json", "--force", "--preconditioner", name)
        assert (result.code, result.json()["status"]) == (0, "zero_rhs"), result.err
    save_sparse_system(tmp_path)
    save(tmp_path / "b.npy", np.zeros(60))
    assert command(*SOLVE, "--force", "--json").json()["status"] == "zero_rhs"
    assert not np.load(tmp_path / "x.npy").any()


@pytest.mark.parametrize(
    ("a", "options", "status"),
    [
        (laplacian(200), ["--max-iterations", 5], "max_iterations"),
        (convection(60), [], "nonsymmetric_operator"),
        (sp.csr_matrix(laplacian(60) - sp.eye(60)), [], "indefinite_operator"),
        (laplacian(60), ["--rtol", 1e-18], "accuracy_limit"),
        (free_line(60), [], "singular_operator"),
        (free_line(60), ["--method", "auto"], "singular_operator"),
    ],
)
def test_no_answer_exits_1_with_the_reason(command, tmp_path, a, options, status):
    save_sparse_system(tmp_path, a)
    before = contents(tmp_path)
    result = command(*SOLVE, *options, "--json")
    assert result.code == 1
    report = result.json()
    assert report["status"] == status
    assert result.says("shardsolve: error: 'A.npz': " + status, report["message"])
    assert result.err.count("\n") == 1
    assert report["iterations"] is not None
    assert report["output"] is None
    assert contents(tmp_path) == before


def test_error_of_x_is_estimated(command, tmp_path):
    # Of eigenvalues from 1 to 1.5e-8: a residual of 1e-6 says little of x = 1.
    diagonal = np.ldexp(1.0, -np.arange(27))  # the same bits with any pow
    save_sparse_system(tmp_path, sp.csr_matrix(sp.diags(diagonal)))
    save(tmp_path / "b.npy", diagonal)
    result = command(*SOLVE, "--rtol", 1e-6, "--json")
    report = result.json()
    error = np.linalg.norm(np.load(tmp_path / "x.npy") - 1) / np.linalg.norm(
        np.load(tmp_path / "x.npy")
    )
    assert result.code == 0 and report["residual"] <= 1e-6 and error > 0.1
    assert 0.1 * error <= report["error_estimate"]
    assert "x may have few correct digits or none" in report["message"]
    assert 1e3 < report["condition"] < 1.1e8
    assert "error estimate" in command(*SOLVE, "--rtol", 1e-6, "--force").out


def test_best_iterate_is_kept_if_asked_for(command, sparse):
    a, b = sp.load_npz(sparse / "A.npz"), np.load(sparse / "b.npy")
    options = ["--best", "best.npy", "--json"]
    result = command(*SOLVE, "--max-iterations", 20, *options)
    assert result.code == 1
    assert result.says("'best.npy' has the best iterate")
    report = result.json()
    assert report["best"] == "best.npy"
    assert residual(a, np.load(sparse / "best.npy"), b) == pytest.approx(report["residual"])
    assert not (sparse / "x.npy").exists()
    (sparse / "best.npy").unlink()
    assert command(*SOLVE, *options).json()["best"] is None
    assert (sparse / "x.npy").exists()
    assert not (sparse / "best.npy").exists()


def test_auto_goes_on_where_there_is_a_reason(command, tmp_path):
    save_sparse_system(tmp_path, convection(60))
    result = command(*SOLVE, "--method", "auto", "--json")
    assert result.code == 0, result.err
    report = result.json()
    tried = [attempt["method"] for attempt in report["attempts"]]
    assert tried[:2] == ["cg", "bicgstab"]
    assert report["attempts"][0]["status"] == "nonsymmetric_operator"
    a, x, b = load(tmp_path)
    assert residual(a, x, b) <= 1e-8
    text = command(*SOLVE, "--method", "auto", "--force").out
    assert "tried" in text
    assert "nonsymmetric_operator" in text


@pytest.mark.parametrize("bad", ["A", "b", "x0"])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_number_that_is_not_finite_is_named(command, sparse, bad, value):
    save(sparse / "x0.npy", np.zeros(60))
    if bad == "A":
        a = sp.load_npz(sparse / "A.npz")
        a[17, 16] = value
        save_matrix(sparse / "A.npz", a)
        status, row, column = "nonfinite_operator", 17, 16
    else:
        vector = np.load(sparse / f"{bad}.npy")
        vector[33] = value
        save(sparse / f"{bad}.npy", vector)
        status, row, column = {"b": "nonfinite_rhs", "x0": "nonfinite_guess"}[bad], 33, 0
    before = contents(sparse)
    result = command(*SOLVE, "--guess", "x0.npy", "--json", "--devices", 2)
    report = result.json()
    assert (result.code, report["status"]) == (1, status)
    assert report["entry"] == {"in": bad, "row": row, "column": column}
    name = "A.npz" if bad == "A" else f"{bad}.npy"
    assert result.says(f"'{name}': {status}", f"row {row}", "find out where it was made")
    assert contents(sparse) == before


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def trap(directory):
    np.savez(directory / "A.npz", data=np.array([Trap(directory / "trap")], dtype=object))


def cut(name, size):
    return lambda directory: os.truncate(directory / name, (directory / name).stat().st_size - size)


def write(name, data):
    return lambda directory: (directory / name).write_bytes(data)


def rewrite(name, array):
    return lambda directory: save(directory / name, array)


def foreign_zip(directory):
    with zipfile.ZipFile(directory / "A.npz", "w") as archive:
        archive.writestr("readme.txt", "no matrix")


BAD_FILES = {
    "pickle_in_npz": (trap, 2, ["A.npz", "'format'"]),
    "pickle": (write("A.npz", pickle.dumps([1.0])), 2, ["'A.npz'", "neither an .npz"]),
    "cut_off": (cut("A.npz", 40), 2, ["'A.npz'", "cut off"]),
    "empty": (write("A.npz", b""), 2, ["'A.npz'"]),
    "zip_of_others": (foreign_zip, 2, ["'A.npz'", "readme.txt", "scipy.sparse.save_npz"]),
    "not_square": (
        lambda d: save_matrix(d / "A.npz", sp.csr_matrix((60, 50))),
        2,
        ["60 x 50", "square"],
    ),
    "integers": (
        lambda d: save_matrix(d / "A.npz", sp.csr_matrix(np.eye(3, dtype=int))),
        2,
        ["integers", "float64"],
    ),
    "bsr": (lambda d: save_matrix(d / "A.npz", sp.bsr_matrix(np.eye(4))), 2, ["'bsr'", "tocsr"]),
    "rhs_of_other_size": (rewrite("b.npy", np.ones(50)), 2, ["(50,)", "60 x 60", "as many rows"]),
    "rhs_of_three_dimensions": (
        rewrite("b.npy", np.ones((60, 2, 1))),
        2,
        ["(60, 2, 1)", "(60, k)"],
    ),
    "rhs_without_columns": (rewrite("b.npy", np.ones((60, 0))), 2, ["(60, 0)", "k at least 1"]),
    "rhs_of_other_dtype": (
        rewrite("b.npy", np.ones(60, "float32")),
        2,
        ["float32", "float64", "save b.astype(numpy.float64)"],
    ),
    "complex_rhs": (
        rewrite("b.npy", np.ones(60, complex)),
        2,
        ["complex128", "save A.astype(numpy.complex128)"],
    ),
    "integer_rhs": (rewrite("b.npy", np.ones(60, int)), 2, ["'b.npy'", "integers"]),
    "missing": (lambda d: (d / "A.npz").unlink(), 3, ["'A.npz'", "No such file"]),
    "rhs_missing": (lambda d: (d / "b.npy").unlink(), 3, ["'b.npy'", "No such file"]),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_file_is_refused(command, sparse, case):
    make, code, words = BAD_FILES[case]
    make(sparse)
    before = contents(sparse)
    result = command(*SOLVE, "--log", "run.jsonl", "--capture", "folder")
    assert (result.code, result.out) == (code, ""), result.err
    assert result.says("shardsolve: error: ", *words)
    assert contents(sparse) == before


def test_bad_lines_of_matrix_market_are_named(command, sparse):
    (sparse / "A.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3 1.0\n")
    result = command("solve", "A.mtx", "b.npy", "-o", "x.npy")
    assert result.code == 2
    assert result.says("'A.mtx', line 3", "(1, 3)", "2 x 2")


BAD_OPTIONS = {
    "method": (["--method", "gmres"], ["'gmres' given", "fgmres"]),
    "preconditioner": (["--preconditioner", "amg"], ["'amg' given", "block-jacobi"]),
    "rtol_below_0": (["--rtol", "-1e-8"], ["'-1e-8' given", "from 0 on"]),
    "rtol_nan": (["--rtol", "nan"], ["'nan' given"]),
    "both_0": (["--rtol", 0], ["--rtol 0 and --atol 0 given"]),
    "no_iterations": (["--max-iterations", 0], ["'0' given", "at least 1"]),
    "restart_0": (["--method", "fgmres", "--restart", 0], ["'0' given", "1 to 1000"]),
    "no_blocks": (["--preconditioner", "block-jacobi"], ["without --blocks"]),
    "too_many_blocks": (
        ["--preconditioner", "block-jacobi", "--blocks", 61],
        ["--blocks 61 given", "60 rows"],
    ),
    "blocks_of_jacobi": (
        ["--preconditioner", "jacobi", "--blocks", 2],
        ["--blocks 2 given", "jacobi"],
    ),
    "degree_of_jacobi": (
        ["--preconditioner", "jacobi", "--degree", 2],
        ["--degree 2 given", "chebyshev"],
    ),
    "limit_alone": (["--capture-limit", 2], ["without --capture"]),
    "no_rcond": (["--no-rcond"], ["--no-rcond given", "dense"]),
    "assume": (["--assume", "pos"], ["--assume given", "dense"]),
    "tile": (["--tile", 8], ["--tile given", "dense"]),
    "tile_table": (["--tile-table", "none"], ["--tile-table given", "dense"]),
    "log_is_output": (["--log", "x.npy"], ["the same file"]),
    "capture_is_input": (["--capture", "A.npz"], ["the same file"]),
}


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_option_is_refused(command, sparse, case):
    options, words = BAD_OPTIONS[case]
    before = contents(sparse)
    result = command(*SOLVE, *options)
    assert (result.code, result.out) == (2, ""), result.err
    assert result.says("shardsolve: error: ", *words)
    assert contents(sparse) == before


@pytest.mark.parametrize(
    "options",
    [
        ["--method", "cg"],
        ["--preconditioner", "none"],
        ["--blocks", "1"],
        ["--degree", "1"],
        ["--levels", "d"],
        ["--rtol", "1e-8"],
        ["--atol", "0"],
        ["--max-iterations", "5"],
        ["--restart", "5"],
        ["--guess", "b.npy"],
        ["--best", "y.npy"],
        ["--log", "l"],
        ["--capture", "c"],
        ["--capture-limit", "1"],
    ],
    ids=lambda options: options[0],
)
def test_sparse_option_is_refused_with_a_dense_matrix(command, system, options):
    before = contents(system)
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy", *options)
    assert (result.code, result.out) == (2, "")
    assert result.says(f"{options[0]} given", "'A.npy' is a dense matrix", "leave it out")
    assert contents(system) == before


def test_zero_on_the_diagonal_is_named(command, tmp_path):
    a = sp.lil_matrix(laplacian(60))
    a[7, 7] = 0.0
    save_sparse_system(tmp_path, sp.csr_matrix(a))
    result = command(*SOLVE, "--preconditioner", "jacobi")
    assert result.code == 2
    assert result.says("'A.npz'", "row 7")


def test_existing_output_is_left_alone(command, sparse):
    for name, option in [("x.npy", []), ("log", ["--log", "log"]), ("best", ["--best", "best"])]:
        (sparse / name).write_text("old")
        before = contents(sparse)
        result = command(*SOLVE, *option)
        assert result.code == 2
        assert result.says(f"'{name}' exists already", "--force")
        assert contents(sparse) == before
        (sparse / name).unlink()


def test_bits_are_the_same_on_any_devices(command, sparse):
    logs, answers = [], []
    for devices in (1, 2, 3):
        options = ["--devices", devices, "--log", "log", "--method", "bicgstab", "--force"]
        assert command(*SOLVE, *options, "--preconditioner", "jacobi").code == 0
        lines = (sparse / "log").read_text().splitlines()
        logs.append(lines[1:])
        answers.append((sparse / "x.npy").read_bytes())
    assert logs[0] == logs[1] == logs[2]
    assert answers[0] == answers[1] == answers[2]
    assert len(logs[0]) > 10


def test_bits_are_the_same_in_processes(command, sparse, binary):
    if missing(binary):
        pytest.skip(missing(binary))
    options = ["--method", "minres", "--log", "log", "--force"]
    assert command(*SOLVE, *options).code == 0
    lines = (sparse / "log").read_text().splitlines()[1:]
    x = (sparse / "x.npy").read_bytes()
    processes = Processes(command)
    result = processes(2, *SOLVE, *options, "--json")
    assert result.code == 0, result.err
    assert result.json()["processes"] == 2
    assert (sparse / "log").read_text().splitlines()[1:] == lines
    assert (sparse / "x.npy").read_bytes() == x
    failed = [*SOLVE, "--force", "--max-iterations", 9, "--capture", "folder", "--best", "best"]
    result = processes(2, *failed)
    assert result.code == 1
    assert result.says("max_iterations", "'best' has the best iterate", "replay 'folder'")
    assert processes(2, "replay", "folder").code == 0


def test_trace_tells_of_products_and_sums(command, sparse):
    report = command(*SOLVE, "--devices", 2, "--trace", "t.json", "--json").json()
    assert report["trace"] == "t.json"
    assert [rank["rank"] for rank in report["trace_summary"]["ranks"]] == [0, 1]
    assert report["flops"] > 0
    options = ["--trace", "failed.json", "--max-iterations", 5, "--force", "--json"]
    result = command(*SOLVE, *options)
    assert result.code == 1
    assert result.says("'failed.json' has the trace")
    assert result.json()["trace"] == "failed.json"
    assert result.json()["trace_summary"]["ranks"]
    assert (sparse / "failed.json").exists()


def slow_system(directory):
    """Takes long: cg with a condition number that it does not get through."""
    n = 200_000
    save_matrix(directory / "A.npz", laplacian(n), compressed=False)
    save(directory / "b.npy", normal(np.random.default_rng(0), (n,), "float64"))


@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_signal_ends_the_solve_and_leaves_nothing(command, tmp_path, name):
    if name == "SIGKILL" and not has_unnamed_files(tmp_path):
        pytest.skip("this file system has no files without a name")
    slow_system(tmp_path)
    before = contents(tmp_path)
    options = ["--max-iterations", 10**7, "--log", "l", "--capture", "c", "--best", "best"]
    process = command.start(*SOLVE, *options, "--devices", 2, "--json")
    time.sleep(0.7)
    assert process.poll() is None, "the job is too short for this test"
    process.send_signal(getattr(signal, name))
    result = finish(process)
    if name == "SIGINT":
        assert result.code == 130
        assert result.json()["status"] == "cancelled"
        assert result.says("interrupted (SIGINT): nothing was written")
    assert contents(tmp_path) == before


def test_hermitian_of_matrix_market_is_read(command, tmp_path):
    a = hermitian(40, "complex128")
    scipy.io.mmwrite(tmp_path / "A.mtx", a.tocoo(), symmetry="hermitian", precision=17)
    b = normal(np.random.default_rng(0), (40,), "complex128")
    save(tmp_path / "b.npy", b)
    assert command("solve", "A.mtx", "b.npy", "-o", "x.npy").code == 0
    assert residual(a, np.load(tmp_path / "x.npy"), b) <= 1e-8
