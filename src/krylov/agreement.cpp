#include "krylov/agreement.hpp"

#include "krylov/spelling.hpp"
#include "programs/gather.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::krylov {
namespace agreement {
namespace {

enum What : std::size_t {
  of_method,
  of_preconditioner,
  of_rtol,
  of_atol,
  of_limit,
  of_restart,
  of_guess,
  of_log,
  of_cuts
};

/// Numbers that are equal if the solves are.
std::vector<std::int64_t> digest(const SlabLayout& layout, const Options& options,
                                 bool has_preconditioner) {
  std::vector<std::int64_t> all{static_cast<std::int64_t>(options.method),
                                has_preconditioner ? 1 : 0,
                                std::bit_cast<std::int64_t>(options.rtol.value()),
                                std::bit_cast<std::int64_t>(options.atol),
                                options.max_iterations,
                                options.restart,
                                options.use_guess ? 1 : 0,
                                options.log ? 1 : 0};
  all.insert(all.end(), layout.boundaries().begin(), layout.boundaries().end());
  return all;
}

/// "method cg"
std::string text(std::size_t what, std::int64_t value) {
  switch (what) {
    case of_method:
      return choice("method", name(static_cast<Method>(value)));
    case of_preconditioner:
      return value != 0 ? "a preconditioner" : "no preconditioner";
    case of_rtol:
      return option("rtol", std::bit_cast<double>(value));
    case of_atol:
      return option("atol", std::bit_cast<double>(value));
    case of_limit:
      return option("max_iterations", value);
    case of_restart:
      return option("restart", value);
    case of_guess:
      return fmt::format("use_guess = {}", value != 0);
    case of_log:
      return fmt::format("log = {}", value != 0);
    default:
      return fmt::format("b cut at row {}", value);
  }
}

}  // namespace
}  // namespace agreement

void require_same_solve(mesh::Rank& rank, const SlabLayout& layout, const Options& options,
                        bool has_preconditioner) {
  const std::vector<std::int64_t> mine = agreement::digest(layout, options, has_preconditioner);
  std::int64_t r = 0;
  for (const std::vector<std::int64_t>& other : programs::gather_from_all(rank, mine)) {
    for (std::size_t what = 0; what < mine.size(); ++what) {
      if (other[what] != mine[what]) {
        throw Error(ErrorKind::invalid_argument,
                    fmt::format("the process of rank {} gives {}, and that of rank {} {}: all "
                                "processes call for the same solve, with the same method, "
                                "preconditioner, tolerances, limits and cuts",
                                r, agreement::text(what, other[what]), rank.index(),
                                agreement::text(what, mine[what])));
      }
    }
    ++r;
  }
}

}  // namespace shardsolve::krylov
