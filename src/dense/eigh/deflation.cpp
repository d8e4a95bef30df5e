// All ranks run this on the same numbers and have to come to the same verdict: only operations that
// IEEE arithmetic rounds alike everywhere (no hypot), none contracted by the compiler.

#include "dense/eigh/deflation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace shardsolve::dense::eigh {
namespace {

/// Where a column of Z is not zero.
enum class Place : std::uint8_t { first_half, everywhere, second_half };

template <class Real>
class Deflater {
 public:
  Deflater(std::vector<Real> values, std::int64_t middle, std::vector<Real> z, Real rho)
      : values_(std::move(values)), z_(std::move(z)), places_(values_.size(), Place::second_half) {
    found_.rho = rho;
    std::fill_n(places_.begin(), middle, Place::first_half);
    Real largest = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      largest = std::max({largest, std::abs(values_[i]), std::abs(z_[i])});
    }
    tolerance_ = 8 * (std::numeric_limits<Real>::epsilon() / 2) * largest;
  }

  Deflation<Real> run() {
    std::vector<std::int64_t> order(values_.size());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    sort(order);
    std::int64_t before = none;  // the last one that was not set aside, not yet kept either
    for (const std::int64_t j : order) {
      if (!(found_.rho * std::abs(at(z_, j)) > tolerance_)) {
        aside_.push_back(j);
      } else if (before == none) {
        before = j;
      } else if (rotate(before, j)) {
        aside_.push_back(before);
        before = j;
      } else {
        kept_.push_back(before);
        before = j;
      }
    }
    if (before != none) {
      kept_.push_back(before);
    }
    sort(aside_);
    write();
    return std::move(found_);
  }

 private:
  static constexpr std::int64_t none = -1;

  template <class V>
  static auto& at(V& values, std::int64_t i) {
    return values[static_cast<std::size_t>(i)];
  }

  void sort(std::vector<std::int64_t>& columns) const {
    std::stable_sort(columns.begin(), columns.end(), [&](std::int64_t a, std::int64_t b) {
      return at(values_, a) < at(values_, b);
    });
  }

  /// Two poles so close that a rotation which takes all weight from the first leaves next to
  /// nothing beside the diagonal: makes it.
  bool rotate(std::int64_t i, std::int64_t j) {
    const Real norm = std::sqrt(at(z_, i) * at(z_, i) + at(z_, j) * at(z_, j));
    const Real c = at(z_, j) / norm;
    const Real s = -at(z_, i) / norm;
    const Real lower = at(values_, i);
    const Real upper = at(values_, j);
    if (!(std::abs((upper - lower) * c * s) <= tolerance_)) {
      return false;
    }
    at(z_, j) = norm;
    at(z_, i) = 0;
    at(values_, i) = lower * c * c + upper * s * s;
    at(values_, j) = lower * s * s + upper * c * c;
    if (at(places_, i) != at(places_, j)) {
      at(places_, i) = at(places_, j) = Place::everywhere;
    }
    found_.rotations.push_back({.x = i, .y = j, .c = c, .s = s});
    return true;
  }

  void write() {
    for (const std::int64_t column : kept_) {
      found_.poles.push_back(at(values_, column));
      found_.weights.push_back(at(z_, column));
    }
    for (const Place place : {Place::first_half, Place::everywhere, Place::second_half}) {
      for (std::size_t pole = 0; pole < kept_.size(); ++pole) {
        if (at(places_, kept_[pole]) == place) {
          found_.rows.push_back(static_cast<std::int64_t>(pole));
          found_.columns.push_back(kept_[pole]);
          found_.above += place == Place::first_half ? 1 : 0;
          found_.below += place == Place::second_half ? 1 : 0;
        }
      }
    }
    for (const std::int64_t column : aside_) {
      found_.columns.push_back(column);
      found_.values.push_back(at(values_, column));
    }
  }

  std::vector<Real> values_;
  std::vector<Real> z_;
  std::vector<Place> places_;
  Real tolerance_ = 0;
  std::vector<std::int64_t> kept_;
  std::vector<std::int64_t> aside_;
  Deflation<Real> found_;
};

}  // namespace

template <class Real>
Deflation<Real> deflate(std::vector<Real> values, std::int64_t middle, std::vector<Real> z,
                        Real rho) {
  return Deflater<Real>(std::move(values), middle, std::move(z), rho).run();
}

template Deflation<float> deflate(std::vector<float>, std::int64_t, std::vector<float>, float);
template Deflation<double> deflate(std::vector<double>, std::int64_t, std::vector<double>, double);

}  // namespace shardsolve::dense::eigh
