// What a Krylov solve finds in its vectors beforehand, and how it scales them: to the bit what the
// functions of libm say of each number.

#include "runtime/host/krylov_kernels.hpp"
#include "support/dtypes.hpp"
#include "support/host_rank.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace shardsolve::testing::krylov_scans {
namespace {

using runtime::Scan;

template <class Real>
std::vector<Real> numbers() {
  using Limits = std::numeric_limits<Real>;
  return {Real{0},
          -Real{0},
          Real{1},
          Real{-0.75},
          Limits::min(),
          -Limits::max(),
          Limits::denorm_min(),
          Limits::min() / 3,
          Real{1e-30F},
          Real{-3.0e30F},
          Real{2},
          Real{-1} / 3};
}
template <class Real>
std::vector<Real> nonfinite() {
  using Limits = std::numeric_limits<Real>;
  return {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), -Limits::quiet_NaN()};
}

/// Rows whose parts are those numbers in turn.
template <Scalar T>
std::vector<T> rows_of(const std::vector<RealOf<T>>& parts) {
  constexpr std::size_t width = is_complex<T> ? 2 : 1;
  std::vector<T> rows(parts.size() / width);
  std::memcpy(static_cast<void*>(rows.data()), parts.data(), parts.size() * sizeof(parts[0]));
  return rows;
}

template <class T>
class KrylovScan : public ::testing::Test {
 protected:
  Scan scan(const std::vector<T>& x) {
    Scan found;
    kernels_.scan(queue_, {x.data(), static_cast<std::int64_t>(x.size()), 1}, &found);
    queue_.synchronize();
    return found;
  }
  std::vector<T> scaled(int exponent, const std::vector<T>& x) {
    std::vector<T> y(x.size());
    const auto n = static_cast<std::int64_t>(x.size());
    kernels_.scale_exactly(queue_, exponent, {x.data(), n, 1}, {y.data(), n, 1});
    queue_.synchronize();
    return y;
  }

 private:
  HostRank rank_;
  runtime::host::HostQueue queue_{"test", rank_.pulse()};
  runtime::host::HostKrylovKernels<T> kernels_;
};
TYPED_TEST_SUITE(KrylovScan, Dtypes, DtypeNames);

TYPED_TEST(KrylovScan, FiniteNumbers_HaveTheExponentOfTheLargest) {
  using Real = RealOf<TypeParam>;
  for (const Real one : numbers<Real>()) {
    std::vector<Real> parts(34, Real{0});
    parts[21] = one;
    parts[30] = one / 5;
    const Scan found = this->scan(rows_of<TypeParam>(parts));
    EXPECT_EQ(found.first_nonfinite, -1);
    EXPECT_EQ(found.exponent, one == 0 ? Scan::zero : std::ilogb(one) + 1) << one;
  }
  EXPECT_EQ(this->scan({}).exponent, Scan::zero);
}

TYPED_TEST(KrylovScan, NumberThatIsNotFinite_IsFoundWithItsRow) {
  using Real = RealOf<TypeParam>;
  constexpr std::int64_t width = is_complex<TypeParam> ? 2 : 1;
  for (const Real bad : nonfinite<Real>()) {
    for (const std::size_t place : {0U, 13U, 33U}) {
      std::vector<Real> parts(34, Real{3});
      parts[place] = bad;
      const Scan found = this->scan(rows_of<TypeParam>(parts));
      EXPECT_EQ(found.first_nonfinite, static_cast<std::int64_t>(place) / width);
      EXPECT_EQ(found.exponent, 2);
    }
  }
}

TYPED_TEST(KrylovScan, ScaledNumbers_AreThoseOfLdexp) {
  using Real = RealOf<TypeParam>;
  std::vector<Real> parts = numbers<Real>();
  const std::vector<TypeParam> x = rows_of<TypeParam>(parts);
  constexpr int most = std::numeric_limits<Real>::max_exponent;
  for (const int exponent : {0, 1, -1, 20, 1 - most, -most, most - 1, most, -2 * most, 2 * most}) {
    std::vector<Real> expected;
    for (const Real part : parts) {
      expected.push_back(std::ldexp(part, exponent));
    }
    const std::vector<TypeParam> y = this->scaled(exponent, x);
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), expected.size() * sizeof(Real)), 0)
        << exponent;
  }
}

}  // namespace
}  // namespace shardsolve::testing::krylov_scans
