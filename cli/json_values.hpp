/// Values that JSON has not.
#pragma once

#include <nlohmann/json.hpp>

#include <cmath>

namespace shardsolve::cli {

/// The number, or null if it is a NaN or infinite.
inline nlohmann::ordered_json finite(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace shardsolve::cli
