/// Many random cases from numbered seeds: a failing case is named by its number and comes again.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace shardsolve::testing {

/// The same numbers on every platform, which std::uniform_int_distribution does not promise.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }
  /// At least 0 and below `bound`; not quite uniform for a huge bound.
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(bound));
  }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class Container>
  const auto& one_of(const Container& container) {
    return container[static_cast<std::size_t>(below(std::ssize(container)))];
  }

 private:
  std::mt19937_64 engine_;
};

/// Calls one_case(random) with the seeds 0, 1, ... until `cases` are done or one has failed. With
/// SHARDSOLVE_FUZZ_SECONDS in the environment, goes on for that long. Under AddressSanitizer, where
/// each takes several times as long, a quarter of them.
template <class OneCase>
void fuzz(std::uint64_t cases, OneCase one_case) {
#ifdef __SANITIZE_ADDRESS__
  cases = (cases + 3) / 4;
#endif
  using Clock = std::chrono::steady_clock;
  const char* given = std::getenv("SHARDSOLVE_FUZZ_SECONDS");
  const std::chrono::duration<double> seconds(given != nullptr ? std::stod(given) : 0.0);
  const auto end = Clock::now() + seconds;
  std::uint64_t seed = 0;
  for (; seed < cases || Clock::now() < end; ++seed) {
    SCOPED_TRACE("case " + std::to_string(seed));
    Random random(seed);
    one_case(random);
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
  ::testing::Test::RecordProperty("cases", std::to_string(seed));
}

}  // namespace shardsolve::testing
