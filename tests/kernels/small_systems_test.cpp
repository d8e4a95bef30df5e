// Systems that one block of a GPU solves: factors, solutions and errors against sums in long
// double, and what is left undecided.

#include "runtime/cuda/small_systems.hpp"

#include "kernels/orders.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "support/dtypes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

namespace shardsolve::testing {
namespace {

using runtime::SmallItems;
using runtime::SmallStep;
using runtime::SmallSystems;

constexpr std::int32_t undecided = SmallSystems::undecided;

template <Scalar T>
using WideScalar = std::conditional_t<is_complex<T>, std::complex<long double>, long double>;

template <Scalar T>
WideScalar<T> widen(T x) {
  return static_cast<WideScalar<T>>(x);
}
template <class W>
W conjugated(W x) {
  if constexpr (std::is_same_v<W, long double>) {
    return x;
  } else {
    return std::conj(x);
  }
}

/// Matrices lie by rows.
template <Scalar T>
std::vector<T> random_numbers_of(std::int64_t count, unsigned seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<T> numbers;
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (is_complex<T>) {
      const auto re = static_cast<RealOf<T>>(normal(engine));
      numbers.emplace_back(re, static_cast<RealOf<T>>(normal(engine)));
    } else {
      numbers.push_back(static_cast<T>(normal(engine)));
    }
  }
  return numbers;
}

template <Scalar T>
std::vector<T> small_definite(std::int64_t n, unsigned seed) {
  std::vector<T> a = random_numbers_of<T>(n * n, seed);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      a[static_cast<std::size_t>(j * n + i)] =
          static_cast<T>(conjugated(widen(a[static_cast<std::size_t>(i * n + j)])));
    }
    a[static_cast<std::size_t>(i * n + i)] = T{static_cast<RealOf<T>>(3 * n)};
  }
  return a;
}

/// A batch of systems with all that steps leave.
template <Scalar T>
struct SmallBatch {
  using Real = RealOf<T>;
  static constexpr std::int64_t record_words = 18;

  SmallBatch(std::int64_t rows, std::int64_t sides, std::vector<T> matrices)
      : n(rows),
        columns(sides),
        batch(static_cast<std::int64_t>(matrices.size()) / (n * n)),
        a(std::move(matrices)),
        b(random_numbers_of<T>(batch * columns * n, 7)),
        slab(a.size(), nothing()),
        diagonal(static_cast<std::size_t>(batch * n)),
        rows_of(static_cast<std::size_t>(batch * n), -1),
        sign(static_cast<std::size_t>(batch), nothing()),
        log(static_cast<std::size_t>(batch)),
        record(static_cast<std::size_t>(batch * record_words), -7),
        x(b.size(), nothing()),
        verdict(static_cast<std::size_t>(batch * SmallSystems::verdict_words), -7),
        errors(static_cast<std::size_t>(batch * 2)) {}

  static T nothing() { return T{std::numeric_limits<Real>::quiet_NaN()}; }
  template <class Value>
  SmallItems items(std::vector<Value>& values) {
    const auto each = values.size() / static_cast<std::size_t>(batch);
    return {values.data(), static_cast<std::int64_t>(each * sizeof(Value))};
  }

  void run(SmallStep step, bool adjoint = false) {
    SmallSystems call{.step = step,
                      .dtype = dtype_of<T>,
                      .batch = batch,
                      .n = n,
                      .columns = columns,
                      .adjoint = adjoint};
    const std::array<std::int32_t, SmallSystems::head_words> head = {
        0, -1, -1, -1, 0, static_cast<std::int32_t>(n), 1, 1, 64};
    std::copy(head.begin(), head.end(), call.head);
    call.a = items(a);
    call.slab = items(slab);
    call.diagonal = items(diagonal);
    call.rows = items(rows_of);
    call.sign = items(sign);
    call.log = items(log);
    call.record = items(record);
    call.b = items(b);
    call.x = items(x);
    call.verdict = items(verdict);
    call.errors = items(errors);
    runtime::cuda::small::enqueue(nullptr, call);
  }

  std::int32_t status(std::int64_t item) const {
    return record[static_cast<std::size_t>(item * record_words)];
  }
  std::int32_t solved(std::int64_t item) const {
    return verdict[static_cast<std::size_t>(item * SmallSystems::verdict_words)];
  }
  /// The number of a record.
  double number(std::int64_t item, int which) const {
    const std::int32_t* const words = &record[static_cast<std::size_t>(
        item * record_words + SmallSystems::head_words + 3 * which)];
    double fraction = 0;
    std::memcpy(&fraction, words, sizeof(fraction));
    return std::ldexp(fraction, words[2]);
  }
  WideScalar<T> entry(const std::vector<T>& of, std::int64_t item, std::int64_t i,
                      std::int64_t j) const {
    return widen(of[static_cast<std::size_t>((item * n + i) * n + j)]);
  }
  /// Of op(A) x = b: by norm, and by components.
  std::array<long double, 2> errors_of_x(std::int64_t item, bool adjoint) const {
    const auto of = [&](std::int64_t i, std::int64_t j) {
      return adjoint ? conjugated(entry(a, item, j, i)) : entry(a, item, i, j);
    };
    std::array<long double, 2> worst{};
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto at = [&](const std::vector<T>& one, std::int64_t i) {
        return conjugated(widen(one[static_cast<std::size_t>((item * columns + c) * n + i)]));
      };
      long double norm = 0;
      long double most_r = 0;
      long double most_x = 0;
      long double most_b = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        WideScalar<T> r = at(b, i);
        long double size = std::abs(at(b, i));
        long double row = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          r -= of(i, j) * at(x, j);
          size += std::abs(of(i, j)) * std::abs(at(x, j));
          row += std::abs(of(i, j));
        }
        norm = std::max(norm, row);
        most_r = std::max(most_r, std::abs(r));
        most_x = std::max(most_x, std::abs(at(x, i)));
        most_b = std::max(most_b, std::abs(at(b, i)));
        worst[1] = std::max(worst[1], std::abs(r) / size);
      }
      worst[0] = std::max(worst[0], most_r / (norm * most_x + most_b));
    }
    return worst;
  }

  /// Whether an error that the kernel has written is the true one.
  bool tells(std::int64_t place, long double true_error) const {
    const long double told = errors[static_cast<std::size_t>(place)];
    return std::abs(told - true_error) <= 0.05L * true_error + unit_roundoff<T> / 100;
  }

  std::int64_t n;
  std::int64_t columns;
  std::int64_t batch;
  std::vector<T> a;
  std::vector<T> b;
  std::vector<T> slab;
  std::vector<Real> diagonal;
  std::vector<std::int32_t> rows_of;
  std::vector<T> sign;
  std::vector<Real> log;
  std::vector<std::int32_t> record;
  std::vector<T> x;
  std::vector<std::int32_t> verdict;
  std::vector<Real> errors;
};

template <class T>
class EmulatedSmallSystems : public ::testing::Test {};
TYPED_TEST_SUITE(EmulatedSmallSystems, Dtypes, DtypeNames);

constexpr std::array<std::int64_t, 7> sizes = {1, 2, 5, 31, 33, 63, 64};

TYPED_TEST(EmulatedSmallSystems, Cholesky_FactorsSolvesAndCertifies) {
  using T = TypeParam;
  constexpr double u = unit_roundoff<T>;
  for (const std::int64_t n : sizes) {
    std::vector<T> matrices = small_definite<T>(n, 1);
    const std::vector<T> other = small_definite<T>(n, 2);
    matrices.insert(matrices.end(), other.begin(), other.end());
    in_each_order([&] {
      SmallBatch<T> all(n, n % 2 == 0 ? 1 : 11, matrices);
      all.run(SmallStep::cholesky_factor);
      all.run(SmallStep::cholesky_solve);
      for (std::int64_t item = 0; item < all.batch; ++item) {
        ASSERT_EQ(all.status(item), 0) << n;
        ASSERT_EQ(all.solved(item), 0) << n;
        long double off = 0;
        long double log = 0;
        long double norm = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          long double row = 0;
          for (std::int64_t j = 0; j < n; ++j) {
            row += std::abs(all.entry(all.a, item, i, j));
            if (j < i) {
              EXPECT_EQ(all.entry(all.slab, item, i, j), all.entry(all.a, item, i, j));
              continue;
            }
            WideScalar<T> sum = 0;
            for (std::int64_t k = 0; k <= i; ++k) {
              sum += conjugated(all.entry(all.slab, item, k, i)) * all.entry(all.slab, item, k, j);
            }
            off = std::max(off, std::abs(sum - all.entry(all.a, item, i, j)));
          }
          norm = std::max(norm, row);
          log += 2 * std::log(std::abs(all.entry(all.slab, item, i, i)));
          EXPECT_EQ(all.diagonal[static_cast<std::size_t>(item * n + i)],
                    static_cast<RealOf<T>>(3 * n));
        }
        EXPECT_LE(off, 2 * std::sqrt(n) * u * norm) << n;
        EXPECT_LE(std::abs(all.number(item, 0) - norm), 8 * u * norm);
        EXPECT_LE(std::abs(all.log[static_cast<std::size_t>(item)] - log),
                  8 * u * std::abs(log) + u);
        const long double by_norm = all.errors_of_x(item, false).front();
        EXPECT_LE(by_norm, 4 * u) << n;
        EXPECT_TRUE(all.tells(2 * item, by_norm));
      }
    });
  }
}

TYPED_TEST(EmulatedSmallSystems, Lu_FactorsSolvesAndCertifiesBothWays) {
  using T = TypeParam;
  constexpr double u = unit_roundoff<T>;
  for (const std::int64_t n : sizes) {
    for (const bool adjoint : {false, true}) {
      in_each_order([&] {
        SmallBatch<T> all(n, n % 2 == 0 ? 1 : 11, random_numbers_of<T>(2 * n * n, 3));
        all.run(SmallStep::lu_factor);
        all.run(SmallStep::lu_solve, adjoint);
        for (std::int64_t item = 0; item < all.batch; ++item) {
          ASSERT_EQ(all.status(item), 0) << n;
          ASSERT_EQ(all.solved(item), 0) << n;
          // Row j of slabs is column j of L and U.
          long double off = 0;
          long double size = 0;
          long double most_u = 0;
          long double most_a = 0;
          for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t row = all.rows_of[static_cast<std::size_t>(item * n + i)];
            for (std::int64_t j = 0; j < n; ++j) {
              WideScalar<T> sum = 0;
              long double terms = 0;
              for (std::int64_t k = 0; k <= std::min(i, j); ++k) {
                const WideScalar<T> l = k == i ? WideScalar<T>{1} : all.entry(all.slab, item, k, i);
                EXPECT_LE(std::abs(l), 1.5L);
                sum += l * all.entry(all.slab, item, j, k);
                terms += std::abs(l) * std::abs(all.entry(all.slab, item, j, k));
              }
              off = std::max(off, std::abs(sum - all.entry(all.a, item, j, row)));
              size = std::max(size, terms);
              most_a = std::max(most_a, std::abs(all.entry(all.a, item, j, i)));
              if (i <= j) {
                most_u = std::max(most_u, std::abs(all.entry(all.slab, item, j, i)));
              }
            }
          }
          EXPECT_LE(off, 6 * u * size) << n;
          EXPECT_LE(std::abs(all.number(item, 2) - most_u / most_a), 1e-6L * most_u);
          const auto [by_norm, by_components] = all.errors_of_x(item, adjoint);
          EXPECT_LE(by_norm, 4 * u) << n;
          EXPECT_LE(by_components, 10 * u) << n;
          EXPECT_TRUE(all.tells(2 * item, by_norm));
          EXPECT_TRUE(all.tells(2 * item + 1, by_components));
        }
      });
    }
  }
}

TYPED_TEST(EmulatedSmallSystems, DeterminantOfAPermutation_HasItsSign) {
  using T = TypeParam;
  SmallBatch<T> all(3, 1, {T{0}, T{2}, T{0}, T{0}, T{0}, T{3}, T{5}, T{0}, T{0}});
  all.run(SmallStep::lu_factor);
  ASSERT_EQ(all.status(0), 0);
  EXPECT_EQ(all.sign[0], T{1});
  EXPECT_NEAR(all.log[0], std::log(30.0), 1e-5);
  SmallBatch<T> swapped(2, 1, {T{0}, T{2}, T{3}, T{0}});
  swapped.run(SmallStep::lu_factor);
  EXPECT_EQ(swapped.sign[0], T{-1});
}

TYPED_TEST(EmulatedSmallSystems, WhatIsNotFine_IsLeftUndecided) {
  using T = TypeParam;
  constexpr std::int64_t n = 5;
  const auto spoilt = [](std::size_t at, T value) {
    std::vector<T> a = small_definite<T>(n, 1);
    a[at] = value;
    return a;
  };
  const T nan{std::numeric_limits<RealOf<T>>::quiet_NaN()};
  const T infinite{std::numeric_limits<RealOf<T>>::infinity()};
  std::vector<T> tiny = small_definite<T>(n, 1);
  for (T& one : tiny) {
    one *= static_cast<RealOf<T>>(0x1p-70);
  }
  for (const auto& a : {spoilt(7, nan), spoilt(24, infinite), tiny}) {
    SmallBatch<T> all(n, 1, a);
    all.run(SmallStep::cholesky_factor);
    EXPECT_EQ(all.status(0), undecided);
    all.run(SmallStep::lu_factor);
    EXPECT_EQ(all.status(0), undecided);
  }
  for (const auto& a : {spoilt(7, T{100}), spoilt(24, T{-1})}) {  // not Hermitian, not definite
    SmallBatch<T> all(n, 1, a);
    all.run(SmallStep::cholesky_factor);
    EXPECT_EQ(all.status(0), undecided);
  }
  SmallBatch<T> singular(2, 1, {T{1}, T{2}, T{2}, T{4}});
  singular.run(SmallStep::lu_factor);
  EXPECT_EQ(singular.status(0), undecided);
}

TYPED_TEST(EmulatedSmallSystems, OneOfABatch_IsUndecidedAlone) {
  using T = TypeParam;
  std::vector<T> matrices = small_definite<T>(6, 1);
  const std::vector<T> bad = random_numbers_of<T>(36, 2);
  matrices.insert(matrices.end(), bad.begin(), bad.end());
  SmallBatch<T> all(6, 1, matrices);
  all.run(SmallStep::cholesky_factor);
  all.run(SmallStep::cholesky_solve);
  EXPECT_EQ(all.status(0), 0);
  EXPECT_EQ(all.solved(0), 0);
  EXPECT_EQ(all.status(1), undecided);
  EXPECT_EQ(all.solved(1), undecided);
}

TYPED_TEST(EmulatedSmallSystems, RightHandSides_AreSolvedForOrUndecided) {
  using T = TypeParam;
  using Real = RealOf<T>;
  for (const bool lu : {false, true}) {
    SmallBatch<T> all(4, 1, small_definite<T>(4, 1));
    const auto solved = [&](const std::vector<T>& b) {
      all.b = b;
      all.run(lu ? SmallStep::lu_factor : SmallStep::cholesky_factor);
      all.run(lu ? SmallStep::lu_solve : SmallStep::cholesky_solve);
      return all.solved(0);
    };
    EXPECT_EQ(solved({T{0}, T{0}, T{0}, T{0}}), 0);
    EXPECT_EQ(all.x, all.b);
    EXPECT_EQ(all.errors[0], 0);
    const T nan{std::numeric_limits<Real>::quiet_NaN()};
    EXPECT_EQ(solved({T{1}, nan, T{0}, T{0}}), undecided);
    const T largest{std::numeric_limits<Real>::max()};
    EXPECT_EQ(solved({T{1}, T{0}, largest, T{0}}), undecided);
    const T least{std::numeric_limits<Real>::denorm_min()};
    EXPECT_EQ(solved({least, T{0}, T{0}, T{0}}), undecided);
    EXPECT_EQ(solved({T{1}, T{0}, least, T{0}}), 0);
  }
}

TYPED_TEST(EmulatedSmallSystems, FactorsThatNobodyHasMadeHere_AreUndecided) {
  using T = TypeParam;
  for (const std::size_t word : {0U, 5U, 6U, 7U}) {
    SmallBatch<T> all(4, 1, small_definite<T>(4, 1));
    all.run(SmallStep::cholesky_factor);
    all.record[word] += 1;
    all.run(SmallStep::cholesky_solve);
    EXPECT_EQ(all.solved(0), undecided) << word;
  }
}

TYPED_TEST(EmulatedSmallSystems, GrownFactors_AreNotSolvedWith) {
  using T = TypeParam;
  constexpr std::int64_t n = 64;
  std::vector<T> a(n * n);  // J. H. Wilkinson's, transposed: pivots double from row to row
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const bool last = i == n - 1;
      a[static_cast<std::size_t>(i * n + j)] = last || i == j ? T{1} : j > i ? T{-1} : T{0};
    }
  }
  SmallBatch<T> all(n, 1, a);
  all.run(SmallStep::lu_factor);
  ASSERT_EQ(all.status(0), 0);
  EXPECT_EQ(all.number(0, 2), std::ldexp(1.0, n - 1));
  all.run(SmallStep::lu_solve);
  EXPECT_EQ(all.solved(0), undecided);
}

TYPED_TEST(EmulatedSmallSystems, MoreThanFitsInSharedMemory_IsUndecided) {
  using T = TypeParam;
  for (const std::int64_t n : {64, 65}) {
    if (n == 64) {
      runtime::cuda::shared_limit() = std::size_t{16} << 10U;
    }
    SmallBatch<T> all(n, 1, small_definite<T>(n, 1));
    all.run(SmallStep::cholesky_factor);
    EXPECT_EQ(all.status(0), undecided);
    all.run(SmallStep::lu_factor);
    EXPECT_EQ(all.status(0), undecided);
    runtime::cuda::shared_limit() = std::size_t{227} << 10U;
  }
}

}  // namespace
}  // namespace shardsolve::testing
