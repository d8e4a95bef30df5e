#include <shardsolve/scaled.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <vector>

namespace shardsolve {
namespace {

struct Pair {
  Scaled a;
  Scaled b;
};

long double wide(Scaled a) { return std::ldexp(static_cast<long double>(a.fraction), a.exponent); }

constexpr double largest = std::numeric_limits<double>::max();
constexpr double smallest = std::numeric_limits<double>::denorm_min();

/// Numbers within the range of long double, in every form that callers may write them.
std::vector<Scaled> numbers() {
  return {{0.0, 0},      {0.0, 500},     {1.0, 0},       {0.75, 0},       {3.0, -1},
          {1.0, 1000},   {1.0, -1000},   {1.5, 3000},    {1.25, -3000},   {1e300, 0},
          {1e-300, 0},   {largest, 0},   {smallest, 0},  {largest, 2000}, {smallest, -2000},
          {1.0 / 3, 53}, {1.0 / 3, -53}, {1e300, -2000}, {1e-300, 2000}};
}

template <class Check>
void for_each_pair(Check check) {
  for (const Scaled& a : numbers()) {
    for (const Scaled& b : numbers()) {
      SCOPED_TRACE(::testing::Message() << a.fraction << " 2^" << a.exponent << " and "
                                        << b.fraction << " 2^" << b.exponent);
      check(a, b);
    }
  }
}

/// Equal but for the rounding of one operation in double.
void expect_close(Scaled result, long double expected) {
  if (expected == 0.0L) {
    EXPECT_EQ(result.fraction, 0.0);
    return;
  }
  const long double ratio = wide(result) / expected;
  EXPECT_NEAR(static_cast<double>(ratio), 1.0, 4e-16);
}

TEST(Scaled, Product_AgreesWithLongDouble) {
  for_each_pair([](Scaled a, Scaled b) { expect_close(a * b, wide(a) * wide(b)); });
}

TEST(Scaled, Sum_AgreesWithLongDouble) {
  for_each_pair([](Scaled a, Scaled b) { expect_close(a + b, wide(a) + wide(b)); });
}

TEST(Scaled, Ratio_AgreesWithLongDouble) {
  for_each_pair([](Scaled a, Scaled b) {
    const double expected = a.fraction == 0.0 ? 0.0 : static_cast<double>(wide(a) / wide(b));
    if (expected == 0.0 || std::isinf(expected)) {
      EXPECT_EQ(ratio(a, b), expected);
    } else {
      EXPECT_NEAR(ratio(a, b) / expected, 1.0, std::abs(expected) < 1e-300 ? 0.5 : 4e-16);
    }
  });
}

TEST(Scaled, Normalised_IsTheSameNumberWithAFractionBelowOne) {
  for (const Scaled& a : numbers()) {
    const Scaled normal = a.normalised();
    EXPECT_EQ(wide(normal), wide(a));
    if (a.fraction == 0.0) {
      EXPECT_EQ(normal.exponent, 0);
    } else {
      EXPECT_GE(normal.fraction, 0.5);
      EXPECT_LT(normal.fraction, 1.0);
    }
  }
}

TEST(Scaled, Value_OverflowsAndUnderflowsAsDoublesDo) {
  EXPECT_EQ((Scaled{1.0, 10}).value(), 1024.0);
  EXPECT_EQ((Scaled{1.0, 1100}).value(), std::numeric_limits<double>::infinity());
  EXPECT_EQ((Scaled{1.0, -1100}).value(), 0.0);
  EXPECT_EQ((Scaled{largest, -1}).value(), largest / 2);
}

/// A certificate that is not a number must not become a good one.
TEST(Scaled, NaN_StaysNaN) {
  const Scaled nan{std::numeric_limits<double>::quiet_NaN(), 0};
  const Scaled one{1.0, 0};
  EXPECT_TRUE(std::isnan(ratio(nan, one)));
  EXPECT_TRUE(std::isnan(ratio(one, nan)));
  EXPECT_TRUE(std::isnan((nan * one).value()));
  EXPECT_TRUE(std::isnan((nan + one).value()));
  EXPECT_TRUE(std::isnan((one + nan).value()));
}

}  // namespace
}  // namespace shardsolve
