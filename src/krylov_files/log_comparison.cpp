#include "krylov_files/log_comparison.hpp"

#include "krylov/statuses.hpp"
#include "krylov_files/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <map>
#include <span>

namespace shardsolve::krylov::files {
namespace {

using Records = std::span<const LogRecord>;
/// The records of each iteration.
using Iterations = std::map<std::int64_t, Records>;

Iterations iterations_of(const std::vector<LogRecord>& log) {
  Iterations all;
  for (std::size_t begin = 0; begin < log.size();) {
    std::size_t end = begin;
    while (end < log.size() && log[end].iteration == log[begin].iteration) {
      ++end;
    }
    all[log[begin].iteration] = Records(log).subspan(begin, end - begin);
    begin = end;
  }
  // A log that begins late has lost older records, perhaps some of its first iteration.
  if (all.size() > 1 && all.begin()->first > 1) {
    all.erase(all.begin());
  }
  return all;
}

/// All that is not finite was written as one word.
bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (!std::isfinite(a) && !std::isfinite(b));
}
bool same_bits(std::complex<double> a, std::complex<double> b) {
  return same_bits(a.real(), b.real()) && same_bits(a.imag(), b.imag());
}

std::string text_of(double x) { return std::isfinite(x) ? fmt::format("{:a}", x) : "not finite"; }
std::string text_of(std::complex<double> x) {
  return x.imag() == 0.0 ? text_of(x.real())
                         : fmt::format("({}, {})", text_of(x.real()), text_of(x.imag()));
}

template <class Number>
void find_difference(const LogRecord& a, const LogRecord& b, Number LogRecord::* member,
                     const char* scalar, std::optional<LogComparison::Difference>& found) {
  if (found || same_bits(a.*member, b.*member)) {
    return;
  }
  found = {a.iteration, scalar, text_of(a.*member), text_of(b.*member), std::nullopt};
  const double relative =
      std::abs(a.*member - b.*member) / std::max(std::abs(a.*member), std::abs(b.*member));
  if (std::isfinite(relative)) {
    found->relative = relative;
  }
}

void find_difference(Records a, Records b, std::int64_t iteration,
                     std::optional<LogComparison::Difference>& found) {
  for (std::size_t i = 0; !found && i < std::max(a.size(), b.size()); ++i) {
    const auto event = [&](Records records) {
      return std::string(i < records.size() ? name(records[i].event) : "nothing");
    };
    if (event(a) != event(b)) {
      found = {iteration, "event", event(a), event(b), std::nullopt};
      return;
    }
    // In the order in which a method computes them.
    find_difference(a[i], b[i], &LogRecord::rho, "rho", found);
    find_difference(a[i], b[i], &LogRecord::alpha, "alpha", found);
    find_difference(a[i], b[i], &LogRecord::omega, "omega", found);
    find_difference(a[i], b[i], &LogRecord::residual, "residual", found);
    if (!found && a[i].status != b[i].status) {
      found = {iteration, "status", std::string(name(a[i].status)), std::string(name(b[i].status)),
               std::nullopt};
    }
  }
}

bool parts(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) {
    return std::isfinite(a) != std::isfinite(b);
  }
  constexpr double tenth = 0.1;
  return std::abs(a - b) > tenth * std::max(a, b);
}

void find_divergence(Records a, Records b, std::optional<LogComparison::Divergence>& found) {
  for (std::size_t i = 0; !found && i < std::min(a.size(), b.size()); ++i) {
    if (a[i].event == b[i].event && parts(a[i].residual, b[i].residual)) {
      found = {a[i].iteration, a[i].residual, b[i].residual};
    }
  }
}

template <class Value>
void list_difference(std::vector<std::string>& list, const char* what, const Value& a,
                     const Value& b) {
  if (a != b) {
    list.push_back(fmt::format("{}: {} and {}", what, a, b));
  }
}

std::vector<std::string> differences(const Request& a, const Request& b) {
  std::vector<std::string> list;
  list_difference(list, "n", a.n, b.n);
  list_difference(list, "entries of A", a.entries, b.entries);
  list_difference(list, "dtype", name(a.dtype), name(b.dtype));
  list_difference(list, "method", method_text(a), method_text(b));
  list_difference(list, "preconditioner", recipe_text(a.preconditioner),
                  recipe_text(b.preconditioner));
  if (a.preconditioner != b.preconditioner && list.empty()) {
    list.emplace_back("blocks of the preconditioner");
  }
  list_difference(list, "rtol", a.options.rtol, b.options.rtol);
  list_difference(list, "atol", a.options.atol, b.options.atol);
  list_difference(list, "max_iterations", a.options.max_iterations, b.options.max_iterations);
  list_difference(list, "restart", a.options.restart, b.options.restart);
  list_difference(list, "x0", a.options.use_guess ? "given" : "0",
                  b.options.use_guess ? "given" : "0");
  return list;
}

std::string verdict_sentence(const Log& log) {
  const Result& result = log.result;
  const std::string margin =
      std::isfinite(result.margin)
          ? fmt::format(", margin {:.2g}{}", result.margin, result.is_marginal ? " (marginal)" : "")
          : "";
  return fmt::format(
      "'{}' ({} on {} {}{}): {} after {} iterations, ||b - A x|| / ||b|| = {:.2e}{}.", log.path,
      method_text(log.request), log.request.ranks, log.request.backend,
      log.request.ranks == 1 ? " device" : " devices", name(result.status), result.iterations,
      result.residual, margin);
}

std::string conclusion(const Log& a, const Log& b, const LogComparison& comparison) {
  const bool same_request = comparison.requests_differ_in.empty();
  if (comparison.same_verdict) {
    return comparison.same_bits
               ? "The verdicts are the same, to the bit."
               : "The verdicts are the same: the difference is one of rounding and does not "
                 "matter.";
  }
  if (!same_request) {
    return "The verdicts differ, and so do the solves: see above in what.";
  }
  if (a.result.is_marginal || b.result.is_marginal) {
    const Log& marginal = a.result.is_marginal ? a : b;
    return fmt::format(
        "The verdicts differ, and that of '{}' is marginal: rounding alone may have decided. Allow "
        "more iterations, ask for less, or take a better preconditioner.",
        marginal.path);
  }
  return "The verdicts differ, and neither is marginal: that is more than rounding. See whether "
         "both solves had the same A, b and x0.";
}

}  // namespace

LogComparison compare(const Log& a, const Log& b) {
  LogComparison comparison;
  comparison.requests_differ_in = differences(a.request, b.request);
  const Iterations of_a = iterations_of(a.result.log);
  const Iterations of_b = iterations_of(b.result.log);
  if (!of_a.empty() && !of_b.empty()) {
    comparison.first = std::max(of_a.begin()->first, of_b.begin()->first);
    comparison.last = std::min(of_a.rbegin()->first, of_b.rbegin()->first);
  }
  for (const auto& [iteration, records] : of_a) {
    const auto other = of_b.find(iteration);
    if (iteration < comparison.first || iteration > comparison.last || other == of_b.end()) {
      continue;
    }
    comparison.records += std::ssize(records);
    find_difference(records, other->second, iteration, comparison.difference);
    find_divergence(records, other->second, comparison.divergence);
  }
  comparison.same_verdict = a.result.status == b.result.status;
  comparison.same_bits =
      !comparison.difference && comparison.same_verdict &&
      a.result.iterations == b.result.iterations && a.result.matvecs == b.result.matvecs &&
      a.result.restarts == b.result.restarts && a.result.log.size() == b.result.log.size() &&
      same_bits(a.result.residual, b.result.residual) &&
      same_bits(a.result.margin, b.result.margin);
  return comparison;
}

std::vector<std::string> sentences(const Log& a, const Log& b, const LogComparison& comparison) {
  std::vector<std::string> all;
  if (!comparison.requests_differ_in.empty()) {
    std::string list;
    for (const std::string& one : comparison.requests_differ_in) {
      list += (list.empty() ? "" : "; ") + one;
    }
    all.push_back(fmt::format("The solves were not asked for the same: {}.", list));
  }
  if (comparison.records == 0) {
    all.emplace_back("The logs have no iteration in common.");
  } else if (comparison.difference) {
    const LogComparison::Difference& first = *comparison.difference;
    all.push_back(
        fmt::format("The first difference: {} at iteration {}, {} and {}{}.", first.scalar,
                    first.iteration, first.a, first.b,
                    first.relative ? fmt::format(" ({:.1e}, relative)", *first.relative) : ""));
  } else {
    all.push_back(fmt::format("All bits of iterations {} to {} are the same, in {} records.",
                              comparison.first, comparison.last, comparison.records));
  }
  if (comparison.divergence) {
    all.push_back(fmt::format(
        "The residuals part, by more than 10 %, at iteration {}: {:.2e} and "
        "{:.2e}.",
        comparison.divergence->iteration, comparison.divergence->a, comparison.divergence->b));
  } else if (comparison.difference) {
    all.push_back(
        fmt::format("Up to iteration {} no residuals differ by more than 10 %.", comparison.last));
  }
  all.push_back(verdict_sentence(a));
  all.push_back(verdict_sentence(b));
  all.push_back(conclusion(a, b, comparison));
  return all;
}

}  // namespace shardsolve::krylov::files
