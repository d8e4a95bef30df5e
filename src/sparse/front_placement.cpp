#include "sparse/front_placement.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace shardsolve::sparse {
namespace front_ranks {

using Kind = FrontPlacement::Kind;

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
        std::any_of(of.children.begin(), of.children.end(), [&](std::int32_t child) {
          return joint[static_cast<std::size_t>(child)];
        });
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
              (joint[static_cast<std::size_t>(node)] ? static_cast<double>(ranks) : 1.0);
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
    return node >= 0 &&
           placement.kind[static_cast<std::size_t>(node)] == FrontPlacement::Kind::top;
  };
  return front_ranks::forest_of(tree, is_top, [&](std::int32_t node) {
    return !is_top(node) && is_top(tree.nodes[static_cast<std::size_t>(node)].parent);
  });
}

}  // namespace shardsolve::sparse
