"""Tries the wheel that is installed in the Python that runs this, away from the source tree.

python try_wheel.py [CUDA]  Solves on the CPU. With CUDA, 12 or 13: as if JAX used that one, our
loader has to take our library for it, which has to find cuBLAS in NVIDIA's package, or to say which
package has it.
"""

import ctypes
import re
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import shardsolve
from shardsolve import _library

LIBRARIES = {
    13: ("libshardsolve_cuda.so", "nvidia/cu13/lib/libcublas.so.13"),
    12: ("libshardsolve_cuda12.so", "nvidia/cublas/lib/libcublas.so.12"),
}


def solve() -> None:
    x = shardsolve.solve(2 * jnp.eye(100), jnp.ones(100), assume_a="pos")
    assert abs(x - 0.5).max() < 1e-6, x
    print(f"Python {sys.version.split()[0]}, jax {_library.jaxlib.__version__}: solves")


def load_library_for(cuda: int) -> None:
    package = Path(shardsolve.__file__).resolve().parent
    name, cublas = LIBRARIES[cuda]
    _library.library().shardsolve_set_cuda_of_jax(cuda)
    # An Error of the library has to arrive as one in libshardsolve_jax.so. Without a GPU there is
    # one to be had.
    verdict = np.zeros(5, np.int32)
    _library.library().shardsolve_check_cuda(verdict.ctypes.data_as(ctypes.c_void_p))
    message = _library.message(verdict)
    if not (package.parent / cublas).exists():
        # Empty, or about the driver, where the system has that cuBLAS.
        assert "cuBLAS" not in message or f"'shardsolve[cuda{cuda}]'" in message, message
        print(f"CUDA {cuda}, without {cublas}: {message or 'usable'}")
        return
    assert not message or "NVIDIA driver" in message, message
    loaded = Path("/proc/self/maps").read_text()
    for path in (package / "lib" / name, package.parent / cublas):
        assert str(path) in loaded, f"{path} was not loaded:\n{loaded}"
    version = ctypes.CDLL(str(package / "lib" / name)).shardsolve_cuda_version
    version.restype = ctypes.c_char_p
    number = r"\(interface [0-9a-f]{8}\)"
    assert re.fullmatch(f"{shardsolve.__version__} {number} for libc\\+\\+", version().decode())
    print(f"CUDA {cuda}: {name} is taken, with {cublas}; GPUs: {message or 'usable'}")


if len(sys.argv) == 1:
    solve()
else:
    load_library_for(int(sys.argv[1]))
