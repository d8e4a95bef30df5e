// What lies between ranks, from what CUDA and launchers say of them.

#include "comm/topology.hpp"

#include "tests/support/thrown.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace shardsolve::comm {
namespace {

constexpr PeerAccess self{.same_gpu = true};
constexpr PeerAccess none{};
constexpr PeerAccess over_pcie{.possible = true, .performance_rank = 2};
constexpr PeerAccess over_nvlink{.possible = true, .native_atomics = true};

TEST(Topology, GpusThatReachEachOther_AreLinkedByNvlinkOrPcie) {
  const Topology topology = topology_of_gpus(
      {{self, over_nvlink, over_pcie}, {over_nvlink, self, none}, {over_pcie, over_pcie, self}});
  EXPECT_EQ(topology.link(0, 0).kind, LinkKind::same_device);
  EXPECT_EQ(topology.link(0, 1).kind, LinkKind::nvlink);
  EXPECT_EQ(topology.link(0, 2).kind, LinkKind::pcie);
  EXPECT_EQ(topology.link(1, 2).kind, LinkKind::host) << "from 1 to 2";
  EXPECT_EQ(topology.link(2, 1).kind, LinkKind::pcie) << "from 2 to 1";
}

TEST(Topology, RanksOnOneGpu_AreOnTheSameDevice) {
  const Topology topology = topology_of_gpus({{self, self}, {self, self}});
  EXPECT_EQ(topology.link(0, 1).kind, LinkKind::same_device);
}

TEST(Topology, NominalBandwidths_FollowTheKinds) {
  double last = std::numeric_limits<double>::infinity();
  std::set<std::string> names;
  for (const LinkKind kind : {LinkKind::same_device, LinkKind::nvlink, LinkKind::pcie,
                              LinkKind::host, LinkKind::network}) {
    EXPECT_EQ(nominal_link(kind).kind, kind);
    EXPECT_LT(nominal_link(kind).gigabytes_per_second, last);
    last = nominal_link(kind).gigabytes_per_second;
    EXPECT_TRUE(names.insert(name(kind)).second);
  }
}

/// Some GPUs are joined by two NVLinks and some by one; a rank counts among links of its kind only.
TEST(Topology, WorsePerformanceRank_IsASlowerLinkOfItsKind) {
  PeerAccess weaker = over_nvlink;
  weaker.performance_rank = 1;
  const Topology topology = topology_of_gpus(
      {{self, over_nvlink, weaker}, {over_nvlink, self, over_pcie}, {weaker, over_pcie, self}});
  const double nvlink = nominal_link(LinkKind::nvlink).gigabytes_per_second;
  EXPECT_DOUBLE_EQ(topology.link(0, 1).gigabytes_per_second, nvlink);
  EXPECT_DOUBLE_EQ(topology.link(0, 2).gigabytes_per_second, nvlink / 2);
  EXPECT_DOUBLE_EQ(topology.link(1, 2).gigabytes_per_second,
                   nominal_link(LinkKind::pcie).gigabytes_per_second);
}

TEST(Topology, Processes_ShareAHostOrHaveANetworkBetween) {
  const Topology topology = topology_of_processes({7, 3, 7});
  EXPECT_EQ(topology.link(0, 2).kind, LinkKind::host);
  EXPECT_EQ(topology.link(2, 0).kind, LinkKind::host);
  EXPECT_EQ(topology.link(0, 1).kind, LinkKind::network);
  EXPECT_EQ(topology.link(1, 2).kind, LinkKind::network);
  EXPECT_EQ(topology.link(1, 1).kind, LinkKind::same_device);
}

TEST(Topology, ImpossibleBandwidths_AreRefused) {
  Topology topology(2);
  for (const double bandwidth :
       {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(testing::throws(ErrorKind::invalid_argument,
                                [&] { topology.set_link(0, 1, {LinkKind::pcie, bandwidth}); }));
  }
}

}  // namespace
}  // namespace shardsolve::comm
