// Solves with fronts of several devices. Between subtrees, the small fronts above and the joint
// ones vectors go through the host of each rank, the same on all.

#include "comm/communicator.hpp"
#include "sparse/fronts_on_devices.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardsolve::sparse {

std::vector<FrontsOnDevices::Part> FrontsOnDevices::parts_of(std::int32_t node) const {
  std::vector<Part> parts;
  for (const std::int32_t block : shape(node).blocks) {
    parts.push_back({offsets_[static_cast<std::size_t>(block)], graph_.size(block)});
  }
  return parts;
}

auto FrontsOnDevices::table_for(const std::vector<std::int64_t>& counts) -> Table {
  Table table;
  for (const std::int64_t count : counts) {
    table.begin.push_back(table.begin.back() + count);
  }
  table.on_device =
      rank_.workspace<double>(std::max<std::int64_t>(table.begin.back(), 1), 1).data();
  table.on_host = rank_.host_workspace<double>(std::max<std::int64_t>(table.begin.back(), 1));
  return table;
}

/// From the rank's own numbers, which its update queue has enqueued, all, on device and host.
void FrontsOnDevices::gather(Table& table) {
  rank_.finish(rank_.update());
  std::vector<comm::Bytes> pieces;
  for (std::size_t r = 0; r + 1 < table.begin.size(); ++r) {
    pieces.push_back(
        {table.on_device + table.begin[r],
         static_cast<std::size_t>(table.begin[r + 1] - table.begin[r]) * sizeof(double)});
  }
  rank_.communicator().all_gather(rank_.transfer(), std::move(pieces));
  rank_.transfer().copy(table.on_host, table.on_device,
                        static_cast<std::size_t>(table.begin.back()) * sizeof(double));
  rank_.finish(rank_.transfer());
}

void FrontsOnDevices::make_tables() {
  using Kind = FrontPlacement::Kind;
  x_ = rank_.workspace<double>(std::max<std::int64_t>(graph_.columns(), 1), 1).data();
  const auto ranks = static_cast<std::size_t>(rank_.count());
  std::vector<std::int64_t> of_roots(ranks);
  std::vector<std::int64_t> of_top(ranks);
  std::vector<std::int64_t> solved(ranks);
  std::vector<std::int64_t> solved_top(ranks);
  solved_parts_.resize(ranks);
  top_parts_.resize(ranks);
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    const auto at = static_cast<std::size_t>(r);
    for (std::size_t n = 0; n < tree_.nodes.size(); ++n) {
      const auto node = static_cast<std::int32_t>(n);
      if (kind(node) == Kind::joint || owner(node) != r) {
        continue;
      }
      for (const Part& part : parts_of(node)) {
        solved_parts_[at].push_back(part);
        solved[at] += part.count;
        if (kind(node) == Kind::top) {
          top_parts_[at].push_back(part);
          solved_top[at] += part.count;
        }
      }
      const std::int32_t parent = shape(node).parent;
      if (parent < 0 || kind(parent) == kind(node)) {
        continue;
      }
      const bool is_top = kind(node) == Kind::top;
      (is_top ? top_roots_ : roots_).push_back(node);
      (is_top ? of_top : of_roots)[at] += shape(node).outer;
    }
  }
  borders_ = table_for(of_roots);
  top_borders_ = table_for(of_top);
  solved_ = table_for(solved);
  top_solved_ = table_for(solved_top);
}

/// Joint fronts from what is below them, and down again: their parts of x.
void FrontsOnDevices::solve_joint(std::vector<double>& x) {
  std::vector<std::vector<double>> borders(tree_.nodes.size());
  const auto take_borders = [&](const Table& table, const std::vector<std::int32_t>& roots) {
    const double* from = table.on_host;
    for (const std::int32_t node : roots) {
      borders[static_cast<std::size_t>(node)].assign(from, from + shape(node).outer);
      from += shape(node).outer;
    }
  };
  take_borders(borders_, roots_);
  take_borders(top_borders_, top_roots_);
  std::vector<std::vector<double>> vectors;
  for (Joint& joint : joint_) {
    const FrontNode& of = shape(joint.node);
    std::vector<double>& y = vectors.emplace_back();
    for (const Part& part : parts_of(joint.node)) {
      y.insert(y.end(), x.begin() + part.first, x.begin() + part.first + part.count);
    }
    y.resize(static_cast<std::size_t>(of.front()));
    for (const std::int32_t child : of.children) {
      const std::vector<std::int64_t> in_parent = columns_in_parent(child);
      for (std::size_t i = 0; i < in_parent.size(); ++i) {
        y[static_cast<std::size_t>(in_parent[i])] += borders[static_cast<std::size_t>(child)][i];
      }
    }
    joint.solve->forward(MatrixView<double>(y.data(), of.front(), 1));
    borders[static_cast<std::size_t>(joint.node)].assign(y.begin() + of.own, y.end());
  }
  for (std::size_t i = joint_.size(); i-- > 0;) {
    const FrontNode& of = shape(joint_[i].node);
    std::vector<double>& y = vectors[i];
    auto to = y.begin() + of.own;
    for (const std::int32_t block : of.border) {
      const auto first = x.begin() + offsets_[static_cast<std::size_t>(block)];
      to = std::copy(first, first + graph_.size(block), to);
    }
    joint_[i].solve->back(MatrixView<double>(y.data(), of.front(), 1));
    auto from = y.begin();
    for (const Part& part : parts_of(joint_[i].node)) {
      std::copy_n(from, part.count, x.begin() + part.first);
      from += part.count;
    }
  }
}

void FrontsOnDevices::solve(double* x) {
  runtime::Queue& queue = rank_.update();
  const auto n = static_cast<std::size_t>(graph_.columns());
  const auto mine = static_cast<std::size_t>(rank_.index());
  queue.copy(x_, x, n * sizeof(double));
  if (rank_.count() == 1) {
    if (of_subtrees_) {
      of_subtrees_->solve(x_);
    }
    queue.copy(x, x_, n * sizeof(double));
    rank_.finish(queue);
    return;
  }
  rank_.finish(queue);
  std::vector<double> known(x, x + n);
  // Up: subtrees, the small fronts above, joint ones.
  if (of_subtrees_) {
    of_subtrees_->solve_forward(x_);
  }
  double* to = borders_.on_device;
  for (const std::int32_t node : roots_) {
    if (owner(node) == rank_.index()) {
      queue.copy(to, of_subtrees_->border(subtrees_.place[static_cast<std::size_t>(node)]),
                 static_cast<std::size_t>(shape(node).outer) * sizeof(double));
    }
    to += shape(node).outer;
  }
  gather(borders_);
  if (of_top_) {
    const double* from = borders_.on_device;
    for (const std::int32_t node : roots_) {
      const std::int32_t place = top_.place[static_cast<std::size_t>(node)];
      if (place >= 0) {
        queue.copy(of_top_->border(place), from,
                   static_cast<std::size_t>(shape(node).outer) * sizeof(double));
      }
      from += shape(node).outer;
    }
    of_top_->solve_forward(x_);
    to = top_borders_.on_device;
    for (const std::int32_t node : top_roots_) {
      queue.copy(to, of_top_->border(top_.place[static_cast<std::size_t>(node)]),
                 static_cast<std::size_t>(shape(node).outer) * sizeof(double));
      to += shape(node).outer;
    }
  }
  if (!joint_.empty()) {
    gather(top_borders_);
    solve_joint(known);
  }
  // Down. What others have found comes between what a device has found itself on the way up.
  std::vector<double> own(n);
  queue.copy(own.data(), x_, n * sizeof(double));
  rank_.finish(queue);
  const auto begin = [&] {
    for (const Part& part : solved_parts_[mine]) {
      std::copy_n(own.begin() + part.first, part.count, known.begin() + part.first);
    }
    queue.copy(x_, known.data(), n * sizeof(double));
    rank_.finish(queue);
  };
  if (of_top_) {
    begin();
    of_top_->solve_back(x_);
  }
  if (!top_.node.empty()) {
    tell(top_solved_, top_parts_, own, known);
  }
  begin();
  if (of_subtrees_) {
    of_subtrees_->solve_back(x_);
  }
  tell(solved_, solved_parts_, own, known);
  std::copy(known.begin(), known.end(), x);
}

/// The parts of x that each rank has on its device, to all.
void FrontsOnDevices::tell(Table& table, const std::vector<std::vector<Part>>& parts,
                           std::vector<double>& own, std::vector<double>& known) {
  runtime::Queue& queue = rank_.update();
  const auto mine = static_cast<std::size_t>(rank_.index());
  if (!parts[mine].empty()) {
    queue.copy(own.data(), x_, own.size() * sizeof(double));
    rank_.finish(queue);
  }
  double* const first = table.on_host + table.begin[mine];
  double* to = first;
  for (const Part& part : parts[mine]) {
    to = std::copy_n(own.begin() + part.first, part.count, to);
  }
  queue.copy(table.on_device + table.begin[mine], first,
             static_cast<std::size_t>(to - first) * sizeof(double));
  gather(table);
  const double* from = table.on_host;
  for (const std::vector<Part>& of_rank : parts) {
    for (const Part& part : of_rank) {
      std::copy_n(from, part.count, known.begin() + part.first);
      from += part.count;
    }
  }
}

}  // namespace shardsolve::sparse
