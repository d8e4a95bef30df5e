// A backend that multiplies with all of A at once, as GPUs do: what it is told of A, and where its
// scratch memory comes from.

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "runtime/host/host_device.hpp"
#include "support/backend.hpp"
#include "support/bits.hpp"
#include "support/matrix_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

namespace shardsolve::testing {
namespace {

using T = std::complex<double>;
using Upper = runtime::UpperPart<T, double>;

class MultiplyingKernels final : public runtime::host::HostHermitianKernels<T> {
 public:
  explicit MultiplyingKernels(std::int64_t scratch) : scratch_(scratch) {}

  std::int64_t hermitian_multiply_scratch(const Upper&) const override {
    if (scratch_ < 0) {
      throw Error(ErrorKind::out_of_memory, "planted");
    }
    return scratch_;
  }

 protected:
  void do_hermitian_multiply(runtime::Queue& queue, const runtime::WorkInfo& info, const Upper& a,
                             const T* x, T* y, void* scratch) const override {
    enqueue(queue, info.name, [=, bytes = static_cast<std::size_t>(scratch_)] {
      std::memset(scratch, 0xff, bytes);
      std::vector<T> product(static_cast<std::size_t>(a.begin[a.ranks]));
      multiply(a, x, product.data());
      for (std::int32_t r = 0; r < a.ranks; ++r) {  // each segment's sums, and nothing lost
        std::copy(product.begin() + a.begin[r], product.begin() + a.begin[r + 1],
                  y + 2 * a.begin[r]);
        std::fill(y + a.begin[r] + a.begin[r + 1], y + 2 * a.begin[r + 1], T{});
      }
    });
  }

 private:
  static void multiply(const Upper& a, const T* x, T* y) {
    std::fill_n(y, a.begin[a.ranks], T{});
    for (std::int64_t j = 0; j < a.slab.columns(); ++j) {
      const std::int64_t column = a.begin[a.rank] + j;
      y[column] += a.diagonal[j] * x[column];
      for (std::int32_t r = 0; r < a.ranks; ++r) {
        const std::int64_t count = r == a.rank ? j : a.eliminated[j / a.tile * a.ranks + r];
        for (std::int64_t row = a.begin[r]; row < a.begin[r] + count; ++row) {
          y[row] += a.slab(row, j) * x[column];
          y[column] += std::conj(a.slab(row, j)) * x[row];
        }
      }
    }
  }

  std::int64_t scratch_;
};

class MultiplyingDevice final : public runtime::host::HostDevice {
 public:
  MultiplyingDevice(runtime::Pulse& pulse, std::int64_t scratch)
      : HostDevice(pulse), kernels_(scratch) {}
  const void* find_kernels(runtime::KernelSet set, Dtype dtype) const override {
    if (set == runtime::KernelSet::hermitian && dtype == dtype_of<T>) {
      return static_cast<const runtime::HermitianKernels<T>*>(&kernels_);
    }
    return HostDevice::find_kernels(set, dtype);
  }

 private:
  MultiplyingKernels kernels_;
};

class MultiplyingBackend final : public mesh::HostBackend {
 public:
  MultiplyingBackend(std::int64_t ranks, std::int64_t scratch)
      : HostBackend(ranks), scratch_(scratch) {}
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<MultiplyingDevice>(pulse, scratch_);
  }

 private:
  std::int64_t scratch_;
};

class MultiplyAtOnce : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test_gpus().empty()) {
      GTEST_SKIP() << "of CPU devices";
    }
  }
  static Mesh mesh_with_scratch(std::int64_t bytes) {
    return Mesh(
        mesh::MeshState::start(std::make_unique<MultiplyingBackend>(layout().ranks(), bytes)));
  }
  static const SlabLayout& layout() {
    static const SlabLayout uneven({0, 20, 20, 33, 50}, 4);
    return uneven;
  }

  const DenseMatrix<T> a_ = dense<T>({.n = layout().size(), .seed = 3});
  const DenseMatrix<T> b_ = right_hand_sides<T>(layout().size(), 1);
};

TEST_F(MultiplyAtOnce, GivesTheCertificate_WithScratchOfTheCall) {
  static constexpr std::int64_t scratch = 1 << 20;
  Mesh mesh = mesh_with_scratch(scratch);
  const RightHandSides<T> x = shard_rows(b_, layout());
  const Outcome outcome = solve(mesh, shard(a_, layout()), x);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_TRUE(solves(a_, whole(x), b_));
  ASSERT_TRUE(outcome.backward_error);
  EXPECT_LT(*outcome.backward_error, 10 * std::numeric_limits<double>::epsilon());
  run_on(mesh, [](mesh::Rank& rank) { EXPECT_GE(rank.max_workspace(), scratch); });
}

TEST_F(MultiplyAtOnce, ScratchThatIsNotToBeHad_IsMissedBeforeBIsOverwritten) {
  Mesh mesh = mesh_with_scratch(-1);
  const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a_, layout()));
  ASSERT_TRUE(factor.outcome.ok());
  const RightHandSides<T> b = shard_rows(b_, layout());
  EXPECT_TRUE(throws(ErrorKind::out_of_memory, [&] { cholesky_solve(mesh, factor, b); }));
  EXPECT_TRUE(same_bits(whole(b), b_));
}

}  // namespace
}  // namespace shardsolve::testing
