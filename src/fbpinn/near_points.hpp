/// The points around a point, among many that lie anyhow.
#pragma once

#include <shardsolve/jet_set.hpp>

#include <array>
#include <cstdint>
#include <vector>

namespace shardsolve::fbpinn {

/// Points in cells of about two, along the axes that have more than one coordinate, each scaled to
/// its range.
class NearPoints {
 public:
  /// `points`: count x axes numbers.
  NearPoints(const double* points, std::int64_t count, int axes);

  /// Of the nearest points to p the one behind as many as there are axes, so that the middle is in
  /// a gap as a rule; -1 if there are not so many near.
  std::int64_t neighbour(std::int64_t p) const;
  /// Whether the points around most points lie in all directions, which those of a curve or a
  /// surface do not.
  bool fill_space() const;

 private:
  std::vector<std::int64_t> nearest(std::int64_t p) const;
  double spread(std::int64_t p) const;
  double at(std::int64_t p, std::size_t k) const {
    return (points_[p * axes_ + free_[k]] - low_[k]) * rate_[k];
  }
  std::int64_t cell_along(std::int64_t p, std::size_t k) const;

  const double* points_;
  std::int64_t count_;
  int axes_;
  std::vector<int> free_;
  std::vector<double> low_;
  std::vector<double> rate_;
  std::int64_t along_ = 1;  // cells of each axis
  std::vector<std::int64_t> begin_;
  std::vector<std::int32_t> sorted_;
};

}  // namespace shardsolve::fbpinn
