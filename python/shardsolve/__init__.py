"""Linear systems, eigenproblems and differential equations over many devices.

Each answer comes with a certificate or a reason. `shardsolve.fbpinn` is loaded when it is first
asked for; `shardsolve.lineax`, `shardsolve.netket` and `shardsolve.compat.jaxmg` are imported by
whoever wants them.
"""

import importlib as _importlib
from importlib import metadata as _metadata

from shardsolve import _library, krylov, natural
from shardsolve._cholesky import (
    Factor,
    cho_factor,
    cho_solve,
    cond,
    inv,
    logdet,
    slogdet,
    solve,
)
from shardsolve._eigh import eigh, eigvalsh
from shardsolve._files import load_factor, save_factor
from shardsolve._krylov_records import last_failures
from shardsolve._library import register
from shardsolve._matrix_functions import matrix_function, trace_function
from shardsolve._natural import cholesky
from shardsolve._records import EighInfo, Info, LinAlgError, SolverError, Status
from shardsolve._session import progress, set_timeout, trace
from shardsolve._sparse import CSR

__all__ = [
    "CSR",
    "EighInfo",
    "Factor",
    "Info",
    "LinAlgError",
    "SolverError",
    "Status",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "cond",
    "eigh",
    "eigvalsh",
    "inv",
    "krylov",
    "last_failures",
    "load_factor",
    "logdet",
    "matrix_function",
    "natural",
    "progress",
    "register",
    "save_factor",
    "set_timeout",
    "slogdet",
    "solve",
    "trace",
    "trace_function",
]
try:
    __version__ = _metadata.version("shardsolve")
except _metadata.PackageNotFoundError:  # used from the source tree
    __version__ = _library.version()


_INSTEAD = {
    "compat": "import shardsolve.compat.jaxmg",
    **{
        name: f"krylov.solve(a, b, method={method!r})"
        for name, method in (
            ("bicgstab", "bicgstab"),
            ("cg", "cg"),
            ("gmres", "fgmres"),
            ("minres", "minres"),
        )
    },
    "lineax": "import shardsolve.lineax",
    "netket": "import shardsolve.netket",
    "det": "logdet and slogdet give its logarithm",
    "lstsq": (
        "solve(a.conj().T @ a, a.conj().T @ b, assume_a='pos') gives it where the columns are "
        "independent, for the square of the condition number; jax.numpy.linalg.lstsq has it, on "
        "one device"
    ),
    "lu": "jax.scipy.linalg.lu has it, on one device",
    "lu_factor": "jax.scipy.linalg.lu_factor has it, on one device",
    "lu_solve": "jax.scipy.linalg.lu_solve has it, on one device",
    **{
        name: f"jax.numpy.linalg.{name} has it, on one device"
        for name in ("eig", "eigvals", "matrix_rank", "pinv", "qr", "svd")
    },
}


def __getattr__(name: str) -> object:
    """Only for names that are not there yet: loads fbpinn; of others says what there is."""
    if name == "fbpinn":
        return _importlib.import_module("shardsolve.fbpinn")
    if name.startswith("_"):  # asked for by copy, inspect, doctest, ...
        raise AttributeError(f"module 'shardsolve' has no attribute {name!r}", name=name)
    instead = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
    public = ", ".join(public for public in __all__ if public[0].islower())
    raise AttributeError(
        f"shardsolve has no {name}{instead}. It solves Hermitian positive definite systems, sparse "
        f"and matrix-free ones by Krylov methods, finds eigenvalues of Hermitian matrices, and "
        f"solves differential equations (fbpinn); there are {public}",
        name=name,
    )
