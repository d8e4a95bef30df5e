#include "sparse/fronts_on_device.hpp"

#include "runtime/kernels.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

namespace shardsolve::sparse {
namespace {

bool is_wide(const FrontNode& node) { return node.own * node.front() >= runtime::wide_panel; }

}  // namespace

FrontsOnDevice::FrontsOnDevice(mesh::Rank& rank, const BlockGraph& graph, EliminationTree tree,
                               double max_bytes)
    : rank_(rank),
      kernels_(rank.kernels<runtime::FrontKernels>()),
      tree_(std::move(tree)),
      sizes_(graph.sizes),
      schedule_(schedule_fronts(tree_, max_bytes)),
      place_(schedule_.order.size()),
      fronts_(schedule_.order.size()) {
  for (std::size_t i = 0; i < place_.size(); ++i) {
    place_[static_cast<std::size_t>(schedule_.order[i])] = static_cast<std::int32_t>(i);
  }
  take_memory();
  make_tables(graph);
  find_places(graph);
  for (const FrontSchedule::Level& planned : schedule_.levels) {
    Level& level = levels_.emplace_back();
    level.batch = batch_of(planned.fronts);
    level.is_given = planned.is_given;
    for (const FrontSchedule::Range& range : planned.children) {
      level.children.push_back(batch_of(range));
    }
    level.rest = MatrixView<double>(rests_ + planned.rest_first, planned.rest_count, 1);
  }
}

runtime::FrontBatch FrontsOnDevice::batch_of(FrontSchedule::Range range) const {
  runtime::FrontBatch batch{.all = on_device_, .first = range.first, .count = range.count};
  for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
    const FrontNode& node = node_at(i);
    batch.max_own = std::max(batch.max_own, node.own);
    batch.max_outer = std::max(batch.max_outer, node.outer);
    batch.max_columns = std::max(batch.max_columns, node.front());
    if (is_wide(node)) {
      batch.wide_own = std::max(batch.wide_own, node.own);
      batch.wide_columns = std::max(batch.wide_columns, node.front());
    }
    batch.flops += node.flops();
    batch.entries += static_cast<double>(node.own) * static_cast<double>(node.front());
  }
  return batch;
}

void FrontsOnDevice::take_memory() {
  std::int64_t locals = 0;
  for (const FrontNode& node : tree_.nodes) {
    panel_count_ += node.front() * node.own;
    locals += node.front();
  }
  panels_ = rank_.workspace<double>(panel_count_, 1).data();
  rests_ = rank_.workspace<double>(schedule_.rest_count, 1).data();
  failed_ = rank_.workspace<std::int32_t>(static_cast<std::int64_t>(fronts_.size()), 1).data();
  double* panel = panels_;
  double* local = rank_.workspace<double>(locals, 1).data();
  for (const FrontSchedule::Level& level : schedule_.levels) {
    double* rest = rests_ + level.rest_first;
    for (std::int64_t i = level.fronts.first; i < level.fronts.first + level.fronts.count; ++i) {
      const FrontNode& node = node_at(i);
      runtime::DeviceFront& front = fronts_[static_cast<std::size_t>(i)];
      front.panel = panel;
      front.rest = rest;
      front.local = local;
      front.own = static_cast<std::int32_t>(node.own);
      front.outer = static_cast<std::int32_t>(node.outer);
      front.is_wide = is_wide(node) ? 1 : 0;
      panel += node.front() * node.own;
      rest += node.outer * node.outer;
      local += node.front();
    }
  }
}

std::vector<std::int64_t> FrontsOnDevice::block_begins(const FrontNode& node,
                                                       const BlockGraph& graph) const {
  std::vector<std::int64_t> begin{0};
  for (const auto* blocks : {&node.blocks, &node.border}) {
    for (const std::int32_t block : *blocks) {
      begin.push_back(begin.back() + graph.size(block));
    }
  }
  return begin;
}

/// Where the columns of each front are: in vectors, and in the parent.
void FrontsOnDevice::make_tables(const BlockGraph& graph) {
  const std::vector<std::int64_t> offsets = graph.offsets();
  std::vector<std::int32_t> table;
  struct Begin {
    std::size_t places;
    std::size_t parent_columns;
    std::size_t children;
  };
  std::vector<Begin> begins(fronts_.size());
  std::vector<std::int64_t> column_in_parent(static_cast<std::size_t>(graph.count()));
  const auto append = [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) {
      table.push_back(static_cast<std::int32_t>(first + k));
    }
  };
  for (std::size_t i = 0; i < fronts_.size(); ++i) {
    const FrontNode& node = node_at(static_cast<std::int64_t>(i));
    begins[i].places = table.size();
    for (const auto* blocks : {&node.blocks, &node.border}) {
      for (const std::int32_t block : *blocks) {
        append(offsets[static_cast<std::size_t>(block)], graph.size(block));
      }
    }
    begins[i].parent_columns = table.size();
    fronts_[i].parent = -1;
    if (node.parent >= 0) {
      fronts_[i].parent = place_[static_cast<std::size_t>(node.parent)];
      const FrontNode& parent = tree_.nodes[static_cast<std::size_t>(node.parent)];
      const std::vector<std::int64_t> begin = block_begins(parent, graph);
      std::size_t at = 0;
      for (const auto* blocks : {&parent.blocks, &parent.border}) {
        for (const std::int32_t block : *blocks) {
          column_in_parent[static_cast<std::size_t>(block)] = begin[at++];
        }
      }
      for (const std::int32_t block : node.border) {
        append(column_in_parent[static_cast<std::size_t>(block)], graph.size(block));
      }
    }
    begins[i].children = table.size();
    fronts_[i].children_count = static_cast<std::int32_t>(node.children.size());
    for (const std::int32_t child : node.children) {
      table.push_back(place_[static_cast<std::size_t>(child)]);
    }
  }
  const std::int32_t* const memory =
      rank_.upload(rank_.update(), table.data(), static_cast<std::int64_t>(table.size()));
  for (std::size_t i = 0; i < fronts_.size(); ++i) {
    fronts_[i].places = memory + begins[i].places;
    fronts_[i].parent_columns = memory + begins[i].parent_columns;
    fronts_[i].children = memory + begins[i].children;
  }
  on_device_ =
      rank_.upload(rank_.update(), fronts_.data(), static_cast<std::int64_t>(fronts_.size()));
}

void FrontsOnDevice::find_places(const BlockGraph& graph) {
  struct Seen {
    std::size_t front;   ///< the last one that has the block
    std::size_t number;  ///< of the block in it
  };
  std::vector<Seen> seen(static_cast<std::size_t>(graph.count()), Seen{fronts_.size(), 0});
  for (std::size_t i = 0; i < fronts_.size(); ++i) {
    const FrontNode& node = node_at(static_cast<std::int64_t>(i));
    const std::vector<std::int64_t> begin = block_begins(node, graph);
    std::vector<std::int32_t> blocks = node.blocks;
    blocks.insert(blocks.end(), node.border.begin(), node.border.end());
    for (std::size_t at = 0; at < blocks.size(); ++at) {
      seen[static_cast<std::size_t>(blocks[at])] = {i, at};
    }
    for (std::size_t column = 0; column < node.blocks.size(); ++column) {
      std::vector<std::size_t> rows{column};
      for (const std::int32_t other : graph.neighbours_of(blocks[column])) {
        const Seen& one = seen[static_cast<std::size_t>(other)];
        if (one.front == i && one.number > column) {
          rows.push_back(one.number);
        }
      }
      std::sort(rows.begin(), rows.end());
      double* const of_column = fronts_[i].panel + begin[column] * node.front();
      for (const std::size_t row : rows) {
        places_.push_back({blocks[row], blocks[column], of_column + begin[row], node.front()});
      }
    }
  }
}

std::optional<BlockPivot> FrontsOnDevice::factor(const std::function<void()>& store) {
  runtime::Queue& queue = rank_.update();
  const auto& base = rank_.kernels<double>();
  base.fill(queue, 0.0, MatrixView<double>(panels_, panel_count_, 1));
  const std::vector<std::int32_t> none(fronts_.size(), 0);
  queue.copy(failed_, none.data(), none.size() * sizeof(std::int32_t));
  store();
  for (std::size_t l = 0; l < levels_.size(); ++l) {
    rank_.set_step(static_cast<std::int64_t>(l));
    const Level& level = levels_[l];
    if (level.is_given) {
      continue;
    }
    base.fill(queue, 0.0, level.rest);
    for (const runtime::FrontBatch& batch : level.children) {
      kernels_.add_to_parents(queue, batch);
    }
    kernels_.factor(queue, level.batch, failed_);
  }
  const std::vector<std::int32_t> failed = rank_.fetch(
      queue, static_cast<const std::int32_t*>(failed_), static_cast<std::int64_t>(fronts_.size()));
  // The first one of the tree, as front after front would meet it.
  for (std::size_t n = 0; n < tree_.nodes.size(); ++n) {
    std::int64_t column = failed[static_cast<std::size_t>(place_[n])];
    for (const std::int32_t block : tree_.nodes[n].blocks) {
      const std::int64_t size = sizes_[static_cast<std::size_t>(block)];
      if (column > 0 && column <= size) {
        return BlockPivot{block, column - 1};
      }
      column -= size;
    }
  }
  return std::nullopt;
}

void FrontsOnDevice::solve_forward(double* x) const {
  for (const Level& level : levels_) {
    if (!level.is_given) {
      kernels_.solve_forward(rank_.update(), level.batch, x);
    }
  }
}

void FrontsOnDevice::solve_back(double* x) const {
  for (const Level& level : levels_ | std::views::reverse) {
    if (!level.is_given) {
      kernels_.solve_back(rank_.update(), level.batch, x);
    }
  }
}

void FrontsOnDevice::solve(double* x) const {
  solve_forward(x);
  solve_back(x);
}

}  // namespace shardsolve::sparse
