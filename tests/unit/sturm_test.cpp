// Eigenvalues counted and found by Sturm sequences.

#include "runtime/host/sturm.hpp"

#include "support/dtypes.hpp"
#include "support/tridiagonal_zoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shardsolve::testing::tridiagonal {
namespace {

template <class Real>
runtime::Tridiagonal<Real> view(const TridiagonalCase<Real>& t) {
  return {t.diagonal.data(), t.off_diagonal.data(), t.order()};
}

template <class Real>
std::vector<Real> bisected(const TridiagonalCase<Real>& t, Real bound, std::int64_t first,
                           std::int64_t count) {
  std::vector<Real> values(static_cast<std::size_t>(count));
  runtime::host::bisect(view(t), -bound, bound, bound * std::numeric_limits<Real>::epsilon() / 2,
                        first, count, values.data());
  return values;
}

template <class T>
class Sturm : public ::testing::Test {};
TYPED_TEST_SUITE(Sturm, RealDtypes, DtypeNames);

/// Those that callers scale, or that have no size.
bool is_left_out(const std::string& name) {
  return name == "huge" || name == "tiny" || name == "zero";
}

TYPED_TEST(Sturm, Bisection_FindsTheEigenvaluesOfTheZoo) {
  using Real = TypeParam;
  for (const std::int64_t n : {1, 2, 7, 33, 120}) {
    for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(n)) {
      if (is_left_out(t.name)) {
        continue;
      }
      SCOPED_TRACE(t.name + " " + std::to_string(n));
      const TridiagonalTruth<Real> truth = truth_of(t);
      const auto bound = static_cast<Real>(1.01L * truth.norm);
      const std::vector<Real> values = bisected(t, bound, 0, n);
      EXPECT_TRUE(are_eigenvalues(truth, 0, values));
      for (const std::int64_t first : {std::int64_t{0}, n / 2, n - 1}) {
        EXPECT_EQ(bisected(t, bound, first, 1).front(), values[static_cast<std::size_t>(first)]);
      }
    }
  }
}

TYPED_TEST(Sturm, Count_RisesAndIncludesThePoint) {
  using Real = TypeParam;
  for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(65)) {
    if (is_left_out(t.name)) {
      continue;
    }
    SCOPED_TRACE(t.name);
    std::vector<Real> points;
    for (int i = -400; i <= 400; ++i) {
      points.push_back(static_cast<Real>(i) / 97);
    }
    const auto infinity = std::numeric_limits<Real>::infinity();
    points.push_back(infinity);
    points.insert(points.begin(), -infinity);
    std::vector<std::int64_t> below(points.size());
    runtime::host::count_eigenvalues(view(t), points.data(),
                                     static_cast<std::int64_t>(points.size()), below.data());
    EXPECT_TRUE(std::is_sorted(below.begin(), below.end()));
    EXPECT_EQ(below.front(), 0);
    EXPECT_EQ(below.back(), t.order());
  }
  const TridiagonalCase<Real> identity{"identity", {1, 1, 1}, {0, 0}};
  const std::vector<Real> points{std::nextafter(Real{1}, Real{0}), 1};
  std::vector<std::int64_t> below(2);
  runtime::host::count_eigenvalues(view(identity), points.data(), 2, below.data());
  EXPECT_EQ(below, (std::vector<std::int64_t>{0, 3}));
}

TYPED_TEST(Sturm, NotANumber_EndsTheSearch) {
  using Real = TypeParam;
  TridiagonalCase<Real> t = tridiagonal_zoo<Real>(33).front();
  t.diagonal[5] = std::numeric_limits<Real>::quiet_NaN();
  EXPECT_EQ(bisected(t, Real{5}, 0, 33).size(), 33U);
}

}  // namespace
}  // namespace shardsolve::testing::tridiagonal
