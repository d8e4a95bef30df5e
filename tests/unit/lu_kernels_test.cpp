// The kernels of LU on the CPU, each by itself.

#include "runtime/host/lu_kernels.hpp"

#include "reference/lu.hpp"
#include "reference/matmul.hpp"
#include "reference/wide.hpp"
#include "runtime/host/host_kernels.hpp"
#include "runtime/host/panel_lu.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/embedded.hpp"
#include "tests/support/host_rank.hpp"
#include "tests/support/lu_zoo.hpp"
#include "tests/support/matrix_zoo.hpp"
#include "tests/support/thrown.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace shardsolve::runtime::host {
namespace lu_kernels_test {
namespace {

using reference::DenseMatrix;
using reference::Wide;
using reference::widen;
using reference::WideReal;
using testing::Embedded;
using testing::right_hand_sides;

template <class T>
class LuKernelsTest : public ::testing::Test {
 protected:
  void finish() {
    queue_.synchronize();
    rank_.rethrow();
  }

  testing::HostRank rank_;
  HostQueue queue_{"test", rank_.pulse()};
  HostKernels<T> base_;
  HostLuKernels<T> kernels_{base_};
};
TYPED_TEST_SUITE(LuKernelsTest, testing::Dtypes, testing::DtypeNames);

/// P A - L U of a panel of m x w, over ||A|| u, in the 1-norm.
template <Scalar T>
double panel_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& lu,
                   const std::vector<std::int64_t>& places, std::int64_t first) {
  DenseMatrix<T> pa = a;
  for (std::size_t j = 0; j < places.size(); ++j) {
    for (std::int64_t c = 0; c < a.columns(); ++c) {
      std::swap(pa(static_cast<std::int64_t>(j), c), pa(places[j] - first, c));
    }
  }
  WideReal<T> worst = 0;
  WideReal<T> size = 0;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    WideReal<T> column = 0;
    WideReal<T> of_a = 0;
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      Wide<T> sum = widen(pa(i, j));
      for (std::int64_t k = 0; k <= std::min(i, j); ++k) {
        sum -= reference::product(i == k ? Wide<T>(1) : widen(lu(i, k)), widen(lu(k, j)));
      }
      column += std::abs(sum);
      of_a += std::abs(widen(a(i, j)));
    }
    worst = reference::larger(worst, column);
    size = reference::larger(size, of_a);
  }
  return static_cast<double>(worst / size) / unit_roundoff<T>;
}

TYPED_TEST(LuKernelsTest, Panel_OfAnyShape_IsItsFactor) {
  using T = TypeParam;
  constexpr std::int64_t first = 11;
  for (const auto& [m, w] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                             {9, 1},
                             {16, 16},
                             {40, 17},
                             {200, 33},
                             {301, 128},
                             {64, 64}}) {
    SCOPED_TRACE(::testing::Message() << m << " x " << w);
    const DenseMatrix<T> a = right_hand_sides<T>(m, w);
    Embedded<T> panel(a);
    std::vector<std::int64_t> places(static_cast<std::size_t>(w), -1);
    std::int64_t info = -7;
    this->kernels_.panel(this->queue_, first, panel.view(), places.data(), &info);
    this->finish();
    EXPECT_EQ(info, 0);
    EXPECT_TRUE(panel.frame_intact());
    const double ratio = panel_ratio(a, panel.value(), places, first);
    EXPECT_TRUE(ratio <= 30.0) << ratio;
    for (std::int64_t j = 0; j < w; ++j) {
      const std::int64_t place = places[static_cast<std::size_t>(j)];
      EXPECT_TRUE(place >= first + j && place < first + m);
    }
  }
}

/// The same numbers in the same rows, wherever columns are cut into those that are made one by one.
TYPED_TEST(LuKernelsTest, Panel_WithTies_TakesTheFirstOfEquals) {
  using T = TypeParam;
  for (const std::int64_t m : {5, 16, 40, 333}) {
    DenseMatrix<T> a(m, 1);
    for (std::int64_t i = 0; i < m; ++i) {
      a(i, 0) = i < 3 ? T{1} : T{i % 2 == 0 ? 2.0F : -2.0F};
    }
    std::vector<std::int64_t> places(1);
    EXPECT_EQ(factor_panel(0, a.view(), places.data()), 0);
    EXPECT_EQ(places[0], 3);
  }
}

TYPED_TEST(LuKernelsTest, Panel_WithAColumnOfZeros_LeavesItUndivided) {
  using T = TypeParam;
  DenseMatrix<T> a = right_hand_sides<T>(50, 20);
  for (std::int64_t i = 0; i < 50; ++i) {
    a(i, 0) = T{0};
    a(i, 18) = T{0};
  }
  std::vector<std::int64_t> places(20);
  EXPECT_EQ(factor_panel(0, a.view(), places.data()), 0);
  EXPECT_EQ(a(0, 0), T{0});
  EXPECT_EQ(places[0], 0);
  EXPECT_EQ(a(18, 18), T{0});
  for (std::int64_t i = 0; i < 50 * 20; ++i) {
    EXPECT_TRUE(std::isfinite(std::abs(a.data()[i])));
  }
}

TYPED_TEST(LuKernelsTest, Panel_WithPivotsAtTheEndsOfTheRange_StaysInRange) {
  using T = TypeParam;
  using Limits = std::numeric_limits<RealOf<T>>;
  for (const RealOf<T> size : {Limits::denorm_min() * 64, Limits::min(), Limits::max() / 8}) {
    DenseMatrix<T> a(30, 1);
    for (std::int64_t i = 0; i < 30; ++i) {
      a(i, 0) = T{size * RealOf<T>(i == 7 ? 1.0 : 0.5)};
    }
    std::vector<std::int64_t> places(1);
    EXPECT_EQ(factor_panel(0, a.view(), places.data()), 0);
    EXPECT_EQ(places[0], 7);
    for (std::int64_t i = 1; i < 30; ++i) {
      EXPECT_NEAR(std::abs(a(i, 0)), 0.5, 1e-6);
    }
  }
}

TYPED_TEST(LuKernelsTest, Panel_WithWhatIsNoNumber_SaysWhere) {
  using T = TypeParam;
  for (const RealOf<T> odd :
       {std::numeric_limits<RealOf<T>>::quiet_NaN(), std::numeric_limits<RealOf<T>>::infinity()}) {
    DenseMatrix<T> a = right_hand_sides<T>(40, 40);
    a(20, 25) = T{odd};
    std::vector<std::int64_t> places(40);
    EXPECT_LT(factor_panel(0, a.view(), places.data()), 0);
  }
}

TYPED_TEST(LuKernelsTest, SwapRows_InTurn_IsWhatItSays) {
  using T = TypeParam;
  const DenseMatrix<T> a = right_hand_sides<T>(9, 4);
  const std::vector<std::int64_t> places{12, 11, 18, 13};
  DenseMatrix<T> expected = a;
  for (std::int64_t j = 0; j < 4; ++j) {
    for (std::int64_t c = 0; c < 4; ++c) {
      std::swap(expected(j, c), expected(places[static_cast<std::size_t>(j)] - 10, c));
    }
  }
  Embedded<T> swapped(a);
  this->kernels_.swap_rows(this->queue_, 10, places.data(), 4, swapped.view());
  this->finish();
  EXPECT_TRUE(swapped.value() == expected);
  EXPECT_TRUE(swapped.frame_intact());
}

/// U12 by itself: a solve, not a product with an inverse, which would bring in cond(L).
TYPED_TEST(LuKernelsTest, SolveTile_OfEachTriangleAndOp_IsAsStableAsASolve) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 33, 100}) {
    const DenseMatrix<T> tile = testing::lu_zoo<T>(std::max<std::int64_t>(n, 2))[2].a;
    const DenseMatrix<T> b = right_hand_sides<T>(n, 3);
    for (const Triangle triangle : {Triangle::lower, Triangle::upper}) {
      for (const Op op : {Op::none, Op::transpose, Op::conjugate_transpose}) {
        DenseMatrix<T> t(n, n);
        for (std::int64_t j = 0; j < n; ++j) {
          for (std::int64_t i = 0; i < n; ++i) {
            const bool inside = triangle == Triangle::lower ? i > j : i <= j;
            t(i, j) = inside ? tile(i, j) : i == j ? T{1} : T{0};
          }
        }
        Embedded<T> x(b);
        this->kernels_.solve_tile(this->queue_, triangle, op,
                                  MatrixView<const T>(tile.view()).block(0, 0, n, n), x.view());
        this->finish();
        const auto which = op == Op::none        ? reference::Op::none
                           : op == Op::transpose ? reference::Op::transpose
                                                 : reference::Op::conjugate_transpose;
        const DenseMatrix<T> applied =
            reference::matmul(which, t, reference::Op::none, DenseMatrix<T>::identity(n));
        // Row by row, as triangular solves are.
        const DenseMatrix<T> value = x.value();
        for (std::int64_t c = 0; c < 3; ++c) {
          for (std::int64_t i = 0; i < n; ++i) {
            Wide<T> residual = widen(b(i, c));
            WideReal<T> size = std::abs(widen(b(i, c)));
            for (std::int64_t k = 0; k < n; ++k) {
              residual -= reference::product(widen(applied(i, k)), widen(value(k, c)));
              size += std::abs(widen(applied(i, k))) * std::abs(widen(value(k, c)));
            }
            EXPECT_LE(static_cast<double>(std::abs(residual) / size),
                      (10.0 + static_cast<double>(n)) * unit_roundoff<T>);
          }
        }
      }
    }
  }
}

/// Sums that nearly cancel: what is left of them is as exact as in twice the precision.
TYPED_TEST(LuKernelsTest, Multiply_WhereSumsCancel_KeepsTwiceThePrecision) {
  using T = TypeParam;
  for (const auto& [m, n] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 7}, {600, 90}, {513, 5}}) {
    for (const Op op : {Op::none, Op::transpose, Op::conjugate_transpose}) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << " op " << static_cast<char>(op));
      DenseMatrix<T> a = right_hand_sides<T>(m, n, 1);
      // The second half repeats the first with the other sign, but for the last bits.
      const std::int64_t inner = op == Op::none ? n : m;
      const std::int64_t outer = op == Op::none ? m : n;
      DenseMatrix<T> x = right_hand_sides<T>(inner, 2, 2);
      for (std::int64_t i = 0; i < inner / 2; ++i) {
        for (std::int64_t o = 0; o < outer; ++o) {
          (op == Op::none ? a(o, inner / 2 + i) : a(inner / 2 + i, o)) =
              -(op == Op::none ? a(o, i) : a(i, o));
        }
        for (std::int64_t c = 0; c < 2; ++c) {
          x(inner / 2 + i, c) = x(i, c) * (1 + 4 * static_cast<RealOf<T>>(unit_roundoff<T>));
        }
      }
      Embedded<T> y(DenseMatrix<T>(outer, 4));
      Embedded<double> sizes(DenseMatrix<double>(outer, 2));
      this->kernels_.multiply(this->queue_, op, a.view(), x.view(), y.view(), sizes.view());
      this->finish();
      EXPECT_TRUE(y.frame_intact() && sizes.frame_intact());
      const DenseMatrix<T> result = y.value();
      const DenseMatrix<double> size = sizes.value();
      for (std::int64_t c = 0; c < 2; ++c) {
        for (std::int64_t o = 0; o < outer; ++o) {
          Wide<T> sum = 0;
          WideReal<T> of_moduli = 0;
          for (std::int64_t i = 0; i < inner; ++i) {
            const Wide<T> entry = widen(op == Op::none ? a(o, i) : a(i, o));
            sum += reference::product(
                op == Op::conjugate_transpose ? reference::conjugate(entry) : entry,
                widen(x(i, c)));
            of_moduli += std::abs(entry) * std::abs(widen(x(i, c)));
          }
          const Wide<T> ours = widen(result(o, c)) + widen(result(o, 2 + c));
          // Pairs of floats keep 46 bits; long doubles, which we compare with, 64.
          const WideReal<T> kept = sizeof(RealOf<T>) == 4 ? 0x1p-44 : 0x1p-55;
          EXPECT_LE(std::abs(ours - sum), kept * of_moduli);
          const double share = size(o, c) / static_cast<double>(of_moduli);
          EXPECT_LE(share, 1.0 + 1e-12);
          EXPECT_GE(share, is_complex<T> ? 0.85 : 1.0 - 1e-12);
        }
      }
    }
  }
}

TYPED_TEST(LuKernelsTest, SumsOfRowsAndErrorsByComponents_AreAsDefined) {
  using T = TypeParam;
  const DenseMatrix<T> a = right_hand_sides<T>(7, 40);
  std::vector<double> sums(7);
  this->kernels_.row_sums(this->queue_, 0.5, a.view(), sums.data());
  this->finish();
  for (std::int64_t i = 0; i < 7; ++i) {
    double expected = 0.0;
    for (std::int64_t j = 0; j < 40; ++j) {
      expected += 0.5 * static_cast<double>(std::abs(widen(a(i, j))));
    }
    EXPECT_LE(sums[static_cast<std::size_t>(i)], expected * (1.0 + 1e-12));
    EXPECT_GE(sums[static_cast<std::size_t>(i)], expected * (is_complex<T> ? 0.92 : 1.0 - 1e-12));
  }

  DenseMatrix<RealOf<T>> moduli(7, 40);
  this->kernels_.moduli(this->queue_, a.view(), moduli.view());
  this->finish();
  for (std::int64_t i = 0; i < 7 * 40; ++i) {
    const RealOf<T> expected = std::abs(a.data()[i]);
    EXPECT_LE(moduli.data()[i], expected * (1 + 4 * RealOf<T>(unit_roundoff<T>)));
    EXPECT_GE(moduli.data()[i], expected * RealOf<T>(is_complex<T> ? 0.92 : 1.0));
  }

  DenseMatrix<T> r(3, 2);
  DenseMatrix<T> b(3, 2);
  DenseMatrix<double> sizes(3, 2);
  r(0, 0) = T{3};
  sizes(0, 0) = 4;
  b(0, 0) = T{2};  // 1 / 2
  r(1, 0) = T{1};
  sizes(1, 0) = 1e-3;  // not judged by
  r(2, 1) = T{std::numeric_limits<RealOf<T>>::quiet_NaN()};
  sizes(2, 1) = 1;
  std::vector<double> errors(2);
  this->kernels_.component_errors(this->queue_, 0.1, r.view(), sizes.view(), b.view(),
                                  errors.data());
  this->finish();
  EXPECT_DOUBLE_EQ(errors[0], 0.5);
  EXPECT_TRUE(std::isnan(errors[1]));
}

TYPED_TEST(LuKernelsTest, UpperMax_LooksAtUAlone) {
  using T = TypeParam;
  DenseMatrix<T> a(6, 2);
  a(2, 0) = T{3};  // the diagonal, as there are two rows of U before
  a(3, 0) = T{9};
  a(0, 1) = T{-5};
  a(4, 1) = T{9};
  std::vector<double> largest(2);
  this->kernels_.upper_max(this->queue_, 2, a.view(), largest.data());
  this->finish();
  EXPECT_EQ(largest[0], 3.0);
  EXPECT_EQ(largest[1], 5.0);
}

TYPED_TEST(LuKernelsTest, ShapesThatDoNotFit_AreABug) {
  using T = TypeParam;
  DenseMatrix<T> a(3, 5);
  std::vector<std::int64_t> places(5);
  std::int64_t info = 0;
  testing::expect_error(
      [&] { this->kernels_.panel(this->queue_, 0, a.view(), places.data(), &info); },
      ErrorKind::internal, {"lu panel"});
  testing::expect_error([&] { this->kernels_.transpose(this->queue_, a.view(), a.view()); },
                        ErrorKind::internal, {"transpose"});
}

}  // namespace
}  // namespace lu_kernels_test
}  // namespace shardsolve::runtime::host
