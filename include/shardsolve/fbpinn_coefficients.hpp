/// Unknown numbers of an equation, found together with its solution: inverse problems.
#pragma once

#include <shardsolve/error.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_scalars.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shardsolve::fbpinn {

/// Between the nodes of a GridCoefficient: straight lines, or cubics with a continuous slope that
/// go through the nodes' values (Catmull and Rom, 1974).
enum class Interpolation : std::uint8_t { linear, cubic };

/// An unknown number: Problem::add_coefficient.
struct ScalarCoefficient {
  std::int64_t first = 0;  ///< its place among the numbers of all coefficients
};

/// An unknown function of one variable: its values at evenly spaced nodes of `domain`, ends
/// included. Beyond the ends it is what it is there.
struct GridCoefficient {
  std::int64_t first = 0;  ///< of the nodes' values, among the numbers of all coefficients
  std::int64_t nodes = 1;
  Interval domain;
  Interpolation between = Interpolation::linear;
};

/// What a problem knows of one of its coefficients.
struct Coefficient {
  std::string name;
  std::int64_t first = 0;     ///< among the numbers of all coefficients
  std::vector<double> start;  ///< what training begins with: 1 number, or one for each node
};

/// The coefficients as a residual gets them: c(a) is a number, c(speed, x[0]) the value of a
/// function at a point or at anything else that the residual computes. S is the kind of number that
/// the jets are made of.
template <class S>
class Coefficients {
 public:
  /// `values`: of all coefficients. Those listed in `along` are differentiated by, each in the
  /// direction of its place there. What is read is noted in `reads` unless that is null.
  explicit Coefficients(std::span<const double> values, std::span<const std::int64_t> along = {},
                        std::vector<std::int64_t>* reads = nullptr)
      : values_(values), along_(along), reads_(reads) {}

  S operator()(const ScalarCoefficient& a) const { return number(a.first); }

  /// X: double, or S.
  template <class X>
  S operator()(const GridCoefficient& f, const X& at) const {
    if (f.nodes == 1) {
      return number(f.first);
    }
    X place =
        (at - f.domain.low) * (static_cast<double>(f.nodes - 1) / (f.domain.high - f.domain.low));
    const auto last = static_cast<double>(f.nodes - 1);
    // Written so that what is not a number goes on as such.
    if (value_of(place) < 0.0) {
      place = X(0.0);
    } else if (value_of(place) > last) {
      place = X(last);
    }
    const double cell = std::min(std::floor(std::max(value_of(place), 0.0)), last - 1.0);
    const auto left = static_cast<std::int64_t>(cell);
    const X t = place - cell;
    const S low = number(f.first + left);
    const S high = number(f.first + left + 1);
    if (f.between == Interpolation::linear) {
      return low + (high - low) * S(t);
    }
    const S slope_low = left > 0 ? (high - number(f.first + left - 1)) * 0.5 : (high - low) * 1.0;
    const S slope_high =
        left + 2 < f.nodes ? (number(f.first + left + 2) - low) * 0.5 : (high - low) * 1.0;
    const S s(t);
    const S step = high - low;
    return low + s * (slope_low + s * (step * 3.0 - slope_low * 2.0 - slope_high +
                                       s * (slope_low + slope_high - step * 2.0)));
  }

 private:
  S number(std::int64_t i) const {
    S result(values_[static_cast<std::size_t>(i)]);
    if (reads_ != nullptr && std::find(reads_->begin(), reads_->end(), i) == reads_->end()) {
      reads_->push_back(i);
    }
    if constexpr (carries_derivatives<S>) {
      for (std::size_t direction = 0; direction < along_.size(); ++direction) {
        if (along_[direction] == i) {
          result.slope[direction] = 1.0;
        }
      }
    }
    return result;
  }

  std::span<const double> values_;
  std::span<const std::int64_t> along_;
  std::vector<std::int64_t>* reads_;
};

}  // namespace shardsolve::fbpinn
