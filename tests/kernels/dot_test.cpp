// The GPU's dot product of runtime/fixed_dot.hpp has the bits of the CPU's.

#include "kernels/orders.hpp"
#include "runtime/cuda/fixed_dot.hpp"
#include "runtime/fixed_dot.hpp"
#include "runtime/host/fixed_dot.hpp"
#include "support/dtypes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace shardsolve::testing {
namespace {

using runtime::DotCall;
using runtime::DotStep;

template <Scalar T>
std::vector<T> random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<RealOf<T>> normal;
  std::vector<RealOf<T>> reals(static_cast<std::size_t>(count) * (is_complex<T> ? 2 : 1));
  for (RealOf<T>& real : reals) {
    real = normal(engine);
  }
  std::vector<T> numbers(static_cast<std::size_t>(count));
  std::memcpy(static_cast<void*>(numbers.data()), reals.data(), reals.size() * sizeof(reals[0]));
  return numbers;
}

/// What a call writes: on the CPU, or as the GPU's kernels do.
template <Scalar T>
std::vector<T> results(DotCall call, std::int64_t count, bool on_gpu) {
  call.is_double = sizeof(RealOf<T>) == sizeof(double);
  call.is_complex = is_complex<T>;
  const T unwritten{std::numeric_limits<RealOf<T>>::quiet_NaN()};
  std::vector<T> result(static_cast<std::size_t>(call.batch * count), unwritten);
  std::vector<T> work(static_cast<std::size_t>(call.batch * call.subtrees()), unwritten);
  call.result = result.data();
  call.work = work.data();
  if (on_gpu) {
    runtime::cuda::dot::enqueue(nullptr, call);
  } else {
    runtime::host::fixed_dot(call);
  }
  return result;
}

template <class T>
class EmulatedDot : public ::testing::Test {};
TYPED_TEST_SUITE(EmulatedDot, Dtypes, DtypeNames);

TYPED_TEST(EmulatedDot, AllRowsOnOneDevice_HaveTheBitsOfTheCpu) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 8, 63, 64, 65, 2047, 2048, 2049, 4097, 70001}) {
    constexpr std::int64_t batch = 3;
    const auto x = random_numbers<T>(batch * n, 1);
    const auto y = random_numbers<T>(batch * n, 2);
    const DotCall call{
        .step = DotStep::all, .batch = batch, .layout = {n, n}, .x = x.data(), .y = y.data()};
    in_each_order([&] { EXPECT_EQ(results<T>(call, 1, true), results<T>(call, 1, false)) << n; });
  }
}

TYPED_TEST(EmulatedDot, MoreSumsThanThreads_HaveTheBitsOfTheCpu) {
  using T = TypeParam;
  constexpr std::int64_t n = 2048 * 1024 + 12345;
  const auto x = random_numbers<T>(n, 1);
  const DotCall call{
      .step = DotStep::all, .batch = 1, .layout = {n, n}, .x = x.data(), .y = x.data()};
  EXPECT_EQ(results<T>(call, 1, true), results<T>(call, 1, false));
}

TYPED_TEST(EmulatedDot, RowsOnSeveralDevices_HaveTheBitsOfOne) {
  using T = TypeParam;
  constexpr std::int64_t n = 3000;
  for (const std::int64_t rows : {1, 7, 50, 63, 64, 65, 100, 128, 751, 1000, 2999, 3000}) {
    const std::int64_t ranks = (n + rows - 1) / rows;
    auto x = random_numbers<T>(ranks * rows, 1);
    auto y = random_numbers<T>(ranks * rows, 2);
    const DotCall whole{
        .step = DotStep::all, .batch = 1, .layout = {n, n}, .x = x.data(), .y = y.data()};
    const std::vector<T> expected = results<T>(whole, 1, false);
    // The devices are a batch here.
    std::vector<std::int32_t> rank(static_cast<std::size_t>(ranks));
    for (std::size_t at = 0; at < rank.size(); ++at) {
      rank[at] = static_cast<std::int32_t>(at);
    }
    const DotCall parts{.step = DotStep::parts,
                        .batch = ranks,
                        .layout = {n, rows},
                        .rank = rank.data(),
                        .x = x.data(),
                        .y = y.data()};
    const std::int64_t length = parts.layout.length();
    const std::vector<T> by_gpu = results<T>(parts, length, true);
    EXPECT_EQ(by_gpu, results<T>(parts, length, false)) << rows;
    const DotCall finish{.step = DotStep::finish,
                         .batch = 1,
                         .layout = {n, rows},
                         .ranks = ranks,
                         .x = by_gpu.data()};
    EXPECT_EQ(results<T>(finish, 1, false), expected) << rows;
    EXPECT_EQ(results<T>(finish, 1, true), expected) << rows;
  }
}

}  // namespace
}  // namespace shardsolve::testing
