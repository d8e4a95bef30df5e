/// What a linear step takes of the memory of a process.
#pragma once

#include "fbpinn/block_system.hpp"
#include "fbpinn/linear_step.hpp"
#include "sparse/elimination_tree.hpp"
#include "sparse/workers.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::fbpinn {

/// Of each of so many processes on CPUs, with `columns` of each box. What is available is not known
/// here.
std::vector<LinearStepMemory> memory_of_processes(const RowLists& lists, std::int64_t columns,
                                                  const sparse::EliminationTree& tree,
                                                  std::int64_t processes,
                                                  const sparse::JointFronts& joint_fronts);
/// Of the one that needs most with a factor, and without one.
LinearStepMemory most_of(const std::vector<LinearStepMemory>& processes);

}  // namespace shardsolve::fbpinn
