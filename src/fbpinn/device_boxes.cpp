#include "fbpinn/device_boxes.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace shardsolve::fbpinn {

std::int64_t DeviceBoxes::slots(const RowLists& lists, std::int64_t rank) const {
  std::int64_t sum = 0;
  for (const std::int32_t box : held[static_cast<std::size_t>(rank)]) {
    sum += static_cast<std::int64_t>(lists.rows_of(box).size());
  }
  return sum;
}

DeviceBoxes place_boxes(const sparse::EliminationTree& tree,
                        const sparse::FrontPlacement& placement, std::int64_t ranks) {
  using Kind = sparse::FrontPlacement::Kind;
  const auto count = static_cast<std::size_t>(ranks);
  DeviceBoxes boxes;
  boxes.owned.resize(count);
  std::vector<std::vector<std::int32_t>> beside(count);
  std::int64_t next = 0;
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    const bool is_joint = placement.kind[n] == Kind::joint;
    const auto owner = static_cast<std::size_t>(placement.rank[n]);
    for (const std::int32_t box : tree.nodes[n].blocks) {
      boxes.owned[is_joint ? static_cast<std::size_t>(next++ % ranks) : owner].push_back(box);
    }
    for (std::size_t r = 0; r < count; ++r) {
      if (is_joint) {
        beside[r].insert(beside[r].end(), tree.nodes[n].blocks.begin(), tree.nodes[n].blocks.end());
      } else if (r == owner) {
        beside[r].insert(beside[r].end(), tree.nodes[n].border.begin(), tree.nodes[n].border.end());
      }
    }
  }
  for (std::size_t r = 0; r < count; ++r) {
    std::sort(boxes.owned[r].begin(), boxes.owned[r].end());
    std::sort(beside[r].begin(), beside[r].end());
    beside[r].erase(std::unique(beside[r].begin(), beside[r].end()), beside[r].end());
    std::vector<std::int32_t>& held = boxes.held.emplace_back(boxes.owned[r]);
    std::set_difference(beside[r].begin(), beside[r].end(), boxes.owned[r].begin(),
                        boxes.owned[r].end(), std::back_inserter(held));
  }
  return boxes;
}

}  // namespace shardsolve::fbpinn
