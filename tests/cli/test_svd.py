"""`svd`: singular values and vectors from a file to one or three."""

import os
import re
import resource
import signal

import numpy as np
import pytest
import scipy.linalg
from command import contents
from mpi import Processes, missing
from problems import DTYPES, ORDERS, normal, save, save_sparse, unit_roundoff
from test_report import KEYS, never, received, start_on_terminal

SHAPES = {"tall": (67, 9), "wide": (9, 67), "square": (20, 20), "nearly_square": (24, 19)}
ALL = ["A.u.npy", "A.values.npy", "A.vh.npy"]
SVD = ("svd", "A.npy", "-o", "A")


def matrix(m, n, dtype="float64", order="C"):
    return np.array(normal(np.random.default_rng(4), (m, n), dtype), order=order)


def results(directory, prefix="A"):
    return (np.load(directory / f"{prefix}.{name}.npy") for name in ("u", "values", "vh"))


def wide_values(a):
    return np.linalg.svd(a.astype(np.result_type(a.dtype, np.float64)), compute_uv=False)


def errors(a, u, s, vh):
    """What u, vh lack of orthogonality; a - u s vh beside a: 2-norms."""
    a, u, vh = (one.astype(np.result_type(one.dtype, np.float64)) for one in (a, u, vh))
    yield np.linalg.norm(u.conj().T @ u - np.eye(len(s)), 2)
    yield np.linalg.norm(vh @ vh.conj().T - np.eye(len(s)), 2)
    size = wide_values(a)[0] or 1.0
    yield np.linalg.norm(u * (s / size) @ vh - a / size, 2)


def are_singular(a, u, s, vh):
    """The gates: four times what LAPACK leaves of the same matrix, or 10 u."""
    unit, k = unit_roundoff(a.dtype), min(a.shape)
    assert (u.shape, s.shape, vh.shape) == ((len(a), k), (k,), (k, a.shape[1]))
    assert u.dtype == vh.dtype == a.dtype and s.dtype == np.finfo(a.dtype).dtype
    lapacks = errors(a, *scipy.linalg.svd(a, full_matrices=False))
    for error, lapack in zip(errors(a, u, s, vh), lapacks, strict=True):
        assert error <= max(10 * unit, 4 * lapack)
    exact = wide_values(a)
    assert np.abs(s - exact).max() <= 50 * unit * exact[0]
    assert (np.diff(s) <= 0).all() and (s >= 0).all()
    return True


# ---- answers


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_svd_every_dtype_and_shape_passes_gates(command, tmp_path, dtype, shape):
    a = matrix(*SHAPES[shape], dtype)
    save(tmp_path / "A.npy", a)
    report = command(*SVD, "--devices", 3, "--json").json()
    assert report["status"] == "ok"
    u, s, vh = results(tmp_path)
    assert are_singular(a, u, s, vh)
    assert u.flags.f_contiguous and vh.flags.c_contiguous  # each vector in one piece
    exact = wide_values(a)
    assert np.abs(s - exact).max() <= report["error_estimate"] * np.linalg.norm(exact)
    assert report["error_estimate"] < 100 * unit_roundoff(dtype)


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_svd_order_of_the_file_changes_no_bit(command, tmp_path, shape):
    found = []
    for order in ORDERS:
        save(tmp_path / "A.npy", matrix(*SHAPES[shape], "complex64", order))
        assert command(*SVD, "--devices", 2, "--force").code == 0
        found.append([(tmp_path / name).read_bytes() for name in ALL])
    assert found[0] == found[1]


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (2, 2), (4, 3)])
def test_svd_more_devices_than_rows(command, tmp_path, shape):
    a = matrix(*shape, "complex128")
    save(tmp_path / "A.npy", a)
    result = command(*SVD, "--devices", 5)
    assert result.code == 0, result.err
    assert are_singular(a, *results(tmp_path))


@pytest.mark.parametrize("scale", [0.0, 1e-150, 1e150])
def test_svd_extreme_scaling_passes_gates(command, tmp_path, scale):
    a = scale * matrix(40, 30)
    save(tmp_path / "A.npy", a)
    assert command(*SVD, "--devices", 2).code == 0
    assert are_singular(a, *results(tmp_path))


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("shape", ["tall", "wide", "square"])
def test_svd_values_alone_leave_no_vectors_and_no_certificate(command, tmp_path, shape, dtype):
    a = matrix(*SHAPES[shape], dtype)
    save(tmp_path / "A.npy", a)
    report = command(*SVD, "--values-only", "--json", "--devices", 3).json()
    assert sorted(contents(tmp_path)) == ["A.npy", "A.values.npy"]
    s, exact = np.load(tmp_path / "A.values.npy"), wide_values(a)
    assert s.dtype == np.finfo(dtype).dtype
    assert np.abs(s - exact).max() < 50 * unit_roundoff(dtype) * exact[0]
    assert [report[key] for key in ("values", "u", "vh")] == ["A.values.npy", None, None]
    assert {report[key] for key in ("residual", "orthogonality", "error_estimate")} == {None}
    assert report["rank"] == min(a.shape)
    assert report["condition"] == pytest.approx(exact[0] / exact[-1], rel=1e-3)


@pytest.mark.parametrize("wide", [False, True], ids=["tall", "wide"])
def test_svd_rank_and_condition_are_numpys(command, tmp_path, wide):
    u, v = (np.linalg.qr(matrix(rows, 4))[0] for rows in (12, 7))
    for s, rank in (([2, 1, 1e-3, 1e-9], 4), ([1, 1e-3, 1e-9, 1e-17], 3)):
        a = u * s @ v.T
        a = a[:, :4] if rank == 4 else a
        save(tmp_path / "A.npy", a.T if wide else a)
        report = command(*SVD, "--json", "--force", "--devices", 2).json()
        assert report["rank"] == np.linalg.matrix_rank(a) == rank
        if rank == 4:
            assert report["condition"] == pytest.approx(np.linalg.cond(a), rel=1e-5)
        assert are_singular(a.T if wide else a, *results(tmp_path))


def test_svd_rank_that_is_not_full_is_told(command, tmp_path):
    a = np.arange(1.0, 10.0).reshape(3, 3)
    save(tmp_path / "A.npy", a)
    result = command(*SVD)
    assert (result.code, result.err) == (0, "")
    assert "3 x 3, float64, of rank 2 (of 3)" in result.out
    assert "which may be rounding alone" in result.out


def test_svd_of_zeros_has_no_condition(command, tmp_path):
    save(tmp_path / "A.npy", np.zeros((4, 3), "float32"))
    report = command(*SVD, "--json", "--devices", 2).json()
    assert (report["rank"], report["condition"]) == (0, None)
    assert report["singular_values"] == {"count": 3, "smallest": 0.0, "largest": 0.0}
    text = command(*SVD, "--force", "--devices", 2).out
    assert re.search(r"condition +infinite +in the 2-norm: .* is 0 beside the largest", text)
    assert not re.search(r"\b(nan|inf)\b", text)


def test_svd_processes_write_the_bits_of_one_process(command, tmp_path):
    if reason := missing(command.binary):
        pytest.skip(reason)
    for shape in ("tall", "wide", "nearly_square"):
        save(tmp_path / "A.npy", matrix(*SHAPES[shape], "complex64"))
        ours = Processes(command)(3, "svd", "A.npy", "-o", "ours", "--force")
        assert ours.code == 0, ours.err
        assert ours.out.count("singular values with vectors") == 1
        theirs = command("svd", "A.npy", "-o", "theirs", "--force", "--devices", 3)
        assert theirs.code == 0, theirs.err
        for name in ("values", "u", "vh"):
            files = [tmp_path / f"{prefix}.{name}.npy" for prefix in ("ours", "theirs")]
            assert files[0].read_bytes() == files[1].read_bytes()


def test_svd_processes_with_different_files_are_refused(command, tmp_path):
    if reason := missing(command.binary):
        pytest.skip(reason)
    (tmp_path / "other").mkdir()
    for folder, rows in ((tmp_path, 9), (tmp_path / "other", 12)):
        save(folder / "A.npy", matrix(rows, 3))
    before = contents(tmp_path)
    one, job = ["-np", "1"], [str(command.binary), *SVD]
    elsewhere = [*one, "-wdir", str(tmp_path / "other"), *job]
    result = Processes(command).run([*one, *job, ":", *elsewhere])
    assert (result.code, result.out) == (2, "")
    assert result.says("not given the same job", "rank 1", "A.npy", "(12, 3)")
    assert contents(tmp_path) == before


# ---- reports


def test_svd_text_holds_ends_of_the_values_certificate_and_files(command, tmp_path):
    a = matrix(67, 9)
    save(tmp_path / "A.npy", a)
    result = command(*SVD, "--devices", 2)
    assert (result.code, result.err) == (0, "")
    first, last = (re.escape(str(one)[:7]) for one in wide_values(a)[[0, -1]])
    patterns = [
        rf"Found 9 singular values with vectors, from {first}\d* down to {last}\d*\n",
        r"  A 'A.npy': 67 x 9, float64, of rank 9 \(full\)\n",
        r"condition +\d\.\de[+]\d\d +in the 2-norm: .* over the smallest\n",
        r"residual +\S+ += \S+ u; rounding .*; singular values within about \S+ \|\|A\|\|_F",
        r"orthogonality +\S+ += \S+ u; rounding alone gives a small multiple of u = 1.1e-16",
        r"time .* GFLOP/s on 2 CPU devices; reading .*, writing",
        r"singular values 'A.values.npy', float64 of shape \(9,\)",
        r"U +'A.u.npy', float64 of shape \(67, 9\)",
        r"V\^H +'A.vh.npy', float64 of shape \(9, 9\)",
    ]
    assert not [pattern for pattern in patterns if not re.search(pattern, result.out)], result.out
    assert command(*SVD, "--force", "--quiet").out == ""


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_svd_json_holds_the_certificate(command, tmp_path, dtype):
    save(tmp_path / "A.npy", matrix(9, 67, dtype))
    report = command(*SVD, "--json", "--devices", 3, "--trace", "t.json").json()
    assert list(report) == KEYS
    u = unit_roundoff(dtype)
    expected = {"command": "svd", "status": "ok", "message": "", "n": 67, "rows": 9}
    expected |= {"dtype": dtype, "rhs": None, "devices": 3, "tile": None, "unit_roundoff": u}
    expected |= {"matrix": "A.npy", "output": None, "values": "A.values.npy", "vectors": None}
    expected |= {"u": "A.u.npy", "vh": "A.vh.npy", "trace": "t.json", "rank": 9, "entry": None}
    expected |= {"backward_error": None, "rcond": None, "logdet": None, "eigenvalues": None}
    assert {key: report[key] for key in expected} == expected
    assert 0 < report["residual"] < 100 * u
    assert 0 < report["orthogonality"] < 100 * u
    s = np.load(tmp_path / "A.values.npy")
    ends = {"count": 9, "smallest": float(s[-1]), "largest": float(s[0])}
    assert report["singular_values"] == ends
    assert report["condition"] == pytest.approx(float(s[0]) / float(s[-1]))
    assert [rank["rank"] for rank in report["trace_summary"]["ranks"]] == [0, 1, 2]


# ---- what has no answer


@pytest.mark.parametrize("place", [(7, 2), (2, 7)], ids=["tall", "wide"])
@pytest.mark.parametrize("values_only", [(), ("--values-only",)], ids=["vectors", "values"])
def test_svd_entry_that_is_not_finite_is_named(command, tmp_path, values_only, place):
    a = matrix(9, 3) if place[0] > place[1] else matrix(3, 9)
    a[place] = np.nan
    save(tmp_path / "A.npy", a)
    result = command(*SVD, *values_only, "--devices", 3, "--json")
    report = result.json()
    assert (result.code, report["status"]) == (1, "nonfinite_input")
    assert list(report) == KEYS
    assert report["entry"] == {"in": "A", "row": place[0], "column": place[1]}
    assert result.says("'A.npy'", f"row {place[0]}, column {place[1]}")
    assert {report[key] for key in ("values", "u", "vh", "rank", "singular_values")} == {None}
    assert sorted(contents(tmp_path)) == ["A.npy"]


def test_svd_value_beyond_the_range_exits_1(command, tmp_path):
    save(tmp_path / "A.npy", np.full((4, 3), 3e38, "float32"))
    result = command(*SVD)
    assert (result.code, result.out) == (1, "")
    assert result.says("'A.npy'", "does not fit the range", "wider dtype")
    assert sorted(contents(tmp_path)) == ["A.npy"]


@pytest.mark.parametrize(
    ("a", "words"),
    [
        (np.ones(5), ["shape (5,)", "(m, n)", "A[:, None]"]),
        (np.ones((2, 3, 3)), ["(2, 3, 3)", "(m, n)"]),
        (np.ones((9, 0)), ["(9, 0)", "rows and columns"]),
        (np.ones((0, 9)), ["(0, 9)", "rows and columns"]),
        (np.ones((3, 2), "int64"), ["integers", "float64", 'astype("<f8")']),
        (np.ones((3, 2), ">f8"), ["big-endian", 'astype("<f8")']),
    ],
    ids=["one_dimension", "three_dimensions", "no_columns", "no_rows", "integers", "big_endian"],
)
def test_svd_array_that_is_no_matrix_is_refused(command, tmp_path, a, words):
    np.save(tmp_path / "A.npy", a)
    before = contents(tmp_path)
    result = command(*SVD)
    assert (result.code, result.out) == (2, "")
    assert result.says("shardsolve: error:", "'A.npy'", *words)
    assert contents(tmp_path) == before


def test_svd_matrix_beyond_the_memory_is_refused_with_figures(command, tmp_path):
    save_sparse(tmp_path / "big.npy", 1_000_000)
    asked = []
    for some in ([], ["--values-only"]):
        result = command("svd", "big.npy", "-o", "A", "--devices", 4, *some)
        assert (result.code, result.out) == (3, "")
        assert result.says("singular values of 'big.npy'", "GB on each of 4 devices", "are free")
        asked.append(float(re.search(r"([\d.]+) GB on each", result.err).group(1)))
    assert asked[0] - asked[1] >= 2 * 8e3 / 4  # U and V
    assert [path.name for path in tmp_path.iterdir()] == ["big.npy"]


# ---- all files or none


@pytest.mark.parametrize("taken", ALL)
def test_svd_existing_output_is_kept_without_force(command, tmp_path, taken):
    a = matrix(12, 5)
    save(tmp_path / "A.npy", a)
    (tmp_path / taken).write_text("precious")
    before = contents(tmp_path)
    result = command(*SVD)
    assert (result.code, result.out) == (2, "")
    assert result.says(f"'{taken}' exists already", "--force")
    assert contents(tmp_path) == before
    assert command(*SVD, "--force").code == 0
    assert are_singular(a, *results(tmp_path))
    assert sorted(contents(tmp_path)) == sorted(["A.npy", *ALL])


@pytest.mark.parametrize("name", ALL)
def test_svd_output_is_never_the_input(command, tmp_path, name):
    save(tmp_path / name, matrix(12, 5))
    before = contents(tmp_path)
    result = command("svd", name, "-o", "A", "--force")
    assert result.code == 2
    assert result.says("same file", "the matrix", "not even with --force")
    assert contents(tmp_path) == before


def test_svd_limit_on_file_size_leaves_none(command, tmp_path):
    def limit():  # the values fit
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    save(tmp_path / "A.npy", matrix(60, 50))
    before = contents(tmp_path)
    result = command(*SVD, before=limit)
    assert (result.code, result.out) == (3, "")
    assert result.says("cannot write 'A.u.npy'", "ulimit -f")
    assert contents(tmp_path) == before


def test_svd_signal_leaves_nothing(command, tmp_path):
    save(tmp_path / "A.npy", matrix(2000, 2000, "complex128"))  # some seconds of work
    before = contents(tmp_path)
    process, terminal = start_on_terminal(command, [*SVD, "--devices", "4", "--trace", "t.json"])
    shown = received(terminal, lambda text: "\rbidiagonal form" in text)
    assert process.poll() is None, shown
    process.send_signal(signal.SIGTERM)
    shown += received(terminal, never)
    os.close(terminal)
    assert process.wait() == 143
    assert shown.endswith("shardsolve: error: interrupted (SIGTERM): nothing was written\r\n")
    assert contents(tmp_path) == before
