#include "sparse/elimination_tree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace shardsolve::sparse {
namespace dissection {

using Blocks = std::vector<std::int32_t>;

double front_flops(double own, double outer) {
  return own * own * own / 3 + own * own * outer + own * outer * outer;
}

/// The time that a front takes, in flops: few columns at a time are slower, and the border is
/// copied to the parent.
double front_work(double own, double outer) {
  constexpr double half_speed = 48;  // columns
  constexpr double per_number = 8;
  constexpr double per_front = 1e5;
  return front_flops(own, outer) * (1 + half_speed / std::max(own, 1.0)) +
         per_number * outer * outer + per_front;
}

/// Distances in the graph from one block far out, within the blocks that `inside` has the mark of.
class Distances {
 public:
  explicit Distances(const BlockGraph& graph)
      : graph_(graph), level_(static_cast<std::size_t>(graph.count()), -1) {}

  /// In the order of `blocks`; those that no path leads to come last.
  std::vector<double> of(const Blocks& blocks, const std::vector<std::int32_t>& mark) {
    std::int32_t start = blocks.front();
    for (int pass = 0; pass < 2; ++pass) {
      start = spread(start, blocks, mark);
    }
    std::vector<double> result;
    for (const std::int32_t block : blocks) {
      const std::int32_t level = level_[static_cast<std::size_t>(block)];
      result.push_back(level < 0 ? std::numeric_limits<double>::max() : level);
    }
    return result;
  }

 private:
  /// Fills level_ and returns the block that is farthest.
  std::int32_t spread(std::int32_t start, const Blocks& blocks,
                      const std::vector<std::int32_t>& mark) {
    for (const std::int32_t block : blocks) {
      level_[static_cast<std::size_t>(block)] = -1;
    }
    const std::int32_t inside = mark[static_cast<std::size_t>(start)];
    Blocks queue{start};
    level_[static_cast<std::size_t>(start)] = 0;
    for (std::size_t next = 0; next < queue.size(); ++next) {
      for (const std::int32_t other : graph_.neighbours_of(queue[next])) {
        std::int32_t& level = level_[static_cast<std::size_t>(other)];
        if (mark[static_cast<std::size_t>(other)] == inside && level < 0) {
          level = level_[static_cast<std::size_t>(queue[next])] + 1;
          queue.push_back(other);
        }
      }
    }
    return queue.back();
  }

  const BlockGraph& graph_;
  std::vector<std::int32_t> level_;
};

/// What a cut leaves.
struct Cut {
  Blocks low;
  Blocks high;
  Blocks separator;
};

class Dissection {
 public:
  explicit Dissection(const BlockGraph& graph)
      : graph_(graph),
        distances_(graph),
        mark_(static_cast<std::size_t>(graph.count()), -1),
        place_(static_cast<std::size_t>(graph.count()), 0) {}

  /// Nodes with their blocks and children alone, children first. Returns the last one's subtree
  /// roots.
  std::vector<std::int32_t> dissect(const Blocks& blocks, std::vector<FrontNode>& nodes) {
    if (blocks.empty()) {
      return {};
    }
    const std::optional<Cut> cut = best_cut(blocks);
    if (!cut) {
      return {add_node(nodes, blocks, {})};
    }
    std::vector<std::int32_t> roots = dissect(cut->low, nodes);
    const std::vector<std::int32_t> others = dissect(cut->high, nodes);
    roots.insert(roots.end(), others.begin(), others.end());
    if (cut->separator.empty()) {
      return roots;
    }
    return {add_node(nodes, cut->separator, std::move(roots))};
  }

 private:
  static std::int32_t add_node(std::vector<FrontNode>& nodes, Blocks blocks,
                               std::vector<std::int32_t> children) {
    const auto number = static_cast<std::int32_t>(nodes.size());
    for (const std::int32_t child : children) {
      nodes[static_cast<std::size_t>(child)].parent = number;
    }
    nodes.push_back({std::move(blocks), {}, -1, std::move(children)});
    return number;
  }

  std::optional<Cut> best_cut(const Blocks& blocks) {
    if (blocks.size() < 3) {
      return std::nullopt;
    }
    ++marks_;
    for (const std::int32_t block : blocks) {
      mark_[static_cast<std::size_t>(block)] = marks_;
    }
    std::optional<Cut> best;
    double least = std::numeric_limits<double>::infinity();
    for (int axis = 0; axis < std::max(graph_.axes, 1); ++axis) {
      std::vector<double> along;
      if (graph_.axes == 0) {
        along = distances_.of(blocks, mark_);
      } else {
        for (const std::int32_t block : blocks) {
          along.push_back(graph_.coordinates[static_cast<std::size_t>(block) *
                                                 static_cast<std::size_t>(graph_.axes) +
                                             static_cast<std::size_t>(axis)]);
        }
      }
      try_cuts(blocks, along, least, best);
    }
    return best;
  }

  /// A block in an order along an axis, and the first and last places of its neighbours.
  struct Placed {
    std::int32_t block;
    std::int32_t first;
    std::int32_t last;
  };
  std::vector<Placed> placed_in(const Blocks& blocks, const std::vector<std::size_t>& order) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      place_[static_cast<std::size_t>(blocks[order[i]])] = static_cast<std::int32_t>(i);
    }
    std::vector<Placed> placed;
    placed.reserve(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto own = static_cast<std::int32_t>(i);
      Placed one{blocks[order[i]], own, own};
      for (const std::int32_t other : graph_.neighbours_of(one.block)) {
        if (mark_[static_cast<std::size_t>(other)] == marks_) {
          one.first = std::min(one.first, place_[static_cast<std::size_t>(other)]);
          one.last = std::max(one.last, place_[static_cast<std::size_t>(other)]);
        }
      }
      placed.push_back(one);
    }
    return placed;
  }

  /// Cuts near the middle between blocks of different coordinates.
  void try_cuts(const Blocks& blocks, const std::vector<double>& along, double& least,
                std::optional<Cut>& best) {
    std::vector<std::size_t> order(blocks.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return along[a] < along[b]; });
    const double span = along[order.back()] - along[order.front()];
    std::vector<std::size_t> places;  // so many blocks are below
    for (std::size_t i = 1; i < order.size(); ++i) {
      if (along[order[i]] - along[order[i - 1]] > 1e-9 * span) {
        places.push_back(i);
      }
    }
    // The most promising ones: near the middle by number of blocks.
    const auto from_middle = [&](std::size_t place) {
      return std::abs(2.0 * static_cast<double>(place) - static_cast<double>(order.size()));
    };
    std::stable_sort(places.begin(), places.end(),
                     [&](std::size_t a, std::size_t b) { return from_middle(a) < from_middle(b); });
    constexpr std::size_t max_places = 6;
    places.resize(std::min(places.size(), max_places));
    const std::vector<Placed> placed = placed_in(blocks, order);
    for (const std::size_t place : places) {
      for (const bool from_low : {true, false}) {
        try_cut(placed, place, from_low, least, best);
      }
    }
  }

  /// Of the blocks on one side those with neighbours on the other are the separator.
  void try_cut(const std::vector<Placed>& placed, std::size_t place, bool from_low, double& least,
               std::optional<Cut>& best) const {
    const auto cut_at = static_cast<std::int32_t>(place);
    const auto crosses = [&](std::size_t i) {
      const bool is_low = i < place;
      return is_low == from_low && (is_low ? placed[i].last >= cut_at : placed[i].first < cut_at);
    };
    double low = 0;
    double high = 0;
    double separator = 0;
    for (std::size_t i = 0; i < placed.size(); ++i) {
      const auto weight = static_cast<double>(graph_.size(placed[i].block));
      (crosses(i) ? separator : i < place ? low : high) += weight;
    }
    if (low <= 0 || high <= 0) {
      return;
    }
    const double score = (separator + 1) / (low * high);
    if (score < least) {
      least = score;
      best.emplace();
      for (std::size_t i = 0; i < placed.size(); ++i) {
        (crosses(i)  ? best->separator
         : i < place ? best->low
                     : best->high)
            .push_back(placed[i].block);
      }
    }
  }

  const BlockGraph& graph_;
  Distances distances_;
  std::int32_t marks_ = 0;
  std::vector<std::int32_t> mark_;   // of the blocks being cut
  std::vector<std::int32_t> place_;  // of each block in the order that was looked at last
};

/// Fills in borders, columns and the order, from blocks, children and parents.
void find_borders(const BlockGraph& graph, EliminationTree& tree) {
  const auto blocks = static_cast<std::size_t>(graph.count());
  tree.node_of.assign(blocks, -1);
  tree.position.assign(blocks, -1);
  std::int32_t next = 0;
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    for (const std::int32_t block : tree.nodes[n].blocks) {
      tree.node_of[static_cast<std::size_t>(block)] = static_cast<std::int32_t>(n);
      tree.position[static_cast<std::size_t>(block)] = next++;
    }
  }
  std::vector<std::int32_t> seen(blocks, -1);
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    FrontNode& node = tree.nodes[n];
    const std::int32_t end =
        node.blocks.empty() ? -1 : tree.position[static_cast<std::size_t>(node.blocks.back())];
    const auto consider = [&](std::int32_t block) {
      if (tree.position[static_cast<std::size_t>(block)] > end &&
          seen[static_cast<std::size_t>(block)] != static_cast<std::int32_t>(n)) {
        seen[static_cast<std::size_t>(block)] = static_cast<std::int32_t>(n);
        node.border.push_back(block);
      }
    };
    node.border.clear();
    for (const std::int32_t block : node.blocks) {
      for (const std::int32_t other : graph.neighbours_of(block)) {
        consider(other);
      }
    }
    for (const std::int32_t child : node.children) {
      for (const std::int32_t block : tree.nodes[static_cast<std::size_t>(child)].border) {
        consider(block);
      }
    }
    std::sort(node.border.begin(), node.border.end(), [&](std::int32_t a, std::int32_t b) {
      return tree.position[static_cast<std::size_t>(a)] <
             tree.position[static_cast<std::size_t>(b)];
    });
    node.own = 0;
    node.outer = 0;
    for (const std::int32_t block : node.blocks) {
      node.own += graph.size(block);
    }
    for (const std::int32_t block : node.border) {
      node.outer += graph.size(block);
    }
  }
}

/// Joins nodes with their parents where that is hardly more work, and drops those that are gone.
void join_fronts(EliminationTree& tree) {
  std::vector<FrontNode>& nodes = tree.nodes;
  std::vector<std::int32_t> into(nodes.size());
  std::iota(into.begin(), into.end(), 0);
  // Parents first see their children complete: children come before.
  for (std::size_t p = 0; p < nodes.size(); ++p) {
    FrontNode& parent = nodes[p];
    for (bool has_joined = true; has_joined;) {
      has_joined = false;
      double least = 0.0;
      std::size_t chosen = 0;
      for (std::size_t k = 0; k < parent.children.size(); ++k) {
        const FrontNode& child = nodes[static_cast<std::size_t>(parent.children[k])];
        const double apart =
            front_work(static_cast<double>(child.own), static_cast<double>(child.outer)) +
            front_work(static_cast<double>(parent.own), static_cast<double>(parent.outer));
        const double joined = front_work(static_cast<double>(child.own + parent.own),
                                         static_cast<double>(parent.outer));
        if (joined - apart < least) {
          least = joined - apart;
          chosen = k;
          has_joined = true;
        }
      }
      if (has_joined) {
        const std::int32_t gone = parent.children[chosen];
        FrontNode& child = nodes[static_cast<std::size_t>(gone)];
        parent.blocks.insert(parent.blocks.begin(), child.blocks.begin(), child.blocks.end());
        parent.own += child.own;
        parent.children.erase(parent.children.begin() + static_cast<std::ptrdiff_t>(chosen));
        parent.children.insert(parent.children.end(), child.children.begin(), child.children.end());
        for (const std::int32_t grandchild : child.children) {
          nodes[static_cast<std::size_t>(grandchild)].parent = static_cast<std::int32_t>(p);
        }
        child.blocks.clear();
        child.children.clear();
        into[static_cast<std::size_t>(gone)] = -1;
      }
    }
  }
  // In the order of a walk that leaves a node after its children.
  std::vector<FrontNode> ordered;
  std::vector<std::int32_t> number(nodes.size(), -1);
  const auto visit = [&](auto&& self, std::int32_t n) -> void {
    std::sort(nodes[static_cast<std::size_t>(n)].children.begin(),
              nodes[static_cast<std::size_t>(n)].children.end());
    for (const std::int32_t child : nodes[static_cast<std::size_t>(n)].children) {
      self(self, child);
    }
    number[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(ordered.size());
    ordered.push_back(std::move(nodes[static_cast<std::size_t>(n)]));
  };
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (into[n] >= 0 && nodes[n].parent < 0) {
      visit(visit, static_cast<std::int32_t>(n));
    }
  }
  for (FrontNode& node : ordered) {
    node.parent = node.parent < 0 ? -1 : number[static_cast<std::size_t>(node.parent)];
    for (std::int32_t& child : node.children) {
      child = number[static_cast<std::size_t>(child)];
    }
  }
  nodes = std::move(ordered);
}

}  // namespace dissection

double FrontNode::flops() const {
  return dissection::front_flops(static_cast<double>(own), static_cast<double>(outer));
}

EliminationTree nested_dissection(const BlockGraph& graph) {
  EliminationTree tree;
  dissection::Blocks all(static_cast<std::size_t>(graph.count()));
  std::iota(all.begin(), all.end(), 0);
  dissection::Dissection(graph).dissect(all, tree.nodes);
  dissection::find_borders(graph, tree);
  dissection::join_fronts(tree);
  dissection::find_borders(graph, tree);
  return tree;
}

EliminationTree with_sizes(EliminationTree tree, const BlockGraph& graph) {
  const auto columns_of = [&](const std::vector<std::int32_t>& blocks) {
    return std::accumulate(
        blocks.begin(), blocks.end(), std::int64_t{0},
        [&](std::int64_t sum, std::int32_t block) { return sum + graph.size(block); });
  };
  for (FrontNode& node : tree.nodes) {
    node.own = columns_of(node.blocks);
    node.outer = columns_of(node.border);
  }
  return tree;
}

FactorCost cost_of(const EliminationTree& tree) {
  FactorCost cost;
  double waiting = 0.0;  // borders of nodes whose parents have not come
  for (const FrontNode& node : tree.nodes) {
    const auto own = static_cast<double>(node.own);
    const auto outer = static_cast<double>(node.outer);
    cost.flops += node.flops();
    cost.factor_bytes += 8 * own * (own + outer);
    cost.largest_front = std::max(cost.largest_front, node.front());
    waiting += 8 * outer * outer;
    cost.peak_bytes = std::max(cost.peak_bytes, cost.factor_bytes + waiting);
    for (const std::int32_t child : node.children) {
      const auto border = static_cast<double>(tree.nodes[static_cast<std::size_t>(child)].outer);
      waiting -= 8 * border * border;
    }
  }
  return cost;
}

FactorCost dense_cost(const BlockGraph& graph) {
  const auto n = static_cast<double>(graph.columns());
  return {n * n * n / 3, 8 * n * n, 8 * n * n, graph.columns()};
}

FactorCost band_cost(const BlockGraph& graph) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(graph.count()));
  std::iota(order.begin(), order.end(), 0);
  const auto axes = static_cast<std::size_t>(graph.axes);
  if (axes > 0) {
    std::vector<std::pair<std::size_t, std::size_t>> by_count;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      std::set<double> distinct;
      for (std::size_t block = 0; block < order.size(); ++block) {
        distinct.insert(graph.coordinates[block * axes + axis]);
      }
      by_count.emplace_back(distinct.size(), axis);
    }
    std::stable_sort(by_count.begin(), by_count.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      for (const auto& [count, axis] : by_count) {
        const double left = graph.coordinates[static_cast<std::size_t>(a) * axes + axis];
        const double right = graph.coordinates[static_cast<std::size_t>(b) * axes + axis];
        if (left != right) {
          return left < right;
        }
      }
      return false;
    });
  } else if (!order.empty()) {
    const std::vector<std::int32_t> everywhere(order.size(), 0);
    const std::vector<double> along = dissection::Distances(graph).of(order, everywhere);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return along[static_cast<std::size_t>(a)] < along[static_cast<std::size_t>(b)];
    });
  }
  std::vector<std::int64_t> end(order.size(), 0);  // of each block, in this order
  std::int64_t columns = 0;
  for (const std::int32_t block : order) {
    columns += graph.size(block);
    end[static_cast<std::size_t>(block)] = columns;
  }
  std::int64_t width = 0;
  for (std::int64_t block = 0; block < graph.count(); ++block) {
    const std::int64_t begin = end[static_cast<std::size_t>(block)] - graph.size(block);
    width = std::max(width, graph.size(block));
    for (const std::int32_t other : graph.neighbours_of(block)) {
      width = std::max(width, end[static_cast<std::size_t>(other)] - begin);
    }
  }
  const auto n = static_cast<double>(columns);
  const auto w = static_cast<double>(width);
  return {n * w * w, 8 * n * w, 8 * n * w, width};
}

}  // namespace shardsolve::sparse
