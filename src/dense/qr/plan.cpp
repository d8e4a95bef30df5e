#include "dense/qr/plan.hpp"

#include "core/each_dtype.hpp"
#include "core/right_hand_sides.hpp"
#include "dense/qr/factor.hpp"
#include "dense/qr/factor_in_columns.hpp"
#include "dense/qr/householder.hpp"
#include "dense/qr/probes.hpp"
#include "dense/qr/program.hpp"
#include "dense/qr/small_solver.hpp"
#include "dense/qr/tall_solve.hpp"
#include "dense/qr/wide_solve.hpp"
#include "programs/plan_parts.hpp"

#include <shardsolve/plan.hpp>

#include <algorithm>
#include <complex>

namespace shardsolve {
namespace {

using dense::qr::max_sides;

Dtype wide(Dtype dtype) {
  const bool complex = dtype == Dtype::complex64 || dtype == Dtype::complex128;
  return complex ? Dtype::complex128 : Dtype::float64;
}

/// Of the larger numbers that R is made of.
template <class Body>
auto with_wide(Dtype dtype, Body body) {
  return wide(dtype) == Dtype::complex128 ? body.template operator()<std::complex<double>>()
                                          : body.template operator()<double>();
}

std::int64_t solver_bytes(Dtype dtype, std::int64_t n) {
  return with_wide(dtype,
                   [n]<class W>() { return dense::qr::SmallSolver<W>::bytes(n, max_sides, true); });
}

/// The rows of A and `columns` of them, over all ranks.
Plan begin(const SlabLayout& layout, Dtype dtype, std::int64_t columns) {
  core::require_columns(columns);
  Plan plan = programs::begin_plan(layout, dtype);
  plan.matrix_bytes = layout.max_width() * columns * element_size(dtype);
  const double passes = 3.0;
  const auto m = static_cast<double>(layout.size());
  const auto n = static_cast<double>(columns);
  plan.flops = passes * programs::multiply_add(dtype) * m * n * n;
  plan.bytes_moved = passes * 3.0 * n * n * 8.0 * static_cast<double>(layout.ranks() - 1);
  return plan;
}

/// Numbers of columns, of all ranks.
std::int64_t of_columns(const SlabLayout& layout, std::int64_t columns) {
  return 8 * columns * (8 + 4 * layout.ranks()) + programs::small_change(layout, 0);
}

/// What least squares take, in bytes, on the rank that needs most.
struct Parts {
  Parts(const SlabLayout& layout, Dtype dtype, std::int64_t columns, std::int64_t sides)
      : least(std::min(layout.size(), columns)) {
    const std::int64_t element = element_size(dtype);
    const std::int64_t some = std::min(max_sides, std::max<std::int64_t>(sides, 1));
    const bool is_tall = layout.size() >= columns;
    const SlabLayout of_adjoint = SlabLayout::even(columns, layout.ranks(), 1);
    const std::int64_t own = is_tall ? layout.max_width() : of_adjoint.max_width();
    const std::int64_t rows = own + least;  // with sqrt(eps) I
    tall = rows * least * element;
    crossing = is_tall ? 0 : (layout.max_width() * columns + own * layout.size()) * element;
    factor = dense::qr::factor_bytes(layout.ranks(), least, dtype);
    const SlabLayout& of_tall = is_tall ? layout : of_adjoint;
    if (dense::qr::is_dealt(of_tall.size(), least)) {  // as it may be
      factor = std::max(factor, dense::qr::bytes_in_columns(of_tall, least, dtype));
    }
    numbers =
        of_columns(layout, columns) + of_columns(layout, 8 * std::max<std::int64_t>(sides, 1));
    solver = solver_bytes(dtype, least);
    solve = with_wide(dtype, [&]<class W>() {
      return is_tall ? dense::qr::TallSolve<W>::bytes(layout.ranks(), rows, columns, some, dtype)
                     : dense::qr::WideSolve<W>::bytes(layout, of_adjoint, some, dtype);
    });
  }

  std::int64_t least;     ///< columns of R
  std::int64_t tall;      ///< rows of [A; sqrt(eps) I], of A^H, of Q
  std::int64_t crossing;  ///< what crosses the ranks for A^H
  std::int64_t factor;    ///< R
  std::int64_t numbers;   ///< of columns
  std::int64_t solver;    ///< what the first rank solves with
  std::int64_t solve;     ///< for some right-hand sides at a time
};

}  // namespace

namespace dense::qr {

Plan plan_by_passes(const SlabLayout& layout, Dtype dtype, std::int64_t columns) {
  Plan plan = begin(layout, dtype, columns);
  plan.workspace_bytes =
      plan.matrix_bytes + dense::qr::factor_bytes(layout.ranks(), columns, dtype) +
      element_size(dtype) * columns * columns + of_columns(layout, columns) +
      with_wide(dtype, [&]<class W>() {
        return dense::qr::Probes<W>::bytes(layout.ranks(), layout.max_width(), columns, dtype);
      });
  return plan;
}

Plan plan_dealt(const SlabLayout& layout, Dtype dtype, std::int64_t columns) {
  Plan plan = begin(layout, dtype, columns);
  const auto m = static_cast<double>(layout.size());
  const auto n = static_cast<double>(columns);
  const auto element = static_cast<double>(element_size(dtype));
  const auto others = static_cast<double>(layout.ranks() - 1);
  // R and Q; A, R and Q by columns or by rows, and twice the reflectors to all
  plan.flops = programs::multiply_add(dtype) * 2.0 * n * n * (m - n / 3.0);
  plan.bytes_moved = element * others *
                     (3.0 * m * n / static_cast<double>(layout.ranks()) + 2.0 * n * (m - n / 2.0));
  plan.workspace_bytes =
      element_size(dtype) * probe_count * columns + of_columns(layout, columns) +
      with_dtype(dtype, [&]<class T>() { return Householder<T>::bytes(layout, columns); }) +
      with_wide(dtype, [&]<class W>() {
        return Probes<W>::bytes(layout.ranks(), layout.max_width(), columns, dtype);
      });
  return plan;
}

StepBytes bytes_in_steps(const SlabLayout& layout, Dtype dtype, std::int64_t columns,
                         std::int64_t sides, const SlabLayout& square, Memory memory) {
  const Parts parts(layout, dtype, columns, sides);
  const std::int64_t n = parts.least;
  const std::int64_t whole = n * n * element_size(wide(dtype));
  const std::int64_t adjoint = layout.size() >= columns ? 0 : parts.tall + parts.crossing;
  StepBytes bytes;
  bytes.factor = adjoint + parts.factor + whole + parts.numbers;
  bytes.values = plan_svd(square, wide(dtype), n, true, memory).workspace_bytes;
  bytes.solve = adjoint + parts.solver + parts.solve + parts.numbers;
  // Q, R, and rows of R, U and V
  bytes.kept = parts.tall + whole + 3 * n * square.max_width() * element_size(wide(dtype));
  return bytes;
}

Plan plan_at_once(const SlabLayout& layout, Dtype dtype, std::int64_t columns, std::int64_t sides) {
  core::require_columns(sides);
  Plan plan = begin(layout, dtype, columns);
  const Parts parts(layout, dtype, columns, sides);
  plan.right_hand_side_bytes = layout.max_width() * sides * element_size(dtype);
  plan.workspace_bytes =
      2 * parts.tall + parts.crossing + parts.factor + parts.numbers + parts.solver + parts.solve;
  return plan;
}

}  // namespace dense::qr

Plan plan_qr(const SlabLayout& layout, Dtype dtype, std::int64_t columns) {
  return dense::qr::is_dealt(layout.size(), columns)
             ? dense::qr::plan_dealt(layout, dtype, columns)
             : dense::qr::plan_by_passes(layout, dtype, columns);
}

Plan plan_least_squares(const SlabLayout& layout, Dtype dtype, std::int64_t columns,
                        std::int64_t sides, Memory memory) {
  Plan plan = dense::qr::plan_at_once(layout, dtype, columns, sides);
  const std::int64_t n = std::min(layout.size(), columns);
  if (dense::qr::is_in_steps(n, layout.ranks(), memory)) {
    const SlabLayout square =
        SlabLayout::even(n, layout.ranks(), default_tile(n, layout.ranks(), wide(dtype)));
    plan.workspace_bytes =
        std::max(plan.workspace_bytes,
                 dense::qr::bytes_in_steps(layout, dtype, columns, sides, square, memory).all());
  }
  return plan;
}

}  // namespace shardsolve
