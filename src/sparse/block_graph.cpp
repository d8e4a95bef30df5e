#include "sparse/block_graph.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace shardsolve::sparse {
namespace {

[[noreturn]] void refuse_graph(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

}  // namespace

std::int64_t BlockGraph::columns() const {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

std::vector<std::int64_t> BlockGraph::offsets() const {
  std::vector<std::int64_t> result(sizes.size() + 1, 0);
  std::partial_sum(sizes.begin(), sizes.end(), result.begin() + 1);
  return result;
}

void BlockGraph::require_valid() const {
  if (neighbour_begin.size() != sizes.size() + 1 || neighbour_begin.front() != 0 ||
      neighbour_begin.back() != static_cast<std::int64_t>(neighbours.size()) ||
      !std::is_sorted(neighbour_begin.begin(), neighbour_begin.end())) {
    refuse_graph(
        fmt::format("a graph of {} blocks with {} beginnings of neighbours for {} "
                    "neighbours given: they begin with 0, never fall, and end with the "
                    "number of neighbours",
                    sizes.size(), neighbour_begin.size(), neighbours.size()));
  }
  if (coordinates.size() != sizes.size() * static_cast<std::size_t>(axes)) {
    refuse_graph(fmt::format("{} coordinates given for {} blocks with {} each", coordinates.size(),
                             sizes.size(), axes));
  }
  for (std::int64_t block = 0; block < count(); ++block) {
    if (size(block) < 0) {
      refuse_graph(
          fmt::format("block {} has {} columns: 0 or more is accepted", block, size(block)));
    }
    std::int64_t before = -1;
    for (const std::int32_t other : neighbours_of(block)) {
      if (other <= before || other >= count() || other == block) {
        refuse_graph(
            fmt::format("block {} has the neighbour {} behind {}: neighbours ascend, are "
                        "other blocks, and less than {}",
                        block, other, before, count()));
      }
      before = other;
      const auto back = neighbours_of(other);
      if (!std::binary_search(back.begin(), back.end(), static_cast<std::int32_t>(block))) {
        refuse_graph(fmt::format("block {} has the neighbour {}, which does not have it as one",
                                 block, other));
      }
    }
  }
}

}  // namespace shardsolve::sparse
