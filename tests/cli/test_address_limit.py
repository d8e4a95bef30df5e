"""A system that has few addresses to spare."""

import os
import resource

import pytest


@pytest.mark.skipif(
    "SHARDSOLVE_SANITIZER" in os.environ, reason="a sanitizer takes terabytes of addresses"
)
def test_job_under_a_limit_on_addresses_ends_with_a_result_or_a_reason(command, system):
    if "static" not in command("--version").out:
        pytest.skip("another BLAS may take what it likes")
    said = set()
    for limit in range(100, 1000, 10):  # in MB
        addresses = limit * 2**20

        def lower(addresses: int = addresses) -> None:
            resource.setrlimit(resource.RLIMIT_STACK, (8 * 2**20,) * 2)
            resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))

        result = command("logdet", "A.npy", "--devices", 2, before=lower)
        if result.code == 0:
            continue
        assert (result.code, result.out) == (3, "")
        assert "ulimit -v" in result.err or "out of memory" in result.err, result.err
        said.add(result.err.split()[2])
    assert "OpenBLAS" in said, "its buffers were never what was missing"
