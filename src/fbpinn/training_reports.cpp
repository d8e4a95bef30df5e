#include "fbpinn/training_reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace shardsolve::fbpinn::training {

FactorCosts told(const sparse::FactorCost& dense, const sparse::FactorCost& band,
                 const sparse::FactorCost& nested_dissection) {
  const auto one = [](const sparse::FactorCost& cost) {
    return FactorCosts::Cost{cost.flops, cost.peak_bytes, cost.largest_front};
  };
  return {one(dense), one(band), one(nested_dissection)};
}

std::vector<std::string> warnings_of(const Trained& result, const TrainingGeometry& geometry,
                                     bool is_limited, double gain,
                                     const LeastSquaresOptions& options) {
  std::vector<std::string> warnings;
  const std::int64_t columns_of_box = result.problem.fields() * result.problem.mlp().features();
  const double per_column = static_cast<double>(result.rows) / static_cast<double>(result.columns);
  if (per_column < 3.0) {
    warnings.push_back(fmt::format(
        "{} rows for {} columns, {:.1f} each: with fewer than 3 the error between the points is "
        "often far larger than the loss says. Give more points or smaller networks",
        result.rows, result.columns, per_column));
  }
  const std::int64_t short_boxes =
      std::count_if(geometry.lists.begin.begin() + 1, geometry.lists.begin.end(),
                    [before = std::int64_t{0}, columns_of_box](std::int64_t end) mutable {
                      const std::int64_t rows = end - before;
                      before = end;
                      return rows < columns_of_box;
                    });
  if (short_boxes > 0) {
    warnings.push_back(
        fmt::format("{} of {} boxes have fewer rows than their {} columns: give more points "
                    "there",
                    short_boxes, result.problem.boxes().count(), columns_of_box));
  }
  if (is_limited && !result.is_by_cg) {
    warnings.push_back(fmt::format(
        "the loss is not the least one: after {} steps of conjugate gradients one more would still "
        "take away {:.1g} of it. Give terms weights that differ less, keep fewer columns by a "
        "larger rank_tolerance, or let boxes overlap less",
        result.cg_steps, gain));
  } else if (is_limited) {
    const bool is_at_limit = result.cg_steps >= options.max_cg_steps;
    warnings.push_back(
        fmt::format("conjugate gradients came to {} after {} steps with a certificate of {:.1e}, "
                    "wanted is {:.1e}: {}keep fewer columns by a larger rank_tolerance, or use "
                    "a machine with room for the factor",
                    is_at_limit ? "their limit" : "rounding", result.cg_steps, result.certificate,
                    options.cg_tolerance, is_at_limit ? "allow more steps, " : ""));
  }
  if (result.shift > 0.0) {
    warnings.push_back(
        fmt::format("the Gram matrix is not positive definite to working precision; {:.1e} was "
                    "added to its diagonal. Boxes that overlap less or a larger rank_tolerance "
                    "make it better",
                    result.shift));
  }
  return warnings;
}

}  // namespace shardsolve::fbpinn::training
