"""Linear systems spread over many devices, each answer with a certificate or a reason."""

from importlib import metadata as _metadata

from shardsolve import _library
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
from shardsolve._files import load_factor, save_factor
from shardsolve._library import register
from shardsolve._natural import cholesky
from shardsolve._records import Info, LinAlgError, SolverError, Status
from shardsolve._session import progress, set_timeout, trace

__all__ = [
    "Factor",
    "Info",
    "LinAlgError",
    "SolverError",
    "Status",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "cond",
    "inv",
    "load_factor",
    "logdet",
    "progress",
    "register",
    "save_factor",
    "set_timeout",
    "slogdet",
    "solve",
    "trace",
]
try:
    __version__ = _metadata.version("shardsolve")
except _metadata.PackageNotFoundError:  # used from the source tree
    __version__ = _library.version()
