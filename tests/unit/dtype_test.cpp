#include "tests/support/dtypes.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/error.hpp>

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace shardsolve {
namespace {

static_assert(!Scalar<int>);
static_assert(!Scalar<std::int64_t>);
static_assert(!Scalar<long double>);
static_assert(!Scalar<std::complex<long double>>);
static_assert(!Scalar<const double>);

template <class T>
struct Expected;
template <>
struct Expected<float> {
  using Real = float;
  static constexpr std::string_view text = "float32";
  static constexpr bool complex = false;
};
template <>
struct Expected<double> {
  using Real = double;
  static constexpr std::string_view text = "float64";
  static constexpr bool complex = false;
};
template <>
struct Expected<std::complex<float>> {
  using Real = float;
  static constexpr std::string_view text = "complex64";
  static constexpr bool complex = true;
};
template <>
struct Expected<std::complex<double>> {
  using Real = double;
  static constexpr std::string_view text = "complex128";
  static constexpr bool complex = true;
};

template <class T>
class DtypeOfScalar : public ::testing::Test {};
TYPED_TEST_SUITE(DtypeOfScalar, testing::Dtypes, testing::DtypeNames);

TYPED_TEST(DtypeOfScalar, Traits_DescribeTheType) {
  using Real = typename Expected<TypeParam>::Real;
  EXPECT_TRUE((std::is_same_v<RealOf<TypeParam>, Real>));
  EXPECT_EQ(is_complex<TypeParam>, Expected<TypeParam>::complex);
  EXPECT_EQ(name(dtype_of<TypeParam>), Expected<TypeParam>::text);
  EXPECT_EQ(element_size(dtype_of<TypeParam>), std::int64_t{sizeof(TypeParam)});
}

TYPED_TEST(DtypeOfScalar, UnitRoundoff_IsHalfAnUlpOfOne) {
  using Real = RealOf<TypeParam>;
  const auto u = static_cast<Real>(unit_roundoff<TypeParam>);
  const auto one = Real{1};
  // A tie goes to the even neighbour, which is 1.
  EXPECT_EQ(static_cast<Real>(one + u), one);
  EXPECT_GT(static_cast<Real>(one + u * Real{1.5}), one);
}

TEST(Dtype, ThatIsNone_HasNoSize) { EXPECT_THROW(element_size(static_cast<Dtype>(9)), Error); }

}  // namespace
}  // namespace shardsolve
