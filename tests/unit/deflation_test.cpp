// What a merge sets aside, and what it keeps.

#include "dense/eigh/deflation.hpp"

#include "support/dtypes.hpp"

#include <shardsolve/dtype.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace shardsolve::dense::eigh {
namespace {

template <class T>
class DeflationTest : public ::testing::Test {
 protected:
  static constexpr T u = static_cast<T>(unit_roundoff<T>);
};
TYPED_TEST_SUITE(DeflationTest, testing::RealDtypes, testing::DtypeNames);

TYPED_TEST(DeflationTest, NothingToSetAside_SortsPolesAndGroupsColumns) {
  using Real = TypeParam;
  const Deflation<Real> found =
      deflate<Real>({Real(-0.5), Real(0.25), Real(1)}, 2, {Real(0.5), Real(0.6), Real(-0.6)}, 1);
  EXPECT_TRUE(found.rotations.empty());
  EXPECT_EQ(found.poles, (std::vector<Real>{Real(-0.5), Real(0.25), Real(1)}));
  EXPECT_EQ(found.weights, (std::vector<Real>{Real(0.5), Real(0.6), Real(-0.6)}));
  EXPECT_EQ(found.columns, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(found.rows, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(found.above, 2);
  EXPECT_EQ(found.below, 1);
  const Deflation<Real> crossed =
      deflate<Real>({Real(0), Real(2), Real(1)}, 2, {Real(0.5), Real(0.6), Real(-0.6)}, 1);
  EXPECT_EQ(crossed.poles, (std::vector<Real>{Real(0), Real(1), Real(2)}));
  EXPECT_EQ(crossed.columns, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(crossed.rows, (std::vector<std::int64_t>{0, 2, 1}));
}

TYPED_TEST(DeflationTest, SmallWeight_IsSetAsideFromTheToleranceOn) {
  using Real = TypeParam;
  const Real tolerance = 8 * this->u;  // the largest magnitude is 1
  for (const Real times : {Real(0.9), Real(1.1)}) {
    const Deflation<Real> found = deflate<Real>({-1, 1}, 1, {1, times * tolerance / 2}, 2);
    EXPECT_TRUE(found.rotations.empty());
    EXPECT_EQ(found.kept(), times < 1 ? 1 : 2);
    EXPECT_EQ(found.values, times < 1 ? std::vector<Real>{1} : std::vector<Real>{});
  }
}

TYPED_TEST(DeflationTest, ClosePoles_AreRotatedFromTheToleranceOn) {
  using Real = TypeParam;
  const Real root = std::sqrt(Real(0.5));
  for (const Real units : {Real(12), Real(20)}) {  // times c s = 1/2: 6 and 10 against 8
    const Real close = 1 - units * this->u;
    const Deflation<Real> found = deflate<Real>({close, 1}, 1, {root, root}, 1);
    if (units > 16) {
      EXPECT_EQ(found.kept(), 2);
      EXPECT_TRUE(found.rotations.empty());
      continue;
    }
    ASSERT_EQ(found.rotations.size(), 1U);
    const auto& rotation = found.rotations.front();
    EXPECT_EQ(rotation.x, 0);
    EXPECT_EQ(rotation.y, 1);
    EXPECT_NEAR(rotation.c, root, 4 * this->u);
    EXPECT_NEAR(rotation.s, -root, 4 * this->u);
    ASSERT_EQ(found.kept(), 1);
    EXPECT_NEAR(found.weights.front(), 1, 4 * this->u);
    EXPECT_EQ(found.columns, (std::vector<std::int64_t>{1, 0}));
    EXPECT_EQ(found.above + found.below, 0) << "both columns are mixed";
    EXPECT_NEAR(found.values.front() + found.poles.front(), close + 1, 4 * this->u);
  }
}

TYPED_TEST(DeflationTest, ManyEqualValues_LeaveOnePole) {
  using Real = TypeParam;
  const std::vector<Real> z(16, Real(0.25));
  const Deflation<Real> found = deflate<Real>(std::vector<Real>(16, Real(1)), 7, z, 1);
  EXPECT_EQ(found.kept(), 1);
  EXPECT_EQ(found.rotations.size(), 15U);
  EXPECT_NEAR(found.weights.front(), 1, 16 * this->u);
  EXPECT_TRUE(std::is_sorted(found.values.begin(), found.values.end()));
}

TYPED_TEST(DeflationTest, NothingBesideTheCut_SetsAllAside) {
  using Real = TypeParam;
  const Deflation<Real> found =
      deflate<Real>({1, 3, 0, 2}, 2, {Real(0.5), Real(0.5), Real(0.5), Real(0.5)}, 0);
  EXPECT_EQ(found.kept(), 0);
  EXPECT_EQ(found.columns, (std::vector<std::int64_t>{2, 0, 3, 1}));
  EXPECT_EQ(found.values, (std::vector<Real>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace shardsolve::dense::eigh
