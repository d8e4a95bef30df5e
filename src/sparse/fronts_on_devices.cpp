#include "sparse/fronts_on_devices.hpp"

#include "comm/communicator.hpp"
#include "dense/cholesky/factor.hpp"
#include "programs/bytes_of.hpp"
#include "programs/gather.hpp"
#include "runtime/kernels.hpp"

#include <shardsolve/error.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace shardsolve::sparse {
namespace devices_fronts {

/// Pieces of memory begin at multiples of so many numbers.
std::int64_t whole_piece(std::int64_t numbers) {
  constexpr std::int64_t unit = 64;
  return std::max<std::int64_t>((numbers + unit - 1) / unit, 1) * unit;
}

}  // namespace devices_fronts

FrontsOnDevices::FrontsOnDevices(mesh::Rank& rank, const BlockGraph& graph, EliminationTree tree,
                                 FrontPlacement placement, const JointFronts& joint_fronts,
                                 double max_bytes)
    : rank_(rank),
      kernels_(rank.kernels<runtime::FrontKernels>()),
      graph_(graph),
      tree_(std::move(tree)),
      placement_(std::move(placement)),
      offsets_(graph.offsets()),
      subtrees_(subtrees_of(tree_, placement_, rank.index())),
      top_(top_of(tree_, placement_)) {
  if (placement_.kind.size() != tree_.nodes.size()) {
    throw Error(ErrorKind::internal, "internal: fronts were placed as those of another tree");
  }
  double left = max_bytes - joint_bytes(tree_, placement_, rank.count(), joint_fronts);
  if (is_first() && !top_.node.empty()) {
    // In as little as can be: there are few.
    of_top_.emplace(rank, graph, top_.tree, 0.0);
    left -= schedule_fronts(top_.tree, 0.0).bytes(top_.tree);
  }
  if (!subtrees_.node.empty()) {
    of_subtrees_.emplace(rank, graph, subtrees_.tree, left);
  }
  for (const std::int32_t node : placement_.joint) {
    Joint& joint = joint_.emplace_back(
        Joint{node,
              JointFront(shape(node).own, shape(node).outer, rank.count(), joint_fronts),
              {},
              {},
              {}});
    if (shape(node).outer > 0) {
      joint.l =
          rank.workspace<double>(joint.front.layout().size(), joint.front.own_width(rank.index()));
    }
  }
  make_tables();
}

double FrontsOnDevices::joint_bytes(const EliminationTree& tree, const FrontPlacement& placement,
                                    std::int64_t ranks, const JointFronts& joint_fronts) {
  double kept = 0.0;
  double now = 0.0;  // slabs, whose rests wait for their parents
  double most = 0.0;
  const auto slab_of = [&](const JointFront& front) {
    return static_cast<double>(front.layout().size()) *
           static_cast<double>(front.layout().max_width());
  };
  const auto front_of = [&](std::int32_t node) {
    const FrontNode& of = tree.nodes[static_cast<std::size_t>(node)];
    return JointFront(of.own, of.outer, ranks, joint_fronts);
  };
  for (const std::int32_t node : placement.joint) {
    const FrontNode& of = tree.nodes[static_cast<std::size_t>(node)];
    const JointFront front = front_of(node);
    const auto n = static_cast<double>(front.layout().size());
    now += slab_of(front);
    double largest_child = 0.0;
    double below = 0.0;
    for (const std::int32_t child : of.children) {
      const FrontNode& one = tree.nodes[static_cast<std::size_t>(child)];
      const auto outer = static_cast<double>(one.outer);
      const bool is_joint =
          placement.kind[static_cast<std::size_t>(child)] == FrontPlacement::Kind::joint;
      below += is_joint ? slab_of(front_of(child)) : 0.0;
      // What is sent and what is received.
      const double share = 1.0 / static_cast<double>(ranks);
      largest_child =
          std::max(largest_child, 0.5 * outer * outer * ((is_joint ? share : 1.0) + share));
    }
    most = std::max(most, now + largest_child);
    now -= below;
    // L, and panels under way.
    kept += (of.outer > 0 ? n * static_cast<double>(front.own_width(0)) : 0.0) +
            3.0 * n * static_cast<double>(front.layout().tile());
  }
  return 8.0 * (kept + most);
}

auto FrontsOnDevices::joint_of(std::int32_t node) -> Joint* {
  const auto found = std::find_if(joint_.begin(), joint_.end(),
                                  [node](const Joint& one) { return one.node == node; });
  return found == joint_.end() ? nullptr : &*found;
}

std::vector<std::int64_t> FrontsOnDevices::columns_in_parent(std::int32_t child) const {
  const FrontNode& parent = shape(shape(child).parent);
  std::vector<std::int64_t> first(static_cast<std::size_t>(graph_.count()));
  std::int64_t at = 0;
  for (const auto* blocks : {&parent.blocks, &parent.border}) {
    for (const std::int32_t block : *blocks) {
      first[static_cast<std::size_t>(block)] = at;
      at += graph_.size(block);
    }
  }
  std::vector<std::int64_t> result;
  for (const std::int32_t block : shape(child).border) {
    for (std::int64_t k = 0; k < graph_.size(block); ++k) {
      result.push_back(first[static_cast<std::size_t>(block)] + k);
    }
  }
  return result;
}

/// On the rank that has it.
MatrixView<double> FrontsOnDevices::whole_rest(std::int32_t node) const {
  const auto n = static_cast<std::size_t>(node);
  return kind(node) == FrontPlacement::Kind::top ? of_top_->rest(top_.place[n])
                                                 : of_subtrees_->rest(subtrees_.place[n]);
}

MatrixView<double> FrontsOnDevices::take(std::int64_t rows, std::int64_t columns) {
  const std::int64_t count = devices_fronts::whole_piece(rows * columns);
  auto best = spare_.end();
  for (auto one = spare_.begin(); one != spare_.end(); ++one) {
    if (one->rows() >= count && (best == spare_.end() || one->rows() < best->rows())) {
      best = one;
    }
  }
  if (best == spare_.end()) {
    return MatrixView<double>(rank_.workspace<double>(count, 1).data(), rows, columns);
  }
  double* const memory = best->data();
  // What is left of it stays spare.
  if (best->rows() > count) {
    *best = MatrixView<double>(memory + count, best->rows() - count, 1);
  } else {
    spare_.erase(best);
  }
  return {memory, rows, columns};
}

void FrontsOnDevices::give_back(MatrixView<double> memory) {
  const std::int64_t count = devices_fronts::whole_piece(memory.rows() * memory.columns());
  MatrixView<double> piece(memory.data(), count, 1);
  // With its neighbours, if they are spare.
  for (auto one = spare_.begin(); one != spare_.end();) {
    if (one->data() + one->rows() == piece.data()) {
      piece = MatrixView<double>(one->data(), one->rows() + piece.rows(), 1);
      one = spare_.erase(one);
    } else if (piece.data() + piece.rows() == one->data()) {
      piece = MatrixView<double>(piece.data(), one->rows() + piece.rows(), 1);
      one = spare_.erase(one);
    } else {
      ++one;
    }
  }
  spare_.push_back(piece);
}

/// The first one of the tree that any rank has.
std::optional<BlockPivot> FrontsOnDevices::agree(const std::optional<BlockPivot>& mine) {
  if (rank_.count() == 1) {
    return mine;
  }
  const std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> told{none, 0, 0};
  if (mine) {
    told = {tree_.node_of[static_cast<std::size_t>(mine->block)], mine->block, mine->column};
  }
  const auto all = programs::gather_from_all(rank_, told);
  const auto& first = *std::min_element(all.begin(), all.end());
  if (first[0] == none) {
    return std::nullopt;
  }
  return BlockPivot{static_cast<std::int32_t>(first[1]), first[2]};
}

std::optional<BlockPivot> FrontsOnDevices::factor(const Store& store) {
  std::optional<BlockPivot> failure;
  if (of_subtrees_) {
    failure = of_subtrees_->factor([&] { store(of_subtrees_->places()); });
  }
  if (failure = agree(failure); failure) {
    return failure;
  }
  if (!top_.node.empty()) {
    bring_to_top();
    if (of_top_) {
      failure = of_top_->factor([&] { store(of_top_->places()); });
    }
    if (failure = agree(failure); failure) {
      return failure;
    }
  }
  for (Joint& joint : joint_) {
    if (failure = factor_joint(joint, store); failure) {
      break;
    }
  }
  for (Joint& joint : joint_) {  // of a failure, or of roots
    if (!joint.slab.empty() && (failure || joint.l.data() != joint.slab.data())) {
      give_back(joint.slab);
    }
    joint.slab = {};
    if (!failure) {
      joint.solve = std::make_unique<JointSolve<double>>(rank_, joint.front, joint.l, 1);
    }
  }
  return failure;
}

std::optional<BlockPivot> FrontsOnDevices::factor_joint(Joint& joint, const Store& store) {
  const SlabLayout& layout = joint.front.layout();
  const std::int64_t width = layout.width(rank_.index());
  const std::int64_t own_width = joint.front.own_width(rank_.index());
  const auto& base = rank_.kernels<double>();
  joint.slab = take(layout.size(), width);
  base.fill(rank_.update(), 0.0, joint.slab);
  store_own_columns(joint, store);
  for (const std::int32_t child : shape(joint.node).children) {
    add_child(child, joint);
    if (Joint* const below = joint_of(child); below != nullptr) {
      give_back(std::exchange(below->slab, {}));
    }
  }
  const Outcome outcome =
      dense::cholesky::factor<double>(rank_, layout, joint.slab, joint.front.end());
  for (runtime::Queue* const queue :
       {&rank_.panel(), &rank_.panel_rest(), &rank_.update(), &rank_.transfer()}) {
    rank_.finish(*queue);
  }
  if (!outcome.ok()) {
    std::int64_t column = outcome.location->rows_before;
    for (const std::int32_t block : shape(joint.node).blocks) {
      if (column < graph_.size(block)) {
        return BlockPivot{block, column};
      }
      column -= graph_.size(block);
    }
  }
  if (shape(joint.node).outer > 0) {
    base.copy(rank_.update(), joint.slab.columns_from(0, own_width), joint.l);
    rank_.finish(rank_.update());
  } else {
    joint.l = joint.slab;
  }
  return std::nullopt;
}

}  // namespace shardsolve::sparse
