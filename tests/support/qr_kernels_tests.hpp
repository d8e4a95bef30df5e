/// What QrKernels of any backend are judged by, each kernel by itself, in all dtypes, against their
/// definitions in more digits. A program says of which backend:
/// INSTANTIATE_TYPED_TEST_SUITE_P(..., QrKernelsTest, QrOfAllDtypes<Backend>, QrKernelsNames).
#pragma once

#include "reference/matmul.hpp"
#include "reference/wide.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/qr_kernels.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/host_rank.hpp"
#include "tests/support/matrix_zoo.hpp"
#include "tests/support/qr_zoo.hpp"

#include <shardsolve/dtype.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shardsolve::testing::qr_kernels {

using reference::DenseMatrix;
using runtime::GramVerdict;
using runtime::WideOf;

template <template <class> class Backend, class T>
struct QrKernelsOf {
  using Dtype = T;
  using Kernels = Backend<T>;
};
template <template <class> class Backend>
using QrOfAllDtypes = ::testing::Types<QrKernelsOf<Backend, float>, QrKernelsOf<Backend, double>,
                                       QrKernelsOf<Backend, std::complex<float>>,
                                       QrKernelsOf<Backend, std::complex<double>>>;
struct QrKernelsNames {
  template <class Case>
  static std::string GetName(int index) {
    return DtypeNames::GetName<typename Case::Dtype>(index);
  }
};

template <class Case>
class QrKernelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if constexpr (requires { Case::Kernels::is_here(); }) {
      if (!Case::Kernels::is_here()) {
        GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
      }
    }
  }
  const runtime::QrKernels<typename Case::Dtype>& kernels() { return kernels_; }
  runtime::Queue& queue() { return queue_; }
  void finish() {
    queue_.synchronize();
    rank_.rethrow();
  }

 private:
  HostRank rank_;
  runtime::host::HostQueue queue_{"test", rank_.pulse()};
  typename Case::Kernels kernels_;
};
TYPED_TEST_SUITE_P(QrKernelsTest);

template <Scalar W, Scalar T>
DenseMatrix<W> widened(const DenseMatrix<T>& a) {
  DenseMatrix<W> wide(a.rows(), a.columns());
  for (std::int64_t i = 0; i < a.rows() * a.columns(); ++i) {
    wide.data()[i] = static_cast<W>(a.data()[i]);
  }
  return wide;
}

template <Scalar W>
double distance(const DenseMatrix<W>& a, const DenseMatrix<W>& b) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < a.rows() * a.columns(); ++i) {
    sum += std::norm(a.data()[i] - b.data()[i]);
  }
  return std::sqrt(sum);
}

TYPED_TEST_P(QrKernelsTest, ScaleColumns_ByPowersThatAreOutOfRange_IsExact) {
  using T = typename TypeParam::Dtype;
  using Limits = std::numeric_limits<RealOf<T>>;
  DenseMatrix<T> a(2, 2);
  a(0, 0) = static_cast<T>(Limits::denorm_min());
  a(1, 1) = static_cast<T>(Limits::max());
  const std::vector<std::int64_t> exponents{Limits::digits - Limits::min_exponent,
                                            -Limits::max_exponent};
  this->kernels().scale_columns(this->queue(), a.view(), exponents.data(), a.view());
  this->finish();
  EXPECT_EQ(std::real(a(0, 0)), RealOf<T>{1});
  EXPECT_TRUE(std::real(a(1, 1)) < 1 && std::real(a(1, 1)) > RealOf<T>(0.99));
}

TYPED_TEST_P(QrKernelsTest, Gram_OfFloats_IsSummedInDoubles) {
  using T = typename TypeParam::Dtype;
  using Wide = WideOf<T>;
  // 1 + little^2 is 1 in floats
  const double little = 1e-5;
  DenseMatrix<T> a(600, 2);
  a(0, 0) = T{1};
  a(599, 0) = static_cast<T>(static_cast<RealOf<T>>(little));
  a(300, 1) = T{2};
  DenseMatrix<Wide> g(2, 2);
  this->kernels().gram(this->queue(), a.view(), g.view());
  this->finish();
  EXPECT_NEAR(std::real(g(0, 0)) - 1.0, little * little, 1e-16);
  EXPECT_EQ(g(1, 1), Wide{4});
  EXPECT_EQ(g(0, 1), Wide{0});
  EXPECT_EQ(g(1, 0), Wide{0});
}

TYPED_TEST_P(QrKernelsTest, Gram_OfManyRowsAndColumns_IsExactOfIntegers) {
  using T = typename TypeParam::Dtype;
  using Wide = WideOf<T>;
  constexpr std::int64_t rows = 2500;
  constexpr std::int64_t columns = 270;
  DenseMatrix<T> a(rows, columns);
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      a(i, j) = static_cast<T>(static_cast<RealOf<T>>((i * i + 3 * j) % 7 - 3));
      if constexpr (is_complex<T>) {
        a(i, j) += T(0, static_cast<RealOf<T>>((i + j * j) % 5 - 2));
      }
    }
  }
  DenseMatrix<Wide> g(columns, columns);
  this->kernels().gram(this->queue(), a.view(), g.view());
  this->finish();
  for (const std::int64_t j : {0, 1, 255, 256, 269}) {
    for (std::int64_t i = 0; i < columns; ++i) {
      Wide sum{0};
      for (std::int64_t k = 0; k < rows && i <= j; ++k) {
        sum += Wide(reference::conjugate(a(k, i))) * Wide(a(k, j));
      }
      EXPECT_EQ(g(i, j), sum) << i << ", " << j;
    }
  }
}

TYPED_TEST_P(QrKernelsTest, AdjointProduct_OfManyRows_IsThatOfTheDefinition) {
  using T = typename TypeParam::Dtype;
  using Wide = WideOf<T>;
  const DenseMatrix<T> a = right_hand_sides<T>(700, 9, 3);
  const DenseMatrix<T> b = right_hand_sides<T>(700, 2, 4);
  DenseMatrix<Wide> found(9, 2);
  this->kernels().adjoint_product(this->queue(), a.view(), b.view(), found.view());
  this->finish();
  const DenseMatrix<Wide> exact = reference::matmul(
      reference::Op::conjugate_transpose, widened<Wide>(a), reference::Op::none, widened<Wide>(b));
  EXPECT_LE(distance(found, exact), 1000 * unit_roundoff<T>);
}

TYPED_TEST_P(QrKernelsTest, GramFactor_SaysHowFarFromTheIdentityItsMatrixIs) {
  using Wide = WideOf<typename TypeParam::Dtype>;
  const auto judged = [&](DenseMatrix<Wide>& g, double shift) {
    std::int64_t verdict = -1;
    this->kernels().gram_factor(this->queue(), shift, g.view(), &verdict);
    this->finish();
    return static_cast<GramVerdict>(verdict);
  };
  DenseMatrix<Wide> g = DenseMatrix<Wide>::identity(3);
  g(0, 1) = 0.25;
  EXPECT_EQ(judged(g, 0.1), GramVerdict::near);
  EXPECT_NEAR(std::abs(g(0, 1)), 0.25, 1e-15);
  EXPECT_NEAR(std::real(g(1, 1)), std::sqrt(1 - 0.0625), 1e-15) << "the last pass has no shift";
  g = DenseMatrix<Wide>::identity(3);
  g(0, 1) = 0.43;  // its square is there twice: 0.26 in all
  EXPECT_EQ(judged(g, 1e-6), GramVerdict::far);
  EXPECT_NEAR(std::real(g(0, 0)), 1.0, 1e-15) << "definite enough: no shift";
  for (const auto& [between, verdict] :
       {std::pair{0.41, GramVerdict::near}, {0.43, GramVerdict::far}}) {
    g = DenseMatrix<Wide>::identity(3);  // of columns whose lengths are 8, 1, and 1/4
    g(0, 0) = 64.0;
    g(2, 2) = 1.0 / 16;
    g(0, 2) = 2.0 * between;
    EXPECT_EQ(judged(g, 1e-6), verdict);
    EXPECT_NEAR(std::real(g(0, 0)), 8.0, 1e-14);
    EXPECT_NEAR(std::real(g(2, 2)), std::sqrt(1 - between * between) / 4, 1e-15);
  }
  g = DenseMatrix<Wide>(2, 2);
  g(0, 0) = g(0, 1) = g(1, 1) = 1.0;  // singular
  EXPECT_EQ(judged(g, 0.5), GramVerdict::far);
  EXPECT_NEAR(std::real(g(0, 0)), std::sqrt(2.0), 1e-15);
  EXPECT_EQ(g(1, 0), Wide{0});
  g = DenseMatrix<Wide>(2, 2);
  EXPECT_EQ(judged(g, 0.5), GramVerdict::broken);
  g(0, 0) = std::numeric_limits<double>::quiet_NaN();
  g(1, 1) = 1.0;
  EXPECT_EQ(judged(g, 0.5), GramVerdict::broken);
}

TYPED_TEST_P(QrKernelsTest, Divide_ByATriangle_IsUndoneByIt) {
  using T = typename TypeParam::Dtype;
  using Wide = WideOf<T>;
  constexpr std::int64_t n = 130;  // more than two blocks
  DenseMatrix<Wide> r(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      r(i, j) = widened<Wide>(right_hand_sides<T>(1, 1, 7 + i + n * j))(0, 0) / 20.0;
    }
    r(j, j) = 2.0;
  }
  for (const auto& [rows, is_near] : {std::pair{40, false}, {4100, false}, {4100, true}}) {
    const DenseMatrix<T> a = right_hand_sides<T>(rows, n, 3);
    DenseMatrix<T> q = a;
    this->kernels().divide(this->queue(), r.view(), q.view(), is_near);
    this->finish();
    const DenseMatrix<Wide> back =
        reference::matmul(reference::Op::none, widened<Wide>(q), reference::Op::none, r);
    EXPECT_LE(distance(back, widened<Wide>(a)),
              400 * std::sqrt(static_cast<double>(rows) / 40.0) * unit_roundoff<T>);
  }
}

TYPED_TEST_P(QrKernelsTest, Divide_ByATriangleOfLargeCondition_IsAsGoodAsASolve) {
  using T = typename TypeParam::Dtype;
  using Wide = WideOf<T>;
  constexpr std::int64_t n = 40;
  DenseMatrix<Wide> r(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      r(i, j) = -0.4;
    }
    r(j, j) = 1.0;  // the inverse has entries of 0.4 * 1.4^38 = 1.4e5
  }
  const DenseMatrix<T> a = right_hand_sides<T>(4100, n, 3);
  DenseMatrix<T> q = a;
  this->kernels().divide(this->queue(), r.view(), q.view());
  this->finish();
  double largest = 0.0;
  for (std::int64_t i = 0; i < q.rows(); ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      largest = std::max(largest, static_cast<double>(std::abs(q(i, j))));
    }
  }
  const DenseMatrix<Wide> back =
      reference::matmul(reference::Op::none, widened<Wide>(q), reference::Op::none, r);
  EXPECT_LE(distance(back, widened<Wide>(a)), 40 * unit_roundoff<T> * largest);
}

TYPED_TEST_P(QrKernelsTest, Reflect_OfFewRowsOrMany_IsAFactorisation) {
  using T = typename TypeParam::Dtype;
  using Wide = WideOf<T>;
  for (const std::int64_t m : {0, 1, 4, 9, 50}) {
    constexpr std::int64_t n = 9;
    const std::int64_t k = std::min(m, n);
    const DenseMatrix<T> a = right_hand_sides<T>(m, n, 3);
    DenseMatrix<T> q = a;
    DenseMatrix<Wide> r(k, n);
    this->kernels().reflect(this->queue(), q.view(), r.view());
    this->finish();
    const DenseMatrix<T> kept(MatrixView<const T>(q.data(), m, k, std::max<std::int64_t>(m, 1)));
    EXPECT_LE(q_ratio(kept), 50.0) << m;
    const DenseMatrix<Wide> back =
        reference::matmul(reference::Op::none, widened<Wide>(kept), reference::Op::none, r);
    EXPECT_LE(distance(back, widened<Wide>(a)), 200 * unit_roundoff<T>) << m;
  }
}

TYPED_TEST_P(QrKernelsTest, SingularValues_OfASquareMatrix_Descend) {
  using Wide = WideOf<typename TypeParam::Dtype>;
  constexpr std::int64_t n = 12;
  const DenseMatrix<Wide> given = right_hand_sides<Wide>(n, n, 3);
  DenseMatrix<Wide> a = given;
  DenseMatrix<Wide> u(n, n);
  DenseMatrix<Wide> vh(n, n);
  std::vector<double> s(n);
  std::int64_t info = -1;
  this->kernels().singular_values(this->queue(), a.view(), s.data(), u.view(), vh.view(), &info);
  this->finish();
  EXPECT_EQ(info, 0);
  DenseMatrix<Wide> again = given;
  DenseMatrix<Wide> none(0, 0);
  std::vector<double> alone(n);
  info = -1;
  this->kernels().singular_values(this->queue(), again.view(), alone.data(), none.view(),
                                  none.view(), &info);
  this->finish();
  EXPECT_EQ(info, 0);
  for (std::size_t j = 0; j < s.size(); ++j) {
    EXPECT_LE(std::abs(alone[j] - s[j]), 1e-14 * s[0]);
  }
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      u(i, j) *= s[static_cast<std::size_t>(j)];
    }
    EXPECT_TRUE(j == 0 || s[static_cast<std::size_t>(j)] <= s[static_cast<std::size_t>(j - 1)]);
  }
  EXPECT_LE(distance(reference::matmul(reference::Op::none, u, reference::Op::none, vh), given),
            1e-13);
}

TYPED_TEST_P(QrKernelsTest, GramFactor_OfMoreThanABlock_IsCholeskys) {
  using Wide = WideOf<typename TypeParam::Dtype>;
  constexpr std::int64_t n = 530;
  DenseMatrix<Wide> g(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      g(i, j) = 0.5 / static_cast<double>(1 + (j - i) * (j - i));
      g(j, i) = g(i, j);
    }
    g(j, j) = 2.0;
  }
  DenseMatrix<Wide> r = g;
  std::int64_t verdict = -1;
  this->kernels().gram_factor(this->queue(), 1e-13, r.view(), &verdict);
  this->finish();
  EXPECT_EQ(static_cast<GramVerdict>(verdict), GramVerdict::far);
  const DenseMatrix<Wide> back =
      reference::matmul(reference::Op::conjugate_transpose, r, reference::Op::none, r);
  EXPECT_LE(distance(back, g), 1e-12);
  EXPECT_EQ(r(n - 1, 0), Wide{0});
}

TYPED_TEST_P(QrKernelsTest, SingularValues_OfColumnsThatDepend_HaveUnitaryPartners) {
  using Wide = WideOf<typename TypeParam::Dtype>;
  constexpr std::int64_t n = 7;
  DenseMatrix<Wide> given = right_hand_sides<Wide>(n, n, 3);
  for (std::int64_t i = 0; i < n; ++i) {
    given(i, 2) = Wide{0};
    given(i, 5) = given(i, 1);
    given(i, 6) = 1e-150 * given(i, 0);
  }
  DenseMatrix<Wide> a = given;
  DenseMatrix<Wide> u(n, n);
  DenseMatrix<Wide> vh(n, n);
  std::vector<double> s(n);
  std::int64_t info = -1;
  this->kernels().singular_values(this->queue(), a.view(), s.data(), u.view(), vh.view(), &info);
  this->finish();
  EXPECT_EQ(info, 0);
  EXPECT_LE(q_ratio(u), 100.0);
  EXPECT_LE(q_ratio(vh), 100.0);
  EXPECT_LE(s[4], 1e-14 * s[0]);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) {
      u(i, j) *= s[static_cast<std::size_t>(j)];
    }
  }
  EXPECT_LE(distance(reference::matmul(reference::Op::none, u, reference::Op::none, vh), given),
            1e-13);
}

TYPED_TEST_P(QrKernelsTest, ColumnSizes_BeyondTheRangeOfSquares_AreThere) {
  using T = typename TypeParam::Dtype;
  using Limits = std::numeric_limits<RealOf<T>>;
  DenseMatrix<T> a(3, 4);
  a(0, 0) = a(2, 0) = static_cast<T>(Limits::max() / 2);
  a(1, 1) = static_cast<T>(Limits::min());
  a(1, 3) = static_cast<T>(Limits::quiet_NaN());
  std::vector<double> sizes(8, -1.0);
  this->kernels().column_sizes(this->queue(), a.view(), sizes.data());
  this->finish();
  EXPECT_EQ(sizes[0], double{Limits::max()} / 2);
  EXPECT_EQ(sizes[1], 2.0);
  EXPECT_EQ(sizes[2], double{Limits::min()});
  EXPECT_EQ(sizes[3], 1.0);
  EXPECT_EQ(sizes[4], 0.0);
  EXPECT_EQ(sizes[5], 0.0);
  EXPECT_TRUE(std::isnan(sizes[6]));
}

TYPED_TEST_P(QrKernelsTest, ColumnSizes_OfManyRows_AreOfAll) {
  using T = typename TypeParam::Dtype;
  constexpr std::int64_t rows = 9000;
  DenseMatrix<T> a(rows, 3);
  for (std::int64_t i = 0; i < rows; ++i) {
    a(i, 0) = T{1};
    a(i, 1) = i == 5000 ? T{8} : T{0};
  }
  a(rows - 1, 0) = T{-2};
  std::vector<double> sizes(6, -1.0);
  this->kernels().column_sizes(this->queue(), a.view(), sizes.data());
  this->finish();
  EXPECT_EQ(sizes[0], 2.0);
  EXPECT_EQ(sizes[1], 0.25 * (rows - 1) + 1.0);
  EXPECT_EQ(sizes[2], 8.0);
  EXPECT_EQ(sizes[3], 1.0);
  EXPECT_EQ(sizes[4], 0.0);
  EXPECT_EQ(sizes[5], 0.0);
}

REGISTER_TYPED_TEST_SUITE_P(
    QrKernelsTest, ScaleColumns_ByPowersThatAreOutOfRange_IsExact, Gram_OfFloats_IsSummedInDoubles,
    Gram_OfManyRowsAndColumns_IsExactOfIntegers, AdjointProduct_OfManyRows_IsThatOfTheDefinition,
    GramFactor_SaysHowFarFromTheIdentityItsMatrixIs, GramFactor_OfMoreThanABlock_IsCholeskys,
    SingularValues_OfColumnsThatDepend_HaveUnitaryPartners, Divide_ByATriangle_IsUndoneByIt,
    Divide_ByATriangleOfLargeCondition_IsAsGoodAsASolve, Reflect_OfFewRowsOrMany_IsAFactorisation,
    SingularValues_OfASquareMatrix_Descend, ColumnSizes_BeyondTheRangeOfSquares_AreThere,
    ColumnSizes_OfManyRows_AreOfAll);

}  // namespace shardsolve::testing::qr_kernels
