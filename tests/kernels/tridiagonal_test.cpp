// The GPU's kernels for tridiagonal eigenproblems: the bits of the CPU's where they make the same
// operations, and the gates where they do not.

#include "kernels/emulated_kernels.hpp"
#include "kernels/orders.hpp"
#include "runtime/cuda/tridiagonal_device_kernels.hpp"
#include "runtime/host/secular.hpp"
#include "runtime/host/sturm.hpp"
#include "support/bits.hpp"
#include "support/secular_cases.hpp"
#include "support/tridiagonal_zoo.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace shardsolve::testing::tridiagonal {
namespace {

using runtime::ColumnRotation;
using runtime::SmallParts;
using runtime::Tridiagonal;

template <class Real>
using Kernels = runtime::cuda::TridiagonalDeviceKernels<Real>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class Real>
Tridiagonal<Real> view(const TridiagonalCase<Real>& t) {
  return {t.diagonal.data(), t.off_diagonal.data(), t.order()};
}

/// Of rows begin .. end - 1.
template <class Real>
TridiagonalCase<Real> part_of(const TridiagonalCase<Real>& t, std::int64_t begin,
                              std::int64_t end) {
  return {t.name,
          {t.diagonal.begin() + begin, t.diagonal.begin() + end},
          {t.off_diagonal.begin() + begin, t.off_diagonal.begin() + std::max(begin, end - 1)}};
}

template <class T>
class EmulatedTridiagonal : public ::testing::Test {};
TYPED_TEST_SUITE(EmulatedTridiagonal, RealDtypes, DtypeNames);

TYPED_TEST(EmulatedTridiagonal, SmallMatrix_HasItsEigenpairs) {
  using Real = TypeParam;
  for (const std::int64_t n : {0, 1, 2, 3, 7, 20, 31, 32}) {
    for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(n)) {
      SCOPED_TRACE(t.name + " " + std::to_string(n));
      const TridiagonalTruth<Real> truth = truth_of(t);
      in_each_order([&] {
        std::vector<Real> values(at(n));
        DenseMatrix<Real> z = unwritten<Real>(n, n);
        std::int64_t info = -99;
        Kernels<Real>::solve_small(no_stream, view(t), {}, values.data(), z.view(), &info);
        EXPECT_EQ(info, 0);
        EXPECT_TRUE(are_eigenvalues(truth, 0, values));
        EXPECT_TRUE(are_eigenpairs(t, truth, values.data(), z));
      });
    }
  }
}

/// What a dense matrix of low rank becomes: a few rows, the first of them small, and behind them
/// what rounding has left.
template <class Real>
TridiagonalCase<Real> of_low_rank(std::int64_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto number = [&random] {
    return static_cast<Real>(std::ldexp(static_cast<double>(random() >> 11), -52) - 1.0);
  };
  const auto rank = static_cast<std::int64_t>(1 + seed % 5);
  const Real rounding =
      std::numeric_limits<Real>::epsilon() * std::ldexp(Real{1}, static_cast<int>(seed % 3));
  TridiagonalCase<Real> t{"low_rank", {}, {}};
  for (std::int64_t i = 0; i < n; ++i) {
    t.diagonal.push_back(number() * (i == 0 ? Real(1e-3) : i < rank ? Real{1} : rounding / 8));
    const Real size = i == 0 ? Real(0.1) : i + 1 < rank ? Real{2} : rounding;
    const Real beside = i + 1 < rank ? number() : 1 + number() / 5;
    t.off_diagonal.push_back(size * beside * (i + 1 < rank || number() > 0 ? 1 : -1));
  }
  t.off_diagonal.pop_back();
  return t;
}

TYPED_TEST(EmulatedTridiagonal, SmallMatrixOfLowRank_HasItsEigenpairs) {
  using Real = TypeParam;
  constexpr std::int64_t n = 32;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const TridiagonalCase<Real> t = of_low_rank<Real>(n, seed);
    std::vector<Real> values(at(n));
    DenseMatrix<Real> z = unwritten<Real>(n, n);
    std::int64_t info = -99;
    Kernels<Real>::solve_small(no_stream, view(t), {}, values.data(), z.view(), &info);
    EXPECT_EQ(info, 0);
    if (seed % 10 < 5) {
      const TridiagonalTruth<Real> truth = truth_of(t);
      EXPECT_TRUE(are_eigenvalues(truth, 0, values));
      EXPECT_TRUE(are_eigenpairs(t, truth, values.data(), z));
    }
  }
}

TYPED_TEST(EmulatedTridiagonal, SmallParts_AreSolvedEachByItself) {
  using Real = TypeParam;
  constexpr std::int64_t n = 90;
  const std::vector<std::int64_t> bounds{3, 35, 35, 36, 40, 57, 57, 88};
  for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(n)) {
    SCOPED_TRACE(t.name);
    std::vector<Real> values(at(n), Real{-77});
    DenseMatrix<Real> z = unwritten<Real>(n, n);
    std::vector<std::int64_t> infos(5, -99);
    Kernels<Real>::solve_small(no_stream, view(t), {bounds.data(), 4}, values.data(), z.view(),
                               infos.data());
    EXPECT_EQ(infos, (std::vector<std::int64_t>{0, 0, 0, 0, -99}));
    std::int64_t written = 0;
    for (std::size_t p = 0; p < bounds.size(); p += 2) {
      const std::int64_t begin = bounds[p];
      const std::int64_t rows = bounds[p + 1] - begin;
      written += rows * rows;
      const TridiagonalCase<Real> part = part_of(t, begin, begin + rows);
      EXPECT_TRUE(are_eigenpairs(
          part, truth_of(part), values.data() + begin,
          DenseMatrix<Real>(MatrixView<const Real>(z.view().block(begin, begin, rows, rows)))));
    }
    EXPECT_EQ(std::count_if(z.data(), z.data() + n * n, [](Real x) { return !std::isnan(x); }),
              written);
    EXPECT_EQ(std::count(values.begin(), values.end(), Real{-77}), 3 + 4 + 2);
  }
}

TYPED_TEST(EmulatedTridiagonal, SmallMatrixWithNoNumber_IsSaidNotToConverge) {
  using Real = TypeParam;
  TridiagonalCase<Real> t = tridiagonal_zoo<Real>(20).front();
  t.off_diagonal[7] = std::numeric_limits<Real>::quiet_NaN();
  std::vector<Real> values(20);
  DenseMatrix<Real> z(20, 20);
  std::int64_t info = 0;
  Kernels<Real>::solve_small(no_stream, view(t), {}, values.data(), z.view(), &info);
  EXPECT_NE(info, 0);
}

template <class Real>
std::vector<SecularRoot<Real>> roots_of_cpu(const SecularEquation<Real>& equation) {
  std::vector<SecularRoot<Real>> roots;
  for (std::int64_t i = 0; i < equation.count; ++i) {
    roots.push_back(runtime::host::secular_root(equation, i));
  }
  return roots;
}

template <class Real>
void expect_same_roots(const std::vector<SecularRoot<Real>>& found,
                       const std::vector<SecularRoot<Real>>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].origin, expected[i].origin) << i;
    ASSERT_EQ(found[i].offset, expected[i].offset) << i;
  }
}

TYPED_TEST(EmulatedTridiagonal, SecularEquation_HasRootsAndWeightsOfTheCpu) {
  using Real = TypeParam;
  for_each_equation<Real>([](const Equation<Real>& f) {
    const std::int64_t n = f.equation.count;
    const std::vector<SecularRoot<Real>> expected = roots_of_cpu(f.equation);
    std::vector<Real> weights(at(n));
    runtime::host::make_secular_weights(f.equation, expected.data(), 0, n, weights.data());
    in_each_order([&] {
      std::vector<SecularRoot<Real>> roots(at(n));
      Kernels<Real>::secular_roots(no_stream, f.equation, 0, n / 3, roots.data());
      Kernels<Real>::secular_roots(no_stream, f.equation, n / 3, n - n / 3, roots.data());
      expect_same_roots(roots, expected);
      std::vector<Real> found(at(n));
      Kernels<Real>::secular_weights(no_stream, f.equation, roots.data(), found.data());
      EXPECT_EQ(found, weights);
    });
  });
}

TYPED_TEST(EmulatedTridiagonal, SecularVectors_AreThoseOfTheCpu) {
  using Real = TypeParam;
  for_each_equation<Real>([](const Equation<Real>& f) {
    const std::int64_t n = f.equation.count;
    const std::vector<SecularRoot<Real>> roots = roots_of_cpu(f.equation);
    std::vector<Real> weights(at(n));
    runtime::host::make_secular_weights(f.equation, roots.data(), 0, n, weights.data());
    SecularEquation<Real> equation = f.equation;
    equation.weights = weights.data();
    std::vector<std::int64_t> rows(at(n));
    std::iota(rows.rbegin(), rows.rend(), std::int64_t{0});
    const std::int64_t first = n / 3;
    DenseMatrix<Real> expected(n, n - first);
    for (std::int64_t j = first; j < n; ++j) {
      runtime::host::make_secular_vector(equation, roots[at(j)], rows.data(),
                                         &expected(0, j - first));
    }
    const auto limit = static_cast<Real>(static_cast<double>(8 + n) * unit_roundoff<Real>);
    in_each_order([&] {
      DenseMatrix<Real> u = unwritten<Real>(n, n - first);
      Kernels<Real>::secular_vectors(no_stream, equation, roots.data(), rows.data(), first,
                                     u.view());
      for (std::int64_t j = 0; j < u.columns(); ++j) {
        for (std::int64_t i = 0; i < n; ++i) {
          ASSERT_LE(std::abs(u(i, j) - expected(i, j)), limit * std::abs(expected(i, j)));
        }
      }
    });
  });
}

TYPED_TEST(EmulatedTridiagonal, SecularEquationWithNoNumber_EndsTheSearch) {
  using Real = TypeParam;
  for (const bool in_poles : {false, true}) {
    Equation<Real> f(secular_cases[0], 50);
    (in_poles ? f.poles : f.weights)[25] = std::numeric_limits<Real>::quiet_NaN();
    std::vector<SecularRoot<Real>> roots(50, {Real{1}, 1});
    Kernels<Real>::secular_roots(no_stream, f.equation, 0, 50, roots.data());
    for (const SecularRoot<Real>& root : roots) {
      EXPECT_EQ(root.origin, SecularRoot<Real>::not_found);
    }
  }
}

template <class Real>
DenseMatrix<Real> random_matrix(std::int64_t rows, std::int64_t columns) {
  std::mt19937 engine(3);
  DenseMatrix<Real> a(rows, columns);
  std::generate_n(a.data(), rows * columns,
                  [&] { return static_cast<Real>(engine()) / Real{4294967296.0} - Real{0.5}; });
  return a;
}

TYPED_TEST(EmulatedTridiagonal, Rotations_FollowEachOther) {
  using Real = TypeParam;
  const std::vector<ColumnRotation<Real>> rotations{
      {0, 3, Real(0.6), Real(0.8)}, {3, 4, Real(-0.28), Real(0.96)}, {4, 1, Real(0.8), Real(-0.6)}};
  for (const std::int64_t rows : {1, 100, 129, 300}) {
    const DenseMatrix<Real> z = random_matrix<Real>(rows, 6);
    DenseMatrix<Real> expected = z;
    for (const ColumnRotation<Real>& r : rotations) {
      for (std::int64_t i = 0; i < rows; ++i) {
        const Real x = expected(i, r.x);
        const Real y = expected(i, r.y);
        expected(i, r.x) = r.c * x + r.s * y;
        expected(i, r.y) = r.c * y - r.s * x;
      }
    }
    in_each_order([&] {
      DenseMatrix<Real> rotated = z;
      Kernels<Real>::rotate_columns(no_stream, rotations.data(), 3, rotated.view());
      EXPECT_TRUE(same_bits(rotated, expected));
    });
  }
}

TYPED_TEST(EmulatedTridiagonal, Columns_GoWhereTheyBelong) {
  using Real = TypeParam;
  const std::vector<std::int64_t> from{4, 0, 2};
  const std::vector<std::int64_t> to{1, 5, 0};
  for (const std::int64_t rows : {1, 255, 1024, 2049}) {
    const DenseMatrix<Real> source = random_matrix<Real>(rows, 6);
    for (const auto* sources : {static_cast<const std::int64_t*>(nullptr), from.data()}) {
      for (const auto* targets : {static_cast<const std::int64_t*>(nullptr), to.data()}) {
        DenseMatrix<Real> expected = unwritten<Real>(rows, 6);
        for (std::int64_t j = 0; j < 3; ++j) {
          std::copy_n(&source(0, sources == nullptr ? j : sources[j]), rows,
                      &expected(0, targets == nullptr ? j : targets[j]));
        }
        DenseMatrix<Real> target = unwritten<Real>(rows, 6);
        Kernels<Real>::copy_columns(no_stream, 3, source.view(), sources, target.view(), targets);
        EXPECT_TRUE(same_bits(target, expected));
      }
    }
  }
}

TYPED_TEST(EmulatedTridiagonal, Bisection_HasTheBitsOfTheCpu) {
  using Real = TypeParam;
  for (const std::int64_t n : {1, 2, 7, 33, 130}) {
    for (const TridiagonalCase<Real>& t : tridiagonal_zoo<Real>(n)) {
      SCOPED_TRACE(t.name + " " + std::to_string(n));
      const auto bound = static_cast<Real>(1.01L * truth_of(t).norm);
      const Real width = bound * std::numeric_limits<Real>::epsilon() / 2;
      const std::int64_t first = n / 4;
      std::vector<Real> expected(at(n - first));
      runtime::host::bisect(view(t), -bound, bound, width, first, n - first, expected.data());
      std::vector<Real> found(at(n - first));
      Kernels<Real>::bisect(no_stream, view(t), -bound, bound, width, first, n - first,
                            found.data());
      EXPECT_EQ(found, expected);
      std::vector<std::int64_t> counts(expected.size());
      runtime::host::count_eigenvalues(view(t), expected.data(), n - first, counts.data());
      in_each_order([&] {
        std::vector<std::int64_t> below(expected.size());
        Kernels<Real>::count_eigenvalues(no_stream, view(t), expected.data(), n - first,
                                         below.data());
        EXPECT_EQ(below, counts);
      });
    }
  }
}

TYPED_TEST(EmulatedTridiagonal, BisectionOfWhatIsNoNumber_Ends) {
  using Real = TypeParam;
  TridiagonalCase<Real> t = tridiagonal_zoo<Real>(33).front();
  t.diagonal[5] = std::numeric_limits<Real>::quiet_NaN();
  std::vector<Real> expected(33);
  std::vector<Real> found(33);
  const Real width = std::numeric_limits<Real>::epsilon();
  runtime::host::bisect(view(t), Real{-5}, Real{5}, width, 0, 33, expected.data());
  Kernels<Real>::bisect(no_stream, view(t), Real{-5}, Real{5}, width, 0, 33, found.data());
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace shardsolve::testing::tridiagonal
