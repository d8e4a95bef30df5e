// Links between GPUs and the ring over them. Left out without a GPU: see support/backend.hpp.

#include "comm/ring.hpp"
#include "comm/topology.hpp"
#include "mesh/cuda_loader.hpp"
#include "mesh/mesh_state.hpp"
#include "support/backend.hpp"
#include "support/bits.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/trace.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using comm::LinkKind;

class CudaLinks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_gpus().empty()) {
      GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
    }
  }
};

/// GPUs of the ranks: those listed in turn.
std::vector<int> gpus_of(std::int64_t ranks) {
  std::vector<int> gpus;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    gpus.push_back(test_gpus()[static_cast<std::size_t>(rank) % test_gpus().size()]);
  }
  return gpus;
}

/// Large enough for the ring.
const SlabLayout& layout() {
  static const SlabLayout layout = SlabLayout::even(6000, 4, 512);
  return layout;
}

TEST_F(CudaLinks, EveryTwoGpus_AreLinkedAndMeasured) {
  const std::vector<int> gpus = gpus_of(std::ssize(test_gpus()) + 1);  // one of them twice
  const comm::Topology said = mesh::cuda_topology(gpus);
  const comm::Topology measured = mesh::measure_cuda_topology(gpus);
  ASSERT_EQ(said.ranks(), std::ssize(gpus));
  ASSERT_EQ(measured.ranks(), std::ssize(gpus));
  for (std::int64_t from = 0; from < said.ranks(); ++from) {
    for (std::int64_t to = 0; to < said.ranks(); ++to) {
      const LinkKind kind = said.link(from, to).kind;
      const bool same = gpus[static_cast<std::size_t>(from)] == gpus[static_cast<std::size_t>(to)];
      EXPECT_EQ(kind == LinkKind::same_device, same);
      EXPECT_NE(kind, LinkKind::network);
      EXPECT_EQ(measured.link(from, to).kind, kind);
      const double bandwidth = measured.link(from, to).gigabytes_per_second;
      EXPECT_GT(bandwidth, 0.1);
      EXPECT_LT(bandwidth, 1e5);
      std::printf("  %lld -> %lld: %s, %.1f GB/s\n", static_cast<long long>(from),
                  static_cast<long long>(to), comm::name(kind), bandwidth);
    }
  }
}

TEST_F(CudaLinks, GpuThatIsNotThere_IsRefused) {
  EXPECT_TRUE(throws(ErrorKind::device, [] { mesh::cuda_topology({0, 99}); }));
  EXPECT_TRUE(throws(ErrorKind::device, [] { mesh::measure_cuda_topology({-1}); }));
}

/// With delays, or a wait that the other order needs might never show.
TEST_F(CudaLinks, AnyOrderOfTheRing_GivesTheSameBits) {
  const DenseMatrix<double> a = dense<double>(
      {.kind = matgen::Kind::gaussian_plane, .n = layout().size(), .seed = 3, .jitter = 1e-8});
  std::optional<DenseMatrix<double>> expected;
  for (const std::vector<std::int64_t>& ring :
       std::vector<std::vector<std::int64_t>>{{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 3, 2, 1}, {}}) {
    for (const std::optional<std::uint64_t> delays : {std::optional<std::uint64_t>(), {5}}) {
      const mesh::CudaOptions options{
          .devices = gpus_of(layout().ranks()), .delays = delays, .ring = ring};
      Mesh mesh(mesh::MeshState::start(mesh::make_cuda_backend(options)));
      CholeskyFactor<double> factor = cholesky_factor(mesh, shard(a, layout()));
      ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
      const ShardedMatrix<double> slabs = factor.slabs;
      ASSERT_TRUE(cholesky_inverse(mesh, std::move(factor)).ok());
      const DenseMatrix<double> inverse = whole(slabs);
      if (expected) {
        EXPECT_TRUE(same_bits(inverse, *expected));
      }
      expected = inverse;
    }
  }
}

TEST_F(CudaLinks, TraceOfCopies_SaysWhatTheyWentOver) {
  const comm::Topology topology = mesh::cuda_topology(gpus_of(layout().ranks()));
  const std::vector<std::int64_t> order = comm::ring_order(topology);
  const comm::Ring ring(order);
  Mesh mesh = make_mesh(layout().ranks());
  const DenseMatrix<double> a = dense<double>({.n = layout().size(), .seed = 3});
  Trace trace;
  ASSERT_TRUE(cholesky_factor(mesh, shard(a, layout()), {.trace = &trace}).outcome.ok());
  std::int64_t copies = 0;
  for (const Trace::Lane& lane : trace.lanes()) {
    for (const TraceSpan& span : lane.spans) {
      if (std::string(span.name) == "publish" && span.bytes >= 1 << 20) {
        ++copies;
        EXPECT_EQ(span.link, comm::name(topology.link(ring.before(lane.rank), lane.rank).kind));
      }
    }
  }
  EXPECT_GT(copies, 0);
}

}  // namespace
}  // namespace shardsolve::testing
