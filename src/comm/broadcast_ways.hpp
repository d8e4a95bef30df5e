/// The ways that broadcasts take between processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::comm {

/// On its own host a root sends to each rank; to every other host it sends once, to a rank that
/// hands it on there. Roots in turn choose different ranks for that, so that each does its share.
class BroadcastWays {
 public:
  /// `hosts`: of each rank, as Transport has them.
  explicit BroadcastWays(const std::vector<std::int64_t>& hosts);

  /// From whom `rank` has what `root` broadcasts; the root from itself.
  std::int64_t source(std::int64_t root, std::int64_t rank) const;

 private:
  std::vector<std::int64_t> host_;                  // of each rank: the first rank there
  std::vector<std::size_t> place_;                  // of each rank among those there
  std::vector<std::vector<std::int64_t>> on_host_;  // the ranks of each such host
};

}  // namespace shardsolve::comm
