// What a problem is made of, checked when it is given.

#include "fbpinn/point_order.hpp"
#include "fbpinn/windows.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/fbpinn.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shardsolve::fbpinn {
namespace {

template <class... Arguments>
[[noreturn]] void refuse_problem(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace

namespace detail {

int place_of_derivative(const JetSet& set, std::span<const int> along, int field, JetReads* reads) {
  MultiIndex index{};
  for (const int axis : along) {
    if (axis < 0 || axis >= set.axes()) {
      refuse_problem(
          "a residual reads the derivative along axis {}; the problem has {}, counted "
          "from 0",
          axis, set.axes());
    }
    ++index[static_cast<std::size_t>(axis)];
  }
  if (along.size() > max_order) {
    refuse_problem(
        "a residual reads a derivative of order {}; up to {} is accepted: write the "
        "equation as a system of lower order",
        along.size(), max_order);
  }
  if (reads != nullptr) {
    reads->of_field[static_cast<std::size_t>(field)].push_back(index);
  }
  const int place = set.find(index);
  if (place < 0) {
    refuse_problem(
        "a residual reads a derivative of order {} that it did not read at the first "
        "point of its term: read the same ones at every point",
        along.size());
  }
  return place;
}

void throw_no_field(int field, int fields) {
  refuse_problem("a residual reads field {}; the problem has {}, counted from 0", field, fields);
}

}  // namespace detail

std::vector<double> grid(const std::vector<Interval>& domain,
                         const std::vector<std::int64_t>& counts) {
  if (domain.empty() || domain.size() > max_axes || domain.size() != counts.size() ||
      std::any_of(counts.begin(), counts.end(), [](std::int64_t n) { return n < 1; })) {
    refuse_problem(
        "a grid over {} intervals with {} counts was asked for; 1 to {} of each are "
        "accepted, as many, and counts from 1 on",
        domain.size(), counts.size(), max_axes);
  }
  const std::int64_t count =
      std::accumulate(counts.begin(), counts.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<double> points;
  points.reserve(static_cast<std::size_t>(count) * domain.size());
  for (std::int64_t p = 0; p < count; ++p) {
    std::int64_t behind = count;
    for (std::size_t axis = 0; axis < domain.size(); ++axis) {
      behind /= counts[axis];
      const auto place = static_cast<double>(p / behind % counts[axis]);
      const auto [low, high] = domain[axis];
      const auto last = static_cast<double>(counts[axis] - 1);
      points.push_back(counts[axis] > 1 ? low + (high - low) * (place / last)
                                        : low + (high - low) / 2);
    }
  }
  return points;
}

Problem::Problem(Boxes boxes, Mlp mlp, int fields)
    : boxes_(std::move(boxes)), mlp_(std::move(mlp)), fields_(fields) {
  mlp_.require_valid();
  constexpr int max_fields = 16;
  if (fields < 1 || fields > max_fields) {
    refuse_problem("{} fields given; 1 to {} are accepted", fields, max_fields);
  }
}

void Problem::add_term(Term term) {
  const auto axes = static_cast<std::size_t>(boxes_.axes());
  if (term.points.empty() || term.points.size() % axes != 0) {
    refuse_problem(
        "term '{}' has {} coordinates; {} for each point are accepted, and at least one "
        "point",
        term.name, term.points.size(), axes);
  }
  if (!(term.weight > 0.0) || !std::isfinite(term.weight)) {
    refuse_problem("term '{}' has the weight {}; positive finite ones are accepted", term.name,
                   term.weight);
  }
  const std::size_t values =
      term.points.size() / axes * static_cast<std::size_t>(term.residual.equations);
  if (!term.targets.empty() && term.targets.size() != values) {
    refuse_problem(
        "term '{}' has {} measured values for {} points with {} equations each: {} are "
        "needed",
        term.name, term.targets.size(), term.points.size() / axes, term.residual.equations, values);
  }
  for (std::size_t i = 0; i < term.targets.size(); ++i) {
    if (!std::isfinite(term.targets[i])) {
      refuse_problem("measured value {} of term '{}' is {}: leave out what was not measured", i,
                     term.name, term.targets[i]);
    }
  }
  JetReads reads{boxes_.axes(),
                 std::vector<std::vector<MultiIndex>>(static_cast<std::size_t>(fields_))};
  const std::vector<double> coefficients = coefficients_at_start();
  term.residual.record(term.points.data(), fields_, coefficients, reads);
  bool has_read = !reads.coefficients.empty();
  for (const std::vector<MultiIndex>& of_field : reads.of_field) {
    read_.insert(read_.end(), of_field.begin(), of_field.end());
    has_read = has_read || !of_field.empty();
    for (const MultiIndex& index : of_field) {
      term.order = std::max(term.order, std::accumulate(index.begin(), index.end(), 0));
    }
  }
  if (!has_read) {
    refuse_problem(
        "the residual of term '{}' reads nothing of u and no coefficient: training cannot make it "
        "smaller",
        term.name);
  }
  term.numbers = local_order(term.points.data(),
                             static_cast<std::int64_t>(term.points.size() / axes), boxes_.axes());
  if (!term.numbers.empty()) {
    reorder(term.numbers, boxes_.axes(), term.points);
    if (!term.targets.empty()) {
      reorder(term.numbers, term.residual.equations, term.targets);
    }
  }
  terms_.push_back(std::move(term));
}

std::int64_t Problem::add_numbers(std::string name, std::vector<double> start) {
  if (!terms_.empty()) {
    refuse_problem("coefficient '{}' was added after term '{}': add coefficients first", name,
                   terms_.front().name);
  }
  std::int64_t first = 0;
  for (const Coefficient& other : coefficients_) {
    if (other.name == name) {
      refuse_problem("two coefficients are called '{}': give each a name of its own", name);
    }
    first = other.first + static_cast<std::int64_t>(other.start.size());
  }
  for (std::size_t i = 0; i < start.size(); ++i) {
    if (!std::isfinite(start[i])) {
      refuse_problem("coefficient '{}' starts with {} at its place {}; finite numbers are accepted",
                     name, start[i], i);
    }
  }
  coefficients_.push_back({std::move(name), first, std::move(start)});
  return first;
}

ScalarCoefficient Problem::add_coefficient(std::string name, double start) {
  return {add_numbers(std::move(name), {start})};
}

GridCoefficient Problem::add_coefficient(std::string name, const Interval& domain,
                                         std::int64_t nodes, const std::vector<double>& start,
                                         Interpolation between) {
  constexpr std::int64_t max_nodes = 4096;
  if (!std::isfinite(domain.low) || !std::isfinite(domain.high) || domain.low >= domain.high) {
    refuse_problem(
        "coefficient '{}' is to live on [{}, {}]; finite ends are accepted, the lower first", name,
        domain.low, domain.high);
  }
  if (nodes < 1 || nodes > max_nodes) {
    refuse_problem("coefficient '{}' is to have {} nodes; 1 to {} are accepted", name, nodes,
                   max_nodes);
  }
  if (start.size() != 1 && static_cast<std::int64_t>(start.size()) != nodes) {
    refuse_problem("coefficient '{}' with {} nodes starts with {} numbers; 1 or {} are accepted",
                   name, nodes, start.size(), nodes);
  }
  std::vector<double> values = start;
  values.resize(static_cast<std::size_t>(nodes), start.front());
  return {add_numbers(std::move(name), std::move(values)), nodes, domain, between};
}

std::vector<double> Problem::coefficients_at_start() const {
  std::vector<double> all;
  for (const Coefficient& one : coefficients_) {
    all.insert(all.end(), one.start.begin(), one.start.end());
  }
  return all;
}

std::vector<double> Trained::coefficient(const std::string& name) const {
  for (const Coefficient& one : problem.coefficients()) {
    if (one.name == name) {
      const auto begin = coefficients.begin() + one.first;
      return {begin, begin + static_cast<std::ptrdiff_t>(one.start.size())};
    }
  }
  refuse_problem("the problem has no coefficient '{}'", name);
}

JetSet Problem::jet_set() const { return {boxes_.axes(), read_}; }

double relative_error(std::span<const double> u, std::span<const double> reference) {
  if (u.size() != reference.size() || u.empty()) {
    refuse_problem(
        "{} values were compared with {} of a reference; they must be as many, and at "
        "least one",
        u.size(), reference.size());
  }
  const auto n = static_cast<double>(u.size());
  const double mean = std::accumulate(reference.begin(), reference.end(), 0.0) / n;
  double error = 0.0;
  double variance = 0.0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    error += std::abs(u[i] - reference[i]);
    variance += (reference[i] - mean) * (reference[i] - mean);
  }
  return error / n / std::sqrt(variance / n);
}

}  // namespace shardsolve::fbpinn
