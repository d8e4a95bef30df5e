// Each host kernel against the reference, on views with gaps, in all dtypes.

#include "runtime/host/host_kernels.hpp"

#include "reference/cholesky.hpp"
#include "reference/matmul.hpp"
#include "runtime/host/cholesky_kernels.hpp"
#include "tests/support/bits.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/embedded.hpp"
#include "tests/support/gates.hpp"
#include "tests/support/host_rank.hpp"
#include "tests/support/matrix_zoo.hpp"

#include <shardsolve/error.hpp>

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

template <Scalar T>
constexpr RealOf<T> nan_of = std::numeric_limits<RealOf<T>>::quiet_NaN();

reference::Op as_reference(Op op) {
  switch (op) {
    case Op::none:
      return reference::Op::none;
    case Op::transpose:
      return reference::Op::transpose;
    case Op::conjugate_transpose:
      break;
  }
  return reference::Op::conjugate_transpose;
}

/// rows x columns, or the other way round if it will be transposed.
template <Scalar T>
DenseMatrix<T> operand(Op op, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  return op == Op::none ? right_hand_sides<T>(rows, columns, seed)
                        : right_hand_sides<T>(columns, rows, seed);
}

template <Scalar T>
DenseMatrix<T> filled(std::int64_t rows, std::int64_t columns, T value) {
  DenseMatrix<T> a(rows, columns);
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      a(i, j) = value;
    }
  }
  return a;
}

/// alpha ab + beta c; beta = 0 ignores c.
template <Scalar T>
DenseMatrix<T> combined(T alpha, const DenseMatrix<T>& ab, T beta, const DenseMatrix<T>& c) {
  DenseMatrix<T> sum(c.rows(), c.columns());
  for (std::int64_t j = 0; j < c.columns(); ++j) {
    for (std::int64_t i = 0; i < c.rows(); ++i) {
      sum(i, j) = alpha * ab(i, j) + (beta == T{0} ? T{0} : beta * c(i, j));
    }
  }
  return sum;
}

/// Of entries of size one and sums of `terms` of them.
template <Scalar T>
void expect_near(const DenseMatrix<T>& result, const DenseMatrix<T>& expected, std::int64_t terms) {
  const auto size = static_cast<double>(reference::one_norm(expected));
  const auto error =
      static_cast<double>(reference::one_norm(combined(T{-1}, expected, T{1}, result)));
  const double rows = static_cast<double>(result.rows());
  EXPECT_LE(error, 4.0 * unit_roundoff<T> * (size + rows * static_cast<double>(terms)));
}

/// The triangle that belongs to the kernel from one matrix, the rest from the other.
template <Scalar T>
DenseMatrix<T> joined(Triangle triangle, const DenseMatrix<T>& inside,
                      const DenseMatrix<T>& outside) {
  DenseMatrix<T> both = outside;
  for (std::int64_t j = 0; j < both.columns(); ++j) {
    for (std::int64_t i = 0; i < both.rows(); ++i) {
      const bool in = triangle == Triangle::lower ? i >= j : i <= j;
      both(i, j) = in ? inside(i, j) : outside(i, j);
    }
  }
  return both;
}

template <class T>
class HostKernelsTest : public ::testing::Test {
 protected:
  using Real = RealOf<T>;
  testing::HostRank rank_;
  HostQueue queue_{"test", rank_.pulse()};
  HostKernels<T> kernels_;
  HostCholeskyKernels<T> cholesky_{kernels_};

  void TearDown() override {
    queue_.synchronize();
    rank_.rethrow();
  }

  void check_gemm(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, T beta) {
    SCOPED_TRACE(::testing::Message() << static_cast<char>(op_a) << static_cast<char>(op_b) << " "
                                      << m << " x " << n << " x " << k << ", beta " << beta);
    const DenseMatrix<T> a = operand<T>(op_a, m, k, 1);
    const DenseMatrix<T> b = operand<T>(op_b, k, n, 2);
    const DenseMatrix<T> c =
        beta == T{0} ? filled<T>(m, n, nan_of<T>) : right_hand_sides<T>(m, n, 3);
    const T alpha{-2};
    Embedded<T> a_view(a);
    Embedded<T> b_view(b);
    Embedded<T> c_view(c);
    kernels_.gemm(queue_, op_a, op_b, alpha, a_view.view(), b_view.view(), beta, c_view.view());
    queue_.synchronize();
    const DenseMatrix<T> ab = reference::matmul(as_reference(op_a), a, as_reference(op_b), b);
    expect_near(c_view.value(), combined(alpha, ab, beta, c), k + 1);
    EXPECT_TRUE(c_view.frame_intact());
  }

  void check_herk(Triangle triangle, Op op, std::int64_t n, std::int64_t k, Real beta) {
    SCOPED_TRACE(::testing::Message() << static_cast<char>(triangle) << static_cast<char>(op) << " "
                                      << n << " x " << k << ", beta " << beta);
    const DenseMatrix<T> a = operand<T>(op, n, k, 1);
    const DenseMatrix<T> given =
        beta == Real{0} ? filled<T>(n, n, nan_of<T>) : testing::dense<T>({.n = n, .seed = 3});
    // what the kernel has no business with is not a number
    const DenseMatrix<T> c = joined(triangle, given, filled<T>(n, n, nan_of<T>));
    Embedded<T> a_view(a);
    Embedded<T> c_view(c);
    kernels_.herk(queue_, triangle, op, Real{-2}, a_view.view(), beta, c_view.view());
    queue_.synchronize();
    const Op other = op == Op::none ? Op::conjugate_transpose : Op::none;
    const DenseMatrix<T> expected = combined(
        T{-2}, reference::matmul(as_reference(op), a, as_reference(other), a), T{beta}, given);
    const DenseMatrix<T> zeros(n, n);
    expect_near(joined(triangle, c_view.value(), zeros), joined(triangle, expected, zeros), k + 1);
    EXPECT_TRUE(same_bits(joined(triangle, zeros, c_view.value()), joined(triangle, zeros, c)));
    EXPECT_TRUE(c_view.frame_intact());
  }

  void check_trsm(Side side, Triangle triangle, Op op, std::int64_t n, std::int64_t k) {
    SCOPED_TRACE(::testing::Message() << static_cast<char>(side) << static_cast<char>(triangle)
                                      << static_cast<char>(op) << " " << n << " x " << k);
    const DenseMatrix<T> zeros(n, n);
    const DenseMatrix<T> full = testing::dense<T>({.n = n, .seed = 3});
    const DenseMatrix<T> a = joined(triangle, full, zeros);
    const DenseMatrix<T> b =
        side == Side::left ? right_hand_sides<T>(n, k) : right_hand_sides<T>(k, n);
    Embedded<T> a_view(joined(triangle, full, filled<T>(n, n, nan_of<T>)));
    Embedded<T> b_view(b);
    kernels_.trsm(queue_, side, triangle, op, a_view.view(), b_view.view());
    queue_.synchronize();
    const DenseMatrix<T> x = b_view.value();
    const auto none = reference::Op::none;
    const DenseMatrix<T> back = side == Side::left
                                    ? reference::matmul(as_reference(op), a, none, x)
                                    : reference::matmul(none, x, as_reference(op), a);
    expect_near(back, b, 4 * n);
    EXPECT_TRUE(b_view.frame_intact());
  }
};
TYPED_TEST_SUITE(HostKernelsTest, testing::Dtypes, testing::DtypeNames);

constexpr Op ops[] = {Op::none, Op::transpose, Op::conjugate_transpose};
constexpr Triangle triangles[] = {Triangle::lower, Triangle::upper};

TYPED_TEST(HostKernelsTest, Gemm_InAnyShape_IsTheProduct) {
  struct Shape {
    std::int64_t m, n, k;
  };
  for (const Op op_a : ops) {
    for (const Op op_b : ops) {
      // one column takes another path; nothing to sum still scales c
      for (const Shape& s :
           {Shape{7, 5, 6}, Shape{40, 33, 17}, Shape{9, 1, 6}, Shape{1, 1, 5}, Shape{1, 6, 3},
            Shape{8, 4, 0}, Shape{8, 1, 0}, Shape{0, 3, 2}, Shape{3, 0, 2}}) {
        for (const int beta : {0, 1, 3}) {
          this->check_gemm(op_a, op_b, s.m, s.n, s.k,
                           TypeParam(static_cast<RealOf<TypeParam>>(beta)));
        }
      }
    }
  }
}

TYPED_TEST(HostKernelsTest, GemmBatch_OfAnyOps_IsTheProductsOneByOne) {
  using T = TypeParam;
  constexpr std::int64_t n = 5;
  constexpr std::int64_t count = 3;
  const DenseMatrix<T> a = right_hand_sides<T>(n, n * count, 1);
  const DenseMatrix<T> b = right_hand_sides<T>(n, n * count, 2);
  for (const Op op_a : ops) {
    for (const Op op_b : ops) {
      Embedded<T> a_view(a);
      Embedded<T> b_view(b);
      Embedded<T> one_by_one(DenseMatrix<T>(n, n * count));
      Embedded<T> batch(DenseMatrix<T>(n, n * count));
      const auto tile = [](auto& all, std::int64_t i) { return all.view().columns_from(i * n, n); };
      for (std::int64_t i = 0; i < count; ++i) {
        this->kernels_.gemm(this->queue_, op_a, op_b, T{1}, tile(a_view, i), tile(b_view, i), T{0},
                            tile(one_by_one, i));
      }
      this->kernels_.gemm_batch(this->queue_, op_a, op_b, T{1}, tile(a_view, 0), tile(b_view, 0),
                                T{0}, tile(batch, 0),
                                {count, n * a_view.view().stride(), n * b_view.view().stride(),
                                 n * batch.view().stride()});
      this->queue_.synchronize();
      EXPECT_TRUE(same_bits(batch.value(), one_by_one.value()));
    }
  }
}

TYPED_TEST(HostKernelsTest, Herk_InAnyShape_IsOneTriangleOfTheProduct) {
  for (const Triangle triangle : triangles) {
    for (const Op op : {Op::none, Op::conjugate_transpose}) {
      for (const std::int64_t n : {0, 1, 6, 37}) {
        for (const std::int64_t k : {0, 1, 9}) {
          for (const int beta : {0, 1, 3}) {
            this->check_herk(triangle, op, n, k, static_cast<RealOf<TypeParam>>(beta));
          }
        }
      }
    }
  }
}

TYPED_TEST(HostKernelsTest, Trsm_InAnyShape_SolvesWithOneTriangle) {
  for (const Side side : {Side::left, Side::right}) {
    for (const Triangle triangle : triangles) {
      for (const Op op : ops) {
        for (const std::int64_t n : {0, 1, 6, 37}) {
          for (const std::int64_t k : {0, 1, 9}) {
            this->check_trsm(side, triangle, op, n, k);
          }
        }
      }
    }
  }
}

TYPED_TEST(HostKernelsTest, MisfittingOperands_AreRefusedBeforeTheyRun) {
  using T = TypeParam;
  Embedded<T> a(DenseMatrix<T>(3, 4));
  Embedded<T> b(DenseMatrix<T>(3, 3));
  Embedded<T> c(DenseMatrix<T>(4, 3));
  const auto& kernels = this->kernels_;
  HostQueue& queue = this->queue_;
  constexpr Op none = Op::none;
  EXPECT_THROW(kernels.gemm(queue, none, none, T{1}, a.view(), b.view(), T{0}, b.view()), Error);
  EXPECT_THROW(kernels.herk(queue, Triangle::lower, none, 1, c.view(), 0, b.view()), Error);
  EXPECT_THROW(kernels.herk(queue, Triangle::lower, Op::transpose, 1, b.view(), 0, b.view()),
               Error);
  EXPECT_THROW(kernels.trsm(queue, Side::left, Triangle::lower, none, b.view(), c.view()), Error);
  EXPECT_THROW(kernels.trsm(queue, Side::left, Triangle::lower, none, a.view(), b.view()), Error);
  EXPECT_THROW(kernels.copy(queue, a.view(), b.view()), Error);
  Embedded<OtherPrecision<T>> other(DenseMatrix<OtherPrecision<T>>(3, 4));
  EXPECT_THROW(kernels.convert(queue, other.view(), b.view()), Error);
  Embedded<RealOf<T>> real(DenseMatrix<RealOf<T>>(3, 4));
  EXPECT_THROW(kernels.from_real(queue, real.view(), b.view()), Error);
  EXPECT_THROW(kernels.add(queue, T{1}, a.view(), c.view()), Error);
  EXPECT_THROW(kernels.conjugate_transpose(queue, a.view(), b.view()), Error);
  EXPECT_THROW(kernels.identity(queue, a.view()), Error);
  EXPECT_THROW(kernels.lower_triangle(queue, a.view(), a.view()), Error);
  EXPECT_THROW(kernels.scale_rows(queue, a.view(), false, a.view(), b.view()), Error);
  EXPECT_THROW(kernels.diagonal(queue, a.view(), nullptr), Error);
  EXPECT_THROW(this->cholesky_.potrf(queue, a.view(), {}, nullptr), Error);
  EXPECT_THROW(kernels.hermitian_tile(queue, a.view(), nullptr, a.view()), Error);
}

TYPED_TEST(HostKernelsTest, Potrf_OfATile_IsItsFactorAndLeavesTheOtherTriangle) {
  using T = TypeParam;
  for (const std::int64_t n : {0, 1, 2, 37, 100}) {
    SCOPED_TRACE(n);
    const DenseMatrix<T> a = testing::dense<T>({.n = n, .seed = 3});
    const DenseMatrix<T> odd = filled<T>(n, n, nan_of<T>);
    Embedded<T> tile(joined(Triangle::lower, a, odd));
    std::int64_t info = 77;
    this->cholesky_.potrf(this->queue_, tile.view(), {}, &info);
    this->queue_.synchronize();
    EXPECT_EQ(info, 0);
    const DenseMatrix<T> zeros(n, n);
    EXPECT_TRUE(testing::factors(a, joined(Triangle::lower, tile.value(), zeros)));
    EXPECT_TRUE(same_bits(joined(Triangle::lower, zeros, tile.value()),
                          joined(Triangle::lower, zeros, odd)));
    EXPECT_TRUE(tile.frame_intact());
  }
}

TYPED_TEST(HostKernelsTest, Potrf_OfABadPivot_NamesItsColumn) {
  using T = TypeParam;
  constexpr std::int64_t n = 70;
  constexpr RealOf<T> infinity = std::numeric_limits<RealOf<T>>::infinity();
  for (const std::int64_t column : {0, 1, 33, 69}) {
    for (const RealOf<T> pivot : {RealOf<T>{0}, RealOf<T>{-5}, nan_of<T>, infinity, -infinity}) {
      SCOPED_TRACE(::testing::Message() << "pivot " << pivot << " of column " << column);
      DenseMatrix<T> a = testing::dense<T>({.n = n, .seed = 3});
      a(column, column) = pivot;
      for (std::int64_t j = 0; j < column; ++j) {
        a(column, j) = 0;  // the pivot is what stands there
      }
      std::int64_t info = 77;
      this->cholesky_.potrf(this->queue_, a.view(), {}, &info);
      this->queue_.synchronize();
      EXPECT_EQ(info, std::isfinite(pivot) ? column + 1 : -(column + 1));
    }
  }
}

}  // namespace
}  // namespace shardsolve::runtime::host
