#include "sparse/front_schedule.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

namespace shardsolve::sparse {
namespace front_levels {

constexpr std::int32_t given = -1;

/// A front in the order in which fronts are done.
struct Place {
  std::int32_t piece;  ///< the subtree that it is in; -1: given; that of the top is the last
  std::int32_t depth;
  std::int32_t sibling;  ///< its number among the children of its parent
  std::int32_t node;
};

/// Pieces are the subtrees of nodes of depth `cut`; there are none if it is 0.
std::vector<Place> places_of(const EliminationTree& tree, std::int32_t cut) {
  std::vector<Place> places(tree.nodes.size());
  const auto top = static_cast<std::int32_t>(tree.nodes.size());
  // Children come before parents.
  for (std::size_t n = tree.nodes.size(); n-- > 0;) {
    const FrontNode& node = tree.nodes[n];
    Place& own = places[n];
    own.node = static_cast<std::int32_t>(n);
    if (node.parent < 0) {
      own = {top, 0, 0, own.node};
    }
    std::int32_t sibling = 0;
    for (const std::int32_t child : node.children) {
      const std::int32_t depth = own.depth + 1;
      places[static_cast<std::size_t>(child)] = {depth == cut ? child : own.piece, depth, sibling++,
                                                 child};
      if (tree.nodes[static_cast<std::size_t>(child)].is_given) {
        places[static_cast<std::size_t>(child)].piece = given;
      }
    }
  }
  return places;
}

std::int64_t rest_numbers(const EliminationTree& tree, std::int32_t node) {
  const std::int64_t outer = tree.nodes[static_cast<std::size_t>(node)].outer;
  return outer * outer;
}

/// The children of a level's fronts as ranges: first those that are their parents' first, ...
std::vector<FrontSchedule::Range> children_of(const EliminationTree& tree,
                                              const std::vector<Place>& sorted,
                                              const std::vector<std::int64_t>& place_of,
                                              FrontSchedule::Range fronts) {
  std::map<std::size_t, std::vector<std::int64_t>> by_sibling;
  for (std::int64_t i = fronts.first; i < fronts.first + fronts.count; ++i) {
    const auto node = static_cast<std::size_t>(sorted[static_cast<std::size_t>(i)].node);
    const auto& children = tree.nodes[node].children;
    for (std::size_t c = 0; c < children.size(); ++c) {
      by_sibling[c].push_back(place_of[static_cast<std::size_t>(children[c])]);
    }
  }
  std::vector<FrontSchedule::Range> ranges;
  for (auto& [sibling, places] : by_sibling) {
    std::sort(places.begin(), places.end());
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i > 0 && places[i] == places[i - 1] + 1) {
        ++ranges.back().count;
      } else {
        ranges.push_back({places[i], 1});
      }
    }
  }
  return ranges;
}

FrontSchedule with_cut(const EliminationTree& tree, std::int32_t cut) {
  std::vector<Place> sorted = places_of(tree, cut);
  std::sort(sorted.begin(), sorted.end(), [](const Place& a, const Place& b) {
    return std::tuple(a.piece, a.piece == given ? 0 : -a.depth, a.sibling, a.node) <
           std::tuple(b.piece, b.piece == given ? 0 : -b.depth, b.sibling, b.node);
  });
  FrontSchedule schedule;
  std::vector<std::int64_t> place_of(sorted.size());
  for (const Place& place : sorted) {
    place_of[static_cast<std::size_t>(place.node)] =
        static_cast<std::int64_t>(schedule.order.size());
    schedule.order.push_back(place.node);
  }
  std::array<std::int64_t, 2> room{};
  std::vector<bool> waits;  // of each level: for the top
  for (std::size_t begin = 0; begin < sorted.size();) {
    FrontSchedule::Level level;
    std::size_t end = begin;
    level.is_given = sorted[begin].piece == given;
    for (; end < sorted.size() && sorted[end].piece == sorted[begin].piece &&
           (level.is_given || sorted[end].depth == sorted[begin].depth);
         ++end) {
      level.rest_count += rest_numbers(tree, sorted[end].node);
    }
    level.fronts = {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end - begin)};
    level.children = children_of(tree, sorted, place_of, level.fronts);
    waits.push_back(level.is_given || (cut > 0 && sorted[begin].depth == cut));
    level.rest_first = sorted[begin].depth % 2;  // which place, for now
    if (!waits.back()) {
      std::int64_t& largest = room[static_cast<std::size_t>(level.rest_first)];
      largest = std::max(largest, level.rest_count);
    }
    schedule.levels.push_back(std::move(level));
    begin = end;
  }
  schedule.rest_count = room[0] + room[1];
  for (std::size_t l = 0; l < waits.size(); ++l) {
    FrontSchedule::Level& level = schedule.levels[l];
    if (waits[l]) {
      level.rest_first = std::exchange(schedule.rest_count, schedule.rest_count + level.rest_count);
    } else {
      level.rest_first = level.rest_first == 0 ? 0 : room[0];
    }
  }
  return schedule;
}

}  // namespace front_levels

double FrontSchedule::bytes(const EliminationTree& tree) const {
  auto numbers = static_cast<double>(rest_count);
  double indices = 0.0;
  for (const FrontNode& node : tree.nodes) {
    numbers += static_cast<double>(node.front()) * static_cast<double>(node.own + 1);
    indices += static_cast<double>(node.front() + node.outer);
  }
  return 8.0 * numbers + 4.0 * indices;
}

FrontSchedule schedule_fronts(const EliminationTree& tree, double max_bytes) {
  FrontSchedule best = front_levels::with_cut(tree, 0);
  constexpr std::int32_t max_cuts = 12;  // subtrees double in number with each
  for (std::int32_t cut = 1; cut <= max_cuts && best.bytes(tree) > max_bytes; ++cut) {
    FrontSchedule other = front_levels::with_cut(tree, cut);
    if (other.rest_count < best.rest_count) {
      best = std::move(other);
    }
  }
  return best;
}

}  // namespace shardsolve::sparse
