// Input that has no answer is refused before anything is written, and the place is named.

#include "reference/matmul.hpp"
#include "support/bits.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/device_memory.hpp>
#include <shardsolve/eigh.hpp>
#include <shardsolve/lu.hpp>
#include <shardsolve/svd.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace shardsolve::testing {
namespace {

using ::testing::HasSubstr;

struct Place {
  std::int64_t row;
  std::int64_t column;
};

const SlabLayout& cut() {
  static const SlabLayout uneven({0, 20, 20, 33, 50}, 4);
  return uneven;
}

/// First and last entry of the matrix, and some in the columns of every rank, on both sides of the
/// diagonal.
std::vector<Place> places() {
  return {{0, 0}, {49, 19}, {3, 11}, {20, 20}, {0, 32}, {40, 25}, {33, 49}, {1, 33}, {49, 49}};
}

template <Scalar T>
std::vector<T> odd_values() {
  using Limits = std::numeric_limits<RealOf<T>>;
  std::vector<T> values{T{Limits::quiet_NaN()}, T{Limits::infinity()}, T{-Limits::infinity()}};
  if constexpr (is_complex<T>) {
    values.push_back({0, Limits::quiet_NaN()});
    values.push_back({1, -Limits::infinity()});
  }
  return values;
}

template <class T>
class Refusal : public ::testing::Test {
 protected:
  Mesh mesh_ = make_mesh(cut().ranks());

  /// Factors `a`, which has to be refused and left alone.
  Outcome refusal_of(const DenseMatrix<T>& a) {
    const ShardedMatrix<T> slabs = shard(a, cut());
    const CholeskyFactor<T> factor = cholesky_factor(mesh_, slabs);
    EXPECT_FALSE(factor.outcome.ok());
    EXPECT_TRUE(same_bits(whole(slabs), a));
    EXPECT_TRUE(factor.outcome.location && factor.outcome.location->what == Located::matrix_entry);
    EXPECT_TRUE(throws(ErrorKind::invalid_argument, [&] { log_determinant(factor); }));
    return factor.outcome;
  }

  /// Either of an entry and its mirror is the odd one.
  void expect_not_hermitian_at(const DenseMatrix<T>& a, Place place) {
    const Outcome outcome = refusal_of(a);
    ASSERT_EQ(outcome.status, Status::not_hermitian) << outcome.message();
    ASSERT_TRUE(outcome.location);
    const auto [low, high] = std::minmax(outcome.location->row, outcome.location->column);
    EXPECT_EQ(low.value(), std::min(place.row, place.column));
    EXPECT_EQ(high.value(), std::max(place.row, place.column));
  }
};
TYPED_TEST_SUITE(Refusal, Dtypes, DtypeNames);

/// The probe sees differences above 32 sqrt(n) u times the sum of a row.
template <Scalar T>
double probe_limit(const DenseMatrix<T>& a, std::int64_t row) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    sum += double{std::abs(a(i, row))};
  }
  return 32.0 * std::sqrt(static_cast<double>(a.rows())) * unit_roundoff<T> * sum;
}

TYPED_TEST(Refusal, NonfiniteEntry_OnEveryRank_IsNamed) {
  using T = TypeParam;
  for (const T odd : odd_values<T>()) {
    for (const Place& place : places()) {
      SCOPED_TRACE(::testing::Message() << odd << " at " << place.row << ", " << place.column);
      DenseMatrix<T> a = dense<T>({.n = cut().size(), .seed = 3});
      a(place.row, place.column) = odd;
      const Outcome outcome = this->refusal_of(a);
      ASSERT_EQ(outcome.status, Status::nonfinite_input) << outcome.message();
      ASSERT_TRUE(outcome.location);
      EXPECT_EQ(outcome.location->row.value(), place.row);
      EXPECT_EQ(outcome.location->column.value(), place.column);
      EXPECT_THAT(outcome.message(), HasSubstr("row " + std::to_string(place.row)));
    }
  }
}

TYPED_TEST(Refusal, NonfiniteEntry_AmongTinyAndHugeOnes_IsNamed) {
  using T = TypeParam;
  constexpr int end = std::numeric_limits<RealOf<T>>::max_exponent - 14;
  for (const int exponent : {-end, end}) {
    DenseMatrix<T> a = dense<T>({.n = cut().size(), .seed = 3, .scale_exponent = exponent});
    a(40, 25) = std::numeric_limits<RealOf<T>>::quiet_NaN();
    const Outcome outcome = this->refusal_of(a);
    ASSERT_EQ(outcome.status, Status::nonfinite_input) << outcome.message();
    EXPECT_EQ(outcome.location->row.value(), 40);
    EXPECT_EQ(outcome.location->column.value(), 25);
  }
}

TYPED_TEST(Refusal, NotHermitianInOneEntry_IsNamed) {
  using T = TypeParam;
  constexpr int end = std::numeric_limits<RealOf<T>>::max_exponent - 14;
  for (const int exponent : {-end, 0, end}) {
    for (const Place& place : places()) {
      if (place.row == place.column) {
        continue;
      }
      SCOPED_TRACE(::testing::Message()
                   << place.row << ", " << place.column << " scaled by 2^" << exponent);
      DenseMatrix<T> a = dense<T>({.n = cut().size(), .seed = 3, .scale_exponent = exponent});
      const double limit = std::min(probe_limit(a, place.row), probe_limit(a, place.column));
      a(place.row, place.column) += static_cast<RealOf<T>>(100.0 * limit);
      this->expect_not_hermitian_at(a, place);
    }
  }
}

TYPED_TEST(Refusal, TriangleLeftOut_IsRefused) {
  using T = TypeParam;
  DenseMatrix<T> a = dense<T>({.n = cut().size(), .seed = 3});
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      a(i, j) = 0;
    }
  }
  EXPECT_EQ(this->refusal_of(a).status, Status::not_hermitian);
}

TYPED_TEST(Refusal, GramMatrixRoundedDifferentlyInItsTriangles_Passes) {
  using T = TypeParam;
  constexpr std::int64_t features = 300;
  const std::int64_t n = cut().size();
  const DenseMatrix<T> x = right_hand_sides<T>(features, n);
  DenseMatrix<T> a(n, n);
  std::int64_t different = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      T forward{};
      T backward{};
      for (std::int64_t k = 0; k < features; ++k) {
        const std::int64_t last = features - 1 - k;
        forward += reference::conjugate(x(k, i)) * x(k, j);
        backward += reference::conjugate(x(last, j)) * x(last, i);
      }
      a(j, i) = backward;
      a(i, j) = i == j ? T{std::real(forward)} : forward;
      different += a(i, j) != reference::conjugate(a(j, i)) ? 1 : 0;
    }
  }
  ASSERT_GT(different, n) << "the triangles should be rounded differently";
  const DenseMatrix<T> b = right_hand_sides<T>(n, 1, 2);
  const RightHandSides<T> solution = shard_rows(b, cut());
  const Outcome outcome = solve(this->mesh_, shard(a, cut()), solution);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_LT(solve_ratio(a, whole(solution), b), solve_gate);
}

TYPED_TEST(Refusal, RightHandSideWithNonfiniteEntry_IsNamedAndKept) {
  using T = TypeParam;
  const DenseMatrix<T> a = dense<T>({.n = cut().size(), .seed = 3});
  const CholeskyFactor<T> factor = cholesky_factor(this->mesh_, shard(a, cut()));
  ASSERT_TRUE(factor.outcome.ok());
  for (const T odd : odd_values<T>()) {
    for (const Place& place :
         {Place{0, 0}, Place{19, 4}, Place{20, 5}, Place{32, 2}, Place{49, 5}}) {
      SCOPED_TRACE(::testing::Message() << odd << " at " << place.row << ", " << place.column);
      DenseMatrix<T> b = right_hand_sides<T>(cut().size(), 6);
      b(place.row, place.column) = odd;
      const RightHandSides<T> x = shard_rows(b, cut());
      const Outcome outcome = cholesky_solve(this->mesh_, factor, x);
      ASSERT_EQ(outcome.status, Status::nonfinite_input) << outcome.message();
      ASSERT_TRUE(outcome.location);
      EXPECT_EQ(outcome.location->what, Located::right_hand_side_entry);
      EXPECT_EQ(outcome.location->row.value(), place.row);
      EXPECT_EQ(outcome.location->column.value(), place.column);
      EXPECT_TRUE(same_bits(whole(x), b));
    }
  }
}

template <class T>
class ComplexRefusal : public Refusal<T> {};
TYPED_TEST_SUITE(ComplexRefusal, ComplexDtypes, DtypeNames);

TYPED_TEST(ComplexRefusal, DiagonalThatIsNotReal_IsNamed) {
  using T = TypeParam;
  for (const std::int64_t row : {0, 19, 20, 49}) {
    SCOPED_TRACE(row);
    DenseMatrix<T> a = dense<T>({.n = cut().size(), .seed = 3});
    a(row, row) += T{0, static_cast<RealOf<T>>(100.0 * probe_limit(a, row))};
    this->expect_not_hermitian_at(a, {row, row});
  }
}

TYPED_TEST(ComplexRefusal, SymmetricButNotHermitian_IsRefused) {
  using T = TypeParam;
  DenseMatrix<T> a = dense<T>({.n = cut().size(), .seed = 3});
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      a(i, j) = a(j, i);
    }
  }
  EXPECT_EQ(this->refusal_of(a).status, Status::not_hermitian);
}

template <Scalar T>
T odd_part(std::int64_t i, std::int64_t j) {
  if constexpr (is_complex<T>) {
    return T{0, 1};
  } else {
    return i < j ? T{1} : T{-1};
  }
}

/// With K = A - A^H of equal entries in each row, or in a circle, K v is 0 for many v of signs.
TYPED_TEST(Refusal, StructuredMatrixThatIsNotHermitian_OfAnySize_IsRefused) {
  using T = TypeParam;
  const auto shifted = [](std::int64_t i, std::int64_t j, std::int64_t n) {
    return T((i + 1) % n == j ? 1 : 0);
  };
  const std::vector<std::function<T(std::int64_t, std::int64_t, std::int64_t)>> kinds{
      [](auto i, auto j, auto) {
        return T(i == j ? 4 : i < j ? 1 : -1);
      },
      [&](auto i, auto j, auto n) {  // upwind differences on a circle
        return T(i == j ? 3 : 0) - T(1.25) * shifted(i, j, n) - T(0.75) * shifted(j, i, n);
      },
      [](auto i, auto j, auto) {
        const T odd = odd_part<T>(i, j);
        return T(i == j ? 8 : 1) + T(0.5) * odd;
      }};
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    for (std::int64_t n = 3; n <= 40; ++n) {
      SCOPED_TRACE(::testing::Message() << "kind " << kind << ", n " << n);
      DenseMatrix<T> a(n, n);
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t i = 0; i < n; ++i) {
          a(i, j) = kinds[kind](i, j, n);
        }
      }
      const CholeskyFactor<T> factor =
          cholesky_factor(this->mesh_, shard(a, SlabLayout::even(n, this->mesh_.ranks(), 6)));
      EXPECT_EQ(factor.outcome.status, Status::not_hermitian);
    }
  }
}

// ---- misuse
// --------------------------------------------------------------------------------------

TEST(Misuse, LayoutOfOtherRanksThanTheMesh_Throws) {
  Mesh mesh = make_mesh(3);
  const SlabLayout two = SlabLayout::even(10, 2, 4);
  const DenseMatrix<double> a = dense<double>({.n = 10});
  const auto error = thrown_by([&] { cholesky_factor(mesh, shard(a, two)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
  EXPECT_THAT(error->what(), ::testing::AllOf(HasSubstr("2 slabs"), HasSubstr("3 ranks")));
}

/// The pointers are those of host memory: it is refused before they are looked at.
TEST(Misuse, MemoryOfGpusOnAMeshOfCpus_IsRefused) {
  Mesh mesh = Mesh::host(1);
  const SlabLayout layout = SlabLayout::even(10, 1, 4);
  std::vector<double> memory(110, 1.0);
  const ShardedMatrix<double> a(layout, {{memory.data(), 10, 10}}, Memory::device);
  const RightHandSides<double> b(layout, {{memory.data() + 100, 10, 1}}, Memory::device);
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { cholesky_factor(mesh, a); },
           [&] { solve(mesh, shard(dense<double>({.n = 10}), layout), b); },
           [&] { copy(mesh, a, ShardedMatrix<double>(layout)); },
           [&] { copy(mesh, RightHandSides<double>(layout, 1), b); }}) {
    const auto error = thrown_by(use);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error->what(), HasSubstr("GPUs"));
  }
}

TEST(Misuse, CopyOfWhatIsNotHere_IsRefused) {
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(10, 2, 4);
  const ShardedMatrix<double> a = shard(dense<double>({.n = 10}), layout);
  const RightHandSides<double> b = shard_rows(right_hand_sides<double>(10, 2), layout);
  const ShardedMatrix<double> some_a(layout, {a.slab(0), {}}, a.memory());
  const RightHandSides<double> some_b(layout, {b.block(0), {}}, b.memory());
  for (const auto& use : std::vector<std::function<void()>>{[&] { copy(mesh, a, some_a); },  //
                                                            [&] { copy(mesh, some_a, a); },  //
                                                            [&] { copy(mesh, b, some_b); },  //
                                                            [&] { copy(mesh, some_b, b); }}) {
    const auto error = thrown_by(use);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error->what(), HasSubstr("has no memory for rank 1"));
  }
}

TEST(Misuse, CopyOfOtherRightHandSides_IsRefused) {
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(10, 2, 4);
  const RightHandSides<double> two = shard_rows(right_hand_sides<double>(10, 2), layout);
  const RightHandSides<double> three = shard_rows(right_hand_sides<double>(10, 3), layout);
  const auto error = thrown_by([&] { copy(mesh, two, three); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
  EXPECT_THAT(error->what(), HasSubstr("2 right-hand sides cannot be copied to 3"));
}

TEST(Misuse, RightHandSidesOnAnotherLayout_Throw) {
  Mesh mesh = make_mesh(2);
  const SlabLayout right = SlabLayout::even(10, 2, 4);
  const DenseMatrix<double> a = dense<double>({.n = 10});
  const DenseMatrix<double> b = right_hand_sides<double>(10, 1);
  const CholeskyFactor<double> factor = cholesky_factor(mesh, shard(a, right));
  for (const SlabLayout& other : {SlabLayout({0, 4, 10}, 4), SlabLayout::even(10, 2, 3)}) {
    EXPECT_TRUE(throws(ErrorKind::invalid_argument,
                       [&] { cholesky_solve(mesh, factor, shard_rows(b, other)); }));
    EXPECT_TRUE(throws(ErrorKind::invalid_argument,
                       [&] { solve(mesh, shard(a, right), shard_rows(b, other)); }));
  }
}

TEST(Misuse, AssumptionThatThereIsNot_Throws) {
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(10, 2, 4);
  const auto a = shard(dense<double>({.n = 10}), layout);
  const auto b = shard_rows(right_hand_sides<double>(10, 1), layout);
  EXPECT_TRUE(throws(ErrorKind::unsupported,
                     [&] { solve(mesh, a, b, {}, Rcond::estimated, static_cast<Assume>(99)); }));
}

TEST(Misuse, FactorThatFailed_IsRefusedEverywhere) {
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(10, 2, 4);
  const DenseMatrix<double> a = dense<double>({.kind = matgen::Kind::indefinite, .n = 10});
  CholeskyFactor<double> factor = cholesky_factor(mesh, shard(a, layout));
  ASSERT_EQ(factor.outcome.status, Status::not_positive_definite);
  const RightHandSides<double> b = shard_rows(right_hand_sides<double>(10, 1), layout);
  constexpr ErrorKind misuse = ErrorKind::invalid_argument;
  EXPECT_TRUE(throws(misuse, [&] { cholesky_solve(mesh, factor, b); }));
  EXPECT_TRUE(throws(misuse, [&] { log_determinant(factor); }));
  EXPECT_TRUE(throws(misuse, [&] { condition_estimate(mesh, factor); }));
  EXPECT_TRUE(throws(misuse, [&] { cholesky_inverse(mesh, std::move(factor)); }));
}

/// Before A is overwritten, and before the work.
TEST(Misuse, RightHandSidesThatAreNotFinite_LeaveTheMatrixAlone) {
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(40, 2, 4);
  const DenseMatrix<double> a = dense<double>({.n = 40});
  const ShardedMatrix<double> slabs = shard(a, layout);
  DenseMatrix<double> b = right_hand_sides<double>(40, 2);
  b(33, 1) = std::numeric_limits<double>::infinity();
  const Outcome outcome = solve(mesh, slabs, shard_rows(b, layout));
  EXPECT_EQ(outcome.status, Status::nonfinite_input);
  EXPECT_TRUE(same_bits(whole(slabs), a));
}

/// Calls that wrote into what they read were `ok`, with wrong numbers.
TEST(Misuse, MemoryThatIsShared_IsRefused) {
  Mesh mesh = make_mesh(2);
  if (mesh.memory() == Memory::device) {
    GTEST_SKIP() << "of CPU devices: some of the memory is that of the host";
  }
  const SlabLayout layout = SlabLayout::even(8, 2, 4);
  const auto square = [&] { return shard(dense<double>({.n = 8}), layout); };
  // Two columns of the second slab, in rows of the first rank.
  std::vector<double> other(8);
  const auto in = [&](const ShardedMatrix<double>& a) {
    return RightHandSides<double>(layout, {a.slab(1).block(2, 1, 4, 2), {other.data(), 4, 2}});
  };
  const ShardedMatrix<double> a = square();
  const CholeskyFactor<double> cholesky = cholesky_factor(mesh, square());
  const LuFactor<double> lu = lu_factor(mesh, square());
  const RowBlocks<double> u = shard_rows(right_hand_sides<double>(8, 8), layout);
  const RowBlocks<double> v = shard_rows(right_hand_sides<double>(8, 8), layout);
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { solve(mesh, a, in(a)); },
           [&] { solve(mesh, a, in(a), {}, Rcond::estimated, Assume::general); },
           [&] { cholesky_solve(mesh, cholesky, in(cholesky.slabs)); },
           [&] { cholesky_half(mesh, cholesky, in(cholesky.slabs), Half::multiply); },
           [&] { lu_solve(mesh, lu, in(lu.slabs)); }, [&] { lu_solve(mesh, lu, in(lu.matrix)); },
           [&] { qr(mesh, u, u); }, [&] { svd(mesh, u, u, v); }, [&] { svd(mesh, u, v, v); },
           [&] { svd(mesh, u, u); }, [&] { polar(mesh, u, u); },
           [&] {
             polar(mesh, u, v,
                   ShardedMatrix<double>(layout, {{v.block(0).data(), 8, 4}, a.slab(1)}));
           }}) {
    const auto error = thrown_by(use);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error->what(), HasSubstr("share memory"));
  }
}

/// Both may be blocks of a larger matrix.
TEST(Misuse, RowsBetweenThoseOfOthers_AreApart) {
  Mesh mesh = make_mesh(2);
  if (mesh.memory() == Memory::device) {
    GTEST_SKIP() << "of CPU devices: the memory is that of the host";
  }
  const SlabLayout layout = SlabLayout::even(8, 2, 4);
  DenseMatrix<double> whole(16, 5);
  const MatrixView<double> all = whole.view();
  const RowBlocks<double> a(layout, all.block(0, 0, 8, 3));
  const RowBlocks<double> u(layout, all.block(8, 0, 8, 3));
  const RowBlocks<double> v(SlabLayout::even(3, 2, 4), 3);
  const RowBlocks<double> given = shard_rows(right_hand_sides<double>(8, 3), layout);
  copy(mesh, given, a);
  EXPECT_TRUE(svd(mesh, a, u, v).outcome.ok());
  EXPECT_TRUE(svd(mesh, a, RowBlocks<double>(layout, all.block(8, 2, 8, 3)), v).outcome.ok());
  EXPECT_TRUE(throws(ErrorKind::invalid_argument,
                     [&] { svd(mesh, a, RowBlocks<double>(layout, all.block(7, 2, 8, 3)), v); }));
}

TEST(Misuse, ViewsWithoutMemory_AreRefused) {
  const SlabLayout layout = SlabLayout::even(8, 2, 4);
  using View = MatrixView<double>;
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { ShardedMatrix<double>(layout, View(nullptr, 8, 8)); },
           [&] { ShardedMatrix<double>(layout, {View(nullptr, 8, 4), {}}); },
           [&] { RightHandSides<double>(layout, View(nullptr, 8, 1)); }}) {
    const auto error = thrown_by(use);
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), HasSubstr("the pointer is null"));
  }
}

TEST(Misuse, ValuesOfNoEnumeration_AreRefused) {
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(10, 2, 4);
  const auto a = shard(dense<double>({.n = 10}), layout);
  const auto b = shard_rows(right_hand_sides<double>(10, 1), layout);
  constexpr ErrorKind misuse = ErrorKind::invalid_argument;
  EXPECT_TRUE(throws(misuse, [&] { solve(mesh, a, b, {}, static_cast<Rcond>(7)); }));
  EXPECT_TRUE(throws(misuse, [&] { qr(mesh, b, static_cast<QrMode>(5)); }));
}

/// After the inverse has taken its memory there is no factor any more, and that is said.
TEST(Misuse, FactorThatWasConsumed_IsRefused) {
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(10, 2, 4);
  CholeskyFactor<double> factor = cholesky_factor(mesh, shard(dense<double>({.n = 10}), layout));
  const CholeskyFactor<double> copy = factor;  // which has the same slabs
  Mesh other = make_mesh(1);
  EXPECT_TRUE(
      throws(ErrorKind::invalid_argument, [&] { cholesky_inverse(other, std::move(factor)); }));
  // NOLINTNEXTLINE(bugprone-use-after-move): nothing has been done
  EXPECT_NO_THROW(log_determinant(factor));
  ASSERT_TRUE(cholesky_inverse(mesh, std::move(factor)).ok());
  // NOLINTNEXTLINE(bugprone-use-after-move): that is the misuse
  for (const CholeskyFactor<double>& consumed : {factor, copy}) {
    EXPECT_TRUE(throws(ErrorKind::invalid_argument, [&] { log_determinant(consumed); }));
    EXPECT_TRUE(throws(ErrorKind::invalid_argument,
                       [&] { eigh(mesh, shard(dense<double>({.n = 10}), layout), consumed); }));
  }
}

}  // namespace
}  // namespace shardsolve::testing
