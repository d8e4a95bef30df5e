// QR and least squares: factors and raw solves beside LAPACK's, then what is returned, on the
// caller's own A, b, x.

#include "reference/matmul.hpp"
#include "reference/qr.hpp"

#include "dense/qr/program.hpp"
#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "runtime/host/host_device.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/lapack.hpp"
#include "support/qr_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/qr.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace shardsolve::testing {
namespace {

using reference::Op;

/// On CPU devices: GPUs have no kernels for it.
class Qr : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test_gpus().empty()) {
      GTEST_SKIP() << "of CPU devices";
    }
  }
};

template <class T>
class QrFamily : public Qr {};
TYPED_TEST_SUITE(QrFamily, Dtypes, DtypeNames);

/// Rows on one rank; ragged, some with fewer rows than A has columns; with an empty block.
std::vector<Cut> row_cuts(std::int64_t m) {
  return {{"one", SlabLayout::even(m, 1, 8)},
          {"ragged", SlabLayout({0, m / 3, m / 3 + 3, m}, 4)},
          {"one_empty", SlabLayout({0, m / 2, m / 2, m - 1, m}, 5)}};
}

/// As the gates of the house: un-normalised, and no worse than four times LAPACK's.
double limit(double lapack) { return std::max(10.0, 4.0 * lapack); }

template <Scalar T>
DenseMatrix<T> matrix_of(const std::vector<T>& values, std::int64_t rows, std::int64_t columns) {
  return DenseMatrix<T>(MatrixView<const T>(values.data(), rows, columns));
}

template <Scalar T>
DenseMatrix<T> adjoint(const DenseMatrix<T>& a) {
  return reference::matmul(Op::conjugate_transpose, a, Op::none,
                           DenseMatrix<T>::identity(a.rows()));
}

/// The largest 2-norm of a row of Q^H Q - I, over u.
template <Scalar T>
double largest_row(const DenseMatrix<T>& q) {
  const DenseMatrix<T> gram = reference::matmul(Op::conjugate_transpose, q, Op::none, q);
  double worst = 0.0;
  for (std::int64_t i = 0; i < gram.rows(); ++i) {
    double sum = 0.0;
    for (std::int64_t j = 0; j < gram.columns(); ++j) {
      sum += std::norm(gram(i, j) - (i == j ? T{1} : T{0}));
    }
    worst = std::max(worst, std::sqrt(sum));
  }
  return worst / unit_roundoff<T>;
}

TYPED_TEST(QrFamily, Factor_OfEveryMatrixOnEveryCut_IsAsGoodAsLapacks) {
  using T = TypeParam;
  for (const auto& [m, n] : {std::pair{60, 12}, {40, 24}, {7, 6}}) {
    for (const QrCase<T>& one : qr_zoo<T>(m, n)) {
      const LapackQr<T> lapack = lapack_qr(one.a);
      for (const Cut& cut : row_cuts(m)) {
        SCOPED_TRACE(one.name + " m " + std::to_string(m) + " " + cut.name);
        Mesh mesh = make_mesh(cut.layout.ranks());
        const RowBlocks<T> a = shard_rows(one.a, cut.layout);
        const QrFactor<T> alone = qr(mesh, a, QrMode::r);
        ASSERT_TRUE(alone.outcome.ok()) << alone.outcome.message();
        EXPECT_TRUE(same_bits(whole(a), one.a));
        const QrFactor<T> made = qr(mesh, a);
        ASSERT_TRUE(made.outcome.ok()) << made.outcome.message();
        EXPECT_EQ(made.r, alone.r);
        const DenseMatrix<T> r = matrix_of(made.r, n, n);
        const DenseMatrix<T> q = whole(a);
        for (std::int64_t j = 0; j < n; ++j) {
          EXPECT_TRUE(std::real(r(j, j)) >= 0 && std::imag(r(j, j)) == 0) << r(j, j);
          for (std::int64_t i = j + 1; i < n; ++i) {
            EXPECT_EQ(r(i, j), T{0});
          }
        }
        const double orthogonal = orthogonality_ratio(q);
        const double of_lapack = orthogonality_ratio(lapack.q);
        EXPECT_TRUE(orthogonal <= limit(of_lapack)) << orthogonal << ", LAPACK " << of_lapack;
        const double ratio = qr_ratio(one.a, q, r);
        const double lapack_ratio = qr_ratio(one.a, lapack.q, lapack.r);
        EXPECT_TRUE(ratio <= limit(lapack_ratio)) << ratio << ", LAPACK " << lapack_ratio;
        const double certified = *made.outcome.orthogonality / unit_roundoff<T>;
        EXPECT_TRUE(certified <= 3 * largest_row(q) + 30) << certified;
        EXPECT_TRUE(certified >= largest_row(q) / 20) << certified << " " << largest_row(q);
        EXPECT_TRUE(*made.outcome.residual <= 20 * unit_roundoff<T>) << *made.outcome.residual;
      }
    }
  }
}

/// The rank by the rule of NumPy, of exact singular values.
template <Scalar T>
std::int64_t exact_rank(const DenseMatrix<T>& a, double rcond) {
  const auto s = reference::svd(a.rows() < a.columns() ? adjoint(a) : a).s;
  return std::count_if(s.begin(), s.end(),
                       [&](auto value) { return value > rcond * s.front(); });
}

template <Scalar T>
double default_rcond(const DenseMatrix<T>& a) {
  return 2 * unit_roundoff<T> * static_cast<double>(std::max(a.rows(), a.columns()));
}

/// Scales of columns taken out, as the certificate has it.
template <Scalar T>
double full_rank_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& x, const DenseMatrix<T>& b) {
  const ScaledPair<T> scaled = with_equal_columns(a);
  return least_squares_ratio(scaled.a, scaled.unknowns(x), b, std::min(a.rows(), a.columns()));
}

TYPED_TEST(QrFamily, LeastSquares_OfFullRank_IsRefinedAndCertified) {
  using T = TypeParam;
  for (const auto& [m, n] : {std::pair{60, 12}, {40, 24}, {7, 6}}) {
    for (const QrCase<T>& one : qr_zoo<T>(m, n)) {
      const ScaledPair<T> scaled = with_equal_columns(one.a);
      const double rcond = default_rcond(one.a);
      const bool is_full = exact_rank(scaled.a, 100 * rcond) == n;
      const bool is_deficient = exact_rank(scaled.a, rcond / 10) < n;
      const DenseMatrix<T> b = sides_for(one);
      const DenseMatrix<T> peer = lapack_least_squares(scaled.a, b, rcond).x;
      const double lapack = is_full ? least_squares_ratio(scaled.a, peer, b, n) : 0.0;
      for (const Cut& cut : row_cuts(m)) {
        SCOPED_TRACE(one.name + " m " + std::to_string(m) + " " + cut.name);
        Mesh mesh = make_mesh(cut.layout.ranks());
        const RowBlocks<T> a = shard_rows(one.a, cut.layout);
        const RowBlocks<T> sides = shard_rows(b, cut.layout);
        const LeastSquares<T> found = least_squares(mesh, a, sides);
        EXPECT_TRUE(same_bits(whole(a), one.a));
        EXPECT_TRUE(same_bits(whole(sides), b));
        if (!is_full) {
          EXPECT_TRUE(!is_deficient || found.outcome.status == Status::rank_deficient)
              << found.outcome.message() << name(found.outcome.status);
          EXPECT_EQ(found.x.empty(), !found.outcome.ok());
          continue;
        }
        ASSERT_TRUE(found.outcome.ok()) << found.outcome.message() << *found.outcome.rcond;
        EXPECT_EQ(found.rank, n);
        const DenseMatrix<T> x = matrix_of(found.x, n, 3);
        const double ratio = full_rank_ratio(one.a, x, b);
        EXPECT_TRUE(ratio <= limit(lapack)) << ratio << ", LAPACK " << lapack;
        const double certified = *found.outcome.backward_error / unit_roundoff<T>;
        EXPECT_TRUE(std::max(certified, 0.1) <= 10 * std::max(ratio, 0.1) &&
                    std::max(ratio, 0.1) <= 10 * std::max(certified, 0.1))
            << certified << " for " << ratio;
      }
    }
  }
}

TYPED_TEST(QrFamily, Lstsq_OfEveryMatrix_IsNumPys) {
  using T = TypeParam;
  for (const auto& [m, n] : {std::pair{60, 12}, {40, 24}, {7, 6}}) {
    for (const QrCase<T>& one : qr_zoo<T>(m, n)) {
      const double rcond = default_rcond(one.a);
      const std::int64_t least = exact_rank(one.a, 4 * rcond);
      const std::int64_t most = exact_rank(one.a, rcond / 4);
      const DenseMatrix<T> b = sides_for(one);
      const LapackLeastSquares<T> peer = lapack_least_squares(one.a, b, rcond);
      const auto values = reference::svd(one.a).s;
      for (const Cut& cut : row_cuts(m)) {
        SCOPED_TRACE(one.name + " m " + std::to_string(m) + " " + cut.name);
        Mesh mesh = make_mesh(cut.layout.ranks());
        const LeastSquares<T> found =
            lstsq(mesh, shard_rows(one.a, cut.layout), shard_rows(b, cut.layout));
        ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
        EXPECT_TRUE(found.rank >= least && found.rank <= most)
            << found.rank << ", exactly " << least << " to " << most;
        for (std::int64_t i = 0; i < n; ++i) {
          const auto at = static_cast<std::size_t>(i);
          const double error =
              std::abs(found.singular_values[at] - static_cast<double>(values[at]));
          EXPECT_TRUE(error <= 20 * unit_roundoff<T> * static_cast<double>(values.front()))
              << error / unit_roundoff<T> / static_cast<double>(values.front());
        }
        const DenseMatrix<T> x = matrix_of(found.x, n, 3);
        const double lapack = least_squares_ratio(one.a, peer.x, b, peer.rank);
        const double ratio = least_squares_ratio(one.a, x, b, found.rank);
        EXPECT_TRUE(ratio <= limit(lapack)) << ratio << ", LAPACK " << lapack;
        if (least == most) {
          EXPECT_EQ(found.rank, peer.rank);
        }
        if (least == most && least < n) {
          const DenseMatrix<T> shortest = reference::shortest_solution(one.a, b, rcond);
          for (std::int64_t j = 0; j < 3; ++j) {
            double ours = 0.0;
            double exact = 0.0;
            for (std::int64_t i = 0; i < n; ++i) {
              ours = std::hypot(ours, std::abs(x(i, j)));
              exact = std::hypot(exact, std::abs(shortest(i, j)));
            }
            EXPECT_TRUE(ours <= 1.01 * exact) << ours << " for " << exact;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing
