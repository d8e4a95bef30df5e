#include "fbpinn/lattice.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace shardsolve::fbpinn {

Lattice::Lattice(const double* points, std::int64_t count, int axes)
    : points_(points), axes_(axes) {
  double places = 1.0;
  for (int axis = 0; axis < axes; ++axis) {
    std::vector<double> along;
    for (std::int64_t p = 0; p < count; ++p) {
      along.push_back(points[p * axes + axis]);
    }
    std::sort(along.begin(), along.end());
    along.erase(std::unique(along.begin(), along.end()), along.end());
    if (along.size() > 1) {
      free_.push_back(axis);
      places *= static_cast<double>(along.size());
      along_.push_back(std::move(along));
    }
  }
  for (unsigned mask = 1; mask < 1U << free_.size(); ++mask) {
    cells_.push_back(mask);
  }
  std::stable_sort(cells_.begin(), cells_.end(),
                   [](unsigned a, unsigned b) { return std::popcount(a) > std::popcount(b); });
  constexpr double max_places = 0x1p62;
  if (places > max_places) {
    return;
  }
  for (std::int64_t p = 0; p < count; ++p) {
    places_.push_back({key_of(at(p)), static_cast<std::int32_t>(p)});
  }
  std::sort(places_.begin(), places_.end());
  constexpr std::int64_t looked_at = 256;
  std::int64_t seen = 0;
  std::int64_t with_neighbour = 0;
  for (std::int64_t i = 0; i < std::min(count, looked_at); ++i, ++seen) {
    const std::int64_t p = i * count / std::min(count, looked_at);
    for (std::size_t k = 0; k < free_.size(); ++k) {
      if (next(p, 1U << k) >= 0) {
        ++with_neighbour;
        break;
      }
    }
  }
  is_one_ = 2 * with_neighbour >= seen;
}

std::array<std::int32_t, max_axes> Lattice::at(std::int64_t p) const {
  std::array<std::int32_t, max_axes> result{};
  for (std::size_t k = 0; k < free_.size(); ++k) {
    const std::vector<double>& along = along_[k];
    result[k] = static_cast<std::int32_t>(
        std::lower_bound(along.begin(), along.end(), points_[p * axes_ + free_[k]]) -
        along.begin());
  }
  return result;
}

std::uint64_t Lattice::key_of(const std::array<std::int32_t, max_axes>& at) const {
  std::uint64_t key = 0;
  for (std::size_t k = 0; k < free_.size(); ++k) {
    key = key * along_[k].size() + static_cast<std::uint64_t>(at[k]);
  }
  return key;
}

std::int64_t Lattice::next(std::int64_t p, unsigned mask) const {
  std::array<std::int32_t, max_axes> place = at(p);
  for (std::size_t k = 0; k < free_.size(); ++k) {
    place[k] += static_cast<std::int32_t>(mask >> k & 1U);
    if (place[k] >= static_cast<std::int64_t>(along_[k].size())) {
      return -1;
    }
  }
  const std::uint64_t key = key_of(place);
  const auto found = std::lower_bound(places_.begin(), places_.end(), Place{key, 0});
  return found != places_.end() && found->key == key ? found->point : -1;
}

std::int64_t Lattice::far_corner(std::int64_t p) const {
  for (const unsigned cell : cells_) {
    bool is_whole = true;
    for (unsigned corner = 1; corner <= cell && is_whole; ++corner) {
      is_whole = (corner & ~cell) != 0 || next(p, corner) >= 0;
    }
    if (is_whole) {
      return next(p, cell);
    }
  }
  return -1;
}

}  // namespace shardsolve::fbpinn
