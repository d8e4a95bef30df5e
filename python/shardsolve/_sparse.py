"""Sparse matrices by rows, whose products have the bits of the C++ library."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardsolve._check import as_array, how_to_agree
from shardsolve._sparse_products import Pattern


@jax.tree_util.register_pytree_with_keys_class
class CSR:
    """A sparse matrix by rows: a pytree whose only leaf is `data`; where entries are, is static.

    `A @ x` has the bits of the C++ library's product on any device and any number of them: a row is
    summed in an order that belongs to the matrix. It has derivatives of any order, in the values
    on the pattern and in x, and goes through `jit`, `vmap`, `scan`. Values that change while the
    pattern stays come in by `with_values`, also under `jit`, and compile nothing anew.

    Example:
        >>> import numpy as np
        >>> from shardsolve import CSR
        >>> a = CSR.of(np.array([[2.0, 0.0], [1.0, 3.0]], np.float32))
        >>> (a @ np.ones(2, np.float32)).tolist()
        [2.0, 4.0]
    """

    def __init__(
        self,
        data: jax.Array,
        indices: np.ndarray,
        indptr: np.ndarray,
        shape: tuple[int, int],
    ):
        """From the arrays of the format. Entries of a row are sorted, those of one place added.

        Args:
            data: (nse,), of float32, float64, complex64 or complex128; may be traced.
            indices: (nse,), whole numbers: the column of each entry.
            indptr: (m + 1,), whole numbers: where each row begins.
            shape: (m, n).

        Raises:
            TypeError: If indices or indptr are traced, or are no whole numbers.
            ValueError: If lengths or indices do not fit.
        """
        m, n = _check_shape(shape)
        data = as_array(data, "data")
        columns, pointers = _whole(indices, "indices"), _whole(indptr, "indptr")
        if data.ndim != 1 or columns.shape != data.shape:
            raise ValueError(
                f"data has shape {data.shape} and indices {columns.shape}; pass both as (nse,)"
            )
        if pointers.shape != (m + 1,) or pointers[0] != 0 or pointers[-1] != len(columns):
            raise ValueError(
                f"indptr has shape {pointers.shape} for {m} rows and {len(columns)} entries; pass "
                f"({m + 1},), from 0 to {len(columns)}"
            )
        if np.any(np.diff(pointers) < 0):
            raise ValueError(
                f"indptr falls at row {int(np.argmax(np.diff(pointers) < 0))}: it never does"
            )
        rows = np.repeat(np.arange(m), np.diff(pointers))
        made = _from_entries(data, rows, columns, (m, n))
        self.data: jax.Array = made.data
        self._pattern: Pattern = made._pattern

    @classmethod
    def of(cls, a: Any) -> CSR:
        """From a SciPy sparse matrix of any format, BCSR, BCOO, or a dense matrix.

        Entries of one place are added; zeros of a dense matrix are left out, others stay. Of BCOO
        and BCSR padding is dropped. Indices may not be traced, values may unless `a` is dense.

        Raises:
            TypeError, ValueError: If it is none of these, has a batch, or traced indices.
        """
        if isinstance(a, CSR):
            return a
        if hasattr(a, "tocoo") and hasattr(a, "nnz"):  # SciPy's
            coo = a.tocoo()
            return _from_entries(as_array(coo.data, "a"), coo.row, coo.col, coo.shape)
        if type(a).__name__ in ("BCOO", "BCSR") and hasattr(a, "nse"):
            return _from_jax(a)
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(a)):
            raise TypeError(
                "a dense matrix is traced here, so where it has zeros is not known: make the CSR "
                "outside of jit, and bring new values in by with_values"
            )
        dtype = as_array(a, "a").dtype
        host = np.asarray(a, dtype)  # of `a` itself: inside jit what JAX makes of it is traced
        if host.ndim != 2:
            raise ValueError(f"a has shape {host.shape}; pass a matrix, (m, n)")
        rows, columns = np.nonzero(host)
        return _from_entries(jnp.asarray(host[rows, columns]), rows, columns, host.shape)

    def with_values(self, data: jax.Array) -> CSR:
        """Another matrix with entries at the same places.

        Args:
            data: (nse,), in the order of `data`; another dtype is accepted.

        Raises:
            ValueError: If it has another length.
        """
        data = as_array(data, "data")
        if data.shape != (self.nse,):
            raise ValueError(
                f"data has shape {data.shape} and the matrix has {self.nse} entries; pass "
                f"({self.nse},), in the order of its own data"
            )
        return _make(data, self._pattern)

    def astype(self, dtype: Any) -> CSR:
        """The same matrix with values of another dtype; of complex ones take `data.real` instead.

        Raises:
            TypeError: If imaginary parts would be lost.
        """
        if self.dtype.kind == "c" and np.dtype(dtype).kind != "c":
            raise TypeError(
                f"the matrix is {self.dtype.name} and {np.dtype(dtype).name} was asked for, which "
                "has no imaginary parts: take a.with_values(a.data.real) if that is meant"
            )
        return self.with_values(self.data.astype(dtype))

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self._pattern.shape

    @property
    def dtype(self) -> np.dtype:
        """Of the values."""
        return self.data.dtype

    @property
    def nse(self) -> int:
        """How many entries are kept."""
        return self._pattern.nse

    @property
    def indices(self) -> np.ndarray:
        """int32[nse]: the column of each entry; ascending in each row."""
        return self._pattern.columns

    @property
    def indptr(self) -> np.ndarray:
        """int64[m + 1]: where each row begins."""
        return self._pattern.pointers

    @property
    def T(self) -> CSR:
        """The transpose; its pattern is made once."""
        pattern, order = self._pattern.transposed
        return _make(self.data[order], pattern)

    def diagonal(self) -> jax.Array:
        """(min(m, n),): 0 where nothing is kept."""
        at = self._pattern.diagonal
        padded = jnp.concatenate([self.data, jnp.zeros(1, self.dtype)])
        return padded[at]

    def todense(self) -> jax.Array:
        """(m, n), whole on one device."""
        return jnp.zeros(self.shape, self.dtype).at[self._pattern.rows, self.indices].set(self.data)

    def __matmul__(self, x: jax.Array) -> jax.Array:
        """A x for x of shape (n,), or (n, k), of the same dtype: 2 flops an entry and column."""
        x = as_array(x, "x")
        if x.dtype != self.dtype:
            raise TypeError(
                f"the matrix is {self.dtype.name} and x is {x.dtype.name}: pass both in one dtype, "
                + how_to_agree("A", self.dtype, "x", x.dtype, "multiply x.real and x.imag")
            )
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ValueError(
                f"x has shape {x.shape} and the matrix {self.shape}; pass ({self.shape[1]},) or "
                f"({self.shape[1]}, k)"
            )
        product = self._pattern.product
        if x.ndim == 1:
            return product(self.data, x)
        return jax.vmap(product, (None, 1), 1)(self.data, x)

    def __repr__(self) -> str:
        kind = getattr(self.data, "dtype", type(self.data).__name__)
        return f"CSR(shape={self.shape}, nse={self.nse}, dtype={kind})"

    def tree_flatten_with_keys(self):
        return ((jax.tree_util.GetAttrKey("data"), self.data),), self._pattern

    def tree_flatten(self):
        return (self.data,), self._pattern

    @classmethod
    def tree_unflatten(cls, pattern: Pattern, leaves) -> CSR:
        return _make(leaves[0], pattern)


def _make(data: Any, pattern: Pattern) -> CSR:
    made = object.__new__(CSR)
    made.data = data
    made._pattern = pattern
    return made


def _check_shape(shape: Any) -> tuple[int, int]:
    try:
        m, n = (int(length) for length in shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"shape is {shape!r}; pass (m, n), two whole numbers") from error
    if m < 0 or n < 0 or max(m, n) >= 2**31:
        raise ValueError(f"shape is {shape!r}; sizes are 0 or more and below 2^31")
    return m, n


def _whole(values: object, name: str) -> np.ndarray:
    """Whole numbers that are known, as int64."""
    if isinstance(values, jax.core.Tracer):
        raise TypeError(
            f"{name} is traced, and where the entries are has to be known before: make the CSR "
            "outside of jit and pass it in, it is a pytree; new values come in by with_values"
        )
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} has dtype {array.dtype.name}; pass whole numbers")
    return array.astype(np.int64)


def _from_entries(
    data: jax.Array, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]
) -> CSR:
    """From entries in any order; those of one place are added in the order given."""
    m, n = _check_shape(shape)
    rows, columns = (np.asarray(numbers).astype(np.int64) for numbers in (rows, columns))
    outside = (rows < 0) | (rows >= m) | (columns < 0) | (columns >= n)
    if np.any(outside):
        at = int(np.argmax(outside))
        raise ValueError(
            f"entry {at} of the sparse matrix is at ({rows[at]}, {columns[at]}), outside of "
            f"{m} x {n}: indices count from 0"
        )
    key = rows * max(n, 1) + columns
    if np.any(np.diff(key) <= 0):
        order = np.argsort(key, kind="stable")
        key, data = key[order], data[order]
        first = np.concatenate([[True], np.diff(key) > 0])
        if not first.all():
            place = np.cumsum(first) - 1
            data = _sums(data, place, int(first.sum()))
            key = key[first]
    rows, columns = key // max(n, 1), key % max(n, 1)
    pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=m))])
    return _make(data, Pattern((m, n), pointers, columns))


def _sums(data: jax.Array, place: np.ndarray, count: int) -> jax.Array:
    """Entry i goes to place[i], from left to right."""
    if isinstance(data, jax.core.Tracer):
        return jax.ops.segment_sum(data, place, count, indices_are_sorted=True)
    host = np.zeros(count, data.dtype)
    np.add.at(host, place, np.asarray(data))
    return jnp.asarray(host)


def _from_jax(a: Any) -> CSR:
    """BCOO and BCSR of jax.experimental.sparse."""
    if a.n_batch or a.n_dense or len(a.shape) != 2:
        raise ValueError(
            f"a has {a.n_batch} batch and {a.n_dense} dense dimensions and shape {a.shape}; pass a "
            "matrix without either: several matrices go through jax.vmap over their values"
        )
    indices = _whole(a.indices, "a.indices")
    if hasattr(a, "indptr"):
        pointers = _whole(a.indptr, "a.indptr")
        kept = int(pointers[-1])  # what follows is padding
        rows = np.repeat(np.arange(a.shape[0]), np.diff(pointers))
        return _from_entries(as_array(a.data, "a")[:kept], rows, indices[:kept], a.shape)
    rows, columns = indices[:, 0], indices[:, 1]
    kept = (rows < a.shape[0]) & (columns < a.shape[1])  # padding lies outside
    data = as_array(a.data, "a")
    if not kept.all():
        data, rows, columns = data[np.flatnonzero(kept)], rows[kept], columns[kept]
    return _from_entries(data, rows, columns, a.shape)
