/// Sparse matrices: on the host as a whole, and spread over the ranks of a mesh by rows.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace shardsolve {

/// A sparse matrix on the host, row after row (CSR). Entries of row i are those with the numbers
/// row_pointers[i] <= k < row_pointers[i + 1].
template <Scalar T>
struct CsrMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> row_pointers{0};  ///< rows + 1 numbers that begin with 0 and never fall
  std::vector<std::int64_t> column_indices;   ///< of each entry, from 0
  std::vector<T> values;                      ///< of each entry

  std::int64_t entries() const { return static_cast<std::int64_t>(values.size()); }
};

/// A sparse matrix on the host as a list of entries in any order (COO). Entries of the same place
/// are added.
template <Scalar T>
struct CooMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> row_indices;     ///< of each entry, from 0
  std::vector<std::int64_t> column_indices;  ///< likewise
  std::vector<T> values;                     ///< of each entry

  std::int64_t entries() const { return static_cast<std::int64_t>(values.size()); }
};

/// The matrix in order: columns of each row ascend and none comes twice. Entries of the same place
/// are added in the order given; zeros stay. O(entries + rows + columns).
/// Throws Error(invalid_argument) if sizes are negative or do not fit each other, or an index is
/// out of range, naming the first such entry.
template <Scalar T>
SHARDSOLVE_EXPORT CsrMatrix<T> sorted(const CooMatrix<T>& matrix);
template <Scalar T>
SHARDSOLVE_EXPORT CsrMatrix<T> sorted(const CsrMatrix<T>& matrix);

/// A^T, in order. Throws what sorted() throws.
template <Scalar T>
SHARDSOLVE_EXPORT CsrMatrix<T> transposed(const CsrMatrix<T>& matrix);

/// A place in a matrix, from 0.
struct EntryPlace {
  std::int64_t row = 0;
  std::int64_t column = 0;

  friend bool operator==(const EntryPlace&, const EntryPlace&) = default;
};

/// The first entry, row after row, that is a NaN or infinite; none if all are finite.
template <Scalar T>
SHARDSOLVE_EXPORT std::optional<EntryPlace> first_nonfinite(const CsrMatrix<T>& matrix);

/// How rows of a sparse matrix are cut: the boundaries of a SlabLayout, whose tile means nothing
/// here. Vectors are RightHandSides of it.
/// Slabs that differ by at most one row. Throws what SlabLayout::even throws.
SHARDSOLVE_EXPORT SlabLayout row_slabs(std::int64_t rows, std::int64_t ranks);
/// Rank r has the rows [boundaries[r], boundaries[r + 1]). Throws what SlabLayout's constructor
/// throws.
SHARDSOLVE_EXPORT SlabLayout row_slabs(std::vector<std::int64_t> boundaries);

namespace sparse {
template <Scalar T>
struct Parts;
}

/// An m x n sparse matrix, each rank with a slab of whole rows, and what a product y = A x needs to
/// know of it: which entries of x the ranks send each other. x is cut as the columns are, y as the
/// rows. Copies share the memory, which never changes.
///
/// How a row is summed is the matrix's alone: its entries, in their order, go to L lanes in turn, L
/// the largest power of two that is at most 32 and half the mean number of entries a row (of all
/// rows), at least 1;
/// lanes add up by fma from +0 and are added as a binary tree, lane j + L/2 to lane j first. So
/// products have the same bits on any number of ranks and with any cut.
template <Scalar T>
class SHARDSOLVE_EXPORT SparseMatrix {
 public:
  /// From the whole matrix, which every process gives. Columns of each row ascend, none comes twice
  /// (sorted() sees to that). Each process keeps the rows of its own ranks.
  /// Throws Error: invalid_argument if layouts do not fit the mesh or the matrix, an index is out
  /// of range, or columns of a row do not ascend; unsupported on devices without kernels for it;
  /// out_of_memory, communication.
  SparseMatrix(Mesh& mesh, const CsrMatrix<T>& whole, const SlabLayout& rows,
               const SlabLayout& columns, const RunOptions& options = {});
  /// Square, columns cut as rows are.
  SparseMatrix(Mesh& mesh, const CsrMatrix<T>& whole, const SlabLayout& layout,
               const RunOptions& options = {})
      : SparseMatrix(mesh, whole, layout, layout, options) {}
  /// From the rows of each rank, columns counted through the whole matrix: slabs[r] has
  /// rows.width(r) rows. Of ranks in other processes nothing is looked at. Throws likewise, in all
  /// processes.
  SparseMatrix(Mesh& mesh, const std::vector<CsrMatrix<T>>& slabs, const SlabLayout& rows,
               const SlabLayout& columns, const RunOptions& options = {});

  const SlabLayout& rows() const;
  const SlabLayout& columns() const;
  std::int64_t entries() const;  ///< of all ranks
  std::int64_t lanes() const;    ///< L
  /// Entries of x that a rank receives for a product; of any rank. Throws
  /// Error(invalid_argument) where there is none of that number.
  std::int64_t halo(std::int64_t rank) const;

  /// A^T, or A^H if `conjugated`, rows cut as the columns of A are. Ranks send each other what
  /// changes its owner. Throws Error: out_of_memory, communication.
  SparseMatrix transposed(Mesh& mesh, bool conjugated = false,
                          const RunOptions& options = {}) const;

  /// For the library.
  const sparse::Parts<T>& parts() const { return *parts_; }

 private:
  explicit SparseMatrix(std::shared_ptr<const sparse::Parts<T>> parts);

  std::shared_ptr<const sparse::Parts<T>> parts_;
};

/// y = A x for each column of x. x is cut as the columns of A are, y as the rows; both have the
/// same number of columns and lie where the mesh computes; y may not be x.
///
/// 2 flops an entry and column (8 if complex), and about (12 + 16 / mean) bytes an entry of float64
/// read or written. The outcome is ok, with seconds and flops.
/// Throws Error: invalid_argument if layouts or numbers of columns do not fit; unsupported,
/// out_of_memory, cancelled, communication.
template <Scalar T>
SHARDSOLVE_EXPORT Outcome multiply(Mesh& mesh, const SparseMatrix<T>& a, const RightHandSides<T>& x,
                                   const RightHandSides<T>& y, const RunOptions& options = {});

}  // namespace shardsolve
