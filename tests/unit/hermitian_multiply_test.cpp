// Products with half of a Hermitian matrix on the CPU: what each rank adds to them, in twice the
// precision.

#include "runtime/host/hermitian_multiply.hpp"

#include "reference/dense_matrix.hpp"
#include "reference/wide.hpp"
#include "support/dtypes.hpp"
#include "support/matrix_zoo.hpp"

#include <shardsolve/slab_layout.hpp>

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardsolve::testing {
namespace {

using reference::DenseMatrix;
using reference::Wide;

template <class T>
class UpperPartProduct : public ::testing::Test {};
TYPED_TEST_SUITE(UpperPartProduct, Dtypes, DtypeNames);

/// Rounding that the sums may keep: of pairs of floats, or of long doubles that they are compared
/// with.
template <class Real>
constexpr long double kept_rounding = sizeof(Real) == 4 ? 0x1p-46L : 0x1p-61L;

/// This rank's share of A x, in twice the precision.
template <Scalar T>
DenseMatrix<T> share_of(const SlabLayout& layout, std::int64_t rank, const DenseMatrix<T>& a,
                        const DenseMatrix<T>& x) {
  const std::int64_t n = layout.size();
  runtime::UpperPart<T, RealOf<T>> part;
  const std::int64_t first = layout.segment(rank).begin.value();
  part.slab = MatrixView<const T>(a.view()).columns_from(first, layout.width(rank));
  std::vector<RealOf<T>> diagonal;
  for (std::int64_t j = 0; j < layout.width(rank); ++j) {
    diagonal.push_back(std::real(a(first + j, first + j)));
  }
  part.diagonal = diagonal.data();
  part.rank = static_cast<std::int32_t>(rank);
  part.ranks = static_cast<std::int32_t>(layout.ranks());
  part.tile = layout.tile();
  for (std::int64_t r = 0; r < layout.ranks(); ++r) {
    part.begin[r] = layout.segment(r).begin.value();
  }
  part.begin[layout.ranks()] = n;
  std::vector<std::int64_t> eliminated;
  for (Step step = layout.next_owned(rank, Step(0)); step.value() < layout.steps();
       step = layout.next_owned(rank, step + 1)) {
    for (std::int64_t r = 0; r < layout.ranks(); ++r) {
      eliminated.push_back(layout.eliminated(r, step).value());
    }
  }
  part.eliminated = eliminated.data();
  DenseMatrix<T> y(2 * n, 1);
  std::vector<double> sums(static_cast<std::size_t>(runtime::host::upper_part_sums<T>(part)));
  runtime::host::multiply_upper_part<T>(part, x.data(), y.data(), sums.data());
  return y;
}

TYPED_TEST(UpperPartProduct, OfAllRanks_IsTheProductInTwiceThePrecision) {
  using T = TypeParam;
  for (const SlabLayout& layout :
       {SlabLayout({0, 1}, 1), SlabLayout::even(67, 1, 9), SlabLayout({0, 20, 20, 33, 50}, 4),
        SlabLayout::even(130, 3, 17)}) {
    const std::int64_t n = layout.size();
    SCOPED_TRACE(n);
    const DenseMatrix<T> a = dense<T>({.n = n, .seed = 3});
    const DenseMatrix<T> x = right_hand_sides<T>(n, 1);
    std::vector<Wide<T>> sums(static_cast<std::size_t>(n));
    for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
      const DenseMatrix<T> y = share_of(layout, rank, a, x);
      for (std::int64_t r = 0; r < layout.ranks(); ++r) {
        const std::int64_t begin = layout.segment(r).begin.value();
        for (std::int64_t i = 0; i < layout.width(r); ++i) {
          sums[static_cast<std::size_t>(begin + i)] +=
              Wide<T>(y(2 * begin + i, 0)) + Wide<T>(y(2 * begin + layout.width(r) + i, 0));
        }
      }
    }
    for (std::int64_t i = 0; i < n; ++i) {
      Wide<T> error = sums[static_cast<std::size_t>(i)];
      long double size = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        const Wide<T> term = Wide<T>(a(i, j)) * Wide<T>(x(j, 0));
        error -= term;
        size += std::abs(term);
      }
      ASSERT_LE(std::abs(error), kept_rounding<RealOf<T>> * static_cast<long double>(n) * size)
          << i;
    }
  }
}

TYPED_TEST(UpperPartProduct, AddTwofold_KeepsWhatRoundingTakes) {
  using T = TypeParam;
  using Real = RealOf<T>;
  const Real tiny = std::numeric_limits<Real>::epsilon() / 8;
  DenseMatrix<T> sums(3, 4);
  DenseMatrix<T> source(3, 2);
  for (std::int64_t j = 0; j < 2; ++j) {
    for (std::int64_t i = 0; i < 3; ++i) {
      sums(i, j) = T{1};
      sums(i, j + 2) = T{0};
      source(i, j) = T{tiny * static_cast<Real>(i + 1)};
    }
  }
  runtime::host::add_to_twofold(MatrixView<const T>(source.view()), sums.view());
  runtime::host::add_to_twofold(MatrixView<const T>(sums.view()), sums.view());
  for (std::int64_t j = 0; j < 2; ++j) {
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(std::real(sums(i, j)), Real{2});
      EXPECT_EQ(std::real(sums(i, j + 2)), 2 * tiny * static_cast<Real>(i + 1));
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing
