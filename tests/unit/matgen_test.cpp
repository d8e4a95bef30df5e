#include "matgen/matrices.hpp"
#include "matgen/philox.hpp"
#include "tests/support/case_name.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/lapack.hpp"
#include "tests/support/matrix_zoo.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

namespace shardsolve::matgen {
namespace {

using reference::DenseMatrix;
using testing::dense;
using ::testing::HasSubstr;
using testing::lapack_eigenvalues;

GlobalRange columns(std::int64_t begin, std::int64_t end) {
  return {GlobalIndex(begin), GlobalIndex(end)};
}

// ---- random numbers ----------------------------------------------------------------------------

// The known answers that the authors of Philox publish with Random123.
static_assert(philox4x32_10({0, 0, 0, 0}, {0, 0}) ==
              PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                            {0xffffffff, 0xffffffff}) ==
              PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                            {0xa4093822, 0x299f31d0}) ==
              PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST(UniformPair, ManyPlaces_HaveTheMomentsOfTheUniformDistribution) {
  constexpr std::int64_t side = 300;
  double sum = 0.0;
  double squares = 0.0;
  double products = 0.0;
  for (std::int64_t i = 0; i < side; ++i) {
    for (std::int64_t j = 0; j < side; ++j) {
      const auto [first, second] = uniform_pair(42, Stream::matrix, i, j);
      ASSERT_GE(std::min(first, second), -1.0);
      ASSERT_LT(std::max(first, second), 1.0);
      sum += first;
      squares += first * first;
      products += first * second;
    }
  }
  constexpr double count = side * side;
  // Five standard deviations of each mean: at most 5 sqrt(1/3) / 300.
  EXPECT_NEAR(sum / count, 0.0, 0.01);
  EXPECT_NEAR(squares / count, 1.0 / 3.0, 0.01);
  EXPECT_NEAR(products / count, 0.0, 0.01);
}

TEST(UniformPair, EveryArgument_Matters) {
  const auto base = uniform_pair(1, Stream::matrix, 2, 3);
  EXPECT_NE(base, uniform_pair(2, Stream::matrix, 2, 3));
  EXPECT_NE(base, uniform_pair(1 + (std::uint64_t{1} << 32), Stream::matrix, 2, 3));
  EXPECT_NE(base, uniform_pair(1, Stream::right_hand_side, 2, 3));
  EXPECT_NE(base, uniform_pair(1, Stream::matrix, 3, 2));
  EXPECT_NE(base, uniform_pair(1, Stream::matrix, 2 + (std::int64_t{1} << 32), 3));
  EXPECT_NE(base, uniform_pair(1, Stream::matrix, 2, 3 + (std::int64_t{1} << 32)));
}

// ---- what holds for every matrix ---------------------------------------------------------------

template <class T>
class EveryMatrix : public ::testing::Test {};
TYPED_TEST_SUITE(EveryMatrix, testing::Dtypes, testing::DtypeNames);

TYPED_TEST(EveryMatrix, Entries_AreHermitianBitForBitAndFinite) {
  for (const std::int64_t n : {1, 2, 3, 37}) {
    for (const testing::ZooCase& c : testing::matrix_zoo(dtype_of<TypeParam>, n)) {
      SCOPED_TRACE(c.name);
      const auto a = dense<TypeParam>(c.recipe);
      for (std::int64_t j = 0; j < n; ++j) {
        ASSERT_EQ(std::imag(a(j, j)), 0);
        for (std::int64_t i = 0; i < n; ++i) {
          ASSERT_TRUE(std::isfinite(std::abs(a(i, j))));
          ASSERT_EQ(std::real(a(i, j)), std::real(a(j, i)));
          ASSERT_EQ(std::imag(a(i, j)), -std::imag(a(j, i)));
        }
      }
    }
  }
}

TYPED_TEST(EveryMatrix, AnyColumns_AreThoseOfTheWholeMatrix) {
  constexpr std::int64_t n = 23;
  for (const testing::ZooCase& c : testing::matrix_zoo(dtype_of<TypeParam>, n)) {
    SCOPED_TRACE(c.name);
    const auto whole = dense<TypeParam>(c.recipe);
    DenseMatrix<TypeParam> parts(n, n);
    for (const GlobalRange range : {columns(0, 7), columns(7, 7), columns(7, 8), columns(8, 23)}) {
      fill_columns<TypeParam>(c.recipe, range,
                              parts.view().columns_from(range.begin.value(), range.size()));
    }
    EXPECT_EQ(parts, whole);
    EXPECT_EQ(entry<TypeParam>(c.recipe, GlobalIndex(4), GlobalIndex(19)), whole(4, 19));
    EXPECT_EQ(entry<TypeParam>(c.recipe, GlobalIndex(19), GlobalIndex(4)), whole(19, 4));
  }
}

template <class T>
class EveryComplexMatrix : public ::testing::Test {};
TYPED_TEST_SUITE(EveryComplexMatrix, testing::ComplexDtypes, testing::DtypeNames);

TYPED_TEST(EveryComplexMatrix, Entries_AreTrulyComplex) {
  constexpr std::int64_t n = 9;
  for (const testing::ZooCase& c : testing::matrix_zoo(dtype_of<TypeParam>, n)) {
    const auto a = dense<TypeParam>(c.recipe);
    const bool has_imaginary_part =
        std::any_of(a.data(), a.data() + n * n, [](TypeParam x) { return std::imag(x) != 0; });
    EXPECT_EQ(has_imaginary_part, c.recipe.kind != Kind::diagonal) << c.name;
  }
}

TYPED_TEST(EveryMatrix, ScaleExponent_MultipliesExactly) {
  using Real = RealOf<TypeParam>;
  Recipe recipe{.kind = Kind::gaussian_plane, .n = 12, .seed = 4};
  const auto a = dense<TypeParam>(recipe);
  recipe.scale_exponent = -40;
  const auto scaled = dense<TypeParam>(recipe);
  for (std::int64_t j = 0; j < recipe.n; ++j) {
    for (std::int64_t i = 0; i < recipe.n; ++i) {
      EXPECT_EQ(scaled(i, j), a(i, j) * std::ldexp(Real{1}, -40));
    }
  }
}

TEST(Entry, LowerPrecision_IsTheHigherOneRounded) {
  const Recipe recipe{.kind = Kind::random, .n = 11, .seed = 8};
  const GlobalIndex i(7);
  const GlobalIndex j(2);
  EXPECT_EQ(entry<float>(recipe, i, j), static_cast<float>(entry<double>(recipe, i, j)));
  EXPECT_EQ(entry<std::complex<float>>(recipe, i, j),
            std::complex<float>(entry<std::complex<double>>(recipe, i, j)));
}

TYPED_TEST(EveryMatrix, RightHandSides_DifferByRowColumnAndSeed) {
  const TypeParam base = rhs<TypeParam>(1, GlobalIndex(2), 3);
  EXPECT_LE(std::abs(base), std::sqrt(2.0));
  EXPECT_NE(base, rhs<TypeParam>(1, GlobalIndex(3), 3));
  EXPECT_NE(base, rhs<TypeParam>(1, GlobalIndex(2), 4));
  EXPECT_NE(base, rhs<TypeParam>(2, GlobalIndex(2), 3));
}

// ---- spectra -----------------------------------------------------------------------------------

struct Spectrum {
  std::string name;
  Recipe recipe;
  std::vector<double> ascending;
  friend std::ostream& operator<<(std::ostream& out, const Spectrum& s) { return out << s.name; }
};

std::vector<Spectrum> spectra() {
  // The 1-D Laplacian of size 3 has eigenvalues 2 - sqrt(2), 2, 2 + sqrt(2); the grid adds them up.
  const double s = std::sqrt(2.0);
  return {
      {"arithmetic",
       {.kind = Kind::spectrum_arithmetic, .n = 5, .seed = 1, .condition = 5.0},
       {0.2, 0.4, 0.6, 0.8, 1.0}},
      {"geometric",
       {.kind = Kind::spectrum_geometric, .n = 5, .seed = 1, .condition = 10000.0},
       {1e-4, 1e-3, 1e-2, 1e-1, 1.0}},
      {"clustered",
       {.kind = Kind::spectrum_clustered, .n = 7, .seed = 1, .condition = 100.0},
       {0.01, 0.01, 0.01, 1.0, 1.0, 1.0, 1.0}},
      {"scaled",
       {.kind = Kind::spectrum_clustered, .n = 2, .seed = 1, .condition = 4.0, .scale_exponent = 3},
       {2.0, 8.0}},
      {"one_row", {.kind = Kind::spectrum_geometric, .n = 1, .seed = 1, .condition = 1e3}, {1.0}},
      {"laplacian_3x3",
       {.kind = Kind::laplacian_2d, .n = 9},
       {4.0 - 2.0 * s, 4.0 - s, 4.0 - s, 4.0, 4.0, 4.0, 4.0 + s, 4.0 + s, 4.0 + 2.0 * s}},
      {"diagonal", {.kind = Kind::diagonal, .n = 4}, {1.0, 2.0, 3.0, 4.0}},
  };
}

class SpectrumOf : public ::testing::TestWithParam<Spectrum> {};

template <Scalar T>
void expect_spectrum(const Spectrum& s) {
  SCOPED_TRACE(name(dtype_of<T>));
  const std::vector<RealOf<T>> found = lapack_eigenvalues(dense<T>(s.recipe));
  ASSERT_EQ(found.size(), s.ascending.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], s.ascending[i], 20.0 * unit_roundoff<T> * s.ascending.back());
  }
}

TEST_P(SpectrumOf, AnyDtype_IsAsAskedFor) {
  expect_spectrum<float>(GetParam());
  expect_spectrum<double>(GetParam());
  expect_spectrum<std::complex<float>>(GetParam());
  expect_spectrum<std::complex<double>>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Matrices, SpectrumOf, ::testing::ValuesIn(spectra()), testing::CaseName());

TYPED_TEST(EveryMatrix, Random_HasConditionBelowFive) {
  for (const std::int64_t n : {1, 2, 3, 5, 8, 60, 200}) {
    const auto values =
        lapack_eigenvalues(dense<TypeParam>({.kind = Kind::random, .n = n, .seed = 2}));
    EXPECT_GT(values.front(), 0) << n;
    if (n >= 60) {
      EXPECT_LT(values.back(), 5 * values.front()) << n;
    }
  }
}

TYPED_TEST(EveryMatrix, SpectrumWithConditionTenthOfOneByEps_StaysPositiveDefinite) {
  const double condition = 0.1 / (2.0 * unit_roundoff<TypeParam>);
  for (const Kind kind :
       {Kind::spectrum_arithmetic, Kind::spectrum_geometric, Kind::spectrum_clustered}) {
    for (const std::int64_t n : {2, 17, 120}) {
      const auto a = dense<TypeParam>({.kind = kind, .n = n, .seed = 6, .condition = condition});
      EXPECT_TRUE(testing::lapack_factor(a).ok()) << name(kind) << " " << n;
    }
  }
}

TYPED_TEST(EveryMatrix, Hermitian_HasAboutAsManyNegativeEigenvaluesAsPositiveOnes) {
  constexpr std::int64_t n = 200;
  const Recipe recipe{.kind = Kind::hermitian, .n = n, .seed = 2};
  const auto a = dense<TypeParam>(recipe);
  const auto values = lapack_eigenvalues(a);
  EXPECT_NEAR(values.front(), -2.0 * std::sqrt(n / 3.0), 2.0);
  EXPECT_NEAR(values.back(), 2.0 * std::sqrt(n / 3.0), 2.0);
  EXPECT_LT(values[n * 2 / 5], 0);
  EXPECT_GT(values[n * 3 / 5], 0);
  for (std::int64_t j = 0; j < n; ++j) {
    ASSERT_EQ(std::imag(a(j, j)), 0);
    for (std::int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(std::real(a(i, j)), std::real(a(j, i)));
      ASSERT_EQ(std::imag(a(i, j)), -std::imag(a(j, i)));
    }
  }
  EXPECT_EQ(entry<TypeParam>(recipe, GlobalIndex(4), GlobalIndex(19)), a(4, 19));
}

TYPED_TEST(EveryMatrix, General_HasNoSymmetry) {
  constexpr std::int64_t n = 30;
  const Recipe recipe{.kind = Kind::general, .n = n, .seed = 2};
  const auto a = dense<TypeParam>(recipe);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      ASSERT_LE(std::abs(a(i, j)), 1);
      ASSERT_TRUE(i == j || a(i, j) != a(j, i));
    }
  }
  EXPECT_EQ(entry<TypeParam>(recipe, GlobalIndex(4), GlobalIndex(19)), a(4, 19));
}

// ---- matrices that fail ------------------------------------------------------------------------

TYPED_TEST(EveryMatrix, Indefinite_HasOneNegativeEigenvalue) {
  const auto values = lapack_eigenvalues(
      dense<TypeParam>({.kind = Kind::indefinite, .n = 30, .seed = 3, .row = GlobalIndex(11)}));
  EXPECT_LT(values[0], 0);
  EXPECT_GT(values[1], 0);
}

TYPED_TEST(EveryMatrix, EqualRows_AreEqual) {
  for (const std::int64_t row : {0, 4, 8}) {
    const std::int64_t twin = row == 0 ? 8 : 0;
    const auto a =
        dense<TypeParam>({.kind = Kind::equal_rows, .n = 9, .seed = 3, .row = GlobalIndex(row)});
    for (std::int64_t j = 0; j < 9; ++j) {
      EXPECT_EQ(a(row, j), a(twin, j));
    }
  }
}

TEST(Minimum, Entries_CountFromOne) {
  const auto a = dense<double>({.kind = Kind::minimum, .n = 3});
  for (std::int64_t j = 0; j < 3; ++j) {
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(a(i, j), static_cast<double>(std::min(i, j) + 1));
    }
  }
}

// ---- misuse ------------------------------------------------------------------------------------

struct Misuse {
  std::string name;
  Recipe recipe;
  std::string given;
  friend std::ostream& operator<<(std::ostream& out, const Misuse& c) { return out << c.name; }
};

std::vector<Misuse> misuses() {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return {
      {"negative_size", {.n = -2}, "size -2"},
      {"condition_below_one", {.n = 4, .condition = 0.5}, "condition number 0.5"},
      {"condition_nan", {.n = 4, .condition = nan}, "condition number nan"},
      {"condition_infinite", {.n = 4, .condition = infinity}, "condition number inf"},
      {"negative_jitter", {.n = 4, .jitter = -1e-3}, "jitter -0.001"},
      {"no_length", {.n = 4, .length = 0.0}, "length 0"},
      {"row_after_the_end", {.kind = Kind::zero_row, .n = 4, .row = GlobalIndex(4)}, "row 4"},
      {"negative_row", {.kind = Kind::indefinite, .n = 4, .row = GlobalIndex(-1)}, "row -1"},
      {"twin_of_a_single_row", {.kind = Kind::equal_rows, .n = 1}, "equal_rows of size 1"},
  };
}

class RecipeMisuse : public ::testing::TestWithParam<Misuse> {};

TEST_P(RecipeMisuse, Filled_ThrowsWhatWasGiven) {
  try {
    fill_columns<double>(GetParam().recipe, columns(0, 0), {});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().given));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RecipeMisuse, ::testing::ValuesIn(misuses()), testing::CaseName());

TEST(FillColumns, PlacesOutsideTheMatrix_AreRefused) {
  const Recipe recipe{.kind = Kind::random, .n = 4};
  DenseMatrix<double> out(4, 2);
  EXPECT_THROW(fill_columns<double>(recipe, columns(3, 5), out.view()), Error);
  EXPECT_THROW(fill_columns<double>(recipe, columns(-1, 1), out.view()), Error);
  EXPECT_THROW(fill_columns<double>(recipe, columns(2, 1), out.view()), Error);
  EXPECT_THROW(fill_columns<double>(recipe, columns(0, 3), out.view()), Error);
  EXPECT_THROW(fill_columns<double>(recipe, columns(0, 2), out.view().block(0, 0, 3, 2)), Error);
  EXPECT_THROW(entry<double>(recipe, GlobalIndex(4), GlobalIndex(0)), Error);
  EXPECT_THROW(entry<double>(recipe, GlobalIndex(0), GlobalIndex(-1)), Error);
}

}  // namespace
}  // namespace shardsolve::matgen
