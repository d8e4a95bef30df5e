#include "core/each_dtype.hpp"
#include "core/right_hand_sides.hpp"
#include "dense/qr/factor.hpp"
#include "dense/svd/bidiagonal_form.hpp"
#include "dense/svd/certificate.hpp"
#include "dense/svd/problem.hpp"
#include "programs/plan_parts.hpp"

#include <shardsolve/plan.hpp>

#include <algorithm>

namespace shardsolve::dense::svd {
namespace {

/// Rows of a rank, of the matrix and of what takes its place.
std::int64_t row_bytes(const Problem& problem, Dtype dtype) {
  return element_size(dtype) * problem.size() * problem.rows.max_width();
}
std::int64_t core_row_bytes(const Problem& problem, Dtype dtype) {
  return element_size(dtype) * problem.size() * problem.core.rows.max_width();
}
std::int64_t square_bytes(const Problem& problem, Dtype dtype) {
  return element_size(dtype) * problem.size() * problem.columns.max_width();
}
std::int64_t small_bytes(const Problem& problem) {
  return programs::small_change(problem.rows, 0) + programs::small_change(problem.columns, 0) +
         64 * problem.size() * (problem.rows.ranks() + 4);
}

}  // namespace

std::int64_t adjoint_bytes(const Problem& problem, Dtype dtype) {
  return 2 * row_bytes(problem, dtype) +
         element_size(dtype) * problem.columns.max_width() * problem.rows.size() +
         small_bytes(problem);
}

std::int64_t qr_bytes(const Problem& problem, Dtype dtype) {
  return 2 * row_bytes(problem, dtype) +
         qr::factor_bytes(problem.rows.ranks(), problem.size(), dtype) + small_bytes(problem);
}

std::int64_t core_bytes(const Problem& problem, Dtype dtype) {
  return 2 * core_row_bytes(problem, dtype) + polar_bytes(problem.core, dtype) +
         small_bytes(problem);
}

std::int64_t last_bytes(const Problem& problem, Dtype dtype) {
  const std::int64_t relay =
      2 * (element_size(dtype) * problem.core.of_relay() + programs::header_bytes);
  // V^H and U^H, Q^H and its product, A
  return square_bytes(problem, dtype) + core_row_bytes(problem, dtype) +
         3 * row_bytes(problem, dtype) + relay +
         3 * Certificate<double>::bytes(problem.rows.ranks(), problem.rows.max_width(),
                                        problem.size()) +
         small_bytes(problem);
}

Plan plan_of(const Problem& problem, Dtype dtype, Wanted wanted) {
  Plan plan = programs::begin_plan(problem.columns, dtype);
  plan.matrix_bytes = row_bytes(problem, dtype);
  const auto n = static_cast<double>(problem.size());
  const auto m = static_cast<double>(problem.rows.size());
  const double core_rows = problem.by_qr ? n : m;
  plan.workspace_bytes = core_bytes(problem, dtype);
  // X, and H if the caller does not give its memory
  std::int64_t kept = core_row_bytes(problem, dtype);
  plan.flops = programs::multiply_add(dtype) * n * n * (30.0 * core_rows + 20.0 * n);
  plan.bytes_moved = 30.0 * n * (core_rows + n) * static_cast<double>(element_size(dtype)) *
                     static_cast<double>(problem.rows.ranks() - 1);
  if (wanted != Wanted::polar) {
    const Plan of_pairs = plan_eigh(problem.columns, dtype, wanted == Wanted::vectors);
    plan.workspace_bytes = std::max(plan.workspace_bytes, of_pairs.workspace_bytes);
    plan.flops += of_pairs.flops;
    plan.bytes_moved += of_pairs.bytes_moved;
    kept += square_bytes(problem, dtype);
  }
  if (wanted != Wanted::values) {
    plan.workspace_bytes = std::max(plan.workspace_bytes, last_bytes(problem, dtype));
  }
  if (problem.is_adjoint) {
    plan.workspace_bytes = std::max(plan.workspace_bytes, adjoint_bytes(problem, dtype));
    kept += row_bytes(problem, dtype);
  }
  if (problem.by_qr) {
    plan.workspace_bytes = std::max(plan.workspace_bytes, qr_bytes(problem, dtype));
    plan.flops += programs::multiply_add(dtype) * 4.0 * m * n * n;
    kept += square_bytes(problem, dtype);  // R
  }
  plan.workspace_bytes += kept;
  return plan;
}

std::int64_t bytes_by_bidiagonal(const Problem& problem, Dtype dtype, Wanted wanted) {
  const std::int64_t n = problem.size();
  const bool vectors = wanted == Wanted::vectors;
  const bool by_qr = has_triangle(problem);
  std::int64_t bytes =
      row_bytes(problem, dtype) + small_bytes(problem) + with_dtype(dtype, [&]<class T>() {
        return BidiagonalForm<T>::bytes(by_qr ? problem.columns : problem.rows, problem.columns,
                                        vectors);
      });
  const std::int64_t wide =
      n * n * (dtype == Dtype::complex64 || dtype == Dtype::complex128 ? 16 : 8);
  if (by_qr) {  // R, and Q if the caller does not give its memory
    bytes += wide + qr::factor_bytes(problem.rows.ranks(), n, dtype) + row_bytes(problem, dtype);
  }
  if (vectors) {
    // V, its adjoint and all of it; rows of A
    bytes += 2 * square_bytes(problem, dtype) + n * n * element_size(dtype) +
             row_bytes(problem, dtype) +
             3 * Certificate<double>::bytes(problem.rows.ranks(), problem.rows.max_width(), n);
    if (by_qr) {  // U_R, its adjoint and all of it
      bytes += 2 * square_bytes(problem, dtype) + n * n * element_size(dtype);
    }
  }
  return bytes;
}

Plan plan_by_bidiagonal(const Problem& problem, Dtype dtype, Wanted wanted) {
  Plan plan = programs::begin_plan(problem.columns, dtype);
  plan.matrix_bytes = row_bytes(problem, dtype);
  const bool vectors = wanted == Wanted::vectors;
  const auto n = static_cast<double>(problem.size());
  const auto m = static_cast<double>(problem.rows.size());
  const double rows = has_triangle(problem) ? n : m;
  plan.flops = programs::multiply_add(dtype) * n * n *
               (2.0 * rows - 2.0 / 3.0 * n + (vectors ? 2.0 * rows + 4.0 * n : 0.0) +
                (has_triangle(problem) ? 5.0 * m : 0.0));
  const auto others = static_cast<double>(problem.rows.ranks() - 1);
  plan.bytes_moved = others * n * n * static_cast<double>(element_size(dtype)) *
                     (vectors ? 6.0 + static_cast<double>(problem.rows.ranks()) : 1.0);
  plan.workspace_bytes = bytes_by_bidiagonal(problem, dtype, wanted);
  if (problem.is_adjoint) {
    plan.workspace_bytes =
        row_bytes(problem, dtype) + std::max(plan.workspace_bytes, adjoint_bytes(problem, dtype));
  }
  return plan;
}

}  // namespace shardsolve::dense::svd

namespace shardsolve {
namespace {

dense::svd::Problem problem_of(const SlabLayout& layout, std::int64_t columns) {
  core::require_columns(columns);
  return {layout, SlabLayout::even(columns, layout.ranks(), layout.tile())};
}

}  // namespace

Plan plan_svd(const SlabLayout& layout, Dtype dtype, std::int64_t columns, bool vectors,
              Memory memory) {
  const dense::svd::Problem problem = problem_of(layout, columns);
  const auto wanted = vectors ? dense::svd::Wanted::vectors : dense::svd::Wanted::values;
  return dense::svd::is_by_bidiagonal(problem.size(), memory)
             ? dense::svd::plan_by_bidiagonal(problem, dtype, wanted)
             : dense::svd::plan_of(problem, dtype, wanted);
}

Plan plan_polar(const SlabLayout& layout, Dtype dtype, std::int64_t columns) {
  return dense::svd::plan_of(problem_of(layout, columns), dtype, dense::svd::Wanted::polar);
}

}  // namespace shardsolve
