"""Words of SciPy, NumPy, JAX and PETSc: accepted, or answered by what it is called here.

Accepted is only what means there exactly what it means here; `None` is the default in both.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, ParamSpec, TypeVar

Given = Mapping[str, Any]
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Is:
    """Another word for something here: the name of an argument, or a value of one.

    `as_here` makes of a value of the other argument what it is here.
    """

    here: Any
    as_here: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True)
class Not:
    """What is not here: what to do instead. `but`: values that ask for what is done anyway."""

    instead: str
    but: tuple[Any, ...] = ()


Meaning = Is | Not
Words = Mapping[str, Meaning | Callable[[Given], Meaning]]


def accepts(words: Words, values: Mapping[str, Mapping[str, Meaning]] | None = None) -> Callable:
    """Has a public function understand these words, and name what it takes where it does not.

    Args:
        words: What each keyword that is no argument of the function means; or a function of all
            keywords that says so.
        values: By argument, what each text means that is no value of it here.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        arguments = inspect.signature(function).parameters
        in_order = [name for name, one in arguments.items() if one.kind != one.KEYWORD_ONLY]
        others = [name for name in arguments if name not in in_order]
        public = [part for part in function.__module__.split(".") if not part.startswith("_")]
        name = ".".join([*public, function.__name__])

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            given: dict[str, Any] = dict(kwargs)
            if len(args) > len(in_order):
                raise TypeError(
                    f"{name} takes {' and '.join(in_order)} by position, and {len(args)} arguments "
                    f"were given; pass the others by name: {', '.join(others)}"
                )
            if not given.keys() <= arguments.keys():
                given = _renamed(name, given, words, arguments)
            for argument, table in (values or {}).items():
                value = given.get(argument)
                if isinstance(value, str) and value in table:
                    meaning = table[value]
                    if isinstance(meaning, Not):
                        raise ValueError(f"{argument} is {value!r}; {meaning.instead}")
                    given = {**given, argument: meaning.here}
            return function(*args, **given)  # type: ignore[arg-type]  # as in its own words

        return call

    return decorate


def _renamed(name: str, given: Given, words: Words, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, by the names of the function's own arguments."""
    found = {word: value for word, value in given.items() if word in arguments}
    for word, value in given.items():
        if word in arguments:
            continue
        if word not in words:
            raise TypeError(f"{name} has no argument {word!r}; there are {', '.join(arguments)}")
        meaning = words[word]
        if callable(meaning):
            meaning = meaning(given)
        if isinstance(meaning, Is):
            if meaning.here in found:
                raise TypeError(
                    f"{name} was given {word} and {meaning.here}, which are the same: pass one"
                )
            if value is not None:
                found[meaning.here] = meaning.as_here(value)
        elif not _is_one_of(value, meaning.but):
            raise TypeError(f"{name} has no argument {word!r}: {meaning.instead}")
    return found


def _is_one_of(value: object, values: tuple[Any, ...]) -> bool:
    """Of what can be compared: an array is none of them."""
    return isinstance(value, bool | int | float | str | None) and value in values


def no_such_name(module: str, name: str, rest: str) -> NoReturn:
    """Raises the AttributeError of a public module that has not this name."""
    if name.startswith("_"):  # asked for by copy, inspect, doctest, ...
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    instead = f": {NAMES[name]}" if name in NAMES else ""
    raise AttributeError(f"{module} has no {name}{instead}. {rest}", name=name)


# Dense matrices

_TRIANGLE = Not(
    "both triangles are read here, and have to agree: leave it out; if only one is filled, call it "
    "T and pass T + T^H - diag(T)"
)
_FINITE = Not("NaN and infinity are always looked for here: leave it out", but=(True,))
_SYMMETRISE = Not(
    "a is taken as it is here: leave it out, or pass (a + a.conj().T) / 2 if a may differ from its "
    "conjugate transpose",
    but=(False,),
)
_KEEP_A = Not("a is always kept here: leave it out", but=(False,))
_KEEP_B = Not("b is always kept here: leave it out", but=(False,))
_THE_LIBRARY = Not("there is no such choice here: leave it out", but=(None, False))
_SOME = Not("pass subset_by_index=(0, k - 1) for the k lowest, (n - k, n - 1) for the k highest")

DENSE: Words = {
    "lower": _TRIANGLE,
    "UPLO": _TRIANGLE,
    "symmetrize_input": _SYMMETRISE,
    "check_finite": _FINITE,
}
CHO_FACTOR: Words = {
    **DENSE,
    "lower": Not(
        "the factor is opaque here, neither triangle, and both triangles of a are read: leave it "
        "out; shardsolve.cholesky(a) returns the lower factor, with upper=True the upper one"
    ),
}
CHO_SOLVE: Words = {"overwrite_b": _KEEP_B, "check_finite": _FINITE}
LU_FACTOR: Words = {"check_finite": _FINITE}
DET: Words = {"overwrite_a": _KEEP_A, "check_finite": _FINITE}
CHOLESKY: Words = {
    "lower": Is("upper", operator.not_),
    "symmetrize_input": _SYMMETRISE,
    "overwrite_a": _KEEP_A,
    "check_finite": _FINITE,
}
INV: Words = DENSE
SOLVE: Words = {
    **DENSE,
    "overwrite_b": _KEEP_B,
    "sym_pos": Is("assume_a", lambda sym_pos: "pos" if sym_pos else "gen"),
    "transposed": Not(
        "leave it out, or pass a.T; lu_solve(factor, b, trans=1) takes the factor of a",
        but=(False,),
    ),
    "debug": _THE_LIBRARY,
}
QR: Words = {
    "overwrite_a": _KEEP_A,
    "check_finite": _FINITE,
    "pivoting": Not(
        "columns are not exchanged here: lstsq finds the rank, of singular values", but=(False,)
    ),
    "lwork": _THE_LIBRARY,
}
LEAST_SQUARES: Words = {
    "overwrite_a": _KEEP_A,
    "overwrite_b": _KEEP_B,
    "check_finite": _FINITE,
    "rcond": Not("columns have to be independent here: lstsq takes rcond", but=(None,)),
}
LSTSQ: Words = {
    "overwrite_a": _KEEP_A,
    "overwrite_b": _KEEP_B,
    "check_finite": _FINITE,
    "cond": Is("rcond"),
    "rtol": Is("rcond"),
    "lapack_driver": _THE_LIBRARY,
    "numpy_resid": Not("resid is always the sums of squares here", but=(False,)),
}
SVD: Words = {
    "overwrite_a": _KEEP_A,
    "check_finite": _FINITE,
    "lapack_driver": _THE_LIBRARY,
    "hermitian": Not("eigh is for Hermitian matrices: leave it out", but=(False,)),
    "subset_by_index": Not("all are found here: leave it out", but=(None,)),
}
MATRIX_RANK: Words = {
    "tol": Not("rtol counts: a share of the largest singular value, tol / svdvals(a)[0]"),
    "hermitian": Not("singular values of any matrix count: leave it out", but=(False,)),
}
POLAR: Words = {
    "side": Not(
        "only a = u h is made here: for a = p u pass a.conj().T, whose u and h are u^H and p",
        but=("right",),
    ),
    "method": _THE_LIBRARY,
    "eps": _THE_LIBRARY,
    "max_iterations": _THE_LIBRARY,
}
RIDGE: Words = {"diag_shift": Is("eps"), "alpha": Is("eps")}
EIGH: Words = {
    **DENSE,
    "eigvals": Is("subset_by_index"),
    "overwrite_b": _KEEP_B,
    "type": Not(
        "only a v = b v diag(w) is solved here, which is type 1: leave it out; with b = l l^H from "
        "shardsolve.cholesky types 2 and 3 are eigh(l.conj().T @ a @ l)",
        but=(1,),
    ),
    "driver": _THE_LIBRARY,
    "turbo": _THE_LIBRARY,
    "k": _SOME,
    "which": _SOME,
}


def _kind(other: str) -> Not:
    return Not(
        "pass assume_a='pos' if it is also Hermitian positive definite, or 'gen', which takes any "
        f"square matrix. Otherwise {other}"
    )


_INDEFINITE = _kind(
    "shardsolve.krylov.solve(a, b, method='minres') takes a dense array as well; a factor of it "
    "has jax.scipy.linalg.solve, on one device"
)
_TRIANGULAR = _kind("take jax.scipy.linalg.solve_triangular, on one device")
_BANDED = _kind(
    "shardsolve.krylov.solve(shardsolve.CSR.of(a), b, method='fgmres') makes use of the zeros; a "
    "factor of it has jax.scipy.linalg.solve, on one device"
)
ASSUME_A: Mapping[str, Meaning] = {
    **dict.fromkeys(("sym", "symmetric", "her", "hermitian"), _INDEFINITE),
    **dict.fromkeys(("upper triangular", "lower triangular"), _TRIANGULAR),
    **dict.fromkeys(("banded", "tridiagonal"), _BANDED),
    "diagonal": _kind("x is b / jnp.diag(a), or b / jnp.diag(a)[:, None]"),
}

# Krylov solves


def _maxiter(given: Given) -> Meaning:
    if given.get("method", given.get("ksp_type")) in ("fgmres", "gmres"):
        return Not(
            "gmres of SciPy and of jax.scipy counts cycles by it, and here iterations are counted: "
            "pass max_iterations=, maxiter times restart",
            but=(None,),
        )
    return Is("max_iterations")


_LOG = (
    "nothing of yours is called between iterations: pass log=True, full_output=True; then info.log "
    "has the residual of each"
)
_TRUE_RESIDUAL = "of the residual b - A x itself; PETSc's is by default the preconditioned one"
KRYLOV: Words = {
    "tol": Is("rtol"),
    "maxiter": _maxiter,
    "M": Is("preconditioner"),
    "restrt": Is("restart"),
    "callback": Not(_LOG, but=(None,)),
    "callback_type": Not(_LOG, but=(None,)),
    "show": Not(_LOG, but=(False,)),
    "shift": Not("pass a function as A, lambda x: A @ x - shift * x", but=(0,)),
    "check": Not("shardsolve.krylov.diagnose(A) looks whether A is symmetric", but=(False,)),
    "solve_method": _THE_LIBRARY,
    # lineax
    "max_steps": Is("max_iterations"),
    "throw": Not("pass on_failure='best' or 'nan', or full_output=True: then nothing is raised",
                 but=(True,)),
    # PETSc
    "ksp_type": Is("method"),
    "pc_type": Is("preconditioner"),
    "max_it": Is("max_iterations"),
    "ksp_max_it": Is("max_iterations"),
    "ksp_gmres_restart": Is("restart"),
    "ksp_rtol": Not(f"it is rtol= here, {_TRUE_RESIDUAL}"),
    "ksp_atol": Not(f"it is atol= here, {_TRUE_RESIDUAL}"),
    "ksp_monitor": Not(_LOG),
}  # fmt: skip
DIAGNOSE: Words = {"tol": Is("rtol")}

_METHODS = "cg, minres, bicgstab, fgmres"


def _method(instead: str) -> Not:
    return Not(f"accepted are {_METHODS}: {instead}")


_ANY_MATRIX = _method("for a matrix of any kind take fgmres, or bicgstab where memory is short")
_LEAST_SQUARES = _method(
    "least squares are cg of A^H A, by a function: krylov.solve(lambda x: AH @ (A @ x), AH @ b)"
)
_SMOOTHER = _method("as a preconditioner there is krylov.chebyshev, for cg or fgmres")
KRYLOV_METHODS: Mapping[str, Meaning] = {
    "gmres": Is("fgmres"),  # which it is if the preconditioner stays what it is
    "bcgs": Is("bicgstab"),
    "pcg": Is("cg"),
    "preonly": _method(
        "a direct solve is shardsolve.solve(A, b, assume_a='pos' or 'gen'), of several b "
        "cho_factor and cho_solve, or lu_factor and lu_solve"
    ),
    **dict.fromkeys(("bicg", "cgs", "qmr", "tfqmr", "idr"), _ANY_MATRIX),
    **dict.fromkeys(
        ("lgmres", "dgmres", "pgmres", "pipefgmres", "gcr", "gcrotmk"),
        _method("take fgmres, and a larger restart if it is slow"),
    ),
    **dict.fromkeys(("lsqr", "lsmr", "cgls", "cgne", "normal_cg"), _LEAST_SQUARES),
    **dict.fromkeys(("richardson", "chebyshev"), _SMOOTHER),
    **dict.fromkeys(("pipecg", "groppcg"), _method("take cg")),
    "fcg": _method("take fgmres, whose preconditioner may change, or cg"),
    "symmlq": _method("take minres"),
    "auto": _method("krylov.diagnose(A) names one"),
}


def _preconditioner(instead: str) -> Not:
    return Not(f"by name there is 'jacobi' alone: {instead}")


_INCOMPLETE_LU = _preconditioner("pass krylov.incomplete_lu(A), which is ILU(0)")
_INCOMPLETE_CHOLESKY = _preconditioner("pass krylov.incomplete_cholesky(A), which is IC(0)")
_MULTIGRID = _preconditioner(
    "pass krylov.from_pyamg(hierarchy), with pyamg.smoothed_aggregation_solver(A) for example"
)
_COMPLETE = _preconditioner(
    "a complete factor needs no Krylov method: shardsolve.solve(A.toarray(), b, assume_a='pos')"
)
_IN_ORDER = _preconditioner(
    "it goes over the rows one after the other, which many devices cannot share; pass "
    "krylov.chebyshev or krylov.block_jacobi"
)
PRECONDITIONERS: Mapping[str, Meaning] = {
    "none": Is(None),
    **dict.fromkeys(("ilu", "ilu0", "spilu", "incomplete_lu"), _INCOMPLETE_LU),
    **dict.fromkeys(("ic", "ic0", "icc", "incomplete_cholesky"), _INCOMPLETE_CHOLESKY),
    **dict.fromkeys(("amg", "gamg", "hypre", "boomeramg", "mg", "multigrid"), _MULTIGRID),
    **dict.fromkeys(("lu", "cholesky"), _COMPLETE),
    **dict.fromkeys(("sor", "ssor"), _IN_ORDER),
    **dict.fromkeys(
        ("bjacobi", "block_jacobi"), _preconditioner("pass krylov.block_jacobi(A, blocks)")
    ),
    "chebyshev": _preconditioner("pass krylov.chebyshev(A), or with low and high"),
}

# Names that are asked of the package, or of shardsolve.krylov.

_ON_ONE_DEVICE = {
    "solve_triangular": "jax.scipy.linalg",
    **dict.fromkeys(("eig", "eigvals"), "jax.numpy.linalg"),
}
_A_FUNCTION = "pass a function x -> A x of jax.numpy to krylov.solve"
_SPARSE_FACTOR = (
    "there is no sparse factor: krylov.solve(a, b), or of a small matrix that is positive definite "
    "solve(a.toarray(), b, assume_a='pos')"
)
NAMES: Mapping[str, str] = {
    "compat": "import shardsolve.compat.jaxmg",
    "lineax": "import shardsolve.lineax",
    "netket": "import shardsolve.netket",
    **{name: f"krylov.solve(a, b, method={name!r})" for name in ("bicgstab", "cg", "minres")},
    **dict.fromkeys(("fgmres", "gmres"), "krylov.solve(a, b, method='fgmres')"),
    "eigsh": "eigh(a, subset_by_index=(0, k - 1)) of a dense matrix",
    "expm": "matrix_function(jnp.exp, a) of a Hermitian matrix",
    "funm": "matrix_function(f, a) of a Hermitian matrix",
    "logm": "matrix_function(jnp.log, a) of a Hermitian matrix",
    "sqrtm": "matrix_function(jnp.sqrt, a) of a Hermitian matrix",
    **dict.fromkeys(("LinearOperator", "aslinearoperator"), _A_FUNCTION),
    **dict.fromkeys(("splu", "spsolve", "factorized"), _SPARSE_FACTOR),
    "spilu": "krylov.incomplete_lu(a) is a preconditioner without fill-in: ILU(0)",
    **dict.fromkeys(
        ("csr_array", "csr_matrix"), "CSR.of(a) takes a sparse matrix of SciPy's, of any format"
    ),
    **{name: f"{module}.{name} has it, on one device" for name, module in _ON_ONE_DEVICE.items()},
}
