#include "comm/ring.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <numeric>
#include <utility>

namespace shardsolve::comm {
namespace {

using Order = std::vector<std::int64_t>;

/// Of a ring: more is better. In whole MB/s, so that equal rings have equal sums whatever the order
/// of adding is.
struct Rating {
  std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
  std::int64_t sum = 0;

  auto operator<=>(const Rating&) const = default;
};

class Speeds {
 public:
  explicit Speeds(const Topology& topology) : ranks_(topology.ranks()) {
    for (std::int64_t from = 0; from < ranks_; ++from) {
      for (std::int64_t to = 0; to < ranks_; ++to) {
        speeds_.push_back(std::llround(topology.link(from, to).gigabytes_per_second * 1000.0));
      }
    }
  }

  std::int64_t ranks() const { return ranks_; }
  std::int64_t at(std::int64_t from, std::int64_t to) const {
    return speeds_[static_cast<std::size_t>(from * ranks_ + to)];
  }
  Rating rate(const Order& order) const {
    Rating rating;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::int64_t speed = at(order[i], order[(i + 1) % order.size()]);
      rating.slowest = std::min(rating.slowest, speed);
      rating.sum += speed;
    }
    return rating;
  }

 private:
  std::int64_t ranks_;
  std::vector<std::int64_t> speeds_;
};

Order identity(std::int64_t ranks) {
  Order order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// The first of the best in lexicographic order.
Order best_of_all(const Speeds& speeds) {
  Order order = identity(speeds.ranks());
  Order best = order;
  Rating best_rating = speeds.rate(order);
  while (std::next_permutation(order.begin() + 1, order.end())) {
    if (const Rating rating = speeds.rate(order); rating > best_rating) {
      best = order;
      best_rating = rating;
    }
  }
  return best;
}

/// From `first` on always to the one that the fastest link leads to.
Order nearest_neighbours(const Speeds& speeds, std::int64_t first) {
  Order order = identity(speeds.ranks());
  std::rotate(order.begin(), order.begin() + first, order.begin() + first + 1);
  for (auto next = order.begin() + 1; next < order.end(); ++next) {
    const std::int64_t last = *(next - 1);
    const auto fastest = std::max_element(next, order.end(), [&](std::int64_t a, std::int64_t b) {
      return speeds.at(last, a) < speeds.at(last, b);
    });
    std::rotate(next, fastest, fastest + 1);  // the others stay in their order
  }
  std::rotate(order.begin(), std::find(order.begin(), order.end(), 0), order.end());
  return order;
}

/// Reverses stretches of the ring, and exchanges neighbouring ones, for as long as that makes it
/// better.
Rating improve(const Speeds& speeds, Order& order) {
  Rating best = speeds.rate(order);
  const auto is_better = [&] {
    const Rating rating = speeds.rate(order);
    const bool better = rating > best;
    best = std::max(best, rating);
    return better;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (auto begin = order.begin() + 1; begin < order.end(); ++begin) {
      for (auto end = begin + 2; end <= order.end(); ++end) {
        std::reverse(begin, end);
        if (is_better()) {
          changed = true;
        } else {
          std::reverse(begin, end);
        }
        for (auto middle = begin + 1; middle < end; ++middle) {
          const auto moved = std::rotate(begin, middle, end);
          if (is_better()) {
            changed = true;
          } else {
            std::rotate(begin, moved, end);
          }
        }
      }
    }
  }
  return best;
}

Order good_one(const Speeds& speeds) {
  Order best = identity(speeds.ranks());
  Rating best_rating = improve(speeds, best);
  for (std::int64_t first = 0; first < speeds.ranks(); ++first) {
    Order order = nearest_neighbours(speeds, first);
    if (const Rating rating = improve(speeds, order); rating > best_rating) {
      best = std::move(order);
      best_rating = rating;
    }
  }
  return best;
}

}  // namespace

Order ring_order(const Topology& topology) {
  constexpr std::int64_t few = 9;
  if (topology.ranks() <= 2) {
    return identity(topology.ranks());
  }
  const Speeds speeds(topology);
  return topology.ranks() <= few ? best_of_all(speeds) : good_one(speeds);
}

Ring::Ring(Order order) : order_(std::move(order)), place_(order_.size()) {
  Order sorted = order_;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != identity(static_cast<std::int64_t>(order_.size()))) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("a ring of the ranks [{}]; it needs each of 0 to {} once",
                            fmt::join(order_, ", "), std::ssize(order_) - 1));
  }
  for (std::size_t place = 0; place < order_.size(); ++place) {
    place_[static_cast<std::size_t>(order_[place])] = static_cast<std::int64_t>(place);
  }
}

std::int64_t Ring::before(std::int64_t rank) const {
  const auto place = static_cast<std::size_t>(place_[static_cast<std::size_t>(rank)]);
  return order_[(place + order_.size() - 1) % order_.size()];
}

}  // namespace shardsolve::comm
