// The ways of broadcasts between processes on several hosts.

#include "comm/broadcast_ways.hpp"

#include "tests/support/fuzz.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace shardsolve::comm {
namespace {

TEST(BroadcastWays, OnOneHost_LeadStraightFromTheRoot) {
  const BroadcastWays ways({5, 5, 5});
  for (std::int64_t root = 0; root < 3; ++root) {
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(ways.source(root, rank), root);
    }
  }
}

TEST(BroadcastWays, BetweenHosts_CrossTheNetworkOncePerHost) {
  testing::fuzz(300, [](testing::Random& random) {
    std::vector<std::int64_t> hosts;
    for (std::int64_t rank = 0; rank < 1 + random.below(12); ++rank) {
      hosts.push_back(10 * random.below(4));
    }
    const auto ranks = static_cast<std::int64_t>(hosts.size());
    const auto host = [&](std::int64_t rank) { return hosts[static_cast<std::size_t>(rank)]; };
    const BroadcastWays ways(hosts);
    for (std::int64_t root = 0; root < ranks; ++root) {
      std::map<std::int64_t, int> arrivals;  // by host, over the network
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const std::int64_t source = ways.source(root, rank);
        arrivals[host(rank)] += host(source) != host(rank) ? 1 : 0;
        // straight, or by one rank that has it straight
        EXPECT_EQ(source == root ? root : ways.source(root, source), root);
      }
      for (const auto& [at, count] : arrivals) {
        EXPECT_EQ(count, at == host(root) ? 0 : 1);
      }
    }
  });
}

/// However the launcher has placed them: a host's ranks after each other, or in turn.
TEST(BroadcastWays, OfDifferentRoots_UseAllRanksOfAHost) {
  for (const std::vector<std::int64_t>& hosts :
       {std::vector<std::int64_t>{0, 0, 0, 1, 1, 1}, {0, 1, 0, 1}, {0, 1, 0, 1, 0, 1, 0, 1}}) {
    const auto ranks = static_cast<std::int64_t>(hosts.size());
    const BroadcastWays ways(hosts);
    std::set<std::int64_t> relays;
    for (std::int64_t root = 0; root < ranks; ++root) {
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const bool elsewhere =
            hosts[static_cast<std::size_t>(rank)] != hosts[static_cast<std::size_t>(root)];
        if (elsewhere && ways.source(root, rank) == root) {
          relays.insert(rank);
        }
      }
    }
    EXPECT_EQ(relays.size(), hosts.size());
  }
}

}  // namespace
}  // namespace shardsolve::comm
