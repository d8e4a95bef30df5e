#include "fbpinn/process_boxes.hpp"

#include "fbpinn/device_boxes.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace shardsolve::fbpinn {
namespace process_boxes {

/// Each box to the keeper that has least to do; first those that have no choice.
void deal_work(const std::vector<std::int64_t>& work, std::int64_t processes, ProcessBoxes& boxes) {
  std::vector<std::int64_t> load(static_cast<std::size_t>(processes));
  for (const bool has_choice : {false, true}) {
    for (std::size_t box = 0; box < boxes.doer.size(); ++box) {
      const std::vector<std::int64_t>& keepers = boxes.keepers[box];
      if ((keepers.size() > 1) == has_choice) {
        const auto load_of = [&](std::int64_t process) -> std::int64_t& {
          return load[static_cast<std::size_t>(process)];
        };
        boxes.doer[box] = *std::min_element(
            keepers.begin(), keepers.end(),
            [&](std::int64_t a, std::int64_t b) { return load_of(a) < load_of(b); });
        load_of(boxes.doer[box]) += work[box];
      }
    }
  }
}

}  // namespace process_boxes

bool ProcessBoxes::keeps(std::int64_t process, std::int64_t box) const {
  const std::vector<std::int64_t>& of_box = keepers[static_cast<std::size_t>(box)];
  return std::binary_search(of_box.begin(), of_box.end(), process);
}

ProcessBoxes boxes_in_turn(std::int64_t boxes, std::int64_t processes) {
  ProcessBoxes result;
  for (std::int64_t box = 0; box < boxes; ++box) {
    result.doer.push_back(box % processes);
    result.keepers.push_back({box % processes});
  }
  return result;
}

ProcessBoxes boxes_of_fronts(const sparse::EliminationTree& tree,
                             const sparse::FrontPlacement& placement,
                             const std::vector<std::int64_t>& work, std::int64_t processes) {
  ProcessBoxes result;
  result.doer.resize(work.size());
  result.keepers.resize(work.size());
  const DeviceBoxes placed = place_boxes(tree, placement, processes);
  for (std::int64_t process = 0; process < processes; ++process) {
    for (const std::int32_t box : placed.held[static_cast<std::size_t>(process)]) {
      if (box < result.boxes()) {
        result.keepers[static_cast<std::size_t>(box)].push_back(process);
      }
    }
  }
  process_boxes::deal_work(work, processes, result);
  return result;
}

ProcessBoxes boxes_of_fronts(const sparse::EliminationTree& tree,
                             const std::vector<std::int64_t>& work,
                             const sparse::Workers& workers) {
  if (workers.together) {
    return boxes_of_fronts(tree,
                           sparse::spread_fronts(tree, workers.processes, workers.joint_fronts),
                           work, workers.processes);
  }
  ProcessBoxes result = boxes_in_turn(static_cast<std::int64_t>(work.size()), workers.processes);
  std::vector<std::int64_t> all(static_cast<std::size_t>(workers.processes));
  std::iota(all.begin(), all.end(), 0);
  std::fill(result.keepers.begin(), result.keepers.end(), all);
  return result;
}

void bring_boxes(const ProcessBoxes& made, const ProcessBoxes& wanted,
                 const std::vector<std::int64_t>& bytes, const sparse::Workers& workers,
                 const std::function<void(const sparse::Delivery&, sparse::Packet&)>& tell,
                 const std::function<void(std::int64_t box)>& forget) {
  // Of each process; what is on its way takes a few times as much.
  constexpr std::int64_t at_a_time = std::int64_t{8} << 20U;
  std::vector<std::vector<std::int64_t>> left(static_cast<std::size_t>(workers.processes));
  for (std::int64_t box = made.boxes(); box-- > 0;) {
    left[static_cast<std::size_t>(made.doer[static_cast<std::size_t>(box)])].push_back(box);
  }
  const auto are_left = [&] {
    return std::any_of(left.begin(), left.end(), [](const auto& some) { return !some.empty(); });
  };
  while (are_left()) {
    std::vector<sparse::Delivery> deliveries;
    std::vector<std::int64_t> no_longer;
    for (std::int64_t from = 0; from < workers.processes; ++from) {
      std::vector<std::int64_t>& of_process = left[static_cast<std::size_t>(from)];
      for (std::int64_t sent = 0; sent < at_a_time && !of_process.empty();) {
        const std::int64_t box = of_process.back();
        of_process.pop_back();
        for (const std::int64_t to : wanted.keepers[static_cast<std::size_t>(box)]) {
          if (to != from) {
            deliveries.push_back({box, from, to});
            sent += bytes[static_cast<std::size_t>(box)];
          }
        }
        if (from == workers.process && !wanted.keeps(from, box)) {
          no_longer.push_back(box);
        }
      }
    }
    workers.deliver(deliveries, tell);
    for (const std::int64_t box : no_longer) {
      forget(box);
    }
  }
}

}  // namespace shardsolve::fbpinn
