"""`shardsolve eigh`: eigenpairs from a file to two, all or some, or eigenvalues alone."""

import contextlib
import os
import re
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
from command import contents, finish
from mpi import Processes, missing
from problems import (
    DTYPES,
    ORDERS,
    are_eigenpairs,
    hermitian,
    indefinite,
    one_norm,
    save,
    save_sparse,
    unit_roundoff,
)
from test_outputs import on_mounted
from test_report import KEYS, never, received, start_on_terminal

N = 97
BOTH = ["H.values.npy", "H.vectors.npy"]
EIGH = ("eigh", "A.npy", "-o", "H")


@pytest.fixture
def matrix(tmp_path) -> np.ndarray:
    """What A.npy holds."""
    a = indefinite(N)
    save(tmp_path / "A.npy", a)
    return a


def results(directory, prefix="H"):
    return tuple(np.load(directory / f"{prefix}.{name}.npy") for name in ("values", "vectors"))


# ---- answers


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh_every_npy_format_passes_gates(command, tmp_path, dtype, order):
    a = indefinite(N, dtype, order)
    save(tmp_path / "A.npy", a)
    result = command(*EIGH, "--devices", 3)
    assert (result.code, result.err) == (0, "")
    values, vectors = results(tmp_path)
    assert (values.shape, vectors.shape) == ((N,), (N, N))
    assert (values.dtype, vectors.dtype) == (np.finfo(dtype).dtype, a.dtype)
    assert vectors.flags.f_contiguous  # whatever the order of A
    assert np.all(np.diff(values) >= 0)
    assert are_eigenpairs(a, values, vectors)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 64])
def test_eigh_more_devices_than_rows(command, tmp_path, n):
    a = indefinite(n, "complex128")
    save(tmp_path / "A.npy", a)
    result = command(*EIGH, "--devices", 5)
    assert result.code == 0, result.err
    values, vectors = results(tmp_path)
    assert (values.shape, vectors.shape) == ((n,), (n, n))
    assert are_eigenpairs(a, values, vectors)


@pytest.mark.parametrize("scale", [0.0, 1e-150, 1e150])
def test_eigh_extreme_scaling_passes_gates(command, tmp_path, scale):
    a = scale * indefinite(40)
    save(tmp_path / "A.npy", a)
    assert command(*EIGH, "--devices", 2).code == 0
    assert are_eigenpairs(a, *results(tmp_path))


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 9), (50, 96), (0, 96)])
def test_indices_are_those_of_scipy(command, tmp_path, matrix, low, high):
    result = command(*EIGH, "--indices", f"{low}:{high}", "--devices", 3)
    assert result.code == 0, result.err
    values, vectors = results(tmp_path)
    assert vectors.shape == (N, high - low + 1)
    assert are_eigenpairs(matrix, values, vectors)
    expected = np.linalg.eigvalsh(matrix)[low : high + 1]
    assert np.abs(values - expected).max() < 20 * unit_roundoff("float64") * one_norm(matrix)


def test_indices_beyond_the_matrix_are_refused(command, tmp_path, matrix):
    before = contents(tmp_path)
    result = command(*EIGH, "--indices", f"90:{N}", "--json")
    assert (result.code, result.json()["status"]) == (2, "invalid_argument")
    assert result.says("--indices 90:97 given", f"'A.npy' has {N} eigenvalues", "from 0")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("values_only", [(), ("--values-only",)], ids=["vectors", "values"])
@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("-3,4.5", -3, 4.5), ("-inf,0", -np.inf, 0), ("12,inf", 12, np.inf), ("1e3,2e3", 1e3, 2e3)],
)
def test_range_holds_those_above_low_and_up_to_high(
    command, tmp_path, matrix, text, low, high, values_only
):
    result = command(*EIGH, "--range", text, *values_only, "--devices", 2)
    assert result.code == 0, result.err
    expected = np.linalg.eigvalsh(matrix)
    expected = expected[(expected > low) & (expected <= high)]
    values = np.load(tmp_path / "H.values.npy")
    assert values.shape == expected.shape
    if values_only:
        assert not (tmp_path / "H.vectors.npy").exists()
    else:
        vectors = np.load(tmp_path / "H.vectors.npy")
        assert vectors.shape == (N, len(expected))
        assert are_eigenpairs(matrix, values, vectors)
    assert np.allclose(values, expected, rtol=0, atol=1e-13 * one_norm(matrix))


def test_range_has_its_upper_end_and_not_its_lower(command, tmp_path):
    save(tmp_path / "A.npy", np.diag(np.arange(8.0)))
    assert command(*EIGH, "--range", "2,5", "--values-only").code == 0
    assert np.array_equal(np.load(tmp_path / "H.values.npy"), [3.0, 4.0, 5.0])


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_values_alone_leave_no_vectors_and_no_certificate(command, tmp_path, dtype):
    a = indefinite(N, dtype)
    save(tmp_path / "A.npy", a)
    report = command(*EIGH, "--values-only", "--json", "--devices", 3).json()
    assert sorted(contents(tmp_path)) == ["A.npy", "H.values.npy"]
    values = np.load(tmp_path / "H.values.npy")
    assert values.dtype == np.finfo(dtype).dtype
    w = np.linalg.eigvalsh(a.astype(np.result_type(dtype, np.float64)))
    assert np.abs(values - w).max() < 20 * unit_roundoff(dtype) * one_norm(a)
    assert [report[key] for key in ("values", "vectors")] == ["H.values.npy", None]
    assert {report[key] for key in ("residual", "orthogonality", "error_estimate")} == {None}


def test_processes_write_the_bits_of_one_process(command, tmp_path):
    if reason := missing(command.binary):
        pytest.skip(reason)
    save(tmp_path / "A.npy", indefinite(130, "complex64"))
    for some in (["--indices", "100:129"], ["--range", "-5,0"]):
        ours = Processes(command)(3, "eigh", "A.npy", "-o", "ours", "--force", *some)
        assert ours.code == 0, ours.err
        assert ours.out.count("eigenpairs of 130") == 1
        theirs = command("eigh", "A.npy", "-o", "theirs", "--force", "--devices", 3, *some)
        assert theirs.code == 0, theirs.err
        for name in ("values", "vectors"):
            files = [tmp_path / f"{prefix}.{name}.npy" for prefix in ("ours", "theirs")]
            assert files[0].read_bytes() == files[1].read_bytes()


# ---- two matrices


def generalised_gates(a, b, values, vectors):
    """Backward error of the pairs and orthogonality in B, in units of the roundoff."""
    wide = np.result_type(a.dtype, np.float64)
    a, b, z, w = a.astype(wide), b.astype(wide), vectors.astype(wide), values.astype("float64")
    u = unit_roundoff(values.dtype)
    residual = np.abs(a @ z - (b @ z) * w).sum(axis=0)
    size = (one_norm(a) + np.abs(w) * one_norm(b)) * np.abs(z).sum(axis=0)
    gram = np.abs(z.conj().T @ b @ z - np.eye(z.shape[1])).max()
    return (residual / size).max() / u, gram / u


@pytest.mark.parametrize("orders", ["CC", "CF", "FC"])
@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128"])
def test_two_matrices_pass_gates(command, tmp_path, dtype, orders):
    a, b = indefinite(N, dtype, orders[0]), hermitian(N, dtype, orders[1], seed=1)
    save(tmp_path / "A.npy", a)
    save(tmp_path / "B.npy", b)
    result = command(*EIGH, "--b", "B.npy", "--devices", 3)
    assert (result.code, result.err) == (0, "")
    assert "\n  B 'B.npy'\n" in result.out
    values, vectors = results(tmp_path)
    residual, orthogonality = generalised_gates(a, b, values, vectors)
    assert residual < 30
    assert orthogonality < 3000  # B's condition number is about 100
    lower = np.linalg.inv(np.linalg.cholesky(b.astype(np.result_type(dtype, np.float64))))
    w = np.linalg.eigvalsh(lower @ a @ lower.conj().T)
    assert np.abs(values - w).max() < 1000 * unit_roundoff(dtype) * np.abs(w).max()


def test_two_matrices_of_which_some_are_wanted(command, tmp_path, matrix):
    save(tmp_path / "B.npy", 4 * np.eye(N))
    report = command(*EIGH, "--b", "B.npy", "--indices", "0:4", "--json").json()
    assert list(report) == KEYS
    assert (report["second_matrix"], report["eigenvalues"]["count"]) == ("B.npy", 5)
    assert report["error_estimate"] is None
    values, vectors = results(tmp_path)
    assert np.allclose(4 * values, np.linalg.eigvalsh(matrix)[:5])
    assert np.allclose(4 * vectors.T @ vectors, np.eye(5))


BAD_SECONDS = {
    "not_definite": (-np.eye(N), 1, ["'B.npy'", "not positive definite", "row 0 "]),
    "not_finite": (np.full((N, N), np.nan), 1, ["'B.npy'", "NaN or an infinity"]),
    "other_shape": (np.eye(5), 2, ["(5, 5)", f"({N}, {N})", "same shape"]),
    "other_dtype": (np.eye(N, dtype="complex64"), 2, ["both need the same dtype", "B.astype"]),
    "integers": (np.eye(N, dtype="int64"), 2, ["'B.npy'", "integers"]),
}


@pytest.mark.parametrize("case", BAD_SECONDS)
def test_second_matrix_that_is_bad_is_named(command, tmp_path, matrix, case):
    b, code, words = BAD_SECONDS[case]
    np.save(tmp_path / "B.npy", b)
    before = contents(tmp_path)
    result = command(*EIGH, "--b", "B.npy", "--devices", 3)
    assert (result.code, result.out) == (code, "")
    assert result.says(*words)
    assert contents(tmp_path) == before


def test_entry_of_the_second_matrix_is_told_apart_in_json(command, tmp_path, matrix):
    b = np.eye(N)
    b[3, 50] = 1.0
    save(tmp_path / "B.npy", b)
    report = command(*EIGH, "--b", "B.npy", "--json").json()
    assert report["status"] == "not_hermitian"
    assert report["entry"]["in"] == "B"
    assert {report["entry"]["row"], report["entry"]["column"]} == {3, 50}


def test_output_is_never_the_second_matrix(command, tmp_path, matrix):
    save(tmp_path / BOTH[0], np.eye(N))
    result = command(*EIGH, "--b", BOTH[0], "--force")
    assert result.code == 2
    assert result.says("same file", "the second matrix", "not even with --force")


# ---- reports


def test_text_holds_ends_of_the_spectrum_certificate_and_files(command, matrix):
    result = command(*EIGH, "--devices", 2, "--indices", "0:9")
    assert (result.code, result.err) == (0, "")
    w = np.linalg.eigvalsh(matrix)
    patterns = [
        rf"Found 10 eigenpairs of {N}, from {w[0]:.6g}\d* to {w[9]:.6g}\d*\n",
        rf"  A 'A.npy': {N} x {N}, float64\n",
        r"residual +\S+ += \S+ u; rounding alone .*; eigenvalues within about \S+ \|\|A\|\|_1",
        r"orthogonality +\S+ += \S+ u; rounding alone gives a small multiple of u = 1.1e-16",
        r"time .* GFLOP/s on 2 CPU devices; reading .*, writing",
        r"eigenvalues +'H.values.npy', float64 of shape \(10,\)",
        rf"eigenvectors +'H.vectors.npy', float64 of shape \({N}, 10\)",
    ]
    assert not [pattern for pattern in patterns if not re.search(pattern, result.out)], result.out


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_json_holds_the_certificate(command, tmp_path, dtype):
    a = indefinite(N, dtype)
    save(tmp_path / "A.npy", a)
    report = command(*EIGH, "--json", "--devices", 3, "--trace", "t.json").json()
    assert list(report) == KEYS
    u = unit_roundoff(dtype)
    expected = {"command": "eigh", "status": "ok", "message": "", "n": N, "dtype": dtype}
    expected |= {"rhs": None, "devices": 3, "tile": None, "unit_roundoff": u, "matrix": "A.npy"}
    expected |= {"output": None, "values": BOTH[0], "vectors": BOTH[1], "trace": "t.json"}
    expected |= {"backward_error": None, "rcond": None, "logdet": None, "entry": None}
    assert {key: report[key] for key in expected} == expected
    assert 0 < report["residual"] < 100 * u
    assert 0 < report["orthogonality"] < 100 * u
    assert report["error_estimate"] == pytest.approx(report["residual"] + u)
    values = np.load(tmp_path / "H.values.npy")
    ends = {"count": N, "smallest": float(values[0]), "largest": float(values[-1])}
    assert report["eigenvalues"] == ends
    assert [rank["rank"] for rank in report["trace_summary"]["ranks"]] == [0, 1, 2]


def test_no_eigenvalue_in_the_range_is_an_answer(command, tmp_path, matrix):
    report = command(*EIGH, "--range", "1e3,inf", "--json").json()
    assert report["status"] == "ok"
    assert report["eigenvalues"] == {"count": 0, "smallest": None, "largest": None}
    assert report["error_estimate"] is None
    values, vectors = results(tmp_path)
    assert (values.shape, vectors.shape) == ((0,), (N, 0))
    text = command(*EIGH, "--range", "1e3,inf", "--force").out
    assert text.startswith(f"Found 0 eigenpairs of {N}\n")
    assert not re.search(r"\b(nan|inf)\b", text)


def test_json_of_a_matrix_that_is_not_hermitian_names_the_entry(command, tmp_path):
    a = indefinite(N, "complex128")
    a[31, 7] += 1e-3
    save(tmp_path / "A.npy", a)
    result = command(*EIGH, "--json", "--devices", 3)
    report = result.json()
    assert (result.code, report["status"]) == (1, "not_hermitian")
    assert list(report) == KEYS
    assert {report["entry"]["row"], report["entry"]["column"]} == {7, 31}
    assert [report[key] for key in ("eigenvalues", "values", "vectors")] == [None] * 3
    assert sorted(contents(tmp_path)) == ["A.npy"]


# ---- both files or none


@pytest.mark.parametrize("taken", BOTH)
def test_existing_output_is_kept_without_force(command, tmp_path, matrix, taken):
    (tmp_path / taken).write_text("precious")
    before = contents(tmp_path)
    result = command(*EIGH)
    assert (result.code, result.out) == (2, "")
    assert result.says(f"'{taken}' exists already", "--force")
    assert contents(tmp_path) == before
    assert command(*EIGH, "--force").code == 0
    assert are_eigenpairs(matrix, *results(tmp_path))
    assert sorted(contents(tmp_path)) == ["A.npy", *BOTH]


@pytest.mark.parametrize("name", BOTH)
def test_output_is_never_the_input(command, tmp_path, name):
    save(tmp_path / name, indefinite(9))
    before = contents(tmp_path)
    result = command("eigh", name, "-o", "H", "--force")
    assert result.code == 2
    assert result.says("same file", "the matrix", "not even with --force")
    assert contents(tmp_path) == before


def test_disk_that_holds_one_of_them_is_found_before_the_work(command, system):
    save(system / "A.npy", indefinite(300))
    script = f"{command.binary} eigh A.npy -o disk/H; code=$?; ls -A disk; exit $code"
    result = on_mounted(command, system, "size=256k", script)
    assert (result.code, result.out) == (3, "")
    assert result.says("'disk/H.vectors.npy'", "720128 bytes are needed", "are free", "make room")


def test_disk_that_is_full_after_the_work_has_neither(command, system):
    # Before, nobody knew how many eigenvalues are in the range.
    save(system / "A.npy", indefinite(300))
    script = f"{command.binary} eigh A.npy -o disk/H --range -inf,inf"
    result = on_mounted(command, system, "size=256k", f"{script}; code=$?; ls -A disk; exit $code")
    assert (result.code, result.out) == (3, "")
    assert result.says("'disk/H.vectors.npy'", "720128 bytes are needed")


@pytest.mark.parametrize("some", [(), ("--range", "-inf,inf")], ids=["all", "range"])
def test_limit_on_file_size_leaves_neither(command, tmp_path, matrix, some):
    def limit():  # the values fit
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    before = contents(tmp_path)
    result = command(*EIGH, *some, before=limit)
    assert (result.code, result.out) == (3, "")
    assert result.says("cannot write 'H.vectors.npy'", "ulimit -f")
    assert contents(tmp_path) == before


@pytest.fixture
def slow(tmp_path):
    """Arguments of a job that takes seconds."""
    save(tmp_path / "A.npy", indefinite(1600, "complex128"))
    return [*EIGH, "--devices", "4"]


def has_outputs(process, directory):
    """Whether the process has opened both output files."""
    names = []
    for link in Path(f"/proc/{process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            names.append(str(link.readlink()))
    return sum(name.startswith(f"{directory}/") for name in names) >= 3  # with A.npy


@pytest.mark.parametrize("force", [(), ("--force",)], ids=["new", "over"])
def test_name_that_is_taken_meanwhile_leaves_neither(command, tmp_path, slow, force):
    if force:
        (tmp_path / BOTH[0]).write_text("old")
    process = command.start(*slow, *force)
    while not has_outputs(process, tmp_path):
        assert process.poll() is None
    (tmp_path / BOTH[1]).mkdir()  # so that the second file cannot have its name
    before = {name: text for name, text in contents(tmp_path).items() if "H" in name}
    result = finish(process)
    assert (result.code, result.out) == ((3, "") if force else (2, "")), result.err
    assert result.says("H.vectors.npy")
    assert contents(tmp_path) == before | {"A.npy": contents(tmp_path)["A.npy"]}


# Those that take longest: the others may be over before a bar is drawn.
@pytest.mark.parametrize("stage", ["", "reduce to band", "apply sweeps"])
def test_signal_in_a_stage_leaves_nothing(command, tmp_path, slow, stage):
    before = contents(tmp_path)
    process, terminal = start_on_terminal(command, [*slow, "--trace", "t.json"])
    shown = received(terminal, lambda text: f"\r{stage}" in text or not stage)
    assert process.poll() is None, shown
    process.send_signal(signal.SIGTERM)
    shown += received(terminal, never)
    os.close(terminal)
    assert process.wait() == 143
    assert shown.endswith("shardsolve: error: interrupted (SIGTERM): nothing was written\r\n")
    assert contents(tmp_path) == before


def test_matrix_beyond_the_memory_is_refused_with_figures(command, tmp_path):
    save_sparse(tmp_path / "big.npy", 1_000_000)
    for some in ([], ["--values-only"]):
        result = command("eigh", "big.npy", "-o", "H", "--devices", 4, *some)
        assert (result.code, result.out) == (3, "")
        assert result.says("'big.npy'", "GB on each of 4 devices", "GB are free")
    assert [path.name for path in tmp_path.iterdir()] == ["big.npy"]
