#include "fbpinn/trained_checks.hpp"

#include "fbpinn/box_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

namespace shardsolve::fbpinn::training {
namespace checks {

/// The largest number of a coefficient, now or at the start.
double scale_of(const Coefficient& one, const Trained& result) {
  double scale = 0.0;
  for (std::size_t k = 0; k < one.start.size(); ++k) {
    const double now = result.coefficients[static_cast<std::size_t>(one.first) + k];
    scale = std::max({scale, std::abs(now), std::abs(one.start[k])});
  }
  return scale;
}

bool is_determined(double deviation, double scale) {
  constexpr double most = 0.5;
  return deviation <= most * scale;
}

void warn_of_coefficients(Trained& result) {
  const auto numbers = static_cast<std::int64_t>(result.coefficients.size());
  if (result.coefficients_determined == numbers) {
    return;
  }
  std::string which;
  for (const Coefficient& one : result.problem.coefficients()) {
    const double scale = scale_of(one, result);
    for (std::size_t k = 0; k < one.start.size() && which.empty(); ++k) {
      const std::size_t number = static_cast<std::size_t>(one.first) + k;
      if (number < result.coefficient_deviations.size() &&
          !is_determined(result.coefficient_deviations[number], scale)) {
        which = fmt::format(
            ", such as number {} of '{}': {:.3g} with a standard deviation of {:.1e}", k, one.name,
            result.coefficients[number], result.coefficient_deviations[number]);
      }
    }
  }
  result.warnings.push_back(fmt::format(
      "{} of {} numbers of the coefficients are not determined by the equations and the "
      "data{}: do not use them. Give data that tell them apart, a term that says what is "
      "known of them, or fewer nodes",
      numbers - result.coefficients_determined, numbers, which));
}

void warn_of_what_is_left(Trained& result) {
  constexpr double much = 1e-2;
  if (!(result.loss_left() > much)) {
    return;
  }
  const std::string of_kept =
      result.kept() < result.columns
          ? fmt::format(
                " with the {} of {} columns that are kept (a smaller rank_tolerance keeps "
                "more, as do fields and boxes of like size)",
                result.kept(), result.columns)
          : "";
  result.warnings.push_back(
      result.is_linear
          ? fmt::format("{:.2g} of the first loss is left, the least there is{}: the equations, "
                        "conditions and data contradict each other, or need more boxes or units",
                        result.loss_left(), of_kept)
          : fmt::format(
                "{:.2g} of the first loss is left: this may be a local minimum. Begin "
                "elsewhere (with what was found for an easier problem, or another seed), or "
                "use more boxes or units",
                result.loss_left()));
}

}  // namespace checks

void count_determined(Trained& result) {
  if (result.coefficient_deviations.empty()) {
    return;  // without a factor they are not known
  }
  result.coefficients_determined = 0;
  for (const Coefficient& one : result.problem.coefficients()) {
    const double scale = checks::scale_of(one, result);
    for (std::size_t k = 0; k < one.start.size(); ++k) {
      const std::size_t number = static_cast<std::size_t>(one.first) + k;
      if (checks::is_determined(result.coefficient_deviations[number], scale)) {
        ++result.coefficients_determined;
      }
    }
  }
}

void check_trained(const HeldOutPoints& between, std::int64_t chunk, const sparse::Workers& workers,
                   Trained& result) {
  hold_out(between, chunk, workers, result);
  if (!std::isfinite(result.loss) || !are_finite(result.last_layer) ||
      !are_finite(result.hidden_weights) || !are_finite(result.coefficients)) {
    result.outcome.status = Status::overflow;
  } else if (result.outcome.status == Status::overflow && result.zero_loss < 1e-200) {
    result.warnings.push_back(fmt::format(
        "the loss of networks that are 0 is {:.2g}, though their residual is not 0: its squares "
        "are below the range of float64, and u has few digits or none. Multiply the equations by "
        "a number that makes them of size 1",
        result.zero_loss));
  }
  checks::warn_of_what_is_left(result);
  count_determined(result);
  checks::warn_of_coefficients(result);
}

}  // namespace shardsolve::fbpinn::training
