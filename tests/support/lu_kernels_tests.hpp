/// What LuKernels of any backend are judged by, each kernel by itself, in all dtypes. A program
/// says of which backend: INSTANTIATE_TYPED_TEST_SUITE_P(..., LuKernelsTest, OfAllDtypes<Backend>).
#pragma once

#include "reference/lu.hpp"
#include "reference/matmul.hpp"
#include "reference/wide.hpp"
#include "runtime/host/host_kernels.hpp"
#include "runtime/lu_kernels.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/embedded.hpp"
#include "tests/support/host_rank.hpp"
#include "tests/support/lu_zoo.hpp"
#include "tests/support/matrix_zoo.hpp"
#include "tests/support/thrown.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {

using reference::DenseMatrix;
using runtime::Op;
using runtime::Triangle;

/// Backend<T>: LuKernels<T> that are made from the host's Kernels<T>.
template <template <class> class Backend, class T>
struct LuKernelsOf {
  using Dtype = T;
  using Kernels = Backend<T>;
};
template <template <class> class Backend>
using OfAllDtypes = ::testing::Types<LuKernelsOf<Backend, float>, LuKernelsOf<Backend, double>,
                                     LuKernelsOf<Backend, std::complex<float>>,
                                     LuKernelsOf<Backend, std::complex<double>>>;
struct LuKernelsNames {
  template <class Case>
  static std::string GetName(int index) {
    return DtypeNames::GetName<typename Case::Dtype>(index);
  }
};

template <class Case>
class LuKernelsTest : public ::testing::Test {
 protected:
  using T = typename Case::Dtype;

  void SetUp() override {
    if constexpr (requires { Case::Kernels::is_here(); }) {
      if (!Case::Kernels::is_here()) {
        GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
      }
    }
  }
  void finish() {
    queue_.synchronize();
    rank_.rethrow();
  }
  /// The panel of `a` in place.
  std::int64_t panel(MatrixView<T> a, std::vector<std::int64_t>& places, std::int64_t first = 0) {
    places.assign(static_cast<std::size_t>(a.columns()), -1);
    std::int64_t info = -77;
    kernels_.panel(queue_, first, a, places.data(), &info);
    finish();
    return info;
  }

  HostRank rank_;
  runtime::host::HostQueue queue_{"test", rank_.pulse()};
  runtime::host::HostKernels<T> base_;
  typename Case::Kernels kernels_{base_};
};
TYPED_TEST_SUITE_P(LuKernelsTest);

/// P A - L U of a panel of m x w, over ||A|| u, in the 1-norm.
template <Scalar T>
inline double panel_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& lu,
                          const std::vector<std::int64_t>& places, std::int64_t first) {
  DenseMatrix<T> pa = a;
  for (std::size_t j = 0; j < places.size(); ++j) {
    for (std::int64_t c = 0; c < a.columns(); ++c) {
      std::swap(pa(static_cast<std::int64_t>(j), c), pa(places[j] - first, c));
    }
  }
  reference::WideReal<T> worst = 0;
  reference::WideReal<T> size = 0;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    reference::WideReal<T> column = 0;
    reference::WideReal<T> of_a = 0;
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      reference::Wide<T> sum = reference::widen(pa(i, j));
      for (std::int64_t k = 0; k <= std::min(i, j); ++k) {
        sum -= reference::product(i == k ? reference::Wide<T>(1) : reference::widen(lu(i, k)),
                                  reference::widen(lu(k, j)));
      }
      column += std::abs(sum);
      of_a += std::abs(reference::widen(a(i, j)));
    }
    worst = reference::larger(worst, column);
    size = reference::larger(size, of_a);
  }
  return static_cast<double>(worst / size) / unit_roundoff<T>;
}

TYPED_TEST_P(LuKernelsTest, Panel_OfAnyShape_IsItsFactor) {
  using T = typename TypeParam::Dtype;
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
    std::vector<std::int64_t> places;
    EXPECT_EQ(this->panel(panel.view(), places, first), 0);
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
TYPED_TEST_P(LuKernelsTest, Panel_WithTies_TakesTheFirstOfEquals) {
  using T = typename TypeParam::Dtype;
  for (const std::int64_t m : {5, 16, 40, 333}) {
    DenseMatrix<T> a(m, 1);
    for (std::int64_t i = 0; i < m; ++i) {
      a(i, 0) = i < 3 ? T{1} : T{i % 2 == 0 ? 2.0F : -2.0F};
    }
    std::vector<std::int64_t> places;
    EXPECT_EQ(this->panel(a.view(), places), 0);
    EXPECT_EQ(places[0], 3);
  }
}

/// Some of those who share a panel have no row left long before its last column.
TYPED_TEST_P(LuKernelsTest, Panel_WithPivotsInItsFirstOrLastRows_IsItsFactor) {
  using T = typename TypeParam::Dtype;
  for (const bool first : {true, false}) {
    DenseMatrix<T> a = right_hand_sides<T>(500, 100);
    for (std::int64_t i = 0; i < 500; ++i) {
      for (std::int64_t j = 0; j < 100; ++j) {
        a(i, j) *= T{(first ? i < 110 : i >= 390) ? 1000.0F : 1.0F};
      }
    }
    DenseMatrix<T> factor = a;
    std::vector<std::int64_t> places;
    EXPECT_EQ(this->panel(factor.view(), places), 0);
    EXPECT_TRUE(panel_ratio(a, factor, places, 0) <= 30.0);
  }
}

TYPED_TEST_P(LuKernelsTest, Panel_WithAColumnOfZeros_LeavesItUndivided) {
  using T = typename TypeParam::Dtype;
  DenseMatrix<T> a = right_hand_sides<T>(50, 20);
  for (std::int64_t i = 0; i < 50; ++i) {
    a(i, 0) = T{0};
    a(i, 18) = T{0};
  }
  std::vector<std::int64_t> places;
  EXPECT_EQ(this->panel(a.view(), places), 0);
  EXPECT_EQ(a(0, 0), T{0});
  EXPECT_EQ(places[0], 0);
  EXPECT_EQ(a(18, 18), T{0});
  for (std::int64_t i = 0; i < 50 * 20; ++i) {
    EXPECT_TRUE(std::isfinite(std::abs(a.data()[i])));
  }
}

TYPED_TEST_P(LuKernelsTest, Panel_WithPivotsAtTheEndsOfTheRange_StaysInRange) {
  using T = typename TypeParam::Dtype;
  using Limits = std::numeric_limits<RealOf<T>>;
  for (const RealOf<T> size : {Limits::denorm_min() * 64, Limits::min(), Limits::max() / 8}) {
    DenseMatrix<T> a(30, 1);
    for (std::int64_t i = 0; i < 30; ++i) {
      a(i, 0) = T{size * RealOf<T>(i == 7 ? 1.0 : 0.5)};
    }
    std::vector<std::int64_t> places;
    EXPECT_EQ(this->panel(a.view(), places), 0);
    EXPECT_EQ(places[0], 7);
    for (std::int64_t i = 1; i < 30; ++i) {
      EXPECT_NEAR(std::abs(a(i, 0)), 0.5, 1e-6);
    }
  }
}

TYPED_TEST_P(LuKernelsTest, Panel_WithWhatIsNoNumber_SaysWhere) {
  using T = typename TypeParam::Dtype;
  for (const RealOf<T> odd :
       {std::numeric_limits<RealOf<T>>::quiet_NaN(), std::numeric_limits<RealOf<T>>::infinity()}) {
    DenseMatrix<T> a = right_hand_sides<T>(40, 40);
    a(20, 25) = T{odd};
    std::vector<std::int64_t> places;
    EXPECT_LT(this->panel(a.view(), places), 0);
  }
}

TYPED_TEST_P(LuKernelsTest, SwapRows_InTurn_IsWhatItSays) {
  using T = typename TypeParam::Dtype;
  // Few columns and many, which kernels do in different ways; rows that meet each other again.
  for (const auto& [rows, columns, count] :
       {std::array<std::int64_t, 3>{9, 4, 4}, {90, 1100, 70}, {90, 7, 70}}) {
    const DenseMatrix<T> a = right_hand_sides<T>(rows, columns);
    std::vector<std::int64_t> places{12, 11, 18, 13};
    for (std::int64_t j = 4; j < count; ++j) {
      places.push_back(10 + j + (7 * j * j + 3) % (rows - j));
    }
    DenseMatrix<T> expected = a;
    for (std::int64_t j = 0; j < count; ++j) {
      for (std::int64_t c = 0; c < columns; ++c) {
        std::swap(expected(j, c), expected(places[static_cast<std::size_t>(j)] - 10, c));
      }
    }
    Embedded<T> swapped(a);
    this->kernels_.swap_rows(this->queue_, 10, places.data(), count, swapped.view());
    this->finish();
    EXPECT_TRUE(swapped.value() == expected);
    EXPECT_TRUE(swapped.frame_intact());
  }
}

/// U12 by itself: a solve, not a product with an inverse, which would bring in cond(L).
TYPED_TEST_P(LuKernelsTest, SolveTile_OfEachTriangleAndOp_IsAsStableAsASolve) {
  using T = typename TypeParam::Dtype;
  for (const auto& [n, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 3}, {33, 70}, {100, 3}, {127, 20}}) {
    const DenseMatrix<T> tile = lu_zoo<T>(std::max<std::int64_t>(n, 2))[2].a;
    const DenseMatrix<T> b = right_hand_sides<T>(n, columns);
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
        for (std::int64_t c = 0; c < columns; ++c) {
          for (std::int64_t i = 0; i < n; ++i) {
            reference::Wide<T> residual = reference::widen(b(i, c));
            reference::WideReal<T> size = std::abs(reference::widen(b(i, c)));
            for (std::int64_t k = 0; k < n; ++k) {
              residual -= reference::product(reference::widen(applied(i, k)),
                                             reference::widen(value(k, c)));
              size += std::abs(reference::widen(applied(i, k))) *
                      std::abs(reference::widen(value(k, c)));
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
TYPED_TEST_P(LuKernelsTest, Multiply_WhereSumsCancel_KeepsTwiceThePrecision) {
  using T = typename TypeParam::Dtype;
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
          reference::Wide<T> sum = 0;
          reference::WideReal<T> of_moduli = 0;
          for (std::int64_t i = 0; i < inner; ++i) {
            const reference::Wide<T> entry = reference::widen(op == Op::none ? a(o, i) : a(i, o));
            sum += reference::product(
                op == Op::conjugate_transpose ? reference::conjugate(entry) : entry,
                reference::widen(x(i, c)));
            of_moduli += std::abs(entry) * std::abs(reference::widen(x(i, c)));
          }
          const reference::Wide<T> ours =
              reference::widen(result(o, c)) + reference::widen(result(o, 2 + c));
          // Pairs of floats keep 46 bits; long doubles, which we compare with, 64.
          const reference::WideReal<T> kept = sizeof(RealOf<T>) == 4 ? 0x1p-44 : 0x1p-55;
          EXPECT_LE(std::abs(ours - sum), kept * of_moduli);
          const double share = size(o, c) / static_cast<double>(of_moduli);
          EXPECT_LE(share, 1.0 + 1e-12);
          EXPECT_GE(share, is_complex<T> ? 0.85 : 1.0 - 1e-12);
        }
      }
    }
  }
}

TYPED_TEST_P(LuKernelsTest, SumsOfRowsAndErrorsByComponents_AreAsDefined) {
  using T = typename TypeParam::Dtype;
  const DenseMatrix<T> a = right_hand_sides<T>(7, 40);
  std::vector<double> sums(7);
  std::vector<double> largest(7);
  this->kernels_.row_sums(this->queue_, 0.5, a.view(), sums.data(), largest.data());
  this->finish();
  for (std::int64_t i = 0; i < 7; ++i) {
    double expected = 0.0;
    double most = 0.0;
    for (std::int64_t j = 0; j < 40; ++j) {
      const double size = 0.5 * static_cast<double>(std::abs(reference::widen(a(i, j))));
      expected += size;
      most = std::max(most, size);
    }
    EXPECT_NEAR(largest[static_cast<std::size_t>(i)], most, 1e-15 * most);
    EXPECT_NEAR(sums[static_cast<std::size_t>(i)], expected, 1e-12 * expected);
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

TYPED_TEST_P(LuKernelsTest, TransposeAndChooseColumns_MoveNumbersAlone) {
  using T = typename TypeParam::Dtype;
  const DenseMatrix<T> a = right_hand_sides<T>(70, 37);
  Embedded<T> turned(DenseMatrix<T>(37, 70));
  this->kernels_.transpose(this->queue_, a.view(), turned.view());
  const std::vector<std::int64_t> columns{36, 0, 5, 5};
  Embedded<T> chosen(DenseMatrix<T>(4, 70));
  this->kernels_.choose_columns(this->queue_, a.view(), columns.data(), chosen.view());
  this->finish();
  EXPECT_TRUE(turned.frame_intact() && chosen.frame_intact());
  const DenseMatrix<T> transposed = turned.value();
  const DenseMatrix<T> rows = chosen.value();
  for (std::int64_t i = 0; i < 70; ++i) {
    for (std::int64_t j = 0; j < 37; ++j) {
      EXPECT_EQ(transposed(j, i), a(i, j));
    }
    for (std::int64_t k = 0; k < 4; ++k) {
      EXPECT_EQ(rows(k, i), a(i, columns[static_cast<std::size_t>(k)]));
    }
  }
}

TYPED_TEST_P(LuKernelsTest, ChooseRows_MovesNumbersAlone) {
  using T = typename TypeParam::Dtype;
  const DenseMatrix<T> a = right_hand_sides<T>(40, 7);  // more columns than a block has
  std::vector<std::int64_t> rows(300);                  // more rows, too
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<std::int64_t>(7 * i % 40);
  }
  Embedded<T> chosen(DenseMatrix<T>(300, 7));
  this->kernels_.choose_rows(this->queue_, a.view(), rows.data(), chosen.view());
  this->finish();
  EXPECT_TRUE(chosen.frame_intact());
  const DenseMatrix<T> value = chosen.value();
  for (std::int64_t j = 0; j < 7; ++j) {
    for (std::int64_t i = 0; i < 300; ++i) {
      EXPECT_EQ(value(i, j), a(rows[static_cast<std::size_t>(i)], j));
    }
  }
}

TYPED_TEST_P(LuKernelsTest, OrderRows_MovesNumbersAlone) {
  using T = typename TypeParam::Dtype;
  constexpr std::int64_t count = 700;  // more than a block has threads
  const DenseMatrix<T> a = right_hand_sides<T>(count, 7);
  std::vector<std::int64_t> rows(count);
  for (std::int64_t i = 0; i < count; ++i) {
    rows[static_cast<std::size_t>(i)] = (11 * i + 3) % count;
  }
  Embedded<T> ordered(a);
  DenseMatrix<T> scratch(count, 7);
  this->kernels_.order_rows(this->queue_, rows.data(), ordered.view(), scratch.view());
  this->finish();
  EXPECT_TRUE(ordered.frame_intact());
  const DenseMatrix<T> value = ordered.value();
  for (std::int64_t j = 0; j < 7; ++j) {
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(value(i, j), a(rows[static_cast<std::size_t>(i)], j));
    }
  }
}

TYPED_TEST_P(LuKernelsTest, OrderColumns_MovesNumbersAlone) {
  using T = typename TypeParam::Dtype;
  const DenseMatrix<T> a = right_hand_sides<T>(300, 37);
  const std::vector<std::int64_t> columns{36, 0, 5, 5};
  Embedded<T> ordered(DenseMatrix<T>(300, 4));
  this->kernels_.order_columns(this->queue_, a.view(), columns.data(), ordered.view());
  this->finish();
  EXPECT_TRUE(ordered.frame_intact());
  const DenseMatrix<T> value = ordered.value();
  for (std::int64_t j = 0; j < 4; ++j) {
    for (std::int64_t i = 0; i < 300; ++i) {
      EXPECT_EQ(value(i, j), a(i, columns[static_cast<std::size_t>(j)]));
    }
  }
}

/// Numbers of float32 may be products of shorter ones: equations and unknowns in any units lose
/// nothing by it.
TYPED_TEST_P(LuKernelsTest, Eliminate_InAnyUnits_IsAsGoodAsProductsAre) {
  using T = typename TypeParam::Dtype;
  // Sizes of rows and columns of a system, as exponents of two: what they do to l21, u12 and a22.
  struct Units {
    int of_all = 0;
    int of_rows = 0;     // from one to the next, downwards
    int of_columns = 0;  // likewise, eighty of them in turn
    int of_fields = 0;   // of every other unknown, which half of the equations know nothing of
    int of_parts = 0;    // of every other equation, which have no unknown with the rest in common
    int row(std::int64_t i) const { return -of_rows * static_cast<int>(i % 100) / 2; }
    int column(std::int64_t j) const { return of_columns * static_cast<int>(j % 80 - 40); }
  };
  struct Shape {
    std::int64_t width;
    std::int64_t rows;
    std::int64_t columns;
  };
  std::vector<Shape> shapes{{1, 1, 1}, {5, 0, 3}, {5, 7, 9}, {64, 150, 140}};
  const Shape large{128, 1100, 1060};  // what it takes for a GPU to want memory
  if (this->kernels_.eliminate_scratch(large.width, large.rows, large.columns) > 0 &&
      this->kernels_.eliminate_scratch(64, 150, 140) == 0) {
    shapes.push_back(large);
  }
  const auto times = [](T x, int exponent) {
    return x * static_cast<RealOf<T>>(std::ldexp(1.0, exponent));
  };
  for (const Shape shape : shapes) {
    for (const Units units :
         {Units{}, Units{.of_rows = 1}, Units{.of_columns = 1},
          Units{.of_rows = 1, .of_columns = 1}, Units{.of_all = 118}, Units{.of_all = -108},
          Units{.of_fields = -30}, Units{.of_parts = 60}}) {
      const std::int64_t rows = shape.width + shape.rows;
      DenseMatrix<T> panel = right_hand_sides<T>(rows, shape.width, 4);
      DenseMatrix<T> before = right_hand_sides<T>(rows, shape.columns, 8);
      const auto of_row = [&](std::int64_t i) {
        return i < shape.width ? units.row(i) : units.row(99) + units.row(i) / 4;
      };
      for (std::int64_t k = 0; k < shape.width; ++k) {
        for (std::int64_t i = 0; i < shape.width; ++i) {
          panel(i, k) = T{};  // so u12 stays as it is
        }
        for (std::int64_t i = shape.width; i < rows; ++i) {
          panel(i, k) = units.of_parts != 0 && i % 2 != k % 2
                            ? T{}
                            : times(panel(i, k), of_row(i) - of_row(k));
        }
      }
      for (std::int64_t j = 0; j < shape.columns; ++j) {
        for (std::int64_t i = 0; i < rows; ++i) {
          const bool is_apart = i < shape.width && i % 2 != j % 2;
          if (is_apart && (units.of_fields != 0 || units.of_parts != 0)) {
            before(i, j) = T{};
          }
          const int more = j % 2 * units.of_fields + (2 * (i % 2) - 1) * units.of_parts;
          before(i, j) = times(before(i, j), units.of_all + of_row(i) + units.column(j) + more);
        }
      }
      Embedded<T> a(before);
      DenseMatrix<T> scratch(
          this->kernels_.eliminate_scratch(shape.width, shape.rows, shape.columns), 1);
      this->kernels_.eliminate(this->queue_, panel.view(), a.view(), scratch.view());
      this->finish();
      EXPECT_TRUE(a.frame_intact());
      const DenseMatrix<T> after = a.value();
      const std::int64_t some = shape.rows > 1000 ? 97 : 1;
      for (std::int64_t entry = 0; entry < shape.rows * shape.columns; entry += some) {
        const std::int64_t i = shape.width + entry % shape.rows;
        const std::int64_t j = entry / shape.rows;
        std::complex<double> sum = std::complex<double>(after(i, j));
        double size = std::abs(sum);
        for (std::int64_t k = 0; k < shape.width; ++k) {
          const std::complex<double> term =
              std::complex<double>(panel(i, k)) * std::complex<double>(before(k, j));
          sum += term;
          size += std::abs(term);
        }
        ASSERT_LE(std::abs(sum - std::complex<double>(before(i, j))), 8.0 * unit_roundoff<T> * size)
            << i << " " << j << " of " << shape.width << ", " << shape.rows << ", units "
            << units.of_all << " " << units.of_rows << " " << units.of_columns << " "
            << units.of_fields << " " << units.of_parts;
      }
    }
  }
}

/// Of columns of U, below whose diagonal something else lies.
TYPED_TEST_P(LuKernelsTest, EliminateAbove_OfAnyShape_SolvesAndSubtracts) {
  using T = typename TypeParam::Dtype;
  struct Shape {
    std::int64_t above;
    std::int64_t width;
    std::int64_t columns;
  };
  for (const Shape shape : {Shape{0, 1, 1}, {3, 5, 2}, {0, 17, 9}, {40, 150, 33}, {7, 64, 0}}) {
    const std::int64_t rows = shape.above + shape.width;
    DenseMatrix<T> panel = right_hand_sides<T>(rows, shape.width, 4);
    for (std::int64_t j = 0; j < shape.width; ++j) {
      panel(shape.above + j, j) = T(4) + panel(shape.above + j, j);
      for (std::int64_t i = 0; i < j; ++i) {
        panel(shape.above + i, j) /= RealOf<T>(shape.width);
      }
    }
    const DenseMatrix<T> before = right_hand_sides<T>(rows, shape.columns, 8);
    Embedded<T> a(before);
    this->kernels_.eliminate_above(this->queue_, panel.view(), a.view());
    this->finish();
    EXPECT_TRUE(a.frame_intact());
    const DenseMatrix<T> after = a.value();
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      for (std::int64_t i = 0; i < rows; ++i) {
        // What was there is what is there and the products that were taken from it.
        std::complex<double> sum = i < shape.above ? std::complex<double>(after(i, j)) : 0.0;
        double size = std::abs(sum);
        for (std::int64_t k = std::max<std::int64_t>(0, i - shape.above); k < shape.width; ++k) {
          const std::complex<double> term =
              std::complex<double>(panel(i, k)) * std::complex<double>(after(shape.above + k, j));
          sum += term;
          size += std::abs(term);
        }
        EXPECT_LE(std::abs(sum - std::complex<double>(before(i, j))),
                  2.0 * unit_roundoff<T> * static_cast<double>(shape.width + 2) * size)
            << i << " " << j;
      }
    }
  }
}

TYPED_TEST_P(LuKernelsTest, UpperMax_LooksAtUAlone) {
  using T = typename TypeParam::Dtype;
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

TYPED_TEST_P(LuKernelsTest, ShapesThatDoNotFit_AreABug) {
  using T = typename TypeParam::Dtype;
  DenseMatrix<T> a(3, 5);
  std::vector<std::int64_t> places(5);
  std::int64_t info = 0;
  expect_error([&] { this->kernels_.panel(this->queue_, 0, a.view(), places.data(), &info); },
               ErrorKind::internal, {"lu panel"});
  expect_error([&] { this->kernels_.transpose(this->queue_, a.view(), a.view()); },
               ErrorKind::internal, {"transpose"});
}

REGISTER_TYPED_TEST_SUITE_P(
    LuKernelsTest, Panel_OfAnyShape_IsItsFactor, Panel_WithTies_TakesTheFirstOfEquals,
    Panel_WithPivotsInItsFirstOrLastRows_IsItsFactor, Panel_WithAColumnOfZeros_LeavesItUndivided,
    Panel_WithPivotsAtTheEndsOfTheRange_StaysInRange, Panel_WithWhatIsNoNumber_SaysWhere,
    SwapRows_InTurn_IsWhatItSays, SolveTile_OfEachTriangleAndOp_IsAsStableAsASolve,
    Multiply_WhereSumsCancel_KeepsTwiceThePrecision, SumsOfRowsAndErrorsByComponents_AreAsDefined,
    TransposeAndChooseColumns_MoveNumbersAlone, ChooseRows_MovesNumbersAlone,
    OrderRows_MovesNumbersAlone, OrderColumns_MovesNumbersAlone,
    Eliminate_InAnyUnits_IsAsGoodAsProductsAre, EliminateAbove_OfAnyShape_SolvesAndSubtracts,
    UpperMax_LooksAtUAlone, ShapesThatDoNotFit_AreABug);

}  // namespace shardsolve::testing
