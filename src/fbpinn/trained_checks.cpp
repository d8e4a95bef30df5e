#include "fbpinn/trained_checks.hpp"

#include "fbpinn/box_rows.hpp"
#include "fbpinn/pointwise_rows.hpp"
#include "fbpinn/timer.hpp"
#include "fbpinn/training_vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn::training {
namespace checks {

bool is_determined(double deviation, double scale) {
  constexpr double most = 0.5;
  return deviation <= most * scale;
}

/// What the deviations of a coefficient's numbers are compared with: the largest of them, now or at
/// the start. So a coefficient that is 0 can be determined, too.
struct Scale {
  double now = 0.0;
  double start = 0.0;

  double both() const { return std::max(now, start); }
};
std::vector<Scale> scales_of(const Trained& result) {
  std::vector<Scale> scales;
  for (const Coefficient& one : result.problem.coefficients()) {
    Scale scale;
    for (std::size_t k = 0; k < one.start.size(); ++k) {
      const double now = result.coefficients[static_cast<std::size_t>(one.first) + k];
      scale.now = std::max(scale.now, std::abs(now));
      scale.start = std::max(scale.start, std::abs(one.start[k]));
    }
    scales.push_back(scale);
  }
  return scales;
}

/// Whether a number of the coefficient is more than its deviation could make of 0.
bool differs_from_zero(const Coefficient& one, const Trained& result) {
  for (std::size_t k = 0; k < one.start.size(); ++k) {
    const std::size_t number = static_cast<std::size_t>(one.first) + k;
    if (is_determined(result.coefficient_deviations[number],
                      std::abs(result.coefficients[number]))) {
      return true;
    }
  }
  return false;
}

/// Which coefficients a term reads, and whether it holds whatever u is when coefficients are 0.
struct Reading {
  std::vector<char> reads;  // by coefficient
  bool holds_with_zeros = false;
};
std::vector<Reading> readings(const HeldOutPoints& between, std::int64_t chunk,
                              const sparse::Workers& workers, const Trained& result) {
  const PointGeometry& there = *between.geometry;
  const std::vector<double> zero(result.coefficients.size(), 0.0);
  const PointwiseRows rows =
      pointwise_rows(result.problem, between.terms, there,
                     other_jets(there.points_count() * there.jet_numbers(), workers.each), zero,
                     true, true, chunk, workers);
  std::vector<Reading> all;
  for (const Segment& segment : there.segments) {
    const auto is_zero = [&](const std::vector<double>& values, std::int64_t column) {
      const auto first = values.begin() + column * there.rows + segment.first_row;
      return std::all_of(first, first + segment.points * segment.equations,
                         [](double value) { return value == 0.0; });
    };
    Reading reading{.holds_with_zeros = is_zero(rows.residual, 0)};
    for (const Coefficient& one : result.problem.coefficients()) {
      bool reads = false;
      for (std::size_t k = 0; k < one.start.size(); ++k) {
        reads = reads || !is_zero(rows.by_coefficients, one.first + static_cast<std::int64_t>(k));
      }
      reading.reads.push_back(reads ? 1 : 0);
    }
    all.push_back(std::move(reading));
  }
  return all;
}

/// Equations that hold whatever u is when their coefficients are 0, and whose coefficients all are,
/// as far as their deviations say: a u'' + b u = 0 says nothing of a and b, and 0 fits best. The
/// scales of coefficients that nothing else reads become what they are now. `between`: has points.
void forget_starts_of_empty_equations(const HeldOutPoints& between, std::int64_t chunk,
                                      const sparse::Workers& workers, std::vector<Scale>& scales,
                                      Trained& result) {
  const Timer timer(result.times.held_out);
  const std::vector<Coefficient>& coefficients = result.problem.coefficients();
  const std::vector<Reading> all = readings(between, chunk, workers, result);
  const auto is_empty = [&](const Reading& reading) {
    bool reads_none_that_differs = true;
    for (std::size_t k = 0; k < coefficients.size(); ++k) {
      reads_none_that_differs =
          reads_none_that_differs &&
          !(reading.reads[k] != 0 && differs_from_zero(coefficients[k], result));
    }
    return reading.holds_with_zeros && reads_none_that_differs;
  };
  for (std::size_t number = 0; number < all.size(); ++number) {
    bool is_said = false;
    for (std::size_t k = 0; k < coefficients.size() && is_empty(all[number]); ++k) {
      const bool is_read_elsewhere = std::any_of(all.begin(), all.end(), [&](const Reading& one) {
        return one.reads[k] != 0 && !is_empty(one);
      });
      if (all[number].reads[k] != 0 && !is_read_elsewhere) {
        scales[k].start = 0.0;
        is_said = true;
      }
    }
    if (is_said) {
      result.warnings.push_back(fmt::format(
          "term '{}' holds for every u where its coefficients are 0, and as far as their standard "
          "deviations say they are: fix one of them, or add a term that says how large they are",
          between.terms[number].name));
    }
  }
}

void warn_of_coefficients(const std::vector<Scale>& scales, Trained& result) {
  const auto numbers = static_cast<std::int64_t>(result.coefficients.size());
  if (result.coefficients_determined == numbers) {
    return;
  }
  std::string which;
  for (std::size_t at = 0; at < scales.size(); ++at) {
    const Coefficient& one = result.problem.coefficients()[at];
    for (std::size_t k = 0; k < one.start.size() && which.empty(); ++k) {
      const std::size_t number = static_cast<std::size_t>(one.first) + k;
      if (number < result.coefficient_deviations.size() &&
          !is_determined(result.coefficient_deviations[number], scales[at].both())) {
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

/// By their deviations; without a factor these are not known.
void count_determined(const std::vector<Scale>& scales, Trained& result) {
  result.coefficients_determined = 0;
  for (std::size_t at = 0; at < scales.size(); ++at) {
    const Coefficient& one = result.problem.coefficients()[at];
    for (std::size_t k = 0; k < one.start.size(); ++k) {
      const std::size_t number = static_cast<std::size_t>(one.first) + k;
      if (is_determined(result.coefficient_deviations[number], scales[at].both())) {
        ++result.coefficients_determined;
      }
    }
  }
}

void check_coefficients(const HeldOutPoints& between, std::int64_t chunk,
                        const sparse::Workers& workers, Trained& result) {
  std::vector<Scale> scales = scales_of(result);
  if (!result.coefficient_deviations.empty()) {
    const std::vector<Coefficient>& coefficients = result.problem.coefficients();
    const std::vector<Term>& terms = result.problem.terms();
    bool is_by_start = false;
    for (std::size_t k = 0; k < scales.size(); ++k) {
      is_by_start = is_by_start || (scales[k].now < scales[k].start &&
                                    !differs_from_zero(coefficients[k], result));
    }
    // What is known of coefficients alone may be that they are 0.
    const bool has_knowledge =
        std::any_of(terms.begin(), terms.end(), [](const Term& term) { return term.order < 0; });
    if (is_by_start && !has_knowledge && between.geometry != nullptr) {
      forget_starts_of_empty_equations(between, chunk, workers, scales, result);
    }
    count_determined(scales, result);
  }
  warn_of_coefficients(scales, result);
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
  checks::check_coefficients(between, chunk, workers, result);
}

}  // namespace shardsolve::fbpinn::training
