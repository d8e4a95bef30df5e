#include "fbpinn/training_inputs.hpp"

#include "fbpinn/pairs.hpp"
#include "fbpinn/points_between.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

namespace shardsolve::fbpinn::training {
namespace {

std::vector<double> as_given(const Term& term, int axes) {
  std::vector<double> points = term.points;
  for (std::size_t i = 0; i < term.numbers.size(); ++i) {
    std::copy_n(term.points.data() + static_cast<std::int64_t>(i) * axes, axes,
                points.data() + std::int64_t{term.numbers[i]} * axes);
  }
  return points;
}

}  // namespace

std::vector<TermShape> shapes_of(const Problem& problem) {
  std::vector<TermShape> shapes;
  for (const Term& term : problem.terms()) {
    shapes.push_back({static_cast<std::int64_t>(term.points.size()) / problem.boxes().axes(),
                      term.residual.equations});
  }
  return shapes;
}

std::vector<double> all_points(const Problem& problem) {
  std::vector<double> points;
  for (const Term& term : problem.terms()) {
    points.insert(points.end(), term.points.begin(), term.points.end());
  }
  return points;
}

std::vector<double> points_as_given(const Problem& problem) {
  std::vector<double> points;
  for (const Term& term : problem.terms()) {
    const std::vector<double> given = as_given(term, problem.boxes().axes());
    points.insert(points.end(), given.begin(), given.end());
  }
  return points;
}

void refuse_uncovered_terms(const Problem& problem) {
  for (const Term& term : problem.terms()) {
    try {
      find_pairs(problem.boxes(), as_given(term, problem.boxes().axes()).data(),
                 static_cast<std::int64_t>(term.points.size()) / problem.boxes().axes(), 0);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("term '{}': {}", term.name, error.what()));
    }
  }
}

void require_conditions(const Problem& problem, const TrainingGeometry& geometry,
                        const sparse::ForEach& each) {
  const std::vector<Term>& terms = problem.terms();
  int highest = 0;
  for (const Term& term : terms) {
    highest = std::max(highest, term.order);
  }
  if (problem.is_constrained() || highest == 0) {
    return;
  }
  const auto says_something_of_u = [](const Term& term) { return term.order >= 0; };
  int equations = 0;
  for (const Term& term : terms) {
    if (says_something_of_u(term) && (!term.targets.empty() || term.order < highest)) {
      return;
    }
    equations += says_something_of_u(term) ? term.residual.equations : 0;
  }
  for (std::size_t number = 0; number < terms.size(); ++number) {
    const Segment& segment = geometry.segments[number];
    if (says_something_of_u(terms[number]) &&
        !fill_space({geometry.points.data(), segment.first_point, segment.points},
                    problem.boxes().axes(), each)) {
      return;
    }
  }
  if (equations > problem.fields()) {
    return;  // one of them says more than the others, such as u = 3 beside u_x = 0
  }
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("{} terms given, all of them differential equations of order {} inside of "
                  "the domain, and no constraint: such equations have many solutions, and "
                  "nothing says which. Add a boundary or initial condition or data as a "
                  "term, or a constraint. If the equation has a single smooth solution, "
                  "add a value that it implies",
                  terms.size(), highest));
}

void require_valid(const Problem& problem, const LeastSquaresOptions& options) {
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorKind::invalid_argument, message);
  };
  const auto require_start = [&](const std::vector<double>& given, std::size_t count,
                                 const char* what) {
    if (!given.empty() && given.size() != count) {
      refuse(fmt::format("{} {} to begin with given; {} are needed, or none", given.size(), what,
                         count));
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!std::isfinite(given[i])) {
        refuse(fmt::format("number {} of the {} to begin with is {}; finite ones are accepted", i,
                           what, given[i]));
      }
    }
  };
  require_start(options.last_layer,
                static_cast<std::size_t>(problem.boxes().count() * problem.fields() *
                                         problem.mlp().features()),
                "weights of last layers");
  require_start(options.coefficients, problem.coefficients_at_start().size(), "coefficients");
  const auto weights = static_cast<std::size_t>(problem.mlp().weights(problem.boxes().axes()) *
                                                problem.boxes().count());
  if (!options.hidden_weights.empty() && options.hidden_weights.size() != weights) {
    refuse(
        fmt::format("{} hidden weights given for {} boxes; {} are needed, or none for random "
                    "ones",
                    options.hidden_weights.size(), problem.boxes().count(), weights));
  }
  for (std::size_t i = 0; i < options.hidden_weights.size(); ++i) {
    if (!std::isfinite(options.hidden_weights[i])) {
      refuse(fmt::format("hidden weight {} is {}; finite ones are accepted", i,
                         options.hidden_weights[i]));
    }
  }
  if (!(options.rank_tolerance >= 0.0) || options.rank_tolerance >= 1.0) {
    refuse(fmt::format("rank_tolerance = {} given; 0 to less than 1 is accepted",
                       options.rank_tolerance));
  }
  if (options.max_cg_steps < 1) {
    refuse(fmt::format("max_cg_steps = {} given; at least 1 is accepted", options.max_cg_steps));
  }
  if (!(options.cg_tolerance > 0.0) || options.cg_tolerance >= 1.0) {
    refuse(fmt::format("cg_tolerance = {} given; numbers between 0 and 1 are accepted",
                       options.cg_tolerance));
  }
  if (options.chunk < 0) {
    refuse(
        fmt::format("chunk = {} given; a number of points is accepted, or 0 for what a table "
                    "says",
                    options.chunk));
  }
  if (options.max_iterations < 1) {
    refuse(
        fmt::format("max_iterations = {} given; at least 1 is accepted", options.max_iterations));
  }
  if (!(options.tolerance > 0.0) || options.tolerance >= 1.0) {
    refuse(fmt::format("tolerance = {} given; numbers between 0 and 1 are accepted",
                       options.tolerance));
  }
}

}  // namespace shardsolve::fbpinn::training
