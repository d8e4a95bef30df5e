// The order of the ring, against all orders where these can be tried and against the known best on
// machines that are built like a tree.

#include "comm/ring.hpp"

#include "tests/support/fuzz.hpp"
#include "tests/support/thrown.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

namespace shardsolve::comm {
namespace {

using ::testing::ElementsAre;
using Order = std::vector<std::int64_t>;

Order identity(std::int64_t ranks) {
  Order order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Bandwidths in tests are whole numbers, or sums would depend on their order.
std::pair<double, double> slowest_and_sum(const Topology& topology, const Order& order) {
  double slowest = std::numeric_limits<double>::infinity();
  double sum = 0.0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t next = i + 1 < order.size() ? i + 1 : 0;
    const double speed = topology.link(order[i], order[next]).gigabytes_per_second;
    slowest = std::min(slowest, speed);
    sum += speed;
  }
  return {slowest, sum};
}

/// Tries all: the first of the best in lexicographic order.
Order oracle(const Topology& topology) {
  Order best;
  std::pair<double, double> rating{-1.0, -1.0};
  Order order{0};
  std::vector<bool> used(static_cast<std::size_t>(topology.ranks()), false);
  const std::function<void()> extend = [&] {
    if (std::ssize(order) == topology.ranks()) {
      if (slowest_and_sum(topology, order) > rating) {
        best = order;
        rating = slowest_and_sum(topology, order);
      }
      return;
    }
    for (std::int64_t next = 1; next < topology.ranks(); ++next) {
      if (!used[static_cast<std::size_t>(next)]) {
        used[static_cast<std::size_t>(next)] = true;
        order.push_back(next);
        extend();
        order.pop_back();
        used[static_cast<std::size_t>(next)] = false;
      }
    }
  };
  extend();
  return best;
}

/// Links of what `kind` says of each two ranks, nominal.
Topology made_of(std::int64_t ranks,
                 const std::function<LinkKind(std::int64_t, std::int64_t)>& kind) {
  Topology topology(ranks);
  for (std::int64_t from = 0; from < ranks; ++from) {
    for (std::int64_t to = 0; to < ranks; ++to) {
      if (from != to) {
        topology.set_link(from, to, nominal_link(kind(from, to)));
      }
    }
  }
  return topology;
}

Topology random_links(std::int64_t ranks, std::int64_t different, testing::Random& random) {
  Topology topology(ranks);
  for (std::int64_t from = 0; from < ranks; ++from) {
    for (std::int64_t to = 0; to < ranks; ++to) {
      topology.set_link(from, to,
                        {LinkKind::pcie, static_cast<double>(1 + random.below(different))});
    }
  }
  return topology;
}

TEST(RingOrder, EqualLinks_KeepTheRanksInOrder) {
  for (const LinkKind kind : {LinkKind::nvlink, LinkKind::pcie, LinkKind::host}) {
    for (const std::int64_t ranks : {1, 2, 3, 4, 8, 9, 10, 16}) {
      EXPECT_EQ(ring_order(made_of(ranks, [&](auto, auto) { return kind; })), identity(ranks));
    }
  }
}

TEST(RingOrder, RandomLinks_GiveTheBestOfAllOrders) {
  testing::fuzz(300, [](testing::Random& random) {
    const Topology topology = random_links(1 + random.below(7), 1 + random.below(40), random);
    EXPECT_EQ(ring_order(topology), oracle(topology));
  });
  testing::fuzz(3, [](testing::Random& random) {
    const Topology topology = random_links(9, 4, random);
    EXPECT_EQ(ring_order(topology), oracle(topology));
  });
}

/// The faster of the two rings would be 0, 1, 2, 3, but for one link.
TEST(RingOrder, SlowestLink_CountsBeforeTheSum) {
  const Topology topology = made_of(4, [](std::int64_t from, std::int64_t to) {
    if (from + to == 3 && from * to == 0) {
      return LinkKind::host;
    }
    return to - from == 1 ? LinkKind::nvlink : LinkKind::pcie;
  });
  const Order order = ring_order(topology);
  EXPECT_EQ(slowest_and_sum(topology, order).first,
            nominal_link(LinkKind::pcie).gigabytes_per_second);
  EXPECT_LT(slowest_and_sum(topology, order).second, slowest_and_sum(topology, identity(4)).second);
}

TEST(RingOrder, TwoIslandsOfNvlink_AreLeftOnceEach) {
  const Topology topology = made_of(8, [](std::int64_t from, std::int64_t to) {
    return from % 2 == to % 2 ? LinkKind::nvlink : LinkKind::pcie;
  });
  EXPECT_THAT(ring_order(topology), ElementsAre(0, 1, 3, 5, 7, 2, 4, 6));
}

TEST(RingOrder, PcieInPairs_GoesThroughTheHostTwice) {
  const Topology topology = made_of(4, [](std::int64_t from, std::int64_t to) {
    return from % 2 == to % 2 ? LinkKind::pcie : LinkKind::host;
  });
  EXPECT_THAT(ring_order(topology), ElementsAre(0, 1, 3, 2));
}

TEST(RingOrder, TwoHosts_AreLeftOnceEach) {
  const Topology topology = topology_of_processes({0, 1, 1, 0, 0, 1});
  EXPECT_THAT(ring_order(topology), ElementsAre(0, 1, 2, 5, 3, 4));
}

/// Up to hosts of sockets of pairs, ranks in any order: the best ring leaves nothing before it has
/// been everywhere in it.
TEST(RingOrder, ManyRanksInATree_GiveTheBestRing) {
  testing::fuzz(100, [](testing::Random& random) {
    const std::int64_t ranks = 10 + random.below(11);
    const std::int64_t hosts = 1 + random.below(3);
    const std::int64_t sockets = 1 + random.below(3);
    const std::int64_t pairs = 1 + random.below(3);
    std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> place;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      place.emplace_back(random.below(hosts), random.below(sockets), random.below(pairs));
    }
    const auto at = [&](std::int64_t rank) { return place[static_cast<std::size_t>(rank)]; };
    const Topology topology = made_of(ranks, [&](std::int64_t from, std::int64_t to) {
      const auto [host, socket, pair] = at(from);
      const auto [other_host, other_socket, other_pair] = at(to);
      if (host != other_host) {
        return LinkKind::network;
      }
      if (socket != other_socket) {
        return LinkKind::host;
      }
      return pair != other_pair ? LinkKind::pcie : LinkKind::nvlink;
    });
    Order best = identity(ranks);
    std::sort(best.begin(), best.end(), [&](auto a, auto b) { return at(a) < at(b); });
    EXPECT_EQ(slowest_and_sum(topology, ring_order(topology)), slowest_and_sum(topology, best));
  });
}

TEST(RingOrder, ManyRanksWithRandomLinks_GiveAGoodRing) {
  testing::fuzz(8, [](testing::Random& random) {
    const Topology topology = random_links(10, 30, random);
    const Order order = ring_order(topology);
    EXPECT_NO_THROW(Ring{order});
    EXPECT_EQ(order.front(), 0);
    const auto [slowest, sum] = slowest_and_sum(topology, order);
    const auto [best_slowest, best_sum] = slowest_and_sum(topology, oracle(topology));
    EXPECT_GE(slowest, 0.9 * best_slowest);
    EXPECT_GE(sum, 0.9 * best_sum);
  });
}

TEST(Ring, Neighbours_FollowTheOrder) {
  const Ring ring({2, 0, 3, 1});
  EXPECT_EQ(ring.before(0), 2);
  EXPECT_EQ(ring.before(2), 1) << "from the last to the first";
  EXPECT_EQ(ring.before(3), 0);
}

TEST(Ring, OrderThatIsNone_IsRefused) {
  for (const Order& order : {Order{0, 2}, Order{0, 1, 1}, Order{1, 2, 3}, Order{-1, 0}}) {
    EXPECT_TRUE(testing::throws(ErrorKind::invalid_argument, [&] { Ring ring(order); }));
  }
}

}  // namespace
}  // namespace shardsolve::comm
