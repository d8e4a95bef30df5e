"""Linear systems, eigenproblems and differential equations over many devices.

Each answer comes with a certificate or a reason. `shardsolve.fbpinn` is loaded when it is first
asked for; `shardsolve.lineax`, `shardsolve.netket` and `shardsolve.compat.jaxmg` are imported by
whoever wants them.
"""

import importlib as _importlib
from importlib import metadata as _metadata

from shardsolve import _library, _words, krylov, natural
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
from shardsolve._lu import LuFactor, det, lu_factor, lu_solve
from shardsolve._lu_in_order import lu
from shardsolve._matrix_functions import matrix_function, trace_function
from shardsolve._natural import cholesky
from shardsolve._processes import watch
from shardsolve._qr import least_squares, lstsq, pinv, qr, ridge
from shardsolve._records import EighInfo, Info, LinAlgError, SolverError, Status
from shardsolve._session import progress, set_timeout, trace
from shardsolve._sparse import CSR
from shardsolve._svd import matrix_rank, polar, svd, svdvals

__all__ = [
    "CSR",
    "EighInfo",
    "Factor",
    "Info",
    "LinAlgError",
    "LuFactor",
    "SolverError",
    "Status",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "cond",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "krylov",
    "last_failures",
    "least_squares",
    "load_factor",
    "logdet",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matrix_function",
    "matrix_rank",
    "natural",
    "pinv",
    "polar",
    "progress",
    "qr",
    "register",
    "ridge",
    "save_factor",
    "set_timeout",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "trace",
    "trace_function",
    "watch",
]
try:
    __version__ = _metadata.version("shardsolve")
except _metadata.PackageNotFoundError:  # used from the source tree
    __version__ = _library.version()


def __getattr__(name: str) -> object:
    """Only for names that are not there yet: loads fbpinn; of others says what there is."""
    if name == "fbpinn":
        return _importlib.import_module("shardsolve.fbpinn")
    public = ", ".join(public for public in __all__ if public[0].islower())
    _words.no_such_name(
        "shardsolve",
        name,
        "It solves Hermitian positive definite and general systems, sparse and matrix-free ones "
        "by Krylov methods, finds eigenvalues of Hermitian matrices, and solves differential "
        f"equations (fbpinn); there are {public}",
    )
