/// Whether a history is what reference, beam theory and the conservation of energy say.
#pragma once

#include "cases.hpp"
#include "simulation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <string>
#include <vector>

namespace beam {

/// Something that was promised: a sentence with the numbers, and whether it is so.
struct Check {
  std::string text;
  bool passed = false;
};

namespace checks {

template <class... Numbers>
std::string formatted(const char* format, Numbers... numbers) {
  char text[256];
  std::snprintf(text, sizeof text, format, numbers...);
  return text;
}

/// The record of a time, or null if the history ends before it or has no step there.
inline const Record* at(const History& history, double t) {
  const auto found = std::find_if(history.records.begin(), history.records.end(),
                                  [&](const Record& r) { return std::abs(r.t - t) < 1e-9; });
  return found == history.records.end() ? nullptr : &*found;
}

inline double distance(const Tip& a, const Tip& b) {
  return std::max(std::abs(a.y - b.y), std::abs(a.z - b.z));
}

/// Tips at those times of reference that the history reaches; of a whole one, the largest too.
inline void add_tips(const Reference& reference, const History& history,
                     std::vector<Check>& found) {
  for (std::size_t i = 0; i < reference_times.size(); ++i) {
    const Record* record = at(history, reference_times[i]);
    if (record == nullptr) continue;
    const Tip seen{record->tip[1], record->tip[2]};
    const double off = distance(seen, reference.tips[i]);
    found.push_back({formatted("tip at t = %.1f: %9.6f %9.6f, off by %.1e (<= %.0e)", record->t,
                               seen.y, seen.z, off, tip_tolerance),
                     off <= tip_tolerance});
  }
  if (at(history, whole_time) == nullptr) return;
  Tip largest;
  for (const Record& record : history.records) {
    largest.y = std::max(largest.y, record.tip[1]);
    largest.z = std::max(largest.z, record.tip[2]);
  }
  const double off = distance(largest, reference.largest);
  found.push_back({formatted("largest tip:    %9.4f %9.4f, off by %.1e (<= %.0e)", largest.y,
                             largest.z, off, largest_tolerance),
                   off <= largest_tolerance});
}

/// Total energy of an undamped body after the load has gone: constant but for Newmark's wobble.
inline void add_energy(const History& history, std::vector<Check>& found) {
  double least = INFINITY;
  double most = -INFINITY;
  for (const Record& record : history.records) {
    if (record.t < load_end + 1e-9) continue;
    const double energy = record.elastic_energy + record.kinetic_energy;
    least = std::min(least, energy);
    most = std::max(most, energy);
  }
  // 0.13270 to 0.13273 to the digits that are given.
  found.push_back(
      {formatted("energy after the load: %.6f to %.6f (0.13270 to 0.13273)", least, most),
       least >= 0.132695 && most <= 0.132735});
}

/// Circular frequency of a motion that swings about 0, by its crossings of 0 after the load.
inline double frequency(const History& history, int axis) {
  std::vector<double> crossings;
  for (std::size_t i = 1; i < history.records.size(); ++i) {
    const Record& before = history.records[i - 1];
    const Record& after = history.records[i];
    if (before.t < load_end || before.tip[axis] * after.tip[axis] > 0.0) continue;
    const double share = before.tip[axis] / (before.tip[axis] - after.tip[axis]);
    crossings.push_back(before.t + share * (after.t - before.t));
  }
  if (crossings.size() < 2) return 0.0;
  const auto half_swings = static_cast<double>(crossings.size() - 1);
  return std::numbers::pi * half_swings / (crossings.back() - crossings.front());
}

/// The first frequency of a slender cantilever that bends along `axis`: 1.8751^2 sqrt(EI / m L^4).
inline double theoretical_frequency(int axis) {
  const double length = cantilever.high[0] - cantilever.low[0];
  const double thickness = cantilever.high[axis] - cantilever.low[axis];
  const double root = 1.8751040687;  // the least one of cos(s) cosh(s) = -1
  return root * root / (length * length) * thickness * std::sqrt(young / (12 * density));
}

inline void add_frequencies(const History& history, std::vector<Check>& found) {
  const char* const names = "xyz";
  for (const int axis : {1, 2}) {
    const double seen = frequency(history, axis);
    const double theory = theoretical_frequency(axis);
    const double off = seen / theory - 1;
    found.push_back({formatted("frequency along %c: %.3f rad/s, beam theory %.3f: %+.1f %% (2 %%)",
                               names[axis], seen, theory, 100 * off),
                     std::abs(off) <= 0.02});
  }
}

}  // namespace checks

/// All that can be said of a history, which is that of the mesh and the steps of reference.
inline std::vector<Check> check(const Case& chosen, const History& history) {
  std::vector<Check> found;
  if (!history.failure.empty()) return {{history.failure, false}};
  if (chosen.reference) checks::add_tips(*chosen.reference, history, found);
  const bool is_whole = checks::at(history, whole_time) != nullptr;
  const bool is_undamped = chosen.damping.mass == 0.0 && chosen.damping.stiffness == 0.0;
  const bool keeps_energy = chosen.scheme.alpha_f == 0.0 && is_undamped;
  if (is_whole && keeps_energy && chosen.law == Law::st_venant_kirchhoff) {
    checks::add_energy(history, found);
  }
  if (is_whole && keeps_energy && chosen.law == Law::linear) {
    checks::add_frequencies(history, found);
  }
  if (is_whole && chosen.law == Law::faulty) {
    found.push_back({checks::formatted("asymmetry of the tangent: %.3f (0.499)", history.asymmetry),
                     std::abs(history.asymmetry - 0.499) <= 0.0005});
  }
  return found;
}

}  // namespace beam
