"""Every kind of input that is accepted gives an answer that passes its gate."""

import numpy as np
import pytest
from problems import DTYPES, ORDERS, hermitian, inverts, save, sides, solves

VERSIONS = ((1, 0), (2, 0), (3, 0))


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_solve_every_npy_format_passes_gate(command, tmp_path, dtype, order, version):
    a = hermitian(67, dtype, order)
    b = sides(67, 3, dtype, order)
    save(tmp_path / "A.npy", a, version)
    save(tmp_path / "b.npy", b, version)
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy", "--devices", 3, "--tile", 5)
    assert result.code == 0, result.err
    x = np.load(tmp_path / "x.npy")
    assert (x.dtype, x.shape) == (b.dtype, b.shape)
    assert x.flags.f_contiguous == b.flags.f_contiguous
    assert solves(a, x, b)


def test_positive_definite_is_assumed_with_and_without_saying_so(command, tmp_path):
    save(tmp_path / "A.npy", hermitian(40, "float64", "C"))
    save(tmp_path / "b.npy", sides(40, 2, "float64", "C"))
    for output, assume in (("x.npy", []), ("y.npy", ["--assume", "pos"])):
        assert command("solve", "A.npy", "b.npy", "-o", output, *assume).code == 0
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()
    for job in (["inverse", "A.npy", "-o", "X.npy"], ["logdet", "A.npy"]):
        assert command(*job, "--assume", "pos").code == 0


@pytest.mark.parametrize("order_b", ORDERS)
@pytest.mark.parametrize("order_a", ORDERS)
def test_solve_mixed_orders_passes_gate(command, tmp_path, order_a, order_b):
    a = hermitian(40, "complex128", order_a)
    b = sides(40, 4, "complex128", order_b)
    save(tmp_path / "A.npy", a)
    save(tmp_path / "b.npy", b)
    assert command("solve", "A.npy", "b.npy", "-o", "x.npy", "--devices", 4).code == 0
    assert solves(a, np.load(tmp_path / "x.npy"), b)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_inverse_every_npy_format_passes_gate(command, tmp_path, dtype, order):
    a = hermitian(61, dtype, order)
    save(tmp_path / "A.npy", a)
    result = command("inverse", "A.npy", "-o", "X.npy", "--devices", 4, "--tile", 6)
    assert result.code == 0, result.err
    x = np.load(tmp_path / "X.npy")
    assert x.dtype == a.dtype
    assert x.flags.f_contiguous == a.flags.f_contiguous
    assert inverts(a, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_logdet_every_dtype_agrees_with_numpy(command, tmp_path, dtype):
    a = hermitian(61, dtype)
    save(tmp_path / "A.npy", a)
    result = command("logdet", "A.npy", "--devices", 3, "--tile", 6, "--quiet")
    assert result.code == 0, result.err
    wide = a.astype(np.result_type(dtype, np.float64))
    expected = np.linalg.slogdet(wide)[1]
    error_bound = 61 * np.finfo(dtype).eps * np.linalg.cond(wide)
    assert abs(float(result.out) - expected) < error_bound


@pytest.mark.parametrize("shape", [(), (0,), (1,), (70,)], ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 7, 64])
def test_solve_every_shape_of_b_gives_x_that_shape(command, tmp_path, n, shape):
    a = hermitian(n)
    b = np.random.default_rng(2).standard_normal((n, *shape))
    save(tmp_path / "A.npy", a)
    save(tmp_path / "b.npy", b)
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy", "--devices", 3)
    assert result.code == 0, result.err
    x = np.load(tmp_path / "x.npy")
    assert x.shape == b.shape
    assert solves(a, x, b)


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("job", ["inverse", "logdet"])
def test_small_matrix_more_devices_than_rows_is_solved(command, tmp_path, job, n):
    save(tmp_path / "A.npy", np.diag(np.full(n, 4.0)))
    arguments = ["-o", "X.npy"] if job == "inverse" else ["--quiet"]
    result = command(job, "A.npy", "--devices", 8, *arguments)
    assert result.code == 0, result.err
    if job == "inverse":
        assert np.array_equal(np.load(tmp_path / "X.npy"), np.diag(np.full(n, 0.25)))
    else:
        assert float(result.out) == pytest.approx(n * np.log(4.0))


@pytest.mark.parametrize("tile", [1, 7, 25, 10**9])
@pytest.mark.parametrize("devices", [1, 2, 6, 64])
def test_solve_any_devices_and_tile_passes_gate(command, system, devices, tile):
    arguments = ["-o", "x.npy", "--devices", devices, "--tile", tile]
    result = command("solve", "A.npy", "b.npy", *arguments)
    assert result.code == 0, result.err
    a, x, b = (np.load(system / name) for name in ("A.npy", "x.npy", "b.npy"))
    assert solves(a, x, b)


@pytest.mark.parametrize("exponent", [-300, 300])
def test_solve_extreme_scaling_passes_gate(command, tmp_path, exponent):
    scale = 10.0**exponent
    a, b = hermitian(30), sides(30, None)
    save(tmp_path / "A.npy", a * scale)
    save(tmp_path / "b.npy", b * scale)
    result = command("solve", "A.npy", "b.npy", "-o", "x.npy")
    assert result.code == 0, result.err
    assert solves(a, np.load(tmp_path / "x.npy"), b)


def test_solve_one_file_for_both_gives_identity(command, tmp_path):
    save(tmp_path / "A.npy", hermitian(20))
    assert command("solve", "A.npy", "A.npy", "-o", "x.npy").code == 0
    assert np.allclose(np.load(tmp_path / "x.npy"), np.eye(20))
