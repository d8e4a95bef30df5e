// Broadcasts to processes on other hosts: one message to each host.

#include "mesh/mesh_state.hpp"
#include "mesh/mpi_loader.hpp"
#include "mesh/process_backend.hpp"
#include "mpi/other_hosts.hpp"
#include "mpi/processes.hpp"
#include "programs/gather.hpp"
#include "support/rank_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::testing {
namespace {

/// Of all processes, for one broadcast from each root.
std::int64_t messages_between_hosts(std::int64_t hosts) {
  const auto sent = std::make_shared<std::atomic<std::int64_t>>(0);
  Mesh mesh(mesh::MeshState::start(std::make_unique<mesh::ProcessBackend>(
      std::make_unique<OtherHosts>(mesh::make_mpi_transport(test_communicator()), hosts, sent))));
  run_on(mesh, [](mesh::Rank& rank) {
    for (std::int64_t root = 0; root < rank.count(); ++root) {
      EXPECT_EQ(broadcast_value(rank, root, 100 + root), 100 + root);
    }
  });
  const std::int64_t own = *sent;
  std::int64_t all = 0;
  run_on(mesh, [own, &all](mesh::Rank& rank) {
    for (const std::vector<std::int64_t>& one :
         programs::gather_from_all<std::int64_t>(rank, {own})) {
      all += one.front();
    }
  });
  return all;
}

TEST(ProcessBroadcast, OverSeveralHosts_GoesToEachOtherHostOnce) {
  const std::int64_t ranks = make_process_mesh().ranks();
  for (const std::int64_t hosts : {1, 2, 3}) {
    EXPECT_EQ(messages_between_hosts(hosts), ranks * (std::min(hosts, ranks) - 1));
  }
}

}  // namespace
}  // namespace shardsolve::testing
