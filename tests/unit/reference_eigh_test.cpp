// The oracle of eigensolvers, on matrices whose eigenvalues are known in closed form.
#include "reference/eigh.hpp"
#include "reference/matmul.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/eigh_gates.hpp"
#include "tests/support/eigh_zoo.hpp"
#include "tests/support/matrix_zoo.hpp"

#include <shardsolve/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

namespace shardsolve::reference {
namespace {

using testing::diagonalises;
using testing::eigenvalue_distance;

constexpr long double pi = std::numbers::pi_v<long double>;

/// Real and symmetric; of any dtype.
template <Scalar T>
struct Tridiagonal {
  std::vector<RealOf<T>> diagonal;
  std::vector<RealOf<T>> off_diagonal;

  DenseMatrix<T> dense() const {
    const auto n = static_cast<std::int64_t>(diagonal.size());
    DenseMatrix<T> a(n, n);
    for (std::int64_t i = 0; i < n; ++i) {
      a(i, i) = diagonal[static_cast<std::size_t>(i)];
      if (i > 0) {
        a(i, i - 1) = a(i - 1, i) = off_diagonal[static_cast<std::size_t>(i - 1)];
      }
    }
    return a;
  }
};

/// -1 2 -1: eigenvalues 2 - 2 cos(k pi / (n + 1)), k = 1, ..., n.
template <Scalar T>
Tridiagonal<T> second_difference(std::size_t n) {
  return {std::vector<RealOf<T>>(n, 2), std::vector<RealOf<T>>(n - 1, -1)};
}

/// Clement's or Kac's matrix, made symmetric, n odd: eigenvalues -(n - 1), ..., n - 3, n - 1.
template <Scalar T>
Tridiagonal<T> clement(std::size_t n) {
  Tridiagonal<T> a{std::vector<RealOf<T>>(n, 0), {}};
  for (std::size_t k = 1; k < n; ++k) {
    a.off_diagonal.push_back(
        static_cast<RealOf<T>>(std::sqrt(static_cast<long double>(k * (n - k)))));
  }
  return a;
}

template <class T>
class EighReference : public ::testing::Test {
 protected:
  /// Rounding the matrix and the result to T takes a few roundoffs, Jacobi's method none.
  static void expect_values(const Eigenpairs<T>& pairs, const std::vector<double>& ascending,
                            double roundoffs) {
    EXPECT_LE(eigenvalue_distance<T>(pairs.values, ascending), roundoffs);
  }
};
TYPED_TEST_SUITE(EighReference, testing::Dtypes, testing::DtypeNames);

TYPED_TEST(EighReference, SecondDifference_HasValuesAndVectorsOfTheSine) {
  constexpr std::size_t n = 40;
  const Eigenpairs<TypeParam> pairs = eigh(second_difference<TypeParam>(n).dense());
  std::vector<double> expected;
  for (std::size_t k = 1; k <= n; ++k) {
    const long double half_angle = static_cast<long double>(k) * pi / (2 * (n + 1));
    expected.push_back(static_cast<double>(4 * std::pow(std::sin(half_angle), 2.0L)));
    for (std::size_t i = 1; i <= n; ++i) {
      const long double sine = std::sin(2 * half_angle * static_cast<long double>(i));
      const auto found =
          pairs.vectors(static_cast<std::int64_t>(i - 1), static_cast<std::int64_t>(k - 1));
      const long double size = std::sqrt(2.0L / (n + 1)) * std::abs(sine);
      EXPECT_NEAR(std::abs(found), static_cast<double>(size), 2 * unit_roundoff<TypeParam>);
    }
  }
  this->expect_values(pairs, expected, 1.0);
  // The matrix is exact, so the small values are right in all their digits.
  for (std::size_t k = 0; k < n; ++k) {
    EXPECT_NEAR(pairs.values[k] / expected[k], 1.0, 8 * unit_roundoff<TypeParam>) << k;
  }
}

TYPED_TEST(EighReference, Clement_HasIntegerValues) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{2}, std::size_t{9}, std::size_t{40}}) {
    std::vector<double> expected;
    for (std::size_t k = 0; k < n; ++k) {
      expected.push_back(static_cast<double>(2 * k) - static_cast<double>(n - 1));
    }
    this->expect_values(eigh(clement<TypeParam>(n).dense()), expected, 2.0);
  }
}

TYPED_TEST(EighReference, IdentityAndRankOne_HasOneValueOutside) {
  // I + v v^H with v_k = i^k (k + 1) in complex dtypes: 1 + |v|^2, and 1 as often as it takes.
  constexpr std::int64_t n = 12;
  const TypeParam turn = [] {
    if constexpr (is_complex<TypeParam>) {
      return TypeParam(0, 1);
    } else {
      return TypeParam(-1);
    }
  }();
  std::vector<TypeParam> v;
  RealOf<TypeParam> squares = 0;
  TypeParam phase = 1;
  for (std::int64_t k = 0; k < n; ++k, phase *= turn) {
    v.push_back(phase * static_cast<RealOf<TypeParam>>(k + 1));
    squares += static_cast<RealOf<TypeParam>>((k + 1) * (k + 1));
  }
  auto a = DenseMatrix<TypeParam>::identity(n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      a(i, j) += v[static_cast<std::size_t>(i)] * conjugate(v[static_cast<std::size_t>(j)]);
    }
  }
  const Eigenpairs<TypeParam> pairs = eigh(a);
  std::vector<double> expected(n, 1);
  expected.back() = 1.0 + squares;
  this->expect_values(pairs, expected, 0.01);
  // The last vector is v / |v|, of any phase.
  for (std::int64_t i = 0; i < n; ++i) {
    EXPECT_NEAR(std::abs(pairs.vectors(i, n - 1)), static_cast<double>(i + 1) / std::sqrt(squares),
                2 * unit_roundoff<TypeParam>);
  }
  EXPECT_TRUE(diagonalises(a, pairs));
}

TYPED_TEST(EighReference, KacMurdockSzego_IsWithinItsBounds) {
  // rho^|i - j| has (1 - rho^2) / (1 - 2 rho cos t + rho^2), with one t in each of the intervals
  // [(k - 1) pi / (n + 1), k pi / (n + 1)] (Grenander and Szego, "Toeplitz Forms", 5.3).
  constexpr std::int64_t n = 30;
  constexpr double rho = 0.5;  // powers are exact
  DenseMatrix<TypeParam> a(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      a(i, j) = static_cast<RealOf<TypeParam>>(std::pow(rho, std::abs(i - j)));
    }
  }
  const Eigenpairs<TypeParam> pairs = eigh(a);
  const auto value = [](std::int64_t k) {
    const double t = static_cast<double>(k) * std::numbers::pi / (n + 1);
    return (1 - rho * rho) / (1 - 2 * rho * std::cos(t) + rho * rho);
  };
  for (std::int64_t k = 1; k <= n; ++k) {
    const RealOf<TypeParam> found = pairs.values[static_cast<std::size_t>(n - k)];
    EXPECT_LT(found, value(k - 1)) << k;
    EXPECT_GT(found, value(k)) << k;
  }
}

TYPED_TEST(EighReference, ZooMatrices_PassTheGates) {
  for (const std::int64_t n : {0, 1, 2, 3, 40}) {
    for (const testing::EighCase<TypeParam>& c : testing::eigh_zoo<TypeParam>(n)) {
      SCOPED_TRACE(c.name + " " + std::to_string(n));
      const Eigenpairs<TypeParam> pairs = eigh(c.a);
      EXPECT_TRUE(diagonalises(c.a, pairs));
      // Rounding to T once leaves a roundoff in each entry.
      EXPECT_LE(testing::orthogonality_ratio(pairs.vectors), std::max(2.0, static_cast<double>(n)));
    }
  }
}

TYPED_TEST(EighReference, UpperTriangle_IsNotRead) {
  auto a = testing::dense<TypeParam>({.kind = matgen::Kind::hermitian, .n = 9, .seed = 1});
  const Eigenpairs<TypeParam> pairs = eigh(a);
  a(2, 7) = std::numeric_limits<RealOf<TypeParam>>::quiet_NaN();
  EXPECT_EQ(eigh(a).values, pairs.values);
  EXPECT_EQ(eigh(a).vectors, pairs.vectors);
}

TYPED_TEST(EighReference, EntryThatIsNotFinite_IsRefused) {
  for (const RealOf<TypeParam> bad : {std::numeric_limits<RealOf<TypeParam>>::quiet_NaN(),
                                      std::numeric_limits<RealOf<TypeParam>>::infinity()}) {
    auto a = DenseMatrix<TypeParam>::identity(4);
    a(3, 1) = bad;
    EXPECT_THROW(eigh(a), Error);
  }
}

// ---- Sturm counts ------------------------------------------------------------------------------

template <class T>
class SturmCount : public ::testing::Test {};
using RealDtypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SturmCount, RealDtypes, testing::DtypeNames);

TYPED_TEST(SturmCount, BetweenTheValues_CountsThoseBelow) {
  constexpr std::size_t n = 100;
  const auto difference = second_difference<TypeParam>(n);
  const auto integers = clement<TypeParam>(n);
  for (std::size_t k = 0; k <= n; ++k) {
    const auto below = static_cast<std::int64_t>(k);
    const auto angle = (static_cast<long double>(k) + 0.5L) * pi / (2 * (n + 1));
    const auto x = static_cast<WideReal<TypeParam>>(4 * std::pow(std::sin(angle), 2.0L));
    EXPECT_EQ(sturm_count(difference.diagonal, difference.off_diagonal, x), below);
    const auto y = static_cast<WideReal<TypeParam>>(2 * below - std::int64_t{n});
    EXPECT_EQ(sturm_count(integers.diagonal, integers.off_diagonal, y), below);
  }
}

TYPED_TEST(SturmCount, AtAValue_DoesNotCountIt) {
  // 2 is the middle one of 2 - sqrt(2), 2, 2 + sqrt(2): the first pivot is exactly 0.
  const auto three = second_difference<TypeParam>(3);
  EXPECT_EQ(sturm_count(three.diagonal, three.off_diagonal, WideReal<TypeParam>{2}), 1);
  // 1 and 3: the second pivot is 0.
  const auto two = second_difference<TypeParam>(2);
  EXPECT_EQ(sturm_count(two.diagonal, two.off_diagonal, WideReal<TypeParam>{1}), 0);
  EXPECT_EQ(sturm_count(two.diagonal, two.off_diagonal, WideReal<TypeParam>{3}), 1);
}

TYPED_TEST(SturmCount, Diagonal_CountsElements) {
  const std::vector<TypeParam> diagonal{3, -1, 2, 2, 7};
  const std::vector<TypeParam> zeros(4);
  const std::int64_t below[] = {0, 1, 1, 3, 4};  // -1, 1, 2, 3, 7
  const WideReal<TypeParam> at[] = {-1, 1, 2, 3, 7};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(sturm_count(diagonal, zeros, at[i]), below[i]) << at[i];
  }
}

TYPED_TEST(SturmCount, GluedWilkinson_AgreesWithTheEigenvalues) {
  Tridiagonal<TypeParam> a;
  for (int i = 0; i < 63; ++i) {
    a.diagonal.push_back(static_cast<TypeParam>(std::abs(10 - i % 21)));
    if (i > 0) {
      a.off_diagonal.push_back(i % 21 == 0 ? static_cast<TypeParam>(1e-3) : TypeParam{1});
    }
  }
  const Eigenpairs<TypeParam> pairs = eigh(a.dense());
  const WideReal<TypeParam> slack = 11 * WideReal<TypeParam>{unit_roundoff<TypeParam>};
  for (std::size_t i = 0; i < pairs.values.size(); ++i) {
    const WideReal<TypeParam> w = pairs.values[i];
    EXPECT_LE(sturm_count(a.diagonal, a.off_diagonal, w - slack), static_cast<std::int64_t>(i));
    EXPECT_GT(sturm_count(a.diagonal, a.off_diagonal, w + slack), static_cast<std::int64_t>(i));
  }
}

TYPED_TEST(SturmCount, NothingAndWrongLengths_AreZeroAndRefused) {
  const std::vector<TypeParam> none;
  const std::vector<TypeParam> two(2);
  EXPECT_EQ(sturm_count(none, none, WideReal<TypeParam>{1}), 0);
  EXPECT_THROW(sturm_count(two, two, WideReal<TypeParam>{1}), Error);
  EXPECT_THROW(sturm_count(two, none, WideReal<TypeParam>{1}), Error);
}

}  // namespace
}  // namespace shardsolve::reference
