/// Who does what of a linear step on GPUs, and what memory that takes.
#pragma once

#include "fbpinn/block_system.hpp"
#include "fbpinn/device_boxes.hpp"
#include "fbpinn/linear_step.hpp"
#include "fbpinn/numbers.hpp"
#include "fbpinn/training_geometry.hpp"
#include "sparse/elimination_tree.hpp"
#include "sparse/front_placement.hpp"
#include "sparse/workers.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// Who does what, for all ranks.
struct DevicePlacement {
  sparse::FrontPlacement fronts;
  DeviceBoxes boxes;
  sparse::JointFronts joint_fronts;
};
DevicePlacement place_on_devices(const sparse::EliminationTree& tree, std::int64_t ranks,
                                 const sparse::JointFronts& joint_fronts);

/// Slots in tables that have those of rank after rank, of each its own boxes'. The same for all.
struct DeviceSlots {
  std::vector<std::int64_t> begin;  ///< of each rank's; ranks + 1
  Numbers<std::int32_t> by_row;     ///< as RowLists has them, in this order; of a row by box
};
DeviceSlots slots_on_devices(const DeviceBoxes& boxes, const RowLists& lists,
                             const sparse::ForEach& each);

/// What a linear step takes of the memory of a device, of the one that needs most; `available`
/// bytes are there.
LinearStepMemory device_memory(const TrainingGeometry& geometry, std::int64_t columns_of_box,
                               const sparse::EliminationTree& tree,
                               const DevicePlacement& placement, double available);

namespace devices {

/// Where the slots of some boxes begin, one behind the other.
std::vector<std::int64_t> begins_of(const RowLists& lists, std::span<const std::int32_t> boxes);
/// Of so many boxes as are made at a time: the first one behind `first` that does not fit with
/// those from there on.
std::int64_t end_of_part(const std::vector<std::int64_t>& begin, std::int64_t columns,
                         std::int64_t first);
/// Rows times columns of the largest part.
std::int64_t largest_part(const std::vector<std::int64_t>& begin, std::int64_t columns);

}  // namespace devices
}  // namespace shardsolve::fbpinn
