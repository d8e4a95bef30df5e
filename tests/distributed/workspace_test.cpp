// A plan is made before anything is allocated: what a call then allocates has to be what was said.
//
// Observed where every backend of this tier gets its memory, std::aligned_alloc, which this program
// replaces. Sanitizers bring an allocator of their own; there these tests are left out.

#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

namespace shardsolve::testing {
namespace {

/// Bytes that each thread has asked for since `start`; a rank allocates on its own thread.
class Meter {
 public:
  void start() {
    const std::lock_guard lock(mutex_);
    bytes_.clear();
    running_ = true;
  }
  void note(std::size_t bytes) {
    if (running_) {
      const std::lock_guard lock(mutex_);
      bytes_[std::this_thread::get_id()] += static_cast<std::int64_t>(bytes);
    }
  }
  /// Of the thread that asked for most.
  std::int64_t stop() {
    running_ = false;
    const std::lock_guard lock(mutex_);
    std::int64_t most = 0;
    for (const auto& [thread, bytes] : bytes_) {
      most = std::max(most, bytes);
    }
    return most;
  }

 private:
  std::atomic<bool> running_{false};
  std::mutex mutex_;
  std::map<std::thread::id, std::int64_t> bytes_;
};

Meter meter;

}  // namespace
}  // namespace shardsolve::testing

extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  shardsolve::testing::meter.note(size);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}

namespace shardsolve::testing {
namespace {

struct Shape {
  std::string name;
  SlabLayout layout;

  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    return out << shape.name;
  }
};

class Workspace : public ::testing::TestWithParam<Shape> {
 protected:
  const SlabLayout& layout_ = GetParam().layout;
  Mesh mesh_ = Mesh::host(layout_.ranks());
  ShardedMatrix<double> matrix_ =
      shard(dense<double>({.kind = matgen::Kind::minimum, .n = layout_.size()}), layout_);

  /// Vectors of small things that no plan counts, and memory rounded up to cache lines.
  static constexpr std::int64_t small_change = 8192;

  template <class Call>
  static std::int64_t allocated_by(Call call) {
    meter.start();
    call();
    return meter.stop();
  }
};

TEST_P(Workspace, OfAFactor_IsWhatThePlanSays) {
  const Plan plan = plan_cholesky_factor(layout_, Dtype::float64);
  const std::int64_t taken = allocated_by([&] { cholesky_factor(mesh_, matrix_); });
  // The check of the input takes a few vectors before the panels, and gives them back.
  const std::int64_t vectors = 16 * 8 * layout_.size();
  EXPECT_LE(taken, plan.workspace_bytes + vectors + small_change);
  EXPECT_GE(taken, plan.workspace_bytes / 2);
}

TEST_P(Workspace, OfASolve_IsWhatThePlanSays) {
  const CholeskyFactor<double> factor = cholesky_factor(mesh_, matrix_);
  ASSERT_TRUE(factor.outcome.ok());
  for (const std::int64_t columns : {1, 5, 100}) {
    SCOPED_TRACE(columns);
    const RightHandSides<double> b =
        shard_rows(right_hand_sides<double>(layout_.size(), columns), layout_);
    // what the solve copies of B is in the plan's workspace
    const Plan plan = plan_cholesky_solve(layout_, Dtype::float64, columns);
    const std::int64_t taken = allocated_by([&] { cholesky_solve(mesh_, factor, b); });
    EXPECT_LE(taken, plan.workspace_bytes + small_change);
    EXPECT_GE(taken, plan.workspace_bytes / 3);
  }
}

TEST_P(Workspace, OfAConditionEstimate_IsThatOfASolve) {
  const CholeskyFactor<double> factor = cholesky_factor(mesh_, matrix_);
  ASSERT_TRUE(factor.outcome.ok());
  const Plan plan = plan_cholesky_solve(layout_, Dtype::float64, 1);
  const std::int64_t taken = allocated_by([&] { condition_estimate(mesh_, factor); });
  EXPECT_LE(taken, plan.workspace_bytes + small_change);
}

/// Four runs one after another; each gives back what it took.
TEST_P(Workspace, OfAnInverse_IsAtMostTwiceThePlan) {
  CholeskyFactor<double> factor = cholesky_factor(mesh_, matrix_);
  ASSERT_TRUE(factor.outcome.ok());
  const Plan plan = plan_cholesky_inverse(layout_, Dtype::float64);
  const std::int64_t taken = allocated_by([&] { cholesky_inverse(mesh_, std::move(factor)); });
  const std::int64_t vectors = 32 * 8 * layout_.size();
  EXPECT_LE(taken, 2 * plan.workspace_bytes + vectors + small_change);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Workspace,
                         ::testing::Values(Shape{"even", SlabLayout::even(640, 4, 64)},
                                           Shape{"one_rank", SlabLayout::even(640, 1, 64)},
                                           Shape{"uneven", SlabLayout({0, 500, 500, 560, 640}, 64)},
                                           Shape{"all_on_one",
                                                 SlabLayout({0, 640, 640, 640, 640}, 64)}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace shardsolve::testing

#endif
