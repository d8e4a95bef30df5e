#include "fbpinn/held_out.hpp"

#include "fbpinn/networks.hpp"
#include "fbpinn/numbers.hpp"
#include "fbpinn/points_between.hpp"
#include "fbpinn/pointwise_rows.hpp"
#include "fbpinn/timer.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

namespace shardsolve::fbpinn::training {
namespace held_out {

/// The sum of the squares of a segment's rows, those that are not finite taken as the mean of the
/// others; and how many of these there are.
std::pair<double, std::int64_t> finite_sum(const Segment& segment,
                                           const std::vector<double>& residual) {
  const std::int64_t rows = segment.points * segment.equations;
  double sum = 0.0;
  std::int64_t nonfinite = 0;
  for (std::int64_t i = segment.first_row; i < segment.first_row + rows; ++i) {
    const double r = residual[static_cast<std::size_t>(i)];
    if (std::isfinite(r)) {
      sum += r * r;
    } else {
      ++nonfinite;
    }
  }
  const auto finite = static_cast<double>(rows - nonfinite);
  return {finite > 0.0 ? sum * (static_cast<double>(rows) / finite) : 0.0, nonfinite};
}

void warn_of_term(const TermLoss& term, Trained& result) {
  constexpr double far_above = 5.0;
  constexpr double rounding = 1e-12;  // of the loss of networks that are 0
  if (term.held_out > far_above * term.loss && term.held_out > rounding * result.zero_loss) {
    result.warnings.push_back(fmt::format(
        "term '{}' has a loss of {:.1e} at its points and of {:.1e} at {} points between: u does "
        "not fulfil it there, and its error is larger than the loss says. Give more points, where "
        "the equation or the windows change fast above all, or use smaller networks",
        term.name, term.loss, term.held_out, term.held_out_points));
  }
}

}  // namespace held_out

std::vector<TermLoss> losses_of_terms(const Problem& problem, const TrainingGeometry& geometry,
                                      const std::vector<double>& residual) {
  std::vector<TermLoss> losses;
  for (std::size_t number = 0; number < geometry.segments.size(); ++number) {
    const double loss = held_out::finite_sum(geometry.segments[number], residual).first;
    losses.push_back({problem.terms()[number].name, loss, loss, 0});
  }
  return losses;
}

HeldOutPoints held_out_points(const Problem& problem, const TrainingGeometry& geometry,
                              const sparse::Workers& workers) {
  constexpr std::int64_t fewest = 2000;
  constexpr std::int64_t share = 16;
  const int axes = geometry.set.axes();
  HeldOutPoints result;
  std::vector<TermShape> shapes;
  std::vector<double> points;
  for (std::size_t number = 0; number < geometry.segments.size(); ++number) {
    const Term& term = problem.terms()[number];
    const Segment& segment = geometry.segments[number];
    if (!term.targets.empty()) {
      continue;  // what would have been measured between is not known
    }
    PointsBetween found =
        points_between(geometry.boxes, geometry.at.pairs,
                       {geometry.points.data(), segment.first_point, segment.points},
                       std::max(fewest, segment.points / share), workers.each);
    if (found.points.empty()) {
      continue;
    }
    result.in_strips += found.in_strips;
    result.numbers.push_back(number);
    shapes.push_back({static_cast<std::int64_t>(found.points.size()) / axes, segment.equations});
    points.insert(points.end(), found.points.begin(), found.points.end());
    result.terms.push_back({.name = term.name,
                            .points = std::move(found.points),
                            .residual = term.residual,
                            .weight = term.weight});
  }
  if (!points.empty()) {
    result.geometry = std::make_unique<const PointGeometry>(
        geometry.boxes, geometry.set, geometry.fields, std::move(points), shapes, workers);
  }
  return result;
}

void hold_out(const HeldOutPoints& between, std::int64_t chunk, const sparse::Workers& workers,
              Trained& result) {
  using namespace held_out;
  const Timer timer(result.times.held_out);
  const Problem& problem = result.problem;
  if (between.geometry != nullptr) {
    const PointGeometry& there = *between.geometry;
    const Numbers<double> v =
        jets_of_networks(there.boxes, problem.mlp(), there.set, there.fields, there.at,
                         result.hidden_weights, result.last_layer, workers);
    if (std::any_of(v.begin(), v.end(), [](double jet) { return !std::isfinite(jet); })) {
      result.outcome.status = Status::overflow;
      result.warnings.emplace_back(
          "the networks are not finite at points between those of the training: their units are "
          "not, or hidden weights are too large");
    }
    const PointwiseRows rows = pointwise_rows(problem, between.terms, there, v, result.coefficients,
                                              false, true, chunk, workers);
    for (std::size_t i = 0; i < between.numbers.size(); ++i) {
      TermLoss& term = result.terms[between.numbers[i]];
      std::int64_t nonfinite = 0;
      std::tie(term.held_out, nonfinite) = finite_sum(there.segments[i], rows.residual);
      term.held_out_points = there.segments[i].points;
      if (nonfinite > 0) {
        result.warnings.push_back(
            fmt::format("the residual of term '{}' is not finite at {} of {} places between its "
                        "points: these are left out of the loss there",
                        term.name, nonfinite, term.held_out_points * there.segments[i].equations));
      }
      warn_of_term(term, result);
    }
  }
  if (between.in_strips > 0) {
    result.warnings.push_back(
        fmt::format("no point lies in strips in which boxes take over from their neighbours (seen "
                    "at {} places): networks need not fit each other there. Let boxes overlap "
                    "more, or give points in each strip",
                    between.in_strips));
  }
  result.held_out_loss = 0.0;
  for (const TermLoss& term : result.terms) {
    result.held_out_loss += term.held_out;
  }
}

}  // namespace shardsolve::fbpinn::training
