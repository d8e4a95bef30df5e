#include "sparse/front_placement.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace shardsolve::sparse {
namespace front_ranks {

using Kind = FrontPlacement::Kind;

/// Of the ranks' speed, what a joint front gets.
constexpr double joint_efficiency = 0.7;

/// Flops of the subtree of each node.
std::vector<double> subtree_flops(const EliminationTree& tree) {
  std::vector<double> flops;
  for (const FrontNode& node : tree.nodes) {
    double sum = node.flops();
    for (const std::int32_t child : node.children) {
      sum += flops[static_cast<std::size_t>(child)];
    }
    flops.push_back(sum);
  }
  return flops;
}

/// The largest first, each to the rank that has least.
struct Dealt {
  std::vector<std::int64_t> rank;  ///< of each root
  double most = 0.0;               ///< flops of a rank
};
Dealt deal(const std::vector<std::int32_t>& roots, const std::vector<double>& flops,
           std::int64_t ranks) {
  std::vector<std::size_t> order(roots.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto of = [&](std::size_t i) { return flops[static_cast<std::size_t>(roots[i])]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return of(a) > of(b); });
  Dealt dealt;
  dealt.rank.resize(roots.size());
  std::vector<double> load(static_cast<std::size_t>(ranks));
  for (const std::size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    dealt.rank[i] = least - load.begin();
    *least += of(i);
  }
  dealt.most = *std::max_element(load.begin(), load.end());
  return dealt;
}

/// Which of the fronts above the subtrees are joint; `above` ascending.
std::vector<bool> joint_of(const EliminationTree& tree, const std::vector<std::int32_t>& above,
                           const JointFronts& joint_fronts) {
  std::vector<bool> joint(tree.nodes.size());
  for (const std::int32_t node : above) {
    const FrontNode& of = tree.nodes[static_cast<std::size_t>(node)];
    joint[static_cast<std::size_t>(node)] =
        of.flops() >= joint_fronts.least_flops ||
        std::any_of(of.children.begin(), of.children.end(),
                    [&](std::int32_t child) { return joint[static_cast<std::size_t>(child)]; });
  }
  return joint;
}

}  // namespace front_ranks

FrontPlacement place_fronts(const EliminationTree& tree, std::int64_t ranks,
                            const JointFronts& joint_fronts) {
  using namespace front_ranks;
  const std::vector<double> flops = subtree_flops(tree);
  std::vector<std::int32_t> roots;
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    if (tree.nodes[n].parent < 0) {
      roots.push_back(static_cast<std::int32_t>(n));
    }
  }
  std::vector<std::int32_t> above;
  std::vector<std::int32_t> best_roots;
  std::vector<std::int32_t> best_above;
  double best = std::numeric_limits<double>::infinity();
  for (std::int64_t cuts = 0; !roots.empty(); ++cuts) {
    const std::vector<bool> joint = joint_of(tree, above, joint_fronts);
    double time = deal(roots, flops, ranks).most;
    for (const std::int32_t node : above) {
      time += tree.nodes[static_cast<std::size_t>(node)].flops() /
              (joint[static_cast<std::size_t>(node)] ? joint_efficiency * static_cast<double>(ranks)
                                                     : 1.0);
    }
    if (time < best) {
      best = time;
      best_roots = roots;
      best_above = above;
    }
    // The largest subtree gives its root to those above.
    const auto largest =
        std::max_element(roots.begin(), roots.end(), [&](std::int32_t a, std::int32_t b) {
          return flops[static_cast<std::size_t>(a)] < flops[static_cast<std::size_t>(b)];
        });
    const FrontNode& node = tree.nodes[static_cast<std::size_t>(*largest)];
    if (ranks == 1 || cuts >= 8 * ranks || node.children.empty()) {
      break;
    }
    above.insert(std::upper_bound(above.begin(), above.end(), *largest), *largest);
    roots.erase(largest);
    roots.insert(roots.end(), node.children.begin(), node.children.end());
  }
  FrontPlacement placement;
  placement.kind.assign(tree.nodes.size(), Kind::subtree);
  placement.rank.assign(tree.nodes.size(), 0);
  const std::vector<bool> joint = joint_of(tree, best_above, joint_fronts);
  for (const std::int32_t node : best_above) {
    const bool is_joint = joint[static_cast<std::size_t>(node)];
    placement.kind[static_cast<std::size_t>(node)] = is_joint ? Kind::joint : Kind::top;
    if (is_joint) {
      placement.joint.push_back(node);
    }
  }
  const Dealt dealt = deal(best_roots, flops, ranks);
  for (std::size_t i = 0; i < best_roots.size(); ++i) {
    placement.rank[static_cast<std::size_t>(best_roots[i])] = dealt.rank[i];
  }
  // Parents come behind their children.
  for (std::size_t n = tree.nodes.size(); n-- > 0;) {
    if (placement.kind[n] == Kind::subtree) {
      for (const std::int32_t child : tree.nodes[n].children) {
        placement.rank[static_cast<std::size_t>(child)] = placement.rank[n];
      }
    }
  }
  return placement;
}

namespace front_ranks {

/// Takes subtrees in their order and gives each rank about the same flops. A subtree that is too
/// much for a rank by more than `slack` of its share gives its root to those above.
class Spreading {
 public:
  Spreading(const EliminationTree& tree, std::int64_t ranks, const JointFronts& joint_fronts,
            double slack)
      : tree_(tree),
        ranks_(ranks),
        joint_fronts_(joint_fronts),
        slack_(slack),
        flops_(subtree_flops(tree)) {}

  FrontPlacement placement() {
    // The more fronts are above, the less is left to be shared.
    double left = 0.0;
    for (const FrontNode& node : tree_.nodes) {
      left += node.flops();
    }
    for (int pass = 0; pass < 3; ++pass) {
      left_ = left;
      begin_rank(0);
      above_.clear();
      left = 0.0;
      placed_.rank.assign(tree_.nodes.size(), 0);
      for (std::size_t n = 0; n < tree_.nodes.size(); ++n) {
        if (tree_.nodes[n].parent < 0) {
          left += give(static_cast<std::int32_t>(n));
        }
      }
    }
    std::sort(above_.begin(), above_.end());
    choose_kinds();
    give_top();
    return std::move(placed_);
  }

 private:
  /// Returns the flops that are some rank's.
  double give(std::int32_t node) {
    const FrontNode& of = tree_.nodes[static_cast<std::size_t>(node)];
    const double flops = flops_[static_cast<std::size_t>(node)];
    const bool is_last = rank_ + 1 == ranks_;
    const bool may_be_above = !of.children.empty() || of.flops() >= joint_fronts_.least_flops;
    if (!is_last && load_ + flops > (1.0 + slack_) * share_ && may_be_above) {
      above_.push_back(node);
      double sum = 0.0;
      for (const std::int32_t child : of.children) {
        sum += give(child);
      }
      return sum;
    }
    if (!is_last && load_ > 0.0 && load_ + 0.5 * flops > share_) {
      begin_rank(rank_ + 1);
    }
    give_all(node);
    load_ += flops;
    left_ -= flops;
    if (rank_ + 1 < ranks_ && load_ >= (1.0 - slack_) * share_) {
      begin_rank(rank_ + 1);
    }
    return flops;
  }
  void give_all(std::int32_t node) {
    placed_.rank[static_cast<std::size_t>(node)] = rank_;
    for (const std::int32_t child : tree_.nodes[static_cast<std::size_t>(node)].children) {
      give_all(child);
    }
  }
  void begin_rank(std::int64_t rank) {
    rank_ = rank;
    load_ = 0.0;
    share_ = left_ / static_cast<double>(ranks_ - rank_);
  }

  void choose_kinds() {
    placed_.kind.assign(tree_.nodes.size(), Kind::subtree);
    placed_.joint.clear();
    const std::vector<bool> joint = joint_of(tree_, above_, joint_fronts_);
    for (const std::int32_t node : above_) {
      const bool is_joint = joint[static_cast<std::size_t>(node)];
      placed_.kind[static_cast<std::size_t>(node)] = is_joint ? Kind::joint : Kind::top;
      if (is_joint) {
        placed_.joint.push_back(node);
      }
    }
  }

  /// Each small front above to the one of its children's ranks that has least.
  void give_top() {
    std::vector<double> numbers(static_cast<std::size_t>(ranks_));
    const auto of_rank = [&](std::int64_t rank) -> double& {
      return numbers[static_cast<std::size_t>(rank)];
    };
    for (const Kind kind : {Kind::subtree, Kind::top}) {
      for (std::size_t n = 0; n < tree_.nodes.size(); ++n) {
        const FrontNode& node = tree_.nodes[n];
        if (placed_.kind[n] != kind) {
          continue;
        }
        std::int64_t& rank = placed_.rank[n];
        for (std::size_t i = 0; kind == Kind::top && i < node.children.size(); ++i) {
          const std::int64_t other = placed_.rank[static_cast<std::size_t>(node.children[i])];
          rank = i == 0 || of_rank(other) < of_rank(rank) ? other : rank;
        }
        of_rank(rank) += static_cast<double>(node.own) * static_cast<double>(node.front());
      }
    }
  }

  const EliminationTree& tree_;
  std::int64_t ranks_;
  const JointFronts& joint_fronts_;
  double slack_;
  std::vector<double> flops_;
  double left_ = 0.0;  ///< flops that no rank has
  double share_ = 0.0;
  std::int64_t rank_ = 0;  ///< that subtrees are given to now
  double load_ = 0.0;      ///< that it has
  std::vector<std::int32_t> above_;
  FrontPlacement placed_;
};

/// Flops that the ranks wait for, one after the other: subtrees, each level above, joint fronts.
double time_of(const EliminationTree& tree, const FrontPlacement& placement, std::int64_t ranks) {
  std::vector<double> load;
  double time = 0.0;
  const auto begin = [&] { load.assign(static_cast<std::size_t>(ranks), 0.0); };
  const auto add = [&](std::size_t n) {
    load[static_cast<std::size_t>(placement.rank[n])] += tree.nodes[n].flops();
  };
  const auto wait = [&] { time += *std::max_element(load.begin(), load.end()); };
  begin();
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    if (placement.kind[n] == Kind::subtree) {
      add(n);
    }
  }
  wait();
  for (const std::vector<std::int32_t>& level : levels_of_top(tree, placement)) {
    begin();
    for (const std::int32_t node : level) {
      add(static_cast<std::size_t>(node));
    }
    wait();
  }
  for (const std::int32_t node : placement.joint) {
    time += tree.nodes[static_cast<std::size_t>(node)].flops() /
            (joint_efficiency * static_cast<double>(ranks));
  }
  return time;
}

}  // namespace front_ranks

FrontPlacement spread_fronts(const EliminationTree& tree, std::int64_t ranks,
                             const JointFronts& joint_fronts) {
  using namespace front_ranks;
  FrontPlacement best;
  double least = std::numeric_limits<double>::infinity();
  // The more slack, the fewer fronts are above: less waits for them, and boxes lie together.
  constexpr double worth = 0.97;
  for (const double slack : {0.4, 0.2, 0.1, 0.05, 0.02}) {
    FrontPlacement placement = Spreading(tree, ranks, joint_fronts, slack).placement();
    const double time = time_of(tree, placement, ranks);
    if (best.kind.empty() || time < worth * least) {
      least = time;
      best = std::move(placement);
    }
  }
  return best;
}

std::vector<std::vector<std::int32_t>> levels_of_top(const EliminationTree& tree,
                                                     const FrontPlacement& placement) {
  std::vector<std::vector<std::int32_t>> levels;
  std::vector<std::size_t> behind(tree.nodes.size());  // levels that come first
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    if (placement.kind[n] != FrontPlacement::Kind::top) {
      continue;
    }
    std::size_t level = 0;
    for (const std::int32_t child : tree.nodes[n].children) {
      level = std::max(level, behind[static_cast<std::size_t>(child)]);
    }
    levels.resize(std::max(levels.size(), level + 1));
    levels[level].push_back(static_cast<std::int32_t>(n));
    behind[n] = level + 1;
  }
  return levels;
}

double bytes_of_fronts(const EliminationTree& tree, const FrontPlacement& placement,
                       std::int64_t rank, std::int64_t ranks, const JointFronts& joint_fronts) {
  double now = 0.0;
  double most = 0.0;
  const auto add = [&](double numbers) {
    now += 8.0 * numbers;
    most = std::max(most, now);
  };
  const auto rest_of = [&](std::int32_t node) {
    const auto outer = static_cast<double>(tree.nodes[static_cast<std::size_t>(node)].outer);
    return outer * outer;
  };
  const auto do_front = [&](std::size_t n) {
    const FrontNode& node = tree.nodes[n];
    if (placement.rank[n] != rank) {
      return;
    }
    for (const std::int32_t child : node.children) {  // of others they come when they are needed
      add(placement.rank[static_cast<std::size_t>(child)] != rank ? rest_of(child) : 0.0);
    }
    add(static_cast<double>(node.own) * static_cast<double>(node.front()) +
        rest_of(static_cast<std::int32_t>(n)));
    for (const std::int32_t child : node.children) {
      add(-rest_of(child));
    }
  };
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    if (placement.kind[n] == FrontPlacement::Kind::subtree) {
      do_front(n);
    }
  }
  for (const std::vector<std::int32_t>& level : levels_of_top(tree, placement)) {
    for (const std::int32_t node : level) {
      do_front(static_cast<std::size_t>(node));
    }
  }
  const auto is_joint = [&](std::int32_t node) {
    return placement.kind[static_cast<std::size_t>(node)] == FrontPlacement::Kind::joint;
  };
  const auto joint_of = [&](std::int32_t node) {
    const FrontNode& of = tree.nodes[static_cast<std::size_t>(node)];
    return JointFront(of.own, of.outer, ranks, joint_fronts);
  };
  for (const std::int32_t node : placement.joint) {
    const JointFront front = joint_of(node);
    const auto n = static_cast<double>(front.layout().size());
    add(n * static_cast<double>(front.layout().width(rank)));
    for (const std::int32_t child : tree.nodes[static_cast<std::size_t>(node)].children) {
      const bool is_here =
          is_joint(child) || placement.rank[static_cast<std::size_t>(child)] == rank;
      // What is sent and what is received, of half a square.
      const double share = 1.0 / static_cast<double>(ranks);
      const double moved = 0.5 * rest_of(child) *
                           (share + (is_joint(child) ? share
                                     : is_here       ? 1.0
                                                     : 0.0));
      add(moved);
      add(-moved);
      if (is_joint(child)) {
        const JointFront below = joint_of(child);
        add(-static_cast<double>(below.layout().size()) *
            static_cast<double>(below.layout().width(rank) - below.own_width(rank)));
      } else if (is_here) {
        add(-rest_of(child));
      }
    }
    const double panels = 3.0 * n * static_cast<double>(front.layout().tile());  // under way
    add(panels);
    add(-panels);
  }
  return most;
}

namespace front_ranks {

/// Nodes for which `take` says so; those that `given` names are without what is below them.
template <class Take, class Given>
Forest forest_of(const EliminationTree& tree, const Take& take, const Given& given) {
  Forest forest;
  forest.place.assign(tree.nodes.size(), -1);
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    const auto node = static_cast<std::int32_t>(n);
    if (!take(node) && !given(node)) {
      continue;
    }
    forest.place[n] = static_cast<std::int32_t>(forest.node.size());
    forest.node.push_back(node);
    FrontNode& copy = forest.tree.nodes.emplace_back(tree.nodes[n]);
    std::vector<std::int32_t> children = std::exchange(copy.children, {});
    if (given(node)) {
      copy.blocks.clear();
      copy.own = 0;
      copy.is_given = true;
      continue;
    }
    for (const std::int32_t child : children) {
      const std::int32_t place = forest.place[static_cast<std::size_t>(child)];
      copy.children.push_back(place);
      forest.tree.nodes[static_cast<std::size_t>(place)].parent = forest.place[n];
    }
  }
  for (std::size_t i = 0; i < forest.node.size(); ++i) {
    const std::int32_t parent = tree.nodes[static_cast<std::size_t>(forest.node[i])].parent;
    if (parent < 0 || forest.place[static_cast<std::size_t>(parent)] < 0) {
      forest.tree.nodes[i].parent = -1;
    }
  }
  return forest;
}

}  // namespace front_ranks

Forest subtrees_of(const EliminationTree& tree, const FrontPlacement& placement,
                   std::int64_t rank) {
  return front_ranks::forest_of(
      tree,
      [&](std::int32_t node) {
        const auto n = static_cast<std::size_t>(node);
        return placement.kind[n] == FrontPlacement::Kind::subtree && placement.rank[n] == rank;
      },
      [](std::int32_t) { return false; });
}

Forest top_of(const EliminationTree& tree, const FrontPlacement& placement) {
  const auto is_top = [&](std::int32_t node) {
    return node >= 0 && placement.kind[static_cast<std::size_t>(node)] == FrontPlacement::Kind::top;
  };
  return front_ranks::forest_of(tree, is_top, [&](std::int32_t node) {
    return !is_top(node) && is_top(tree.nodes[static_cast<std::size_t>(node)].parent);
  });
}

}  // namespace shardsolve::sparse
