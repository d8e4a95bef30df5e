/// How a call for singular values cuts its work, for the call and for its plan.
#pragma once

#include "dense/qr/program.hpp"
#include "dense/svd/polar_factor.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>

namespace shardsolve::dense::svd {

/// What is wanted of A.
enum class Wanted : std::uint8_t { values, vectors, polar };

/// Up to so many columns svd() and svdvals() go by a bidiagonal form on CPU ranks: its vectors,
/// which LAPACK finds, are whole on each rank, and that rank is silent meanwhile.
inline constexpr std::int64_t max_columns_of_form = 8192;

constexpr bool is_by_bidiagonal(std::int64_t columns, Memory memory) {
  return memory == Memory::host && columns <= max_columns_of_form;
}

/// The matrix that is worked on, with at least as many rows as columns: A or, if A has fewer, A^H.
struct Problem {
  /// `of_rows`, `of_columns`: how the rows of A lie, and what has as many rows as A columns.
  Problem(const SlabLayout& of_rows, const SlabLayout& of_columns)
      : is_adjoint(of_rows.size() < of_columns.size()),
        rows(is_adjoint ? of_columns : of_rows),
        columns(is_adjoint ? of_rows : of_columns),
        by_qr(rows.size() >= 4 * columns.size()),
        core{by_qr ? columns : rows, columns} {}

  std::int64_t size() const { return columns.size(); }

  bool is_adjoint;
  SlabLayout rows;     ///< of the rows
  SlabLayout columns;  ///< of square matrices
  bool by_qr;          ///< R takes its place
  Shape core;          ///< of the matrix, or of R
};

/// Bytes of workspace of the steps, on the rank that needs most.
std::int64_t adjoint_bytes(const Problem& problem, Dtype dtype);
std::int64_t qr_bytes(const Problem& problem, Dtype dtype);
std::int64_t core_bytes(const Problem& problem, Dtype dtype);
std::int64_t last_bytes(const Problem& problem, Dtype dtype);

/// Of the whole call by polar factors: what it keeps between its steps counts as workspace, too.
Plan plan_of(const Problem& problem, Dtype dtype, Wanted wanted);

/// By a bidiagonal form. Whether it is R's, not A's: reflections of all rows take longer then.
inline bool has_triangle(const Problem& problem) {
  return problem.rows.size() >= 2 * problem.size();
}
/// Of the step that does all, and of the whole call.
std::int64_t bytes_by_bidiagonal(const Problem& problem, Dtype dtype, Wanted wanted);
Plan plan_by_bidiagonal(const Problem& problem, Dtype dtype, Wanted wanted);

}  // namespace shardsolve::dense::svd
