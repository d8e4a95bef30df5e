#include "comm/broadcast_ways.hpp"

#include <algorithm>

namespace shardsolve::comm {

BroadcastWays::BroadcastWays(const std::vector<std::int64_t>& hosts) : on_host_(hosts.size()) {
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto first = std::find(hosts.begin(), hosts.end(), hosts[rank]) - hosts.begin();
    std::vector<std::int64_t>& ranks = on_host_[static_cast<std::size_t>(first)];
    host_.push_back(first);
    place_.push_back(ranks.size());
    ranks.push_back(static_cast<std::int64_t>(rank));
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
