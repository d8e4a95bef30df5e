#include "krylov_files/log_comparison.hpp"

#include "krylov/spelling.hpp"
#include "krylov/statuses.hpp"
#include "krylov_files/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <limits>
#include <map>
#include <optional>
#include <span>

namespace shardsolve::krylov::files {
namespace {

using Records = std::span<const LogRecord>;
/// The records of each iteration.
using Iterations = std::map<std::int64_t, Records>;

/// The records of each attempt; those of one method count as attempt 1.
using Attempts = std::map<std::int64_t, Iterations>;

Attempts attempts_of(const std::vector<LogRecord>& log) {
  const auto number = [](const LogRecord& record) {
    return std::max<std::int64_t>(1, record.attempt);
  };
  Attempts all;
  for (std::size_t begin = 0; begin < log.size();) {
    std::size_t end = begin;
    while (end < log.size() && number(log[end]) == number(log[begin]) &&
           log[end].iteration == log[begin].iteration) {
      ++end;
    }
    all[number(log[begin])][log[begin].iteration] = Records(log).subspan(begin, end - begin);
    begin = end;
  }
  // One that begins late has lost older records, perhaps some of its first iteration.
  for (auto& [attempt, iterations] : all) {
    if (iterations.size() > 1 && iterations.begin()->first > 1) {
      iterations.erase(iterations.begin());
    }
  }
  return all;
}

std::int64_t size_of(const Iterations& iterations) {
  std::int64_t records = 0;
  for (const auto& [iteration, of_it] : iterations) {
    records += std::ssize(of_it);
  }
  return records;
}

/// The method of an attempt; nothing if the solve did not make it.
std::optional<Method> method_at(const Log& log, std::int64_t attempt) {
  const std::vector<Attempt>& attempts = log.result.attempts;
  if (attempts.empty()) {
    return attempt == 1 ? std::optional(log.request.options.method) : std::nullopt;
  }
  return attempt <= std::ssize(attempts)
             ? std::optional(attempts[static_cast<std::size_t>(attempt - 1)].method)
             : std::nullopt;
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
  found = {std::max<std::int64_t>(1, a.attempt),
           a.iteration,
           scalar,
           text_of(a.*member),
           text_of(b.*member),
           std::nullopt};
  const double relative =
      std::abs(a.*member - b.*member) / std::max(std::abs(a.*member), std::abs(b.*member));
  if (std::isfinite(relative)) {
    found->relative = relative;
  }
}

void find_difference(Records a, Records b, std::int64_t attempt, std::int64_t iteration,
                     std::optional<LogComparison::Difference>& found) {
  for (std::size_t i = 0; !found && i < std::max(a.size(), b.size()); ++i) {
    const auto event = [&](Records records) {
      return std::string(i < records.size() ? name(records[i].event) : "nothing");
    };
    if (event(a) != event(b)) {
      found = {attempt, iteration, "event", event(a), event(b), std::nullopt};
      return;
    }
    // In the order in which a method computes them.
    find_difference(a[i], b[i], &LogRecord::rho, "rho", found);
    find_difference(a[i], b[i], &LogRecord::alpha, "alpha", found);
    find_difference(a[i], b[i], &LogRecord::omega, "omega", found);
    find_difference(a[i], b[i], &LogRecord::residual, "residual", found);
    if (!found && a[i].status != b[i].status) {
      found = {attempt,
               iteration,
               "status",
               std::string(name(a[i].status)),
               std::string(name(b[i].status)),
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

void find_divergence(Records a, Records b, std::int64_t attempt,
                     std::optional<LogComparison::Divergence>& found) {
  for (std::size_t i = 0; !found && i < std::min(a.size(), b.size()); ++i) {
    if (a[i].event == b[i].event && parts(a[i].residual, b[i].residual)) {
      found = {attempt, a[i].iteration, a[i].residual, b[i].residual};
    }
  }
}

template <class Value>
void list_difference(std::vector<std::string>& list, const std::string& what, const Value& a,
                     const Value& b) {
  if (a != b) {
    list.push_back(fmt::format("{}: {} and {}", what, a, b));
  }
}

/// The numbers of a part of the system, where both logs know their checksum.
void list_other_numbers(std::vector<std::string>& list, const char* what,
                        const std::optional<std::uint32_t>& a,
                        const std::optional<std::uint32_t>& b) {
  if (a && b && *a != *b) {
    list.push_back(fmt::format("the numbers of {} (checksums {:08x} and {:08x})", what, *a, *b));
  }
}

double rtol_of(const Request& request) {
  return request.options.rtol.value_or(default_rtol(request.dtype));
}

std::vector<std::string> differences(const Request& a, const Request& b) {
  std::vector<std::string> list;
  list_difference(list, "n", a.n, b.n);
  list_difference(list, "entries of A", a.entries, b.entries);
  list_difference(list, "dtype", name(a.dtype), name(b.dtype));
  list_difference(list, option("method"), method_text(a), method_text(b));
  const std::string of_a = recipe_text(a.preconditioner);
  const std::string of_b = recipe_text(b.preconditioner);
  list_difference(list, option("preconditioner"), of_a, of_b);
  if (of_a == of_b && a.preconditioner != b.preconditioner) {
    list.emplace_back("blocks of the preconditioner");
  }
  list_difference(list, option("rtol"), rtol_of(a), rtol_of(b));
  list_difference(list, option("atol"), a.options.atol, b.options.atol);
  list_difference(list, option("max_iterations"), a.options.max_iterations,
                  b.options.max_iterations);
  list_difference(list, option("restart"), a.options.restart, b.options.restart);
  list_difference(list, "x0", a.options.use_guess ? "given" : "0",
                  b.options.use_guess ? "given" : "0");
  list_other_numbers(list, "A", a.checksums.a, b.checksums.a);
  list_other_numbers(list, "b", a.checksums.b, b.checksums.b);
  list_other_numbers(list, "x0", a.checksums.guess, b.checksums.guess);
  list_other_numbers(list, "the levels of multigrid", a.checksums.levels, b.checksums.levels);
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
  if (comparison.same_verdict && comparison.same_bits) {
    return "The verdicts are the same, to the bit.";
  }
  if (!same_request) {
    return fmt::format(
        "The verdicts {}, of different solves: see above in what. What differs is not "
        "one of rounding.",
        comparison.same_verdict ? "are the same" : "differ");
  }
  if (comparison.same_verdict && !comparison.difference && comparison.records > 0) {
    return "The verdicts are the same, and so are all records that both logs have.";
  }
  if (comparison.same_verdict) {
    return "The verdicts are the same: the difference is one of rounding and does not matter.";
  }
  if (a.result.is_marginal || b.result.is_marginal) {
    const Log& marginal = a.result.is_marginal ? a : b;
    return fmt::format(
        "The verdicts differ, and that of '{}' is marginal: rounding alone may have decided. Allow "
        "more iterations, ask for less, or take a better preconditioner.",
        marginal.path);
  }
  const bool same_numbers = a.request.checksums.b && a.request.checksums == b.request.checksums;
  return fmt::format("The verdicts differ, and neither is marginal: that is more than rounding{}.",
                     same_numbers ? ", of the same A, b and x0"
                                  : ". See whether both solves had the same A, b and x0");
}

/// Records of one attempt.
void compare(const Iterations& a, const Iterations& b, std::int64_t attempt,
             LogComparison& comparison) {
  comparison.attempts = attempt;
  comparison.first = std::max(a.begin()->first, b.begin()->first);
  comparison.last = std::min(a.rbegin()->first, b.rbegin()->first);
  const auto is_between = [&](std::int64_t iteration) {
    return iteration >= comparison.first && iteration <= comparison.last;
  };
  for (const auto& [iteration, records] : b) {
    comparison.missing += is_between(iteration) && !a.contains(iteration) ? 1 : 0;
  }
  for (const auto& [iteration, records] : a) {
    if (!is_between(iteration)) {
      continue;
    }
    const auto other = b.find(iteration);
    if (other == b.end()) {
      ++comparison.missing;
      continue;
    }
    comparison.records += std::ssize(records);
    find_difference(records, other->second, attempt, iteration, comparison.difference);
    find_divergence(records, other->second, attempt, comparison.divergence);
  }
}

/// False if the attempt, or all that follows, is by another method or of one solve alone. That is
/// the difference, if the logs are of attempts and there was none before.
bool find_other_method(const Log& a, const Log& b, std::int64_t attempt,
                       LogComparison& comparison) {
  const auto of_a = method_at(a, attempt);
  const auto of_b = method_at(b, attempt);
  const bool are_automatic = a.request.is_automatic && b.request.is_automatic;
  if (of_a == of_b || (attempt == 1 && !are_automatic)) {
    return true;
  }
  if (are_automatic && !comparison.difference) {
    const auto text = [](std::optional<Method> method) {
      return std::string(method ? name(*method) : "none");
    };
    comparison.difference = {attempt, 0, "method", text(of_a), text(of_b), std::nullopt};
  }
  return false;
}

bool have_same_bits(const Attempt& a, const Attempt& b) {
  return a.status == b.status && a.iterations == b.iterations && a.matvecs == b.matvecs &&
         a.restarts == b.restarts && same_bits(a.residual, b.residual);
}

/// The numbers of two verdicts.
bool have_same_bits(const Result& a, const Result& b) {
  const auto count = [](const Result& result) {
    return std::max<std::size_t>(1, result.attempts.size());
  };
  const bool same_attempts =
      a.attempts.empty() || b.attempts.empty()
          ? count(a) == count(b)
          : std::equal(a.attempts.begin(), a.attempts.end(), b.attempts.begin(), b.attempts.end(),
                       [](const Attempt& x, const Attempt& y) { return have_same_bits(x, y); });
  return same_attempts && a.iterations == b.iterations && a.matvecs == b.matvecs &&
         a.restarts == b.restarts && same_bits(a.residual, b.residual) &&
         same_bits(a.margin, b.margin);
}

/// "iteration 9", or "iteration 9 of attempt 2 (minres)".
std::string place_text(const Log& log, const LogComparison& comparison, std::int64_t attempt,
                       std::int64_t iteration) {
  std::string text = fmt::format("iteration {}", iteration);
  if (!comparison.has_attempts) {
    return text;
  }
  const auto method = method_at(log, attempt);
  return fmt::format("{} of attempt {}{}", text, attempt,
                     method ? fmt::format(" ({})", name(*method)) : "");
}

/// "2 attempts (cg, minres)".
std::string attempts_text(const Log& log, std::int64_t attempts) {
  std::string list;
  for (std::int64_t attempt = 1; attempt <= attempts; ++attempt) {
    if (const auto method = method_at(log, attempt)) {
      list += fmt::format("{}{}", list.empty() ? "" : ", ", name(*method));
    }
  }
  return fmt::format("{} attempt{} ({})", attempts, attempts == 1 ? "" : "s", list);
}

}  // namespace

LogComparison compare(const Log& a, const Log& b) {
  LogComparison comparison;
  comparison.requests_differ_in = differences(a.request, b.request);
  comparison.has_attempts = a.request.is_automatic || b.request.is_automatic;
  const Attempts of_a = attempts_of(a.result.log);
  const Attempts of_b = attempts_of(b.result.log);
  bool same_sizes = of_a.empty() == of_b.empty();
  const std::int64_t last =
      std::max({std::ssize(a.result.attempts), std::ssize(b.result.attempts), std::int64_t{1}});
  for (std::int64_t attempt = 1; attempt <= last; ++attempt) {
    if (!find_other_method(a, b, attempt, comparison)) {
      break;
    }
    const auto in_a = of_a.find(attempt);
    const auto in_b = of_b.find(attempt);
    if (in_a != of_a.end() && in_b != of_b.end()) {
      compare(in_a->second, in_b->second, attempt, comparison);
      same_sizes = same_sizes && size_of(in_a->second) == size_of(in_b->second);
    }
  }
  comparison.same_verdict = a.result.status == b.result.status;
  comparison.same_bits = !comparison.difference && comparison.same_verdict && same_sizes &&
                         have_same_bits(a.result, b.result);
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
  const auto place = [&](std::int64_t attempt, std::int64_t iteration) {
    return place_text(a, comparison, attempt, iteration);
  };
  if (comparison.difference) {
    const LogComparison::Difference& first = *comparison.difference;
    all.push_back(
        fmt::format("The first difference: {} at {}, {} and {}{}.", first.scalar,
                    place(first.attempt, first.iteration), first.a, first.b,
                    first.relative ? fmt::format(" ({:.1e}, relative)", *first.relative) : ""));
  } else if (comparison.records == 0) {
    all.emplace_back("The logs have no iteration in common.");
  } else if (comparison.has_attempts) {
    all.push_back(fmt::format("All bits of {} are the same, in {} records.",
                              attempts_text(a, comparison.attempts), comparison.records));
  } else {
    all.push_back(fmt::format("All bits of iterations {} to {} are the same, in {} records.",
                              comparison.first, comparison.last, comparison.records));
  }
  if (comparison.missing > 0) {
    all.push_back(comparison.missing == 1
                      ? "1 iteration that one log has is missing in the other."
                      : fmt::format("{} iterations that one log has are missing in the other.",
                                    comparison.missing));
  }
  if (comparison.divergence) {
    all.push_back(
        fmt::format("The residuals part, by more than 10 %, at {}: {:.2e} and {:.2e}.",
                    place(comparison.divergence->attempt, comparison.divergence->iteration),
                    comparison.divergence->a, comparison.divergence->b));
  } else if (comparison.difference && comparison.records > 0) {
    all.push_back(fmt::format("Up to {} no residuals differ by more than 10 %.",
                              place(comparison.attempts, comparison.last)));
  }
  all.push_back(verdict_sentence(a));
  all.push_back(verdict_sentence(b));
  all.push_back(conclusion(a, b, comparison));
  return all;
}

}  // namespace shardsolve::krylov::files
