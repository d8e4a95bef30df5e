"""A system that has no thread to spare."""

import os
import resource

import pytest

USER = 54321  # who has no other process: the limit is on all that a user has


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be a user without other processes")
@pytest.mark.parametrize("most", [1, 2, 7, 12])
def test_job_that_needs_more_threads_exits_3_and_says_what_to_do(command, system, most):
    os.chown(system, USER, USER)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)

    try:
        # or OpenBLAS starts one for each core when it is loaded, and ends the program
        one = {"OPENBLAS_NUM_THREADS": "1"}
        result = command("logdet", "A.npy", "--devices", 4, env=one, before=limit)
    except PermissionError:
        pytest.skip("the command lies where other users cannot run it")
    assert (result.code, result.out) == (3, "")
    assert result.says("no further thread", f"ulimit -u: {most}", "pids.max", "fewer devices")
