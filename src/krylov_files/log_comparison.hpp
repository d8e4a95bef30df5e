/// Where two logs part, and whether that matters.
#pragma once

#include "krylov_files/log_file.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::krylov::files {

/// Two logs beside each other. Records are matched by attempt and iteration; a log that has lost
/// older ones is compared from its first whole iteration on. A log of one method counts as its only
/// attempt. Attempts behind the first one that is by different methods are not compared.
struct LogComparison {
  /// The first number of a record that has other bits, or the event that is another.
  struct Difference {
    std::int64_t attempt = 1;
    std::int64_t iteration = 0;
    std::string scalar;  ///< "residual", "rho", "alpha", "omega", "event", "status" or "method"
    std::string a;       ///< what one log has: a hexadecimal number, or a name
    std::string b;
    std::optional<double> relative;  ///< |a - b| / max(|a|, |b|) of numbers
  };
  /// The first iteration with residuals that differ by more than a tenth of the larger one.
  struct Divergence {
    std::int64_t attempt = 1;
    std::int64_t iteration = 0;
    double a = 0.0;  ///< ||r|| / ||b||
    double b = 0.0;
  };

  std::vector<std::string> requests_differ_in;  ///< "method: cg and minres"
  bool has_attempts = false;                    ///< whether one of the solves was automatic
  std::int64_t attempts = 0;                    ///< compared
  std::int64_t first = 0;    ///< iterations that both logs have, of the last attempt compared
  std::int64_t last = 0;     ///< likewise
  std::int64_t records = 0;  ///< compared; of one log
  std::int64_t missing = 0;  ///< iterations that one lacks, among those that both cover
  std::optional<Difference> difference;
  std::optional<Divergence> divergence;
  bool same_bits = false;     ///< of all records, and of both verdicts' numbers
  bool same_verdict = false;  ///< of the statuses
};

LogComparison compare(const Log& a, const Log& b);

/// A sentence a line: the first bit, the first divergence, both verdicts, what follows.
std::vector<std::string> sentences(const Log& a, const Log& b, const LogComparison& comparison);

}  // namespace shardsolve::krylov::files
