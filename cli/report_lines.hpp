/// How lines of the text report look.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace shardsolve::cli {

inline std::string precise_duration(double seconds) {
  constexpr double milli = 1e3;
  return seconds < 1.0 ? fmt::format("{:.3g} ms", milli * seconds)
                       : fmt::format("{:.2f} s", seconds);
}

/// "0.64 u" or "105 u", u being the unit roundoff.
inline std::string roundoffs(double value) {
  constexpr double many = 100.0;
  return value < many ? fmt::format("{:.2g} u", value) : fmt::format("{:.0f} u", value);
}

inline std::string plural(std::int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

inline std::string line(std::string_view label, std::string_view value, std::string_view meaning) {
  return fmt::format("  {:<15} {:<9} {}\n", label, value, meaning);
}

}  // namespace shardsolve::cli
