/// The ring that large messages go round.
#pragma once

#include "comm/topology.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::comm {

/// The ranks in the order in which data goes from one to the next, and from the last to the first.
/// The slowest link of the ring is as fast as can be, and then the sum of all as large as can be.
/// Exact up to nine ranks, by trying all (8! orders); beyond, the best that changes of stretches of
/// the ring lead to. Rank 0 comes first; of equally good orders the first in lexicographic order up
/// to nine ranks, so where all links are equal 0, 1, 2, ... at any number. A function of the links
/// alone: all ranks come to the same.
std::vector<std::int64_t> ring_order(const Topology& topology);

/// Ranks in a circle.
class Ring {
 public:
  /// Throws Error(invalid_argument) unless `order` has each rank once.
  explicit Ring(std::vector<std::int64_t> order);

  /// The rank that `rank` reads from.
  std::int64_t before(std::int64_t rank) const;

 private:
  std::vector<std::int64_t> order_;
  std::vector<std::int64_t> place_;  // of each rank
};

}  // namespace shardsolve::comm
