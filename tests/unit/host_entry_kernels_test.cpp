// The host kernels that are plain loops over entries: exactly what their definition says.

#include "reference/matmul.hpp"
#include "runtime/host/host_kernels.hpp"
#include "tests/support/all_sizes.hpp"
#include "tests/support/bits.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/embedded.hpp"
#include "tests/support/host_rank.hpp"
#include "tests/support/matrix_zoo.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardsolve::runtime::host {
namespace {

using reference::conjugate;
using reference::DenseMatrix;
using testing::Embedded;
using testing::right_hand_sides;
using testing::same_bits;

struct Shape {
  std::int64_t rows, columns;
};

/// Below, at and above the squares in which matrices are transposed; and nothing.
constexpr Shape shapes[] = {{0, 0}, {0, 3}, {3, 0}, {1, 1}, {16, 16}, {17, 33}, {40, 5}};

/// The matrix whose entries `entry(i, j)` gives.
template <Scalar T, class Entry>
DenseMatrix<T> made_of(Shape shape, Entry entry) {
  DenseMatrix<T> a(shape.rows, shape.columns);
  for (std::int64_t j = 0; j < shape.columns; ++j) {
    for (std::int64_t i = 0; i < shape.rows; ++i) {
      a(i, j) = entry(i, j);
    }
  }
  return a;
}

template <class T>
class HostEntryKernelsTest : public ::testing::Test {
 protected:
  testing::HostRank rank_;
  HostQueue queue_{"test", rank_.pulse()};
  HostKernels<T> kernels_;

  /// Runs launch(target view) and compares what stands in the target afterwards.
  template <class Launch>
  void expect(const DenseMatrix<T>& before, Launch launch, const DenseMatrix<T>& after) {
    Embedded<T> target(before);
    launch(target.view());
    queue_.synchronize();
    rank_.rethrow();
    EXPECT_TRUE(same_bits(target.value(), after));
    EXPECT_TRUE(target.frame_intact());
  }
};
TYPED_TEST_SUITE(HostEntryKernelsTest, testing::Dtypes, testing::DtypeNames);

TYPED_TEST(HostEntryKernelsTest, EveryShape_IsAsDefined) {
  using T = TypeParam;
  const auto& kernels = this->kernels_;
  HostQueue& queue = this->queue_;
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.columns);
    const DenseMatrix<T> a = right_hand_sides<T>(shape.rows, shape.columns, 1);
    const DenseMatrix<T> b = right_hand_sides<T>(shape.rows, shape.columns, 2);
    Embedded<T> source(a);
    this->expect(b, [&](auto target) { kernels.copy(queue, source.view(), target); }, a);
    this->expect(
        b, [&](auto target) { kernels.fill(queue, T{5}, target); },
        made_of<T>(shape, [](auto, auto) { return T{5}; }));
    this->expect(
        b, [&](auto target) { kernels.add(queue, T{-2}, source.view(), target); },
        made_of<T>(shape, [&](auto i, auto j) { return b(i, j) + T{-2} * a(i, j); }));
    this->expect(
        b, [&](auto target) { kernels.scale(queue, 4, target); },
        made_of<T>(shape, [&](auto i, auto j) { return b(i, j) * RealOf<T>{4}; }));
    this->expect(
        reference::transpose(b),
        [&](auto target) { kernels.conjugate_transpose(queue, source.view(), target); },
        reference::conjugate_transpose(a));
  }
}

TYPED_TEST(HostEntryKernelsTest, Convert_RoundsAndOverflowsToInfinity) {
  using T = TypeParam;
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.columns);
    const auto given = testing::of_all_sizes<OtherPrecision<T>>(shape.rows, shape.columns);
    Embedded<OtherPrecision<T>> source(given);
    this->expect(
        right_hand_sides<T>(shape.rows, shape.columns, 2),
        [&](auto target) { this->kernels_.convert(this->queue_, source.view(), target); },
        made_of<T>(shape,
                   [&](auto i, auto j) { return testing::in_precision_of<T>(given(i, j)); }));
  }
}

TYPED_TEST(HostEntryKernelsTest, FromReal_AddsImaginaryPartsOfZero) {
  using T = TypeParam;
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " x " << shape.columns);
    const auto given = testing::of_all_sizes<RealOf<T>>(shape.rows, shape.columns);
    Embedded<RealOf<T>> source(given);
    this->expect(
        right_hand_sides<T>(shape.rows, shape.columns, 2),
        [&](auto target) { this->kernels_.from_real(this->queue_, source.view(), target); },
        made_of<T>(shape, [&](auto i, auto j) { return T{given(i, j)}; }));
  }
}

TYPED_TEST(HostEntryKernelsTest, SquareTile_IsAsDefined) {
  using T = TypeParam;
  const auto& kernels = this->kernels_;
  HostQueue& queue = this->queue_;
  constexpr T nan{std::numeric_limits<RealOf<T>>::quiet_NaN()};
  for (const std::int64_t n : {0, 1, 5, 20}) {
    SCOPED_TRACE(n);
    const Shape shape{n, n};
    const DenseMatrix<T> a = testing::dense<T>({.n = n, .seed = 3});
    this->expect(
        a, [&](auto target) { kernels.identity(queue, target); }, DenseMatrix<T>::identity(n));
    Embedded<T> full(a);
    DenseMatrix<T> lower = a;
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < j; ++i) {
        lower(i, j) = T{0};
      }
    }
    this->expect(
        a, [&](auto target) { kernels.lower_triangle(queue, full.view(), target); }, lower);
    DenseMatrix<T> scaled = a;
    Embedded<T> scales(a);
    for (std::int64_t i = 0; i < n; ++i) {
      scales.view()(i, i) =
          T(static_cast<RealOf<T>>(i == 0 ? 0.0 : -1.5 * std::ldexp(1.0, static_cast<int>(i) - 9)));
      for (std::int64_t j = 0; j < n; ++j) {
        scaled(i, j) *=
            static_cast<RealOf<T>>(i == 0 ? 1.0 : std::ldexp(1.0, 9 - static_cast<int>(i)));
      }
    }
    this->expect(
        a,
        [&](auto target) { kernels.scale_rows(queue, scales.view(), true, full.view(), target); },
        scaled);

    Embedded<T> whole(a);
    std::vector<RealOf<T>> diagonal(static_cast<std::size_t>(n));
    kernels.diagonal(queue, whole.view(), diagonal.data());
    queue.synchronize();
    for (std::int64_t j = 0; j < n; ++j) {
      EXPECT_EQ(diagonal[static_cast<std::size_t>(j)], std::real(a(j, j)));
    }
    // Only what is strictly above the diagonal counts.
    Embedded<T> upper(made_of<T>(shape, [&](auto i, auto j) { return i < j ? a(i, j) : nan; }));
    this->expect(
        DenseMatrix<T>(n, n),
        [&](auto target) { kernels.hermitian_tile(queue, upper.view(), diagonal.data(), target); },
        a);
    // In place, as the inverse uses it.
    const DenseMatrix<T> half =
        made_of<T>(shape, [&](auto i, auto j) { return i < j ? a(i, j) : nan; });
    this->expect(
        half, [&](auto target) { kernels.hermitian_tile(queue, target, diagonal.data(), target); },
        a);
  }
}

TYPED_TEST(HostEntryKernelsTest, ColumnMax_IsTheLargestModulusOrNaN) {
  using T = TypeParam;
  constexpr RealOf<T> infinity = std::numeric_limits<RealOf<T>>::infinity();
  constexpr RealOf<T> nan = std::numeric_limits<RealOf<T>>::quiet_NaN();
  DenseMatrix<T> a(4, 6);
  a(2, 0) = T{-3};
  a(0, 1) = T{nan};
  a(3, 1) = T{7};
  a(3, 2) = T{nan};
  a(0, 2) = T{7};
  a(1, 3) = T{-infinity};
  a(1, 4) = T{infinity};
  a(2, 4) = T{nan};
  Embedded<T> view(a);
  std::vector<double> largest(6, -1.0);
  this->kernels_.column_max(this->queue_, view.view(), largest.data());
  this->queue_.synchronize();
  EXPECT_EQ(largest[0], 3.0);
  EXPECT_TRUE(std::isnan(largest[1]));
  EXPECT_TRUE(std::isnan(largest[2]));
  EXPECT_EQ(largest[3], double{infinity});
  EXPECT_FALSE(std::isfinite(largest[4]));
  EXPECT_EQ(largest[5], 0.0);
}

/// Columns 2 to 7 of a matrix that is not Hermitian: every sum in its own place.
TYPED_TEST(HostEntryKernelsTest, Inspect_FindsSumsAndBothProducts) {
  using T = TypeParam;
  constexpr std::int64_t rows = 19;
  constexpr std::int64_t columns = 5;
  constexpr std::int64_t first = 2;
  constexpr std::int64_t parts = is_complex<T> ? 2 : 1;
  constexpr double scale = 0.25;
  const DenseMatrix<T> a = right_hand_sides<T>(rows, columns);
  std::vector<double> signs;
  for (std::int64_t i = 0; i < rows; ++i) {
    signs.push_back(i % 3 == 0 ? -1.0 : 1.0);
  }
  std::vector<double> sums(columns);
  std::vector<double> probe(static_cast<std::size_t>(parts * columns));
  std::vector<double> product(static_cast<std::size_t>(parts * rows));
  Embedded<T> view(a);
  this->kernels_.inspect(this->queue_, view.view(), first, signs.data(), scale,
                         {sums.data(), probe.data(), product.data()});
  this->queue_.synchronize();

  constexpr double tolerance = 1e-13;
  std::vector<std::complex<double>> row_sums(rows);
  for (std::int64_t j = 0; j < columns; ++j) {
    double sum = 0.0;
    std::complex<double> of_column;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::complex<double> entry = scale * std::complex<double>(a(i, j));
      sum += std::abs(entry);
      of_column += std::conj(entry) * signs[static_cast<std::size_t>(i)];
      row_sums[static_cast<std::size_t>(i)] += entry * signs[static_cast<std::size_t>(first + j)];
    }
    const auto at = static_cast<std::size_t>(j);
    EXPECT_NEAR(sums[at], sum, tolerance);
    EXPECT_NEAR(probe[parts * at], of_column.real(), tolerance);
    EXPECT_NEAR(probe[parts * at + parts - 1], parts == 2 ? of_column.imag() : of_column.real(),
                tolerance);
  }
  for (std::size_t i = 0; i < rows; ++i) {
    EXPECT_NEAR(product[parts * i], row_sums[i].real(), tolerance);
    EXPECT_NEAR(product[parts * i + parts - 1],
                parts == 2 ? row_sums[i].imag() : row_sums[i].real(), tolerance);
  }
}

}  // namespace
}  // namespace shardsolve::runtime::host
