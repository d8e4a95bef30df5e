// Where a communicator keeps each rank's workspace (Communicator::make_workspace), as CUDA IPC
// does, calls of all sizes take theirs from it.

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "support/bits.hpp"
#include "support/matrix_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/plan.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

/// What the communicators of a mesh have seen.
struct Seen {
  std::atomic<int> made = 0;           // rooms
  std::atomic<int> outside = 0;        // pieces for other ranks that lay in no room
  std::atomic<std::size_t> most = -1;  // bytes that a room may have
};

/// CPU ranks that keep their workspace like those of a process each.
class KeepingCommunicator final : public comm::Communicator {
 public:
  KeepingCommunicator(std::unique_ptr<comm::Communicator> inner, runtime::Device& device,
                      Seen& seen)
      : inner_(std::move(inner)), device_(device), seen_(seen) {}

  void broadcast(runtime::Queue& queue, comm::Bytes data, std::int64_t root) override {
    look_at({data});
    inner_->broadcast(queue, data, root);
  }
  void all_gather(runtime::Queue& queue, std::vector<comm::Bytes> pieces) override {
    look_at(pieces);
    inner_->all_gather(queue, std::move(pieces));
  }
  void gather(runtime::Queue& queue, comm::Bytes data, std::vector<comm::Bytes> pieces,
              std::int64_t root) override {
    look_at({data});
    inner_->gather(queue, data, std::move(pieces), root);
  }
  void all_to_all(runtime::Queue& queue, std::vector<comm::Bytes> send,
                  std::vector<comm::Bytes> receive) override {
    look_at(send);
    inner_->all_to_all(queue, std::move(send), std::move(receive));
  }
  std::unique_ptr<comm::Window> make_window(comm::Bytes memory) override {
    look_at({memory});
    return inner_->make_window(memory);
  }
  comm::Bytes make_workspace(std::size_t bytes) override {
    if (room_.empty() || room_.front().bytes() < bytes) {
      room_.clear();
      if (bytes > seen_.most) {
        throw Error(ErrorKind::out_of_memory, "no room");
      }
      room_.push_back(device_.allocate(bytes));
      std::memset(room_.front().data(), 0xff, bytes);  // numbers that would be noticed
      ++seen_.made;
    }
    return workspace();
  }
  comm::Bytes workspace() const override {
    return room_.empty() ? comm::Bytes{} : comm::Bytes{room_.front().data(), room_.front().bytes()};
  }
  void begin_call() override { inner_->begin_call(); }
  void end_call() override { inner_->end_call(); }
  void give_up() override { inner_->give_up(); }

 private:
  void look_at(const std::vector<comm::Bytes>& pieces) {
    const auto begin = reinterpret_cast<std::uintptr_t>(workspace().data);
    for (const comm::Bytes& piece : pieces) {
      const auto address = reinterpret_cast<std::uintptr_t>(piece.data);
      const bool inside = address >= begin && address + piece.size <= begin + workspace().size;
      seen_.outside += piece.size > 0 && !inside ? 1 : 0;
    }
  }

  std::unique_ptr<comm::Communicator> inner_;
  runtime::Device& device_;
  Seen& seen_;
  std::vector<runtime::Buffer> room_;  // one, or none
};

class KeepingBackend final : public mesh::CpuBackend {
 public:
  KeepingBackend(std::int64_t ranks, Seen& seen) : inner_(ranks), seen_(seen) {}

  std::int64_t ranks() const override { return inner_.ranks(); }
  std::unique_ptr<runtime::Device> make_device(std::int64_t rank, runtime::Pulse& pulse) override {
    auto device = CpuBackend::make_device(rank, pulse);
    devices_.push_back(device.get());
    return device;
  }
  std::unique_ptr<comm::Communicator> make_communicator(const comm::Pulses& pulses,
                                                        std::int64_t rank) override {
    return std::make_unique<KeepingCommunicator>(inner_.make_communicator(pulses, rank),
                                                 *devices_[static_cast<std::size_t>(rank)], seen_);
  }
  std::int64_t available_memory() const override { return inner_.available_memory(); }

 private:
  mesh::HostBackend inner_;
  Seen& seen_;
  std::vector<runtime::Device*> devices_;
};

constexpr std::int64_t mesh_ranks = 3;
constexpr std::int64_t small_tile = 16;

/// All that the calls give for a matrix of order n.
std::vector<DenseMatrix<double>> all_calls(Mesh& mesh, std::int64_t n) {
  const SlabLayout layout = SlabLayout::even(n, mesh_ranks, small_tile);
  std::vector<DenseMatrix<double>> results;
  CholeskyFactor<double> factor =
      cholesky_factor(mesh, shard(dense<double>({.n = n, .seed = 3}), layout));
  EXPECT_TRUE(factor.outcome.ok());
  results.push_back(whole(factor.slabs));
  for (const std::int64_t columns : {1, 40}) {
    const RightHandSides<double> x = shard_rows(right_hand_sides<double>(n, columns), layout);
    EXPECT_TRUE(cholesky_solve(mesh, factor, x).ok());
    results.push_back(whole(x));
  }
  DenseMatrix<double> numbers(1, 1);
  numbers(0, 0) = condition_estimate(mesh, factor);
  results.push_back(numbers);
  const ShardedMatrix<double> slabs = factor.slabs;
  EXPECT_TRUE(cholesky_inverse(mesh, std::move(factor)).ok());
  results.push_back(whole(slabs));
  return results;
}

class SharedWorkspace : public ::testing::Test {
 protected:
  Seen seen_;
  /// Bytes that each rank keeps.
  std::vector<std::int64_t> held() {
    std::vector<std::int64_t> bytes(mesh_ranks);
    run_on(mesh_, [&bytes](mesh::Rank& rank) {
      bytes[static_cast<std::size_t>(rank.index())] = rank.workspace_held();
    });
    return bytes;
  }

  Mesh mesh_ = Mesh(mesh::MeshState::start(std::make_unique<KeepingBackend>(mesh_ranks, seen_)));
};

TEST_F(SharedWorkspace, CallsOfDifferentSizes_GiveTheBitsOfOthersAndTakeNothingElse) {
  Mesh usual = Mesh::host(mesh_ranks);
  for (const std::int64_t n : {100, 700, 40, 900, 100}) {
    SCOPED_TRACE(n);
    const auto expected = all_calls(usual, n);
    const auto given = all_calls(mesh_, n);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(same_bits(given[i], expected[i])) << i;
    }
  }
  EXPECT_EQ(seen_.outside, 0);
}

TEST_F(SharedWorkspace, IsMadeAnewForLargerCallsOnly) {
  all_calls(mesh_, 1200);
  const int made = seen_.made;
  for (const std::int64_t n : {100, 1200, 500, 1200}) {
    all_calls(mesh_, n);
  }
  EXPECT_EQ(seen_.made, made);
  all_calls(mesh_, 4000);
  EXPECT_GT(seen_.made, made);
}

TEST_F(SharedWorkspace, IsWhatTheRankKeeps) {
  const SlabLayout layout = SlabLayout::even(800, mesh_ranks, 200);
  const ShardedMatrix<double> a = shard(dense<double>({.n = 800, .seed = 3}), layout);
  ASSERT_TRUE(cholesky_factor(mesh_, a).outcome.ok());
  const std::int64_t planned = plan_cholesky_factor(layout, Dtype::float64).workspace_bytes;
  for (const std::int64_t bytes : held()) {
    EXPECT_GE(bytes, planned);
    EXPECT_LE(bytes, planned + (std::int64_t{2} << 20));
  }
}

TEST_F(SharedWorkspace, ThatIsNotToBeHad_FailsTheCallAndLeavesSmallerOnes) {
  const auto before = all_calls(mesh_, 100);
  constexpr std::size_t block = std::size_t{2} << 20U;
  constexpr std::int64_t n = 1500;
  const SlabLayout layout = SlabLayout::even(n, mesh_ranks, 300);
  const ShardedMatrix<double> large = shard(dense<double>({.n = n, .seed = 3}), layout);
  seen_.most = 2 * block;
  const auto error = thrown_by([&] { cholesky_factor(mesh_, large); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::out_of_memory);
  EXPECT_EQ(held(), std::vector<std::int64_t>(mesh_ranks, 0));
  const auto after = all_calls(mesh_, 100);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(same_bits(after[i], before[i])) << i;
  }
  seen_.most = -1;
  EXPECT_TRUE(cholesky_factor(mesh_, large).outcome.ok());
  EXPECT_EQ(seen_.outside, 0);
}

}  // namespace
}  // namespace shardsolve::testing
