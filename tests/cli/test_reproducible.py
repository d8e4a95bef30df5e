"""Same input, same devices: same bits, whatever else is going on."""

import os

import pytest
from problems import hermitian, save, sides

N = 500
JOBS = {
    "solve": ["solve", "A.npy", "b.npy"],
    "inverse": ["inverse", "A.npy"],
}


def one_core():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


CIRCUMSTANCES = {
    "again": {},
    "one_blas_thread": {"env": {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}},
    "seven_blas_threads": {"env": {"OMP_NUM_THREADS": "7", "OPENBLAS_NUM_THREADS": "7"}},
    "one_core": {"before": one_core},
}


@pytest.mark.parametrize("job", JOBS)
def test_result_has_the_same_bits_under_all_circumstances(command, tmp_path, job):
    save(tmp_path / "A.npy", hermitian(N))
    save(tmp_path / "b.npy", sides(N, 7))
    results = {}
    for name, circumstances in CIRCUMSTANCES.items():
        run = command(*JOBS[job], "-o", f"{name}.npy", "--devices", 4, **circumstances)
        assert run.code == 0, run.err
        results[name] = (tmp_path / f"{name}.npy").read_bytes()
    assert [name for name in results if results[name] != results["again"]] == []


def test_default_devices_on_one_core_is_one(command, tmp_path):
    save(tmp_path / "A.npy", hermitian(20))
    result = command("logdet", "A.npy", "--json", before=one_core)
    assert result.json()["devices"] == 1
