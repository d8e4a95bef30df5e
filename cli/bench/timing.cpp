#include "timing.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace shardsolve::cli::bench {

bool Timing::passed() const {
  return std::all_of(gates.begin(), gates.end(), [](const Gate& gate) { return gate.passed(); });
}

const Gate& Timing::worst() const {
  const Gate* worst = &gates.front();
  for (const Gate& gate : gates) {
    if (!(gate.value / gate.limit <= worst->value / worst->limit)) {
      worst = &gate;
    }
  }
  return *worst;
}

bool BenchResult::passed() const {
  return std::all_of(timings.begin(), timings.end(), [](const Timing& t) { return t.passed(); });
}

void require_ok(const Outcome& outcome) {
  if (!outcome.ok()) {
    throw Error(ErrorKind::internal,
                fmt::format("a well conditioned matrix was refused: {}", outcome.message()));
  }
}

}  // namespace shardsolve::cli::bench
