"""`shardsolve solve` of sparse matrices: defaults, and reasons that name what can be typed."""

import numpy as np
import pytest
import scipy.sparse as sp
from problems import save
from sparse_problems import convection, laplacian, save_sparse_system

SOLVE = ("solve", "A.npz", "b.npy", "-o", "x.npy")


def test_default_tolerance_is_that_of_the_dtype(command, tmp_path):
    line = laplacian(30)
    plate = sp.csr_matrix(sp.kronsum(line, line))
    for dtype, rtol in (("float32", 1e-4), ("float64", 1e-8)):
        save_sparse_system(tmp_path, plate.astype(dtype))
        result = command(*SOLVE, "--json", "--force")
        assert result.code == 0, result.err
        assert result.json()["tolerance"] == pytest.approx(rtol)
        assert command("diagnose", "A.npz", "--json").json()["rtol"] == pytest.approx(rtol)
    assert "1e-08; float32: 0.0001" in command("solve", "--help").out


@pytest.mark.parametrize(
    ("a", "options", "words"),
    [
        (laplacian(60), ["--max-iterations", 5], ["allow more (--max-iterations)"]),
        (laplacian(60), ["--rtol", 1e-18], ["ask for --rtol of no less"]),
        (convection(60), [], ["use --method bicgstab or fgmres"]),
        (laplacian(60) - sp.eye(60), [], ["use --method minres (Hermitian A)"]),
        (
            sp.csr_matrix(np.roll(np.eye(25), 1, axis=0)),
            ["--method", "fgmres", "--restart", 20, "--rtol", 1e-10],
            ["fgmres keeps 20 vectors", "allow more (--restart)"],
        ),
        (
            convection(60),
            ["--method", "bicgstab", "--preconditioner", "chebyshev"],
            ["use ilu0 or block-jacobi"],
        ),
        (laplacian(60) - 2 * sp.eye(60), ["--preconditioner", "jacobi"], ["use block-jacobi"]),
        (laplacian(60) - 3 * sp.eye(60), ["--preconditioner", "ic0"], ["ic0 is for", "use ilu0"]),
        (
            laplacian(200),
            ["--max-iterations", 5, "--capture", "c", "--capture-limit", 0],
            ["allow more (--capture-limit, at most"],
        ),
    ],
)
def test_reason_names_options_as_they_are_typed(command, tmp_path, a, options, words):
    save_sparse_system(tmp_path, sp.csr_matrix(a))
    if "fgmres" in options:
        save(tmp_path / "b.npy", np.eye(25)[0])
    result = command(*SOLVE, *options)
    assert result.code in (1, 2), result.err
    assert result.says(*words)
    for name in ("max_iterations)", "block_jacobi", "incomplete_", " method ", "Operator"):
        assert name not in result.err
