// The gates of eigensolvers have to let honest results through and nothing else.
#include "tests/support/eigh_gates.hpp"

#include "reference/matmul.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/eigh_zoo.hpp"
#include "tests/support/lapack.hpp"
#include "tests/support/matrix_zoo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

constexpr std::int64_t rows = 24;

/// P A P^T, or P Z, for the permutation that reads 0, 2, 4, ..., 1, 3, 5, ...
std::int64_t evens_first(std::int64_t i, std::int64_t n) {
  const std::int64_t evens = (n + 1) / 2;
  return i < evens ? 2 * i : 2 * (i - evens) + 1;
}

/// What LAPACK makes of A in another order of its rows: as honest as its own answer, and rounded in
/// other places.
template <Scalar T>
Eigenpairs<T> eigh_in_another_order(const DenseMatrix<T>& a) {
  const std::int64_t n = a.rows();
  DenseMatrix<T> pap(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      pap(i, j) = a(evens_first(i, n), evens_first(j, n));
    }
  }
  Eigenpairs<T> pairs = lapack_eigh(pap);
  const DenseMatrix<T> z = pairs.vectors;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      pairs.vectors(evens_first(i, n), j) = z(i, j);
    }
  }
  return pairs;
}

template <class T>
class EighGates : public ::testing::Test {
 protected:
  using Real = RealOf<T>;

  /// `count` times u ||A||.
  Real roundoffs(double count) const {
    const double norm = std::max(std::abs(exact_.front()), std::abs(exact_.back()));
    return static_cast<Real>(count * unit_roundoff<T> * norm);
  }

  DenseMatrix<T> a_ = dense<T>({.kind = matgen::Kind::hermitian, .n = rows, .seed = 1});
  Eigenpairs<T> honest_ = lapack_eigh(a_);
  std::vector<Real> exact_ = reference::eigh(a_).values;
};
TYPED_TEST_SUITE(EighGates, Dtypes, DtypeNames);

TYPED_TEST(EighGates, HonestResults_Pass) {
  for (const std::int64_t n : {0, 1, 2, 3, 30, 90}) {
    for (const EighCase<TypeParam>& c : eigh_zoo<TypeParam>(n)) {
      SCOPED_TRACE(c.name + " " + std::to_string(n));
      EXPECT_TRUE(diagonalises(c.a, lapack_eigh(c.a)));
      if (n >= 30) {  // LAPACK may be lucky with 3 rows, and then has up to 12 u in another order
        EXPECT_TRUE(diagonalises(c.a, eigh_in_another_order(c.a)));
      }
      EXPECT_TRUE(has_eigenvalues(c.a, lapack_eigh(c.a).values));
    }
  }
}

TYPED_TEST(EighGates, OneVectorOffByAHundredRoundoffs_Fails) {
  for (const std::int64_t column : {0, 13, 23}) {
    Eigenpairs<TypeParam> pairs = this->honest_;
    pairs.vectors(17, column) += static_cast<RealOf<TypeParam>>(100 * unit_roundoff<TypeParam>);
    EXPECT_FALSE(diagonalises(this->a_, pairs)) << column;
  }
}

TYPED_TEST(EighGates, VectorOfAnotherLength_Fails) {
  // Still an eigenvector: orthogonality alone sees it.
  Eigenpairs<TypeParam> pairs = this->honest_;
  for (std::int64_t i = 0; i < rows; ++i) {
    pairs.vectors(i, 5) *= RealOf<TypeParam>(2);
  }
  EXPECT_FALSE(diagonalises(this->a_, pairs));
}

TYPED_TEST(EighGates, TwoVectorsEqual_Fail) {
  // Where eigenvalues are equal, any vector is an eigenvector: orthogonality alone sees it.
  for (const EighCase<TypeParam>& c : eigh_zoo<TypeParam>(30)) {
    SCOPED_TRACE(c.name);
    Eigenpairs<TypeParam> pairs = lapack_eigh(c.a);
    for (std::int64_t i = 0; i < 30; ++i) {
      pairs.vectors(i, 12) = pairs.vectors(i, 11);
    }
    EXPECT_FALSE(diagonalises(c.a, pairs));
  }
}

TYPED_TEST(EighGates, VectorsInAnotherOrder_Fail) {
  Eigenpairs<TypeParam> pairs = this->honest_;
  for (std::int64_t i = 0; i < rows; ++i) {
    std::swap(pairs.vectors(i, 20), pairs.vectors(i, 21));
  }
  EXPECT_FALSE(diagonalises(this->a_, pairs));
}

TYPED_TEST(EighGates, EigenvalueOffByThirtyRoundoffs_Fails) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{12}, std::size_t{23}}) {
    for (const double off : {-30.0, 30.0}) {
      std::vector<RealOf<TypeParam>> values = this->exact_;
      values[i] += this->roundoffs(off);
      EXPECT_FALSE(has_eigenvalues(this->a_, values)) << i;
      EXPECT_FALSE(diagonalises(this->a_, {values, this->honest_.vectors})) << i;
      values[i] -= this->roundoffs(off / 2);
      EXPECT_TRUE(has_eigenvalues(this->a_, values)) << i;
    }
  }
}

TYPED_TEST(EighGates, UnsortedValues_Fail) {
  Eigenpairs<TypeParam> pairs = this->honest_;
  std::swap(pairs.values[20], pairs.values[21]);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::swap(pairs.vectors(i, 20), pairs.vectors(i, 21));
  }
  EXPECT_FALSE(has_eigenvalues(this->a_, pairs.values));
  EXPECT_FALSE(diagonalises(this->a_, pairs));
  // By so little that no distance tells.
  const auto one = DenseMatrix<TypeParam>::identity(2);
  const RealOf<TypeParam> next = std::nextafter(RealOf<TypeParam>(1), RealOf<TypeParam>(2));
  EXPECT_TRUE(diagonalises(one, {{1, next}, one}));
  EXPECT_FALSE(diagonalises(one, {{next, 1}, one}));
}

TYPED_TEST(EighGates, NanInOneEntry_Fails) {
  const RealOf<TypeParam> bad[] = {std::numeric_limits<RealOf<TypeParam>>::quiet_NaN(),
                                   std::numeric_limits<RealOf<TypeParam>>::infinity()};
  for (const RealOf<TypeParam> value : bad) {
    for (const std::int64_t i : {0, 12, 23}) {
      Eigenpairs<TypeParam> pairs = this->honest_;
      pairs.vectors(rows - 1 - i, i) = value;
      EXPECT_FALSE(diagonalises(this->a_, pairs)) << i;
      pairs = this->honest_;
      pairs.values[static_cast<std::size_t>(i)] = value;
      EXPECT_FALSE(diagonalises(this->a_, pairs)) << i;
      EXPECT_FALSE(has_eigenvalues(this->a_, pairs.values)) << i;
    }
  }
  // No neighbours to compare with, and no norm.
  const DenseMatrix<TypeParam> zero(1, 1);
  EXPECT_FALSE(diagonalises(zero, {{bad[0]}, DenseMatrix<TypeParam>::identity(1)}));
  EXPECT_FALSE(diagonalises(zero, {{0}, zero}));
}

TYPED_TEST(EighGates, WrongShape_Fails) {
  const auto& honest = this->honest_;
  const DenseMatrix<TypeParam> none;
  const DenseMatrix<TypeParam> part(honest.vectors.view().columns_from(0, rows - 1));
  const std::vector<RealOf<TypeParam>> fewer(honest.values.begin(), honest.values.end() - 1);
  EXPECT_FALSE(diagonalises(this->a_, {{}, none}));
  EXPECT_FALSE(diagonalises(this->a_, {honest.values, none}));
  EXPECT_FALSE(diagonalises(this->a_, {honest.values, part}));
  EXPECT_FALSE(diagonalises(this->a_, {fewer, part}));
  EXPECT_FALSE(has_eigenvalues(this->a_, fewer));
  EXPECT_TRUE(std::isnan(eigh_residual_ratio(this->a_, {fewer, honest.vectors})));
}

TYPED_TEST(EighGates, RatiosOfSmallMatrices_AreThoseByHand) {
  // A = [1 1/2; 1/2 1] with the vectors of the identity: each column of A Z - Z is 1/2 of a norm of
  // 3/2.
  auto a = DenseMatrix<TypeParam>::identity(2);
  a(1, 0) = a(0, 1) = TypeParam(0.5);
  const auto one = DenseMatrix<TypeParam>::identity(2);
  EXPECT_DOUBLE_EQ(eigh_residual_ratio(a, {{1, 1}, one}), 0.5 / 1.5 / unit_roundoff<TypeParam>);
  // A^H A - I = [1/4 1; 1 1/4].
  EXPECT_DOUBLE_EQ(orthogonality_ratio(a), 1.25 / unit_roundoff<TypeParam>);
  EXPECT_DOUBLE_EQ(eigenvalue_distance<TypeParam>({-4, 1.5}, {-4, 1}),
                   0.5 / 4.0 / unit_roundoff<TypeParam>);
}

TYPED_TEST(EighGates, TenRoundoffs_AreTheLimitWhereLapackHasNone) {
  // z = 1 + k eps has z^2 - 1 of about 4 k u.
  const auto one = DenseMatrix<TypeParam>::identity(1);
  for (const int k : {0, 2, 3}) {
    DenseMatrix<TypeParam> z = one;
    z(0, 0) +=
        static_cast<RealOf<TypeParam>>(k) * std::numeric_limits<RealOf<TypeParam>>::epsilon();
    EXPECT_EQ(bool{diagonalises(one, {{1}, z})}, k < 3) << k;
  }
}

TEST(EighGate, Float64SolvedInFloat32_Fails) {
  const auto a = dense<double>({.kind = matgen::Kind::hermitian, .n = rows, .seed = 1});
  const auto a32 = dense<float>({.kind = matgen::Kind::hermitian, .n = rows, .seed = 1});
  const Eigenpairs<float> pairs32 = lapack_eigh(a32);
  Eigenpairs<double> pairs = lapack_eigh(a);
  for (std::int64_t j = 0; j < rows; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      pairs.vectors(i, j) = double{pairs32.vectors(i, j)};
    }
  }
  EXPECT_FALSE(diagonalises(a, pairs));
}

// ---- the zoo, and LAPACK's generalised problem -------------------------------------------------

TYPED_TEST(EighGates, ZooMatrices_AreFiniteHermitianAndComplexWhereTheyMayBe) {
  for (const std::int64_t n : {1, 2, 43}) {
    for (const EighCase<TypeParam>& c : eigh_zoo<TypeParam>(n)) {
      SCOPED_TRACE(c.name);
      bool is_diagonal = true;
      bool is_real = true;
      for (std::int64_t j = 0; j < n; ++j) {
        ASSERT_EQ(std::imag(c.a(j, j)), 0);
        for (std::int64_t i = 0; i < n; ++i) {
          ASSERT_TRUE(std::isfinite(std::abs(c.a(i, j))));
          ASSERT_EQ(std::real(c.a(i, j)), std::real(c.a(j, i)));
          ASSERT_EQ(std::imag(c.a(i, j)), -std::imag(c.a(j, i)));
          is_diagonal = is_diagonal && (i == j || c.a(i, j) == TypeParam{});
          is_real = is_real && std::imag(c.a(i, j)) == 0;
        }
      }
      EXPECT_EQ(is_real, is_diagonal || !is_complex<TypeParam>);
    }
  }
}

TYPED_TEST(EighGates, RandomRotation_KeepsTheEigenvalues) {
  const auto rotated = randomly_rotated(this->a_);
  EXPECT_TRUE(has_eigenvalues(this->a_, lapack_eigh(rotated).values));
  EXPECT_NE(rotated, this->a_);
}

TYPED_TEST(EighGates, ZooMatrices_HaveTheSpectraOfTheirNames) {
  constexpr std::int64_t n = 30;
  const double u = unit_roundoff<TypeParam>;
  for (const EighCase<TypeParam>& c : eigh_zoo<TypeParam>(n)) {
    SCOPED_TRACE(c.name);
    const std::vector<RealOf<TypeParam>> w = lapack_eigenvalues(c.a);
    const auto expect_all_near = [&](std::int64_t begin, std::int64_t end, double value) {
      for (std::int64_t i = begin; i < end; ++i) {
        EXPECT_NEAR(w[static_cast<std::size_t>(i)], value, 1000 * u) << i;
      }
    };
    if (c.name == "three_clusters") {
      expect_all_near(0, 10, -2.0);
      expect_all_near(10, 20, 1.0);
      expect_all_near(20, 30, 3.0);
    } else if (c.name == "one_value" || c.name == "identity") {
      expect_all_near(0, n, 1.0);
    } else if (c.name == "rank_three") {
      expect_all_near(0, 1, -2.0);
      expect_all_near(1, 28, 0.0);
      expect_all_near(28, 29, 1.0);
      expect_all_near(29, 30, 3.0);
    } else if (c.name == "kac_murdock_szego") {
      EXPECT_GT(w.front(), 1.0 / 19.0 - 20 * u);
      EXPECT_LT(w.back(), 19.0);
    } else if (c.name == "geometric") {
      EXPECT_NEAR(w.back(), 1.0, 20 * u);
      expect_all_near(0, 1, 0.0);
      EXPECT_NEAR(w[28], std::pow(1e-16, 1.0 / 29.0), 20 * u);
    } else if (c.name == "wishart") {
      EXPECT_GT(w.front(), -20 * u * w.back());
    }
  }
}

TYPED_TEST(EighGates, LapacksGeneralisedProblem_IsAZIsBZW) {
  const auto b = dense<TypeParam>({.kind = matgen::Kind::random, .n = rows, .seed = 2});
  const Eigenpairs<TypeParam> pairs = lapack_generalised_eigh(this->a_, b);
  DenseMatrix<TypeParam> zw = pairs.vectors;
  for (std::int64_t j = 0; j < rows; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      zw(i, j) *= pairs.values[static_cast<std::size_t>(j)];
    }
  }
  const auto az = reference::matmul(this->a_, pairs.vectors);
  const auto bzw = reference::matmul(b, zw);
  const auto zbz = reference::matmul(reference::Op::conjugate_transpose, pairs.vectors,
                                     reference::Op::none, reference::matmul(b, pairs.vectors));
  for (std::int64_t j = 0; j < rows; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      EXPECT_LT(std::abs(az(i, j) - bzw(i, j)), 200 * unit_roundoff<TypeParam>);
      EXPECT_LT(std::abs(zbz(i, j) - TypeParam(i == j ? 1 : 0)), 200 * unit_roundoff<TypeParam>);
    }
  }
  EXPECT_TRUE(std::is_sorted(pairs.values.begin(), pairs.values.end()));
  EXPECT_THROW(lapack_generalised_eigh(b, this->a_), std::runtime_error);
}

}  // namespace
}  // namespace shardsolve::testing
