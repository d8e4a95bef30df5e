#include "comm/broadcast_ways.hpp"

namespace shardsolve::comm {

BroadcastWays::BroadcastWays(const Topology& topology)
    : on_host_(static_cast<std::size_t>(topology.ranks())) {
  for (std::int64_t rank = 0; rank < topology.ranks(); ++rank) {
    std::int64_t host = 0;
    while (host < rank && topology.link(host, rank).kind == LinkKind::network) {
      ++host;
    }
    std::vector<std::int64_t>& ranks = on_host_[static_cast<std::size_t>(host)];
    host_.push_back(host);
    place_.push_back(ranks.size());
    ranks.push_back(rank);
  }
}

std::int64_t BroadcastWays::source(std::int64_t root, std::int64_t rank) const {
  const std::int64_t host = host_[static_cast<std::size_t>(rank)];
  if (host == host_[static_cast<std::size_t>(root)]) {
    return root;
  }
  const std::vector<std::int64_t>& ranks = on_host_[static_cast<std::size_t>(host)];
  const std::int64_t relay = ranks[place_[static_cast<std::size_t>(root)] % ranks.size()];
  return relay == rank ? root : relay;
}

}  // namespace shardsolve::comm
