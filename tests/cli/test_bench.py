"""`shardsolve bench` at sizes at which speed means nothing."""

import pytest
from mpi import Processes, missing
from tiles import device_of, entry, write_table

BENCH = ("bench", "cholesky", "--n", 200, "--runs", 2)
QUIET = ("--quiet", "--json")  # lines of progress come after two seconds
JOBS = ["factor", "solve_1", "solve_64", "one_call", "inverse"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_every_call_is_timed_and_judged(command, dtype):
    result = command(*BENCH, "--devices", 3, "--dtype", dtype, *QUIET)
    assert (result.code, result.err) == (0, "")
    report = result.json()
    expected = {"status": "ok", "n": 200, "dtype": dtype, "devices": 3, "processes": 1}
    assert {key: report[key] for key in expected} == expected
    assert [one["job"] for one in report["timings"]] == [*JOBS, "lapack_potrf"]
    assert report["gemm_gflops"] > 0
    for one in report["timings"]:
        assert one["passed"] and one["gates"] and all(gate["passed"] for gate in one["gates"])
        assert len(one["all_seconds"]) == 2
        assert 0 < one["seconds"] <= one["median_seconds"]
        assert one["gflops"] == pytest.approx(one["flops"] / one["seconds"] / 1e9)


def test_text_is_a_table(command):
    result = command(*BENCH, "--devices", 2, "--tile", 16)
    assert result.code == 0
    assert "200 x 200" in result.out and "tile 16" in result.out
    lines = result.out.splitlines()
    for what in ("factor, log-determinant", "solve, 64 right-hand sides", "factor, inverse"):
        assert any(what in line and "%" in line and " MB" in line for line in lines)
    assert any("LAPACK potrf, one core" in line for line in lines)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_every_call_of_eigh_is_timed_and_judged(command, dtype):
    result = command(
        "bench", "eigh", "--n", 120, "--runs", 2, "--devices", 3, "--dtype", dtype, *QUIET
    )
    assert (result.code, result.err) == (0, "")
    report = result.json()
    expected = {"job": "eigh", "status": "ok", "n": 120, "dtype": dtype, "tile": None}
    assert {key: report[key] for key in expected} == expected
    timings = {one["job"]: one for one in report["timings"]}
    assert list(timings) == ["pairs", "pairs_tenth", "values", "lapack_heevd"]
    assert all(one["passed"] and one["gates"] for one in timings.values())
    names = [gate["name"] for gate in timings["pairs"]["gates"]]
    assert names[:2] == ["residual", "orthogonality"]
    assert timings["pairs"]["gflops"] > 0
    assert timings["lapack_heevd"]["gflops"] is None


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_every_call_of_lu_is_timed_and_judged(command, dtype):
    result = command(
        "bench", "lu", "--n", 150, "--runs", 2, "--devices", 3, "--dtype", dtype, *QUIET
    )
    assert (result.code, result.err) == (0, "")
    report = result.json()
    expected = {"job": "lu", "status": "ok", "n": 150, "dtype": dtype, "tile_from": "library"}
    assert {key: report[key] for key in expected} == expected
    assert [one["job"] for one in report["timings"]] == [*JOBS[:-1], "lapack_getrf"]
    assert all(one["passed"] and one["gates"] and one["gflops"] > 0 for one in report["timings"])


def test_text_of_eigh_is_a_table(command):
    result = command("bench", "eigh", "--n", 200, "--runs", 1, "--devices", 2)
    assert result.code == 0
    assert result.out.startswith("Eigenpairs, a random 200 x 200 matrix of float64\n")
    assert "tile" not in result.out
    lines = result.out.splitlines()
    for what in ("all eigenpairs", "the smallest 20 of them", "eigenvalues alone"):
        assert any(what in line and "%" in line and " u < " in line for line in lines)
    assert any("LAPACK syevd, one core" in line and "%" not in line for line in lines)


def test_tile_of_the_table_is_named(command, tmp_path):
    own = entry(device_of(command), n=200)
    write_table(tmp_path / "tiles.json", own)
    report = command(*BENCH, "--devices", 2, "--tile-table", "tiles.json", "--json").json()
    found = [report[key] for key in ("tile", "tile_from", "tile_table")]
    assert found == [10, "table", "tiles.json"]


def test_processes_are_devices(command):
    if reason := missing(command.binary):
        pytest.skip(reason)
    result = Processes(command)(2, *BENCH, *QUIET)
    assert (result.code, result.err) == (0, "")
    report = result.json()
    assert (report["devices"], report["processes"]) == (2, 2)
    assert [one["job"] for one in report["timings"]] == JOBS
    assert all(one["passed"] for one in report["timings"])
    result = Processes(command)(2, "bench", "eigh", "--n", 120, "--runs", 1, *QUIET)
    assert (result.code, result.err) == (0, "")
    assert [one["passed"] for one in result.json()["timings"]] == [True] * 3


def test_size_that_does_not_fit_is_refused_with_figures(command):
    result = command("bench", "cholesky", "--n", 2_000_000)
    assert (result.code, result.out) == (3, "")
    assert result.says("n = 2000000", "GB", "free")
