#include "fbpinn/device_placement.hpp"

#include "fbpinn/lists.hpp"
#include "sparse/front_schedule.hpp"
#include "sparse/fronts_on_devices.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace shardsolve::fbpinn {
namespace devices {

/// Numbers of a device's memory that rows take before they are orthonormal: so many boxes at a time
/// as fit, and at least one.
constexpr std::int64_t numbers_at_a_time = std::int64_t{1} << 26U;

std::vector<std::int64_t> begins_of(const RowLists& lists, std::span<const std::int32_t> boxes) {
  std::vector<std::int64_t> begin{0};
  for (const std::int32_t box : boxes) {
    begin.push_back(begin.back() + static_cast<std::int64_t>(lists.rows_of(box).size()));
  }
  return begin;
}

std::int64_t end_of_part(const std::vector<std::int64_t>& begin, std::int64_t columns,
                         std::int64_t first) {
  const auto boxes = static_cast<std::int64_t>(begin.size()) - 1;
  std::int64_t end = first + 1;
  while (end < boxes &&
         (begin[static_cast<std::size_t>(end) + 1] - begin[static_cast<std::size_t>(first)]) *
                 columns <=
             numbers_at_a_time) {
    ++end;
  }
  return end;
}

std::int64_t largest_part(const std::vector<std::int64_t>& begin, std::int64_t columns) {
  std::int64_t most = 0;
  for (std::int64_t first = 0; first + 1 < static_cast<std::int64_t>(begin.size());) {
    const std::int64_t end = end_of_part(begin, columns, first);
    most = std::max(most,
                    begin[static_cast<std::size_t>(end)] - begin[static_cast<std::size_t>(first)]);
    first = end;
  }
  return most * columns;
}

}  // namespace devices

DevicePlacement place_on_devices(const sparse::EliminationTree& tree, std::int64_t ranks,
                                 const sparse::JointFronts& joint_fronts) {
  DevicePlacement placement;
  placement.fronts = sparse::place_fronts(tree, ranks, joint_fronts);
  placement.boxes = place_boxes(tree, placement.fronts, ranks);
  placement.joint_fronts = joint_fronts;
  return placement;
}

DeviceSlots slots_on_devices(const DeviceBoxes& boxes, const RowLists& lists,
                             const sparse::ForEach& each) {
  DeviceSlots result;
  std::vector<std::int64_t> first(static_cast<std::size_t>(lists.boxes()));
  std::int64_t next = 0;
  for (const auto& of_rank : boxes.owned) {
    result.begin.push_back(next);
    for (const std::int32_t box : of_rank) {
      first[static_cast<std::size_t>(box)] = next;
      next += static_cast<std::int64_t>(lists.rows_of(box).size());
    }
  }
  result.begin.push_back(next);
  Numbers<std::int32_t> in_table(static_cast<std::size_t>(lists.slots()));
  each_range(lists.boxes(), each, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t box = begin; box < end; ++box) {
      const auto at = static_cast<std::size_t>(box);
      std::iota(in_table.begin() + lists.begin[at], in_table.begin() + lists.begin[at + 1],
                static_cast<std::int32_t>(first[at]));
    }
  });
  result.by_row.resize(lists.by_row.size());
  each_range(lists.slots(), each, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      result.by_row[at] = in_table[static_cast<std::size_t>(lists.by_row[at])];
    }
  });
  return result;
}

LinearStepMemory device_memory(const TrainingGeometry& geometry, std::int64_t columns_of_box,
                               const sparse::EliminationTree& tree,
                               const DevicePlacement& placement, double available) {
  const RowLists& lists = geometry.lists;
  const std::int64_t ranks = placement.boxes.ranks();
  const double other =
      8.0 * static_cast<double>(geometry.derivatives + lists.slots() + 2 * lists.rows +
                                geometry.points_count() *
                                    (geometry.set.size() * geometry.boxes.levels() + 4)) +
      4.0 * static_cast<double>(2 * lists.slots() + geometry.at.pairs.count());
  const double of_joint =
      sparse::FrontsOnDevices::joint_bytes(tree, placement.fronts, ranks, placement.joint_fronts);
  LinearStepMemory most;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto& held = placement.boxes.held[static_cast<std::size_t>(rank)];
    const double features =
        8.0 * static_cast<double>(
                  placement.boxes.slots(lists, rank) * columns_of_box +
                  devices::largest_part(devices::begins_of(lists, held), columns_of_box) +
                  static_cast<std::int64_t>(held.size()) * columns_of_box * columns_of_box);
    double factor = of_joint;
    if (rank == 0) {
      const sparse::Forest top = sparse::top_of(tree, placement.fronts);
      factor += sparse::schedule_fronts(top.tree, 0.0).bytes(top.tree);
    }
    const sparse::Forest own = sparse::subtrees_of(tree, placement.fronts, rank);
    factor +=
        sparse::schedule_fronts(own.tree, available - features - other - factor).bytes(own.tree);
    if (rank == 0 || features + other + factor > most.features + most.factor) {
      most = {.features = features + other,
              .features_by_cg = features + other,
              .factor = factor,
              .available = available};
    }
  }
  return most;
}

}  // namespace shardsolve::fbpinn
