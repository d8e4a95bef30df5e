#include "fbpinn/process_memory.hpp"

#include "fbpinn/process_boxes.hpp"
#include "sparse/front_placement.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardsolve::fbpinn {
namespace process_memory {

/// Numbers of the columns that each process keeps: Q^T of what it has, and R of what it multiplies
/// with.
std::vector<double> numbers_of(const ProcessBoxes& boxes, const RowLists& lists,
                               std::int64_t columns, std::int64_t processes) {
  std::vector<double> numbers(static_cast<std::size_t>(processes));
  for (std::int64_t box = 0; box < boxes.boxes(); ++box) {
    const auto at = static_cast<std::size_t>(box);
    numbers[static_cast<std::size_t>(boxes.doer[at])] += static_cast<double>(columns * columns);
    for (const std::int64_t process : boxes.keepers[at]) {
      numbers[static_cast<std::size_t>(process)] +=
          static_cast<double>(columns) * static_cast<double>(lists.rows_of(box).size());
    }
  }
  return numbers;
}

}  // namespace process_memory

std::vector<LinearStepMemory> memory_of_processes(const RowLists& lists, std::int64_t columns,
                                                  const sparse::EliminationTree& tree,
                                                  std::int64_t processes,
                                                  const sparse::JointFronts& joint_fronts) {
  using namespace process_memory;
  const sparse::FrontPlacement fronts = sparse::spread_fronts(tree, processes, joint_fronts);
  std::vector<std::int64_t> work;
  for (std::int64_t box = 0; box < lists.boxes(); ++box) {
    work.push_back(static_cast<std::int64_t>(lists.rows_of(box).size()));
  }
  const std::vector<double> features =
      numbers_of(boxes_of_fronts(tree, fronts, work, processes), lists, columns, processes);
  const std::vector<double> alone =
      numbers_of(boxes_in_turn(lists.boxes(), processes), lists, columns, processes);
  std::vector<LinearStepMemory> memory;
  for (std::int64_t process = 0; process < processes; ++process) {
    memory.push_back(
        {.features = 8.0 * features[static_cast<std::size_t>(process)],
         .features_by_cg = 8.0 * alone[static_cast<std::size_t>(process)],
         .factor = sparse::bytes_of_fronts(tree, fronts, process, processes, joint_fronts)});
  }
  return memory;
}

LinearStepMemory most_of(const std::vector<LinearStepMemory>& processes) {
  LinearStepMemory most;
  for (const LinearStepMemory& one : processes) {
    if (one.features + one.factor > most.features + most.factor) {
      most.features = one.features;
      most.factor = one.factor;
    }
    most.features_by_cg = std::max(most.features_by_cg, one.features_by_cg);
  }
  return most;
}

}  // namespace shardsolve::fbpinn
