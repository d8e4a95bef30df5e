// x = A^-1 b by the factor, then up to three times, while an error is larger than rounding
// explains:
//
//   r = A x - b      in twice the precision
//   x -= A^-1 r      kept where it helps
//
// By the norm alone a system whose rows differ in size keeps equations that are wrong by all their
// digits, so each equation is also measured by its own terms. Where the factor is one of another
// matrix, or its answers stay wrong or leave the range, as those of subnormal pivots do, QR is
// asked.

#include "dense/lu/certified_solve.hpp"

#include "core/each_dtype.hpp"
#include "dense/lu/by_qr.hpp"
#include "dense/lu/general_multiply.hpp"
#include "dense/lu/sketch.hpp"
#include "dense/lu/triangular_solve.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "programs/gather.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

namespace shardsolve::dense::lu {
namespace {

using runtime::Op;

/// Backward errors of some columns of X.
struct Errors {
  std::vector<double> by_norm;
  std::vector<double> by_components;
};

/// X in place of `b`, which is `given`; its largest entries. Inside a solve numbers may be larger
/// than both b and x: then once more, scaled.
template <Scalar T>
std::vector<double> solve_in_range(mesh::Rank& rank, TriangularSolve<T>& solve, Op op,
                                   MatrixView<T> b, MatrixView<const T> given,
                                   const std::vector<double>& b_maxima) {
  solve.run(op, b);
  std::vector<double> x_maxima = column_maxima<T>(rank, b);
  if (all_finite(x_maxima)) {
    return x_maxima;
  }
  std::vector<int> exponents = exponents_of_second_try<T>(b_maxima, x_maxima);
  rank.kernels<T>().copy(rank.update(), given, b);
  scale_columns(rank, b, exponents);
  solve.run(op, b);
  std::transform(exponents.begin(), exponents.end(), exponents.begin(), std::negate<>());
  scale_columns(rank, b, exponents);
  return column_maxima<T>(rank, b);
}

/// The largest, or the first that is not a number.
std::vector<double>::const_iterator worst(const std::vector<double>& errors) {
  auto found = errors.begin();
  for (auto one = errors.begin(); one != errors.end(); ++one) {
    found = std::isnan(*found) || *one <= *found ? found : one;
  }
  return found;
}

void take_larger(std::optional<double>& to, double value) {
  to = programs::largest(to.value_or(0.0), value);
}

/// Some right-hand sides at a time, and the memory for them.
template <Scalar T>
class SomeSides {
 public:
  SomeSides(mesh::Rank& rank, const FactorPart<T>& factor, Op op, std::int64_t columns,
            bool may_ask_qr)
      : rank_(rank),
        factor_(factor),
        op_(op),
        may_ask_qr_(may_ask_qr),
        norm_(op == Op::none ? factor.inf_norm : factor.one_norm),
        solve_(rank, factor.layout, factor.slab, factor.rows, columns),
        exact_(rank, factor.layout, factor.matrix, std::min(columns, max_exact), Sums::exact),
        given_(rank.workspace<T>(factor.slab.columns(), columns)),
        refined_(rank.workspace<T>(factor.slab.columns(), columns)),
        scaled_x_(rank.workspace<T>(factor.slab.columns(), columns)),
        scaled_b_(rank.workspace<T>(factor.slab.columns(), columns)),
        residual_(rank.workspace<T>(factor.slab.columns(), columns)),
        found_(rank.workspace<double>(2 * columns, 1)) {
    if (columns > max_exact) {
      quick_.emplace(rank, factor.layout, factor.matrix, columns, Sums::quick);
    }
  }

  /// X in place of `b`. Adds to the outcome the largest errors.
  void run(MatrixView<T> b, const std::vector<double>& b_maxima, Outcome& outcome) {
    const MatrixView<T> given = given_.columns_from(0, b.columns());
    kernels().copy(rank_.update(), b, given);
    Errors errors;
    bool is_answer = false;
    bool fits = true;
    if (factor_.growth <= largest_growth<T>()) {
      const std::vector<double> x_maxima =
          solve_in_range<T>(rank_, solve_, op_, b, given, b_maxima);
      fits = all_finite(x_maxima);
      if (fits) {
        errors = errors_of(b, x_maxima, given, b_maxima);
        std::vector<bool> unsettled(errors.by_norm.size(), true);
        for (int i = 0; i < max_refinements && any_to_be_refined(errors, unsettled); ++i) {
          refine(b, given, b_maxima, errors, unsettled);
        }
        is_answer = *worst(errors.by_norm) <= given_up_from * unit_roundoff<T>;
      }
    }
    if (!is_answer) {
      const ByQr by_qr = ask_qr(b, given, b_maxima, errors);
      fits = by_qr == ByQr::nothing ? fits : by_qr != ByQr::beyond_range;
      outcome.status = by_qr == ByQr::answer ? Status::ok : Status::inaccurate;
    }
    if (!fits) {
      kernels().copy(rank_.update(), given, b);
      outcome.status = Status::overflow;
      return;
    }
    if (errors.by_norm.empty()) {
      kernels().copy(rank_.update(), given, b);
      outcome.backward_error.reset();
      outcome.component_error.reset();
      return;
    }
    if (b.columns() > max_exact) {
      errors = exact_errors_of_worst(b, given, b_maxima, errors);
    }
    take_larger(outcome.backward_error, *worst(errors.by_norm));
    take_larger(outcome.component_error, *worst(errors.by_components));
  }

 private:
  const runtime::Kernels<T>& kernels() const { return rank_.kernels<T>(); }

  /// Settles the columns whose errors are those of rounding.
  static bool any_to_be_refined(const Errors& errors, std::vector<bool>& unsettled) {
    constexpr double u = unit_roundoff<T>;
    bool any = false;
    for (std::size_t j = 0; j < unsettled.size(); ++j) {
      unsettled[j] = unsettled[j] && (errors.by_norm[j] > refined_from * u ||
                                      errors.by_components[j] > refined_from_by_components * u);
      any = any || unsettled[j];
    }
    return any;
  }

  /// What QR has found, if it was asked.
  enum class ByQr : std::uint8_t { nothing, beyond_range, inaccurate, answer };

  /// X of QR in place of `b`, whose errors are `errors` then. Nothing has changed if QR has none.
  ByQr ask_qr(MatrixView<T> b, MatrixView<const T> given, const std::vector<double>& b_maxima,
              Errors& errors) {
    if (!may_ask_qr_) {
      return ByQr::nothing;
    }
    const FoundByQr<T> found = solve_by_qr<T>(rank_, factor_, op_, given);
    if (found.x.empty()) {
      return ByQr::nothing;
    }
    const std::int64_t n = factor_.layout.size();
    const GlobalRange own = factor_.layout.segment(rank_.index());
    std::vector<T> mine;
    for (std::int64_t j = 0; j < b.columns(); ++j) {
      const auto first = found.x.begin() + j * n;
      mine.insert(mine.end(), first + own.begin.value(), first + own.end.value());
    }
    const MatrixView<T> x(refined_.data(), own.size(), b.columns());
    rank_.update().copy(x.data(), mine.data(), mine.size() * sizeof(T));
    rank_.update().synchronize();  // from here on `mine` may go
    kernels().copy(rank_.update(), x, b);
    const std::vector<double> x_maxima = column_maxima<T>(rank_, b);
    if (!all_finite(x_maxima)) {
      return ByQr::beyond_range;
    }
    errors = errors_of(b, x_maxima, given, b_maxima);
    return *worst(errors.by_norm) <= given_up_from * unit_roundoff<T> ? ByQr::answer
                                                                      : ByQr::inaccurate;
  }

  /// Of each column: exact of a few, else quick. Leaves the residual, scaled as exponents_ say.
  Errors errors_of(MatrixView<const T> x, const std::vector<double>& x_maxima,
                   MatrixView<const T> b, const std::vector<double>& b_maxima) {
    exponents_.clear();
    for (std::size_t j = 0; j < x_maxima.size(); ++j) {
      exponents_.push_back(residual_exponent<T>(norm_, x_maxima[j], b_maxima[j]));
    }
    // ||A|| ||x|| may be out of range where no product is: then scaled entries of x would be lost.
    const std::vector<int> cautious = exponents_;
    for (int& exponent : exponents_) {
      exponent = std::max(exponent, 0);
    }
    Errors errors = scaled_errors(x, x_maxima, b, b_maxima);
    if (exponents_ == cautious ||
        (all_finite(errors.by_norm) && all_finite(errors.by_components))) {
      return errors;
    }
    exponents_ = cautious;
    return scaled_errors(x, x_maxima, b, b_maxima);
  }

  Errors scaled_errors(MatrixView<const T> x, const std::vector<double>& x_maxima,
                       MatrixView<const T> b, const std::vector<double>& b_maxima) {
    const std::int64_t k = x.columns();
    const MatrixView<T> r = residual_.columns_from(0, k);
    MatrixView<const T> some_x = x;
    MatrixView<const T> some_b = b;
    if (std::any_of(exponents_.begin(), exponents_.end(), [](int one) { return one != 0; })) {
      some_x = scaled(x, scaled_x_.columns_from(0, k));
      some_b = scaled(b, scaled_b_.columns_from(0, k));
    }
    GeneralMultiply<T>& multiply = k <= max_exact ? exact_ : *quick_;
    multiply.residual(op_, some_x, some_b, r);
    Errors errors;
    // Below this the residual, which may be subnormal, says nothing beside its terms.
    const double least = 16 * double{std::numeric_limits<RealOf<T>>::min()};
    double* const r_maxima = found_.data() + k;
    rank_.kernels<runtime::LuKernels<T>>().component_errors(
        rank_.update(), least, r, multiply.sizes(), some_b, found_.data());
    kernels().column_max(rank_.update(), r, r_maxima);
    const std::vector<double> found = of_all(rank_.fetch(rank_.update(), found_.data(), 2 * k));
    errors.by_components.assign(found.begin(), found.begin() + k);
    for (std::size_t j = 0; j < x_maxima.size(); ++j) {
      const double largest = found[static_cast<std::size_t>(k) + j];
      const Scaled size =
          norm_ * Scaled{x_maxima[j], exponents_[j]} + Scaled{b_maxima[j], exponents_[j]};
      errors.by_norm.push_back(std::isfinite(largest) ? ratio(Scaled{largest, 0}, size) : largest);
    }
    return errors;
  }

  MatrixView<const T> scaled(MatrixView<const T> a, MatrixView<T> target) {
    kernels().copy(rank_.update(), a, target);
    scale_columns(rank_, target, exponents_);
    return target;
  }
  /// The largest of what each rank has, number by number.
  std::vector<double> of_all(const std::vector<double>& mine) {
    std::vector<double> largest(mine.size(), 0.0);
    for (const auto& one : programs::gather_from_all(rank_, mine)) {
      std::transform(one.begin(), one.end(), largest.begin(), largest.begin(), programs::largest);
    }
    return largest;
  }

  /// Quick sums rank errors near rounding by chance, so several columns are looked at. `given` is
  /// not kept.
  Errors exact_errors_of_worst(MatrixView<const T> x, MatrixView<T> given,
                               const std::vector<double>& b_maxima, const Errors& quick) {
    const std::vector<std::size_t> columns = worst_columns(quick);
    const auto count = static_cast<std::int64_t>(columns.size());
    const MatrixView<T> some_x = refined_.columns_from(0, count);
    std::vector<double> maxima;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t column = columns[static_cast<std::size_t>(i)];
      const auto from = static_cast<std::int64_t>(column);
      kernels().copy(rank_.update(), x.columns_from(from, 1), some_x.columns_from(i, 1));
      if (from != i) {
        kernels().copy(rank_.update(), given.columns_from(from, 1), given.columns_from(i, 1));
      }
      maxima.push_back(b_maxima[column]);
    }
    return errors_of(some_x, column_maxima<T>(rank_, some_x), given.columns_from(0, count), maxima);
  }

  /// max_exact of them, or fewer, in their order: the worst by each measure.
  static std::vector<std::size_t> worst_columns(const Errors& errors) {
    constexpr std::size_t of_each = max_exact / 2;
    std::set<std::size_t> found;
    for (const std::vector<double>* kind : {&errors.by_norm, &errors.by_components}) {
      std::vector<std::size_t> order(kind->size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      const auto key = [kind](std::size_t column) {
        const double error = (*kind)[column];
        return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
      };
      std::stable_sort(order.begin(), order.end(), [&key](std::size_t one, std::size_t other) {
        return key(one) > key(other);
      });
      found.insert(order.begin(), order.begin() + of_each);
    }
    return {found.begin(), found.end()};
  }

  /// One step, of the columns that are not settled, whose residuals errors_of() has left. One that
  /// it does not help is settled.
  void refine(MatrixView<T> x, MatrixView<const T> b, const std::vector<double>& b_maxima,
              Errors& errors, std::vector<bool>& unsettled) {
    const std::int64_t k = x.columns();
    const MatrixView<T> change = residual_.columns_from(0, k);
    const MatrixView<T> refined = refined_.columns_from(0, k);
    solve_.run(op_, change);
    std::vector<int> back(exponents_.size());
    std::transform(exponents_.begin(), exponents_.end(), back.begin(), std::negate<>());
    scale_columns(rank_, change, back);
    kernels().copy(rank_.update(), x, refined);
    kernels().add(rank_.update(), T{-1}, change, refined);
    const std::vector<double> maxima = column_maxima<T>(rank_, refined);
    if (!all_finite(maxima)) {
      unsettled.assign(unsettled.size(), false);
      return;
    }
    const Errors now = errors_of(refined, maxima, b, b_maxima);
    for (std::size_t j = 0; j < maxima.size(); ++j) {
      const bool helps = now.by_norm[j] < errors.by_norm[j] ||
                         (now.by_norm[j] <= refined_from * unit_roundoff<T> &&
                          now.by_components[j] < errors.by_components[j]);
      unsettled[j] = unsettled[j] && helps;
      if (unsettled[j]) {
        const auto column = static_cast<std::int64_t>(j);
        kernels().copy(rank_.update(), refined.columns_from(column, 1), x.columns_from(column, 1));
        errors.by_norm[j] = now.by_norm[j];
        errors.by_components[j] = now.by_components[j];
      }
    }
  }

  mesh::Rank& rank_;
  const FactorPart<T>& factor_;
  Op op_;
  bool may_ask_qr_;
  Scaled norm_;  // of op(A), in the infinity norm
  TriangularSolve<T> solve_;
  GeneralMultiply<T> exact_;
  std::optional<GeneralMultiply<T>> quick_;
  MatrixView<T> given_;
  MatrixView<T> refined_;
  MatrixView<T> scaled_x_;
  MatrixView<T> scaled_b_;
  MatrixView<T> residual_;
  MatrixView<double> found_;
  std::vector<int> exponents_;
};

}  // namespace

template <Scalar T>
double largest_growth() {
  return 1.0 / std::sqrt(unit_roundoff<T>);
}

template <Scalar T>
Outcome certified_solve(mesh::Rank& rank, const FactorPart<T>& factor, Op op, MatrixView<T> b,
                        bool may_ask_qr, std::int64_t& solved) {
  solved = 0;
  const CheckedSides checked = check_right_hand_sides<T>(rank, factor.layout, b);
  Outcome outcome = checked.outcome;
  if (!outcome.ok()) {
    return outcome;
  }
  outcome.growth = factor.growth;
  outcome.backward_error = 0.0;
  outcome.component_error = 0.0;
  const std::int64_t width = std::max<std::int64_t>(std::min(factor.layout.tile(), b.columns()), 1);
  // Made before the solve: if memory is short, b is still there.
  SomeSides<T> some_sides(rank, factor, op, width, may_ask_qr);
  for (std::int64_t first = 0; first < b.columns() && outcome.ok(); first += width) {
    const std::int64_t count = std::min(width, b.columns() - first);
    rank.report("solve", static_cast<double>(first) / static_cast<double>(b.columns()));
    const auto begin = checked.maxima.begin() + first;
    some_sides.run(b.columns_from(first, count), {begin, begin + count}, outcome);
    solved += outcome.ok() ? count : 0;
  }
  if (outcome.ok() && !(*outcome.backward_error <= given_up_from * unit_roundoff<T>)) {
    outcome.status = Status::inaccurate;
  }
  return outcome;
}

template <Scalar T>
Outcome sketched_solve(mesh::Rank& rank, const FactorPart<T>& factor, Op op, MatrixView<T> b) {
  const CheckedSides checked = check_right_hand_sides<T>(rank, factor.layout, b);
  Outcome outcome = checked.outcome;
  if (!outcome.ok()) {
    return outcome;
  }
  outcome.growth = factor.growth;
  if (!(factor.growth <= largest_growth<T>())) {
    outcome.status = Status::inaccurate;  // the factor is one of another matrix
    return outcome;
  }
  outcome.backward_error = 0.0;
  const std::int64_t width = std::max<std::int64_t>(std::min(factor.layout.tile(), b.columns()), 1);
  TriangularSolve<T> solve(rank, factor.layout, factor.slab, factor.rows, width);
  SketchedErrors<T> errors(rank, factor, width);
  const MatrixView<T> given = rank.workspace<T>(b.rows(), width);
  for (std::int64_t first = 0; first < b.columns(); first += width) {
    const std::int64_t count = std::min(width, b.columns() - first);
    rank.report("solve", static_cast<double>(first) / static_cast<double>(b.columns()));
    const MatrixView<T> some = b.columns_from(first, count);
    const MatrixView<T> kept = given.columns_from(0, count);
    rank.kernels<T>().copy(rank.update(), some, kept);
    const std::vector<double> b_maxima(checked.maxima.begin() + first,
                                       checked.maxima.begin() + first + count);
    const std::vector<double> x_maxima = solve_in_range<T>(rank, solve, op, some, kept, b_maxima);
    if (!all_finite(x_maxima)) {
      outcome.status = Status::overflow;
      return outcome;
    }
    take_larger(outcome.backward_error, *worst(errors.run(op, some, x_maxima, kept, b_maxima)));
  }
  const double limit =
      std::max(given_up_from, std::sqrt(static_cast<double>(factor.layout.size())));
  if (!(*outcome.backward_error <= limit * unit_roundoff<T>)) {
    outcome.status = Status::inaccurate;
  }
  return outcome;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                 \
  template double largest_growth<T>();                                                            \
  template Outcome certified_solve(mesh::Rank&, const FactorPart<T>&, runtime::Op, MatrixView<T>, \
                                   bool, std::int64_t&);                                          \
  template Outcome sketched_solve(mesh::Rank&, const FactorPart<T>&, runtime::Op, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
