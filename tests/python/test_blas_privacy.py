"""The BLAS inside libshardsolve.so is its own: NumPy in the same process keeps its threads."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

LIBRARY = Path(os.environ["SHARDSOLVE_CLI"]).parent / "libshardsolve.so"


def numpy_threads() -> list[tuple[str, int]]:
    """Returns file and number of threads of every BLAS that the process can see."""
    return sorted(
        (pool["filepath"], pool["num_threads"])
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    )


@pytest.mark.skipif(
    "SHARDSOLVE_SANITIZER" in os.environ, reason="a sanitized library needs a sanitized Python"
)
def test_mesh_in_the_process_of_numpy_leaves_its_blas_alone() -> None:
    """Making a mesh sets our BLAS to one thread, and no other."""
    a = np.random.default_rng(0).standard_normal((64, 64))
    product = a @ a
    before = numpy_threads()
    assert before, "threadpoolctl sees no BLAS of NumPy's"

    library = ctypes.CDLL(str(LIBRARY))
    mesh = ctypes.create_string_buffer(64)
    make = library._ZN10shardsolve4Mesh4hostEl  # Mesh::host(long), result through a pointer
    make.argtypes = [ctypes.c_void_p, ctypes.c_long]
    make(mesh, 2)

    assert numpy_threads() == before
    assert np.array_equal(a @ a, product)
    destroy = library._ZN10shardsolve4MeshD1Ev
    destroy.argtypes = [ctypes.c_void_p]
    destroy(mesh)
