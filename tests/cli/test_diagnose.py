"""`shardsolve diagnose`: what it says of a matrix, and that its advice is worth following."""

import shlex

import numpy as np
import pytest
import scipy.sparse as sp
from command import contents
from problems import save
from sparse_problems import convection, free_line, laplacian, residual, save_matrix


def poisson(n):
    one = laplacian(n)
    return sp.csr_matrix(sp.kronsum(one, one))


def test_positive_definite_matrix_gets_a_command_that_solves(command, tmp_path):
    a = poisson(20)
    save_matrix(tmp_path / "A.npz", a)
    before = contents(tmp_path)
    result = command("diagnose", "A.npz", "--json", "--rtol", "1e-9")
    assert (result.code, result.err) == (0, "")
    assert contents(tmp_path) == before
    report = result.json()
    assert (report["n"], report["dtype"], report["rtol"]) == (400, "float64", 1e-9)
    assert report["figures"]["entries"] == a.nnz
    assert report["figures"]["bandwidth"] == 20
    assert report["is_hermitian"] is True
    assert report["definiteness"] == "positive definite"
    eigenvalues = np.linalg.eigvalsh(a.toarray())
    assert report["least_eigenvalue"] == pytest.approx(eigenvalues[0], rel=0.1)
    assert report["largest_eigenvalue"] == pytest.approx(eigenvalues[-1], rel=0.01)
    assert report["condition"] == pytest.approx(eigenvalues[-1] / eigenvalues[0], rel=0.1)
    best = report["trials"][report["best"]]
    b = np.random.default_rng(0).standard_normal(400)
    save(tmp_path / "b.npy", b)
    program, *arguments = shlex.split(report["suggestion"])
    assert program == "shardsolve"
    solved = command(*arguments, "--json").json()
    assert (solved["status"], solved["method"]) == ("converged_rtol", best["method"])
    assert solved["iterations"] == pytest.approx(best["iterations"], abs=5)
    assert residual(a, np.load(tmp_path / "x.npy"), b) <= 1e-9


def test_text_ends_in_an_answer(command, tmp_path):
    save_matrix(tmp_path / "A.npz", poisson(20))
    text = command("diagnose", "A.npz").out
    report = command("diagnose", "A.npz", "--json", "--devices", 3).json()
    assert text.splitlines()[-2:] == [report["answer"], "  " + report["suggestion"]]
    assert command("diagnose", "A.npz", "-q").out == report["answer"] + "\n"
    assert report["message"] == report["answer"]
    assert command("diagnose", "A.npz", "--json", "--devices", 1).json() == report


def test_singular_matrix_is_named_and_what_it_leaves_free(command, tmp_path):
    a = free_line(100)
    save_matrix(tmp_path / "A.npz", a)
    report = command("diagnose", "A.npz", "--json").json()
    assert report["is_singular"] is True
    assert report["definiteness"] == "positive semidefinite"
    assert report["figures"]["null_parts"] == {"count": 1, "first": 0}
    assert report["condition"] is None
    assert any("constants are in its null space" in finding for finding in report["findings"])
    assert not any("positive definite" in finding for finding in report["findings"])
    b = np.random.default_rng(0).standard_normal(100)
    save(tmp_path / "b.npy", b - b.mean())
    _, *arguments = shlex.split(report["suggestion"])
    assert command(*arguments, "--json").json()["status"] == "converged_rtol"


def test_matrix_that_is_not_symmetric_gets_another_method(command, tmp_path):
    save_matrix(tmp_path / "A.npz", convection(100))
    report = command("diagnose", "A.npz", "--json").json()
    assert report["is_hermitian"] is False
    assert report["method"] in ("bicgstab", "fgmres")
    assert report["figures"]["asymmetry"] > 0.1
    assert f"--method {report['method']}" in report["suggestion"]


def test_rows_of_the_identity_are_named_before_anything_is_suggested(command, tmp_path):
    a = sp.lil_matrix(laplacian(100))
    a[0, 1] = 0.0
    a[0, 0] = 1.0
    save_matrix(tmp_path / "A.npz", sp.csr_matrix(a))
    report = command("diagnose", "A.npz", "--json").json()
    assert report["figures"]["identity_rows"] == {"count": 1, "first": 0}
    assert report["figures"]["asymmetry"] > report["figures"]["asymmetry_without_identity_rows"]
    assert report["is_hermitian"] is True
    assert report["suggestion"] is None
    assert any("columns" in finding for finding in report["findings"])


def test_zero_diagonal_gets_one_block_and_it_solves(command, tmp_path):
    a = sp.csr_matrix(np.roll(np.diag(np.arange(1.0, 61.0)), 7, axis=0))
    save_matrix(tmp_path / "A.npz", a)
    report = command("diagnose", "A.npz", "--json").json()
    assert report["figures"]["zero_diagonal"]["count"] == 60
    options = "--method fgmres --preconditioner block-jacobi --blocks 1"
    assert options in report["suggestion"]
    b = np.random.default_rng(0).standard_normal(60)
    save(tmp_path / "b.npy", b)
    solved = command(*shlex.split(report["suggestion"])[1:], "--json").json()
    assert (solved["status"], solved["iterations"]) == ("happy_breakdown", 1)
    assert residual(a, np.load(tmp_path / "x.npy"), b) <= 1e-8
    assert any(
        "exact factors of blocks (block-jacobi) do not, --method fgmres" in finding
        for finding in report["findings"]
    )


def test_number_that_is_not_finite_is_found(command, tmp_path):
    a = laplacian(100)
    a[7, 8] = np.nan
    save_matrix(tmp_path / "A.npz", a)
    report = command("diagnose", "A.npz", "--json").json()
    assert report["figures"]["nonfinite"] == {"row": 7, "column": 8}
    assert report["suggestion"] is None
    assert (report["best"], report["gain"]) == (None, None)


def test_what_it_cannot_look_at_is_refused(command, system):
    save_matrix(system / "wide.npz", sp.csr_matrix((3, 4)))
    for arguments, code, words in [
        (["A.npy"], 2, ["'A.npy' is a dense matrix", "rcond"]),
        (["wide.npz"], 2, ["3 x 4", "square"]),
        (["missing.npz"], 3, ["'missing.npz'", "No such file"]),
        (["A.npz", "--backend", "cuda"], 2, ["'cuda' given", "CPUs"]),
        (["A.npz", "--rtol", "-1"], 2, ["'-1' given"]),
        ([], 2, ["required"]),
    ]:
        result = command("diagnose", *arguments)
        assert (result.code, result.out) == (code, ""), result.err
        assert result.says(*words)
