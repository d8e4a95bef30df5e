// Clocks that are ahead, behind and drift, read through messages of which one direction is slower.

#include "comm/clocks.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace shardsolve::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

/// Shows `ahead` more than ours at our time 0, and runs `drift` faster.
struct OtherClock {
  double ahead = 0.0;  // seconds
  double drift = 0.0;

  ClockTime at(ClockTime ours) const {
    const double since = static_cast<double>(ours.time_since_epoch().count());
    return ours + nanoseconds(std::llround(1e9 * ahead + drift * since));
  }
};

ClockTime time(double seconds) { return ClockTime(nanoseconds(std::llround(1e9 * seconds))); }

/// Asked at our time `at`, with messages that take so many microseconds there and back.
ClockProbe probe(const OtherClock& clock, ClockTime at, int there, int back) {
  const ClockTime read = at + microseconds(there);
  return {at, clock.at(read), read + microseconds(back)};
}

std::vector<ClockProbe> probes(const OtherClock& clock, double seconds, unsigned seed) {
  std::mt19937 draw(seed);
  std::uniform_int_distribution<int> delay(3, 400);
  std::vector<ClockProbe> all;
  for (int i = 0; i < 16; ++i) {
    all.push_back(probe(clock, time(seconds) + microseconds(1000 * i), delay(draw), delay(draw)));
  }
  return all;
}

double error_in_seconds(ClockTime found, ClockTime expected) {
  return std::abs(std::chrono::duration<double>(found - expected).count());
}

TEST(Clocks, SameWayThereAndBack_IsReadExactly) {
  const OtherClock clock{.ahead = -12.5};
  const ClockReading reading = read_clock({probe(clock, time(3.0), 20, 20)});
  EXPECT_EQ(reading.ahead, std::chrono::milliseconds(-12500));
  EXPECT_EQ(reading.uncertainty, microseconds(20));
  EXPECT_EQ(reading.theirs, clock.at(time(3.0) + microseconds(20)));
}

TEST(Clocks, OfSeveralProbes_TheQuickestCounts) {
  const OtherClock clock{.ahead = 7.0};
  const ClockReading reading =
      read_clock({probe(clock, time(1.0), 900, 10), probe(clock, time(2.0), 6, 4),
                  probe(clock, time(3.0), 10, 900)});
  EXPECT_EQ(reading.uncertainty, microseconds(5));
  EXPECT_EQ(reading.ahead, std::chrono::seconds(7) + microseconds(1));
}

struct Case {
  double ahead;
  double drift;
};

class ClockMapTest : public ::testing::TestWithParam<Case> {};

TEST_P(ClockMapTest, TimesBetweenTheReadings_AreRightWithinTheUncertainty) {
  const OtherClock clock{GetParam().ahead, GetParam().drift};
  constexpr double length = 60.0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const ClockMap map(read_clock(probes(clock, 5.0, seed)),
                       read_clock(probes(clock, 5.0 + length, seed + 1000)));
    const double uncertainty = std::chrono::duration<double>(map.uncertainty()).count();
    EXPECT_LT(uncertainty, 400e-6);
    // A reading is the middle of a time in which the clock drifts, too: some nanoseconds.
    const double tolerance = uncertainty + 1e-3 * std::abs(clock.drift) + 2e-9;
    for (double t = 5.0; t <= 5.0 + length; t += 1.7) {
      EXPECT_LE(error_in_seconds(map.ours(clock.at(time(t))), time(t)), tolerance) << t;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(SkewAndDrift, ClockMapTest,
                         ::testing::Values(Case{0.0, 0.0}, Case{5000.0, 0.0}, Case{-3.0, 50e-6},
                                           Case{1e6, -200e-6}));

TEST(Clocks, CallOfNoLength_NeedsNoDrift) {
  const OtherClock clock{.ahead = 2.0};
  const ClockReading reading = read_clock({probe(clock, time(1.0), 5, 5)});
  const ClockMap map(reading, reading);
  EXPECT_EQ(map.ours(clock.at(time(1.0))), time(1.0));
}

}  // namespace
}  // namespace shardsolve::comm
