// QR and least squares: factors and raw solves beside LAPACK's, then what is returned, on the
// caller's own A, b, x.

#include "reference/qr.hpp"

#include "dense/qr/lstsq_in_steps.hpp"
#include "dense/qr/program.hpp"
#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "reference/matmul.hpp"
#include "runtime/host/blas.hpp"
#include "runtime/host/host_device.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/lapack.hpp"
#include "support/qr_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/singular_values.hpp"
#include "support/thrown.hpp"

#include <shardsolve/qr.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using reference::Op;

class Qr : public ::testing::Test {};

template <class T>
class QrFamily : public Qr {};
TYPED_TEST_SUITE(QrFamily, Dtypes, DtypeNames);

/// Rows on one rank; ragged, some with fewer rows than A has columns; with an empty block.
std::vector<Cut> row_cuts(std::int64_t m) {
  return {{"one", SlabLayout::even(m, 1, 8)},
          {"ragged", SlabLayout({0, m / 3, m / 3 + 3, m}, 4)},
          {"one_empty", SlabLayout({0, m / 2, m / 2, m - 1, m}, 5)}};
}

/// A mesh for each of them.
struct CutMesh {
  Cut cut;
  Mesh mesh;
};
std::vector<CutMesh> row_meshes(std::int64_t m) {
  std::vector<CutMesh> all;
  for (Cut& cut : row_cuts(m)) {
    Mesh mesh = make_mesh(cut.layout.ranks());
    all.push_back({std::move(cut), std::move(mesh)});
  }
  return all;
}

/// As the gates of the house: un-normalised, and no worse than four times LAPACK's.
double qr_limit(double lapack) { return std::max(10.0, 4.0 * lapack); }

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

/// [R; 0]
template <Scalar T>
DenseMatrix<T> above_zeros(const std::vector<T>& r, std::int64_t rows, std::int64_t columns) {
  DenseMatrix<T> all(rows, columns);
  copy_entries<T>(MatrixView<const T>(r.data(), columns, columns),
                  all.view().block(0, 0, columns, columns));
  return all;
}

TYPED_TEST(QrFamily, Factor_OfEveryMatrixOnEveryCut_IsAsGoodAsLapacks) {
  using T = TypeParam;
  // three by passes, three with columns dealt: of few blocks, and of several for each rank
  for (const auto& [m, n] : {std::pair{60, 12}, {50, 24}, {13, 6}, {7, 6}, {40, 24}, {75, 70}}) {
    auto meshes = row_meshes(m);
    for (const QrCase<T>& one : qr_zoo<T>(m, n)) {
      const LapackQr<T> lapack = lapack_qr(one.a);
      for (auto& [cut, mesh] : meshes) {
        SCOPED_TRACE(one.name + " m " + std::to_string(m) + " " + cut.name);
        const RowBlocks<T> a = shard_rows(one.a, cut.layout);
        const QrFactor<T> alone = qr(mesh, a, QrMode::r);
        ASSERT_TRUE(alone.outcome.ok()) << alone.outcome.message();
        EXPECT_TRUE(same_bits(whole(a), one.a));
        const QrFactor<T> made = qr(mesh, a);
        ASSERT_TRUE(made.outcome.ok()) << made.outcome.message();
        EXPECT_EQ(made.r, alone.r);
        const RowBlocks<T> other = shard_rows(one.a, cut.layout);
        const RowBlocks<T> rows = shard_rows(DenseMatrix<T>(m, n), cut.layout);
        const Outcome outcome = qr(mesh, other, rows);
        ASSERT_TRUE(outcome.ok()) << outcome.message();
        EXPECT_EQ(outcome.residual, made.outcome.residual);
        EXPECT_EQ(outcome.orthogonality, made.outcome.orthogonality);
        EXPECT_TRUE(same_bits(whole(other), whole(a)));
        EXPECT_TRUE(same_bits(whole(rows), above_zeros(made.r, m, n)));
        const DenseMatrix<T> r = matrix_of(made.r, n, n);
        const DenseMatrix<T> q = whole(a);
        for (std::int64_t j = 0; j < n; ++j) {
          EXPECT_TRUE(std::real(r(j, j)) >= 0 && std::imag(r(j, j)) == 0) << r(j, j);
          for (std::int64_t i = j + 1; i < n; ++i) {
            EXPECT_EQ(r(i, j), T{0});
          }
        }
        const double orthogonal = q_ratio(q);
        const double of_lapack = q_ratio(lapack.q);
        EXPECT_TRUE(orthogonal <= qr_limit(of_lapack)) << orthogonal << ", LAPACK " << of_lapack;
        const double ratio = qr_ratio(one.a, q, r);
        const double lapack_ratio = qr_ratio(one.a, lapack.q, lapack.r);
        EXPECT_TRUE(ratio <= qr_limit(lapack_ratio)) << ratio << ", LAPACK " << lapack_ratio;
        const double certified = *made.outcome.orthogonality / unit_roundoff<T>;
        EXPECT_TRUE(certified <= 3 * largest_row(q) + 30) << certified;
        EXPECT_TRUE(certified >= largest_row(q) / 20) << certified << " " << largest_row(q);
        EXPECT_TRUE(*made.outcome.residual <= 20 * unit_roundoff<T>) << *made.outcome.residual;
      }
    }
  }
}

/// Four vectors of signs that repeat nowhere.
template <Scalar T>
DenseMatrix<T> sign_vectors(std::int64_t n) {
  DenseMatrix<T> g(n, 4);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      g(i, j) = std::popcount(static_cast<std::uint64_t>((i + 7) * (i + 3) * (2 * j + 5))) % 2 == 0
                    ? T{1}
                    : T{-1};
    }
  }
  return g;
}

/// The largest row of (Q^H Q - I) G, over u, and the largest column of (A - Q R) G beside that of
/// A.
template <Scalar T>
std::pair<double, double> on_sign_vectors(const DenseMatrix<T>& a, const DenseMatrix<T>& q,
                                          const DenseMatrix<T>& r) {
  const DenseMatrix<T> g = sign_vectors<T>(r.columns());
  const DenseMatrix<T> qg = reference::matmul(q, g);
  const DenseMatrix<T> back = reference::matmul(Op::conjugate_transpose, q, Op::none, qg);
  const DenseMatrix<T> ag = reference::matmul(a, g);
  const DenseMatrix<T> qrg = reference::matmul(q, reference::matmul(r, g));
  double worst = 0.0;
  for (std::int64_t i = 0; i < back.rows(); ++i) {
    double sum = 0.0;
    for (std::int64_t j = 0; j < 4; ++j) {
      sum += std::norm(back(i, j) - g(i, j)) / 4;
    }
    worst = std::max(worst, std::sqrt(sum));
  }
  double error = 0.0;
  double size = 0.0;
  for (std::int64_t i = 0; i < ag.rows(); ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      error += std::norm(ag(i, j) - qrg(i, j));
      size += std::norm(ag(i, j));
    }
  }
  return {worst / unit_roundoff<T>, std::sqrt(error / size) / unit_roundoff<T>};
}

TYPED_TEST(QrFamily, Factor_InPanelsOfSeveralParts_IsAsGoodAsLapacks) {
  using T = TypeParam;
  // 64 and 13 columns a panel, and of two ranks 64 and 2
  for (const auto& [n, ranks] : {std::pair{616, 1}, {1056, 2}}) {
    const std::int64_t m = n + 5;
    DenseMatrix<T> ones(m, n);
    std::fill_n(&ones(0, 0), m * n, T{1});
    for (const DenseMatrix<T>& one : {right_hand_sides<T>(m, n, 3), ones}) {
      Mesh mesh = make_mesh(ranks);
      const SlabLayout layout = SlabLayout::even(m, ranks, 8);
      const RowBlocks<T> a = shard_rows(one, layout);
      const QrFactor<T> made = qr(mesh, a);
      ASSERT_TRUE(made.outcome.ok()) << made.outcome.message();
      const LapackQr<T> lapack = lapack_qr(one);
      const auto [orthogonal, residual] = on_sign_vectors(one, whole(a), matrix_of(made.r, n, n));
      const auto [of_lapack, lapack_residual] = on_sign_vectors(one, lapack.q, lapack.r);
      EXPECT_TRUE(orthogonal <= qr_limit(of_lapack)) << orthogonal << ", LAPACK " << of_lapack;
      EXPECT_TRUE(residual <= qr_limit(lapack_residual))
          << residual << ", LAPACK " << lapack_residual;
    }
    if (is_complex<T> || unit_roundoff<T> > 1e-10) {
      break;  // the larger one in float64 alone
    }
  }
}

/// The rank by the rule of NumPy, of exact singular values.
template <Scalar T>
std::int64_t exact_rank(const DenseMatrix<T>& a, double rcond) {
  const auto s = reference::svd(a.rows() < a.columns() ? adjoint(a) : a).s;
  return std::count_if(s.begin(), s.end(), [&](auto value) { return value > rcond * s.front(); });
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
  for (const auto& [m, n] : {std::pair{60, 12}, {30, 24}, {7, 6}}) {
    auto meshes = row_meshes(m);
    for (const QrCase<T>& one : qr_zoo<T>(m, n)) {
      const ScaledPair<T> scaled = with_equal_columns(one.a);
      const double rcond = default_rcond(one.a);
      const bool is_full = exact_rank(scaled.a, 100 * rcond) == n;
      const bool is_deficient = exact_rank(scaled.a, rcond / 10) < n;
      const DenseMatrix<T> b = sides_for(one);
      const DenseMatrix<T> peer = lapack_least_squares(scaled.a, b, rcond).x;
      const double lapack = is_full ? least_squares_ratio(scaled.a, peer, b, n) : 0.0;
      for (auto& [cut, mesh] : meshes) {
        SCOPED_TRACE(one.name + " m " + std::to_string(m) + " " + cut.name);
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
        EXPECT_TRUE(ratio <= qr_limit(lapack)) << ratio << ", LAPACK " << lapack;
        const double certified = *found.outcome.backward_error / unit_roundoff<T>;
        EXPECT_TRUE(std::max(certified, 0.1) <= 10 * std::max(ratio, 0.1) &&
                    std::max(ratio, 0.1) <= 10 * std::max(certified, 0.1))
            << certified << " for " << ratio;
      }
    }
  }
}

/// With so many steps of refinement.
template <Scalar T>
LeastSquares<T> solved_with(Mesh& mesh, const DenseMatrix<T>& a, const DenseMatrix<T>& b,
                            const SlabLayout& layout, dense::qr::Request request) {
  const RowBlocks<T> blocks = shard_rows(a, layout);
  const RowBlocks<T> sides = shard_rows(b, layout);
  const auto found = std::make_shared<LeastSquares<T>>();
  run_on(mesh, [=](mesh::Rank& rank) {
    auto mine = dense::qr::solve_rows<T>(rank, layout, blocks.block(rank.index()),
                                         sides.block(rank.index()), request);
    if (rank.leads()) {
      *found = std::move(mine);
    }
  });
  return *found;
}

TYPED_TEST(QrFamily, RawSolves_AreAsGoodAsLapacksAndNoStepOfRefinementHarms) {
  using T = TypeParam;
  for (const auto& [m, n] : {std::pair{40, 12}, {12, 40}}) {
    auto meshes = row_meshes(m);
    for (QrCase<T>& one : qr_zoo<T>(std::max(m, n), std::min(m, n))) {
      if (one.graded) {
        continue;
      }
      one.a = m < n ? adjoint(one.a) : one.a;
      const double rcond = default_rcond(one.a);
      const DenseMatrix<T> b = right_hand_sides<T>(m, 1);
      const LapackLeastSquares<T> peer = lapack_least_squares(one.a, b, rcond);
      const double lapack = least_squares_ratio(one.a, peer.x, b, peer.rank);
      for (auto& [cut, mesh] : meshes) {
        SCOPED_TRACE(one.name + " m " + std::to_string(m) + " " + cut.name);
        double last = std::numeric_limits<double>::infinity();
        for (int steps = 0; steps <= dense::qr::max_refinements; ++steps) {
          const LeastSquares<T> found =
              solved_with(mesh, one.a, b, cut.layout,
                          {.by_singular_values = true, .rcond = rcond, .refinements = steps});
          ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
          EXPECT_TRUE(*found.outcome.backward_error <= last) << steps;
          last = *found.outcome.backward_error;
          const double ratio = least_squares_ratio(one.a, matrix_of(found.x, n, 1), b, found.rank);
          EXPECT_TRUE(ratio <= qr_limit(lapack)) << ratio << ", LAPACK " << lapack;
        }
      }
    }
  }
}

TYPED_TEST(QrFamily, Certificate_OfASquareSystem_IsThatOfTheExactResidual) {
  using T = TypeParam;
  using reference::widen;
  constexpr std::int64_t n = 20;
  // A unitary one, of which no product is much larger than b: what rounding a sum once would do to
  // the residual is as large as the residual.
  const DenseMatrix<T> a = lapack_qr(right_hand_sides<T>(n, n, 5)).q;
  const DenseMatrix<T> b = right_hand_sides<T>(n, 1);
  // Columns at equal size, as the certificate has them: powers of two.
  const ScaledPair<T> scaled = with_equal_columns(a);
  for (auto& [cut, mesh] : row_meshes(n)) {
    const LeastSquares<T> found =
        least_squares(mesh, shard_rows(a, cut.layout), shard_rows(b, cut.layout));
    ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
    const DenseMatrix<T> x = scaled.unknowns(matrix_of(found.x, n, 1));
    double norm = 0.0;
    double r_norm = 0.0;
    double x_norm = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      reference::Wide<T> r = widen(b(i, 0));
      for (std::int64_t j = 0; j < n; ++j) {
        r -= reference::product(widen(scaled.a(i, j)), widen(x(j, 0)));
        norm = std::hypot(norm, std::abs(scaled.a(i, j)));
      }
      r_norm = std::hypot(r_norm, static_cast<double>(std::abs(r)));
      x_norm = std::hypot(x_norm, std::abs(x(i, 0)));
    }
    EXPECT_NEAR(found.residuals.front(), r_norm, 1e-3 * r_norm) << cut.name;
    EXPECT_TRUE(*found.outcome.backward_error <= 1.1 * r_norm / (norm * x_norm)) << cut.name;
  }
}

/// By both ways, whatever the size: in one program, and in steps.
template <Scalar T>
std::vector<std::pair<const char*, LeastSquares<T>>> lstsq_by_both_ways(Mesh& mesh,
                                                                        const DenseMatrix<T>& a,
                                                                        const DenseMatrix<T>& b,
                                                                        const SlabLayout& layout) {
  const RowBlocks<T> rows = shard_rows(a, layout);
  const RowBlocks<T> sides = shard_rows(b, layout);
  const dense::qr::Request request{.by_singular_values = true, .rcond = default_rcond(a)};
  return {{"as it is chosen", lstsq(mesh, rows, sides)},
          {"in steps", dense::qr::lstsq_in_steps(mesh, rows, sides, request, {})}};
}

TYPED_TEST(QrFamily, Lstsq_OfEveryMatrix_IsNumPys) {
  using T = TypeParam;
  for (const auto& [m, n] : {std::pair{60, 12}, {40, 24}, {7, 6}}) {
    auto meshes = row_meshes(m);
    for (const QrCase<T>& one : qr_zoo<T>(m, n)) {
      const double rcond = default_rcond(one.a);
      const std::int64_t least = exact_rank(one.a, 4 * rcond);
      const std::int64_t most = exact_rank(one.a, rcond / 4);
      const DenseMatrix<T> b = sides_for(one);
      const LapackLeastSquares<T> peer = lapack_least_squares(one.a, b, rcond);
      const auto values = reference::svd(one.a).s;
      const double off = off_by<T>(peer.singular_values, values);
      for (auto& [cut, mesh] : meshes) {
        SCOPED_TRACE(one.name + " m " + std::to_string(m) + " " + cut.name);
        for (const auto& [way, found] : lstsq_by_both_ways(mesh, one.a, b, cut.layout)) {
          SCOPED_TRACE(way);
          ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
          EXPECT_TRUE(found.rank >= least && found.rank <= most)
              << found.rank << ", exactly " << least << " to " << most;
          const double ours = off_by<T>(found.singular_values, values);
          EXPECT_TRUE(ours <= std::max(20.0, 4 * off)) << ours << ", LAPACK " << off;
          const DenseMatrix<T> x = matrix_of(found.x, n, 3);
          const double lapack = least_squares_ratio(one.a, peer.x, b, peer.rank);
          const double ratio = least_squares_ratio(one.a, x, b, found.rank);
          EXPECT_TRUE(ratio <= qr_limit(lapack)) << ratio << ", LAPACK " << lapack;
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
}

/// Fewer rows than columns: the adjoints of the zoo, their right-hand sides random.
template <Scalar T>
std::vector<QrCase<T>> wide_zoo(std::int64_t m, std::int64_t n) {
  std::vector<QrCase<T>> all = qr_zoo<T>(n, m);
  for (QrCase<T>& one : all) {
    one.a = adjoint(one.a);
  }
  return all;
}

TYPED_TEST(QrFamily, LeastSquares_OfFewerRows_IsTheShortestSolution) {
  using T = TypeParam;
  for (const auto& [m, n] : {std::pair{12, 60}, {6, 7}}) {
    auto meshes = row_meshes(m);
    const DenseMatrix<T> b = right_hand_sides<T>(m, 3);
    for (const QrCase<T>& one : wide_zoo<T>(m, n)) {
      const double rcond = default_rcond(one.a);
      // Rows of equal size: those of A^H's columns.
      const DenseMatrix<T> equal = adjoint(with_equal_columns(adjoint(one.a)).a);
      const bool is_full = exact_rank(equal, 100 * rcond) == m;
      const bool is_deficient = exact_rank(equal, rcond / 10) < m;
      for (auto& [cut, mesh] : meshes) {
        SCOPED_TRACE(one.name + " m " + std::to_string(m) + " " + cut.name);
        const RowBlocks<T> a = shard_rows(one.a, cut.layout);
        const LeastSquares<T> found = least_squares(mesh, a, shard_rows(b, cut.layout));
        EXPECT_TRUE(same_bits(whole(a), one.a));
        if (!is_full) {
          EXPECT_TRUE(!is_deficient || found.outcome.status == Status::rank_deficient);
          continue;
        }
        if (one.graded && found.outcome.status == Status::overflow) {
          continue;  // where x is beyond the range
        }
        ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
        const DenseMatrix<T> x = matrix_of(found.x, n, 3);
        const DenseMatrix<T> exact = reference::shortest_solution(one.a, b, 0.0);
        const double lapack =
            one.graded ? 0.0
                       : least_squares_ratio(one.a, lapack_least_squares(one.a, b, rcond).x, b, m);
        const double ratio = one.graded ? 0.0 : least_squares_ratio(one.a, x, b, m);
        EXPECT_TRUE(ratio <= qr_limit(lapack)) << ratio << ", LAPACK " << lapack;
        EXPECT_TRUE(*found.outcome.backward_error <= 10 * unit_roundoff<T>)
            << *found.outcome.backward_error;
        for (std::int64_t j = 0; j < 3; ++j) {
          double ours = 0.0;
          double shortest = 0.0;
          for (std::int64_t i = 0; i < n; ++i) {
            ours = std::hypot(ours, std::abs(x(i, j)));
            shortest = std::hypot(shortest, std::abs(exact(i, j)));
          }
          EXPECT_TRUE(ours <= 1.01 * shortest) << ours << " for " << shortest;
        }
      }
    }
  }
}

TYPED_TEST(QrFamily, Lstsq_OfFewerRows_IsNumPys) {
  using T = TypeParam;
  constexpr std::int64_t m = 12;
  constexpr std::int64_t n = 40;
  auto meshes = row_meshes(m);
  const DenseMatrix<T> b = right_hand_sides<T>(m, 3);
  for (const QrCase<T>& one : wide_zoo<T>(m, n)) {
    const double rcond = default_rcond(one.a);
    const std::int64_t least = exact_rank(one.a, 4 * rcond);
    const std::int64_t most = exact_rank(one.a, rcond / 4);
    const LapackLeastSquares<T> peer = lapack_least_squares(one.a, b, rcond);
    for (auto& [cut, mesh] : meshes) {
      SCOPED_TRACE(one.name + " " + cut.name);
      for (const auto& [way, found] : lstsq_by_both_ways(mesh, one.a, b, cut.layout)) {
        SCOPED_TRACE(way);
        ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
        EXPECT_TRUE(found.rank >= least && found.rank <= most)
            << found.rank << ", exactly " << least << " to " << most;
        const DenseMatrix<T> x = matrix_of(found.x, n, 3);
        const double lapack = least_squares_ratio(one.a, peer.x, b, peer.rank);
        const double ratio = least_squares_ratio(one.a, x, b, found.rank);
        // A known one: docs/design/decisions.md.
        const bool is_missed = std::is_same_v<T, double> && !test_gpus().empty() &&
                               one.name == "ones" && cut.name == "one" &&
                               std::string_view(way) == "in steps";
        EXPECT_TRUE(is_missed || ratio <= qr_limit(lapack)) << ratio << ", LAPACK " << lapack;
        if (least == most) {
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

/// Columns of a Hadamard matrix of signs, whose rows are taken `step` at a time; where T is
/// complex, rows times powers of i.
template <Scalar T>
DenseMatrix<T> signs(std::int64_t m, std::int64_t n, std::int64_t step) {
  DenseMatrix<T> h(m, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i) {
      const auto both = static_cast<std::uint64_t>((step * i % m) & j);
      h(i, j) = std::popcount(both) % 2 == 0 ? T{1} : T{-1};
      if constexpr (is_complex<T>) {
        h(i, j) *= i % 2 == 0 ? T{1} : T(0, 1);
      }
    }
  }
  return h;
}

using BlasOp = runtime::Op;

template <Scalar T>
DenseMatrix<T> product(BlasOp op_a, const DenseMatrix<T>& a, BlasOp op_b, const DenseMatrix<T>& b,
                       std::int64_t rows, std::int64_t columns) {
  DenseMatrix<T> c(rows, columns);
  runtime::host::blas::Blas<T>::gemm(op_a, op_b, T{1}, a.view(), b.view(), T{0}, c.view());
  return c;
}

/// The largest error, relative to the largest value.
template <class Real>
double worst_of(const std::vector<Real>& found, const std::vector<double>& values) {
  double worst = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    worst = std::max(worst, std::abs(double{found[i]} - values[i]) / values[0]);
  }
  return worst;
}

/// And zeros, for A is made square.
template <Scalar T>
std::vector<RealOf<T>> values_by_lapack(const DenseMatrix<T>& a) {
  const std::int64_t n = std::max(a.rows(), a.columns());
  DenseMatrix<T> square(n, n);
  copy_entries<T>(a.view(), square.view().block(0, 0, a.rows(), a.columns()));
  std::vector<RealOf<T>> values(static_cast<std::size_t>(n));
  EXPECT_EQ(runtime::host::blas::Blas<T>::gesdd(square.view(), values.data(), {}, {}), 0);
  return values;
}

/// As many columns as go in steps, of which singular values and the shortest x are known to
/// the last digit: signs U, V with U^H U = m I, V^H V = n I, and A = U D V^H has integers.
template <Scalar T>
void expect_lstsq_of_many_columns(std::int64_t m, std::int64_t n, std::int64_t rank, Mesh& mesh,
                                  const SlabLayout& layout) {
  SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " of rank " + std::to_string(rank));
  const std::int64_t least = std::min(m, n);
  const DenseMatrix<T> u = signs<T>(m, least, 3);
  const DenseMatrix<T> v = signs<T>(n, least, 5);
  const DenseMatrix<T> b = right_hand_sides<T>(m, 2);
  DenseMatrix<T> ud = u;
  DenseMatrix<T> along = product<T>(BlasOp::conjugate_transpose, u, BlasOp::none, b, least, 2);
  std::vector<double> values(static_cast<std::size_t>(least));
  const double size = std::sqrt(static_cast<double>(m) * static_cast<double>(n));
  for (std::int64_t l = 0; l < least; ++l) {
    const auto d = static_cast<RealOf<T>>(l < rank ? 1 + 7 * l % 50 : 0);
    values[static_cast<std::size_t>(l)] = size * double{d};
    for (std::int64_t i = 0; i < m; ++i) {
      ud(i, l) *= d;
    }
    for (std::int64_t j = 0; j < 2; ++j) {
      along(l, j) *= l < rank ? static_cast<RealOf<T>>(1 / (size * size)) / d : RealOf<T>{0};
    }
  }
  std::sort(values.rbegin(), values.rend());
  const DenseMatrix<T> a = product<T>(BlasOp::none, ud, BlasOp::conjugate_transpose, v, m, n);
  const DenseMatrix<T> exact = product<T>(BlasOp::none, v, BlasOp::none, along, n, 2);
  const RowBlocks<T> rows = shard_rows(a, layout);
  const LeastSquares<T> found =
      dense::qr::lstsq_in_steps(mesh, rows, shard_rows(b, layout),
                                {.by_singular_values = true,
                                 .rcond = default_rcond(a),
                                 .dealt = dense::qr::solves_dealt(m, n, 0.0, mesh.memory())},
                                {});
  ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
  EXPECT_EQ(found.rank, rank);
  EXPECT_TRUE(*found.outcome.backward_error <= 10 * unit_roundoff<T>)
      << *found.outcome.backward_error / unit_roundoff<T>;
  ASSERT_EQ(std::ssize(found.singular_values), least);
  const double ours = worst_of(found.singular_values, values) / unit_roundoff<T>;
  const double lapack = worst_of(values_by_lapack(a), values) / unit_roundoff<T>;
  EXPECT_TRUE(ours <= std::max(20.0, 4 * lapack)) << ours << ", LAPACK " << lapack;
  for (std::int64_t j = 0; j < 2; ++j) {
    double off = 0.0;
    double norm = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      off = std::hypot(off, std::abs(found.x[static_cast<std::size_t>(i + n * j)] - exact(i, j)));
      norm = std::hypot(norm, std::abs(exact(i, j)));
    }
    EXPECT_TRUE(off <= 1e4 * unit_roundoff<T> * norm) << off / norm / unit_roundoff<T>;
  }
}

TEST_F(Qr, Lstsq_OfManyColumns_IsExact) {
  const SlabLayout square({0, 170, 170, 512}, 64);
  const SlabLayout tall({0, 340, 340, 1024}, 64);
  Mesh mesh = make_mesh(3);
  expect_lstsq_of_many_columns<double>(512, 512, 512, mesh, square);
  expect_lstsq_of_many_columns<double>(512, 512, 300, mesh, square);
  expect_lstsq_of_many_columns<double>(1024, 512, 511, mesh, tall);
  expect_lstsq_of_many_columns<float>(512, 1024, 90, mesh, square);
  expect_lstsq_of_many_columns<std::complex<float>>(512, 512, 300, mesh, square);
  expect_lstsq_of_many_columns<std::complex<double>>(512, 512, 512, mesh, square);
}

TEST(QrWays, LstsqGoesInStepsWhereOneRankWouldTakeLong) {
  using dense::qr::is_in_steps;
  EXPECT_TRUE(is_in_steps(512, 1, Memory::device));
  EXPECT_FALSE(is_in_steps(511, 1, Memory::device));
  EXPECT_TRUE(is_in_steps(1536, 2, Memory::host));
  EXPECT_FALSE(is_in_steps(1535, 64, Memory::host));
  EXPECT_TRUE(is_in_steps(3072, 1, Memory::host));  // it would be silent for long
  EXPECT_FALSE(is_in_steps(3071, 1, Memory::host));
}

/// [A; sqrt(eps) I], and zeros below b.
template <Scalar T>
DenseMatrix<T> above(const DenseMatrix<T>& a, std::int64_t rows, double diagonal) {
  DenseMatrix<T> both(a.rows() + rows, a.columns());
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      both(i, j) = a(i, j);
    }
    if (diagonal != 0.0) {
      both(a.rows() + j, j) = static_cast<T>(static_cast<RealOf<T>>(diagonal));
    }
  }
  return both;
}

TYPED_TEST(QrFamily, Ridge_OfAnyMatrix_IsThatOfTheSystemAboveTheIdentity) {
  using T = TypeParam;
  for (const double eps : {1e-2, 1e-10}) {
    for (const bool is_wide : {false, true}) {
      const std::int64_t m = is_wide ? 12 : 40;
      const std::int64_t n = is_wide ? 40 : 12;
      auto meshes = row_meshes(m);
      const DenseMatrix<T> b = right_hand_sides<T>(m, 2);
      for (const QrCase<T>& one : is_wide ? wide_zoo<T>(m, n) : qr_zoo<T>(m, n)) {
        if (one.graded) {
          continue;
        }
        const DenseMatrix<T> both = above(one.a, n, std::sqrt(eps));
        const DenseMatrix<T> sides = above(b, n, 0.0);
        const double lapack =
            least_squares_ratio(both, lapack_least_squares(both, sides, 1e-300).x, sides, n);
        for (auto& [cut, mesh] : meshes) {
          SCOPED_TRACE(one.name + " eps " + std::to_string(eps) + (is_wide ? " wide " : " tall ") +
                       cut.name);
          const LeastSquares<T> found =
              ridge(mesh, shard_rows(one.a, cut.layout), shard_rows(b, cut.layout), eps);
          ASSERT_EQ(class_of(found.outcome.status), StatusClass::answered)
              << found.outcome.message();
          const DenseMatrix<T> x = matrix_of(found.x, n, 2);
          const double ratio = least_squares_ratio(both, x, sides, n);
          EXPECT_TRUE(ratio <= qr_limit(lapack)) << ratio << ", LAPACK " << lapack;
          for (std::int64_t j = 0; j < 2; ++j) {
            double norm = 0.0;
            for (std::int64_t i = 0; i < m; ++i) {
              auto sum = reference::widen(b(i, j));
              for (std::int64_t k = 0; k < n; ++k) {
                sum -= reference::product(reference::widen(one.a(i, k)), reference::widen(x(k, j)));
              }
              norm = std::hypot(norm, static_cast<double>(std::abs(sum)));
            }
            const double ours = found.residuals[static_cast<std::size_t>(j)];
            EXPECT_NEAR(ours, norm, 100 * unit_roundoff<T> * (1 + norm));
          }
        }
      }
    }
  }
}

TEST_F(Qr, RowsOfABlock_MayBeMoreThanADeviceTakesAsTile) {
  Mesh mesh = make_mesh(1);
  const std::int64_t m = 1500;
  const SlabLayout layout = SlabLayout::even(m, 1, m);
  DenseMatrix<double> a(m, 2);
  DenseMatrix<double> b(m, 1);
  for (std::int64_t i = 0; i < m; ++i) {
    a(i, 0) = 1.0;
    a(i, 1) = static_cast<double>(i) / static_cast<double>(m);
    b(i, 0) = 3.0 - 2.0 * a(i, 1);
  }
  const auto found = lstsq(mesh, shard_rows(a, layout), shard_rows(b, layout));
  ASSERT_EQ(found.outcome.status, Status::ok) << found.outcome.message();
  EXPECT_NEAR(found.x[0], 3.0, 1e-12);
  EXPECT_NEAR(found.x[1], -2.0, 1e-12);
  const auto factor = qr(mesh, shard_rows(a, layout), QrMode::r);
  EXPECT_EQ(factor.outcome.status, Status::ok) << factor.outcome.message();
}

TEST_F(Qr, ManyRightHandSides_AreSolvedSomeAtATime) {
  using T = std::complex<double>;
  for (const auto& [m, n] : {std::pair{30, 7}, {7, 30}}) {
    const DenseMatrix<T> a = right_hand_sides<T>(m, n, 5);
    for (const std::int64_t k : {0, 1, 70}) {
      const DenseMatrix<T> b = right_hand_sides<T>(m, k);
      const SlabLayout layout = SlabLayout::even(m, 3, 4);
      Mesh mesh = make_mesh(3);
      const LeastSquares<T> found =
          least_squares(mesh, shard_rows(a, layout), shard_rows(b, layout));
      ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
      ASSERT_EQ(std::ssize(found.x), n * k);
      ASSERT_EQ(std::ssize(found.residuals), k);
      EXPECT_TRUE(least_squares_ratio(a, matrix_of(found.x, n, k), b, std::min(m, n)) <= 10.0);
    }
  }
}

TEST_F(Qr, TheMatrixOfPyTorchsReport_HasRankTwo) {
  // pytorch#180157: B = A, so the shortest X is the projection on the rows of A.
  DenseMatrix<double> a(3, 3);
  for (std::int64_t i = 0; i < 9; ++i) {
    a(i / 3, i % 3) = static_cast<double>(i + 1);
  }
  const double exact[3][3] = {{5, 2, -1}, {2, 2, 2}, {-1, 2, 5}};
  for (const std::int64_t ranks : {1, 2, 3, 4}) {
    const SlabLayout layout = SlabLayout::even(3, ranks, 1);
    Mesh mesh = make_mesh(ranks);
    const LeastSquares<double> found = lstsq(mesh, shard_rows(a, layout), shard_rows(a, layout));
    ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
    EXPECT_EQ(found.rank, 2);
    for (std::int64_t j = 0; j < 3; ++j) {
      for (std::int64_t i = 0; i < 3; ++i) {
        EXPECT_NEAR(found.x[static_cast<std::size_t>(i + 3 * j)], exact[i][j] / 6, 1e-14);
      }
    }
    EXPECT_EQ(least_squares(mesh, shard_rows(a, layout), shard_rows(a, layout)).outcome.status,
              Status::rank_deficient);
  }
}

/// 1 on the diagonal, -1 above it: each column is far from those before it, and 2^-50 is left of
/// the last one for a sum of them all. The diagonal of R says nothing.
TEST_F(Qr, LeastSquares_OfAMatrixWhoseDiagonalLooksWell_IsRankDeficient) {
  constexpr std::int64_t n = 52;
  DenseMatrix<double> a = DenseMatrix<double>::identity(n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      a(i, j) = -1.0;
    }
  }
  const DenseMatrix<double> b = right_hand_sides<double>(n, 1);
  for (auto& [cut, mesh] : row_meshes(n)) {
    SCOPED_TRACE(cut.name);
    const LeastSquares<double> found =
        least_squares(mesh, shard_rows(a, cut.layout), shard_rows(b, cut.layout));
    EXPECT_EQ(found.outcome.status, Status::rank_deficient);
  }
}

TEST_F(Qr, RcondThatIsAskedFor_DecidesTheRank) {
  DenseMatrix<double> a(4, 2);
  a(0, 0) = 1.0;
  a(1, 1) = 1e-3;  // orthogonal columns: of full rank at any scale of theirs
  const SlabLayout layout = SlabLayout::even(4, 2, 1);
  Mesh mesh = make_mesh(2);
  const RowBlocks<double> b = shard_rows(right_hand_sides<double>(4, 1), layout);
  EXPECT_EQ(lstsq(mesh, shard_rows(a, layout), b, 1e-2).rank, 1);
  EXPECT_EQ(lstsq(mesh, shard_rows(a, layout), b, 1e-4).rank, 2);
}

TEST_F(Qr, BadInput_IsRefusedWithItsPlace) {
  const SlabLayout layout({0, 4, 9}, 3);
  Mesh mesh = make_mesh(2);
  DenseMatrix<double> a = right_hand_sides<double>(9, 3, 5);
  DenseMatrix<double> b = right_hand_sides<double>(9, 2);
  const auto sharded = [&](const DenseMatrix<double>& one) { return shard_rows(one, layout); };
  a(7, 2) = std::numeric_limits<double>::quiet_NaN();
  const QrFactor<double> made = qr(mesh, sharded(a));
  EXPECT_EQ(made.outcome.status, Status::nonfinite_input);
  EXPECT_TRUE(made.r.empty());
  EXPECT_EQ(made.outcome.location->what, Located::matrix_entry);
  EXPECT_EQ(made.outcome.location->row.value(), 7);
  EXPECT_EQ(made.outcome.location->column.value(), 2);
  EXPECT_EQ(lstsq(mesh, sharded(a), sharded(b)).outcome.status, Status::nonfinite_input);
  a(7, 2) = 1.0;
  b(8, 1) = std::numeric_limits<double>::infinity();
  const LeastSquares<double> found = least_squares(mesh, sharded(a), sharded(b));
  EXPECT_EQ(found.outcome.status, Status::nonfinite_input);
  EXPECT_TRUE(found.x.empty());
  EXPECT_EQ(found.outcome.location->what, Located::right_hand_side_entry);
  EXPECT_EQ(found.outcome.location->row.value(), 8);
  EXPECT_EQ(found.outcome.location->column.value(), 1);
  b(8, 1) = 1.0;
  const auto refused = [&](auto call, const std::vector<std::string>& words) {
    expect_error(call, ErrorKind::invalid_argument, words);
  };
  const DenseMatrix<double> other = right_hand_sides<double>(8, 2);
  refused([&] { least_squares(mesh, sharded(a), shard_rows(other, SlabLayout({0, 4, 8}, 3))); },
          {"9 rows", "8"});
  refused([&] { least_squares(mesh, sharded(DenseMatrix<double>(9, 0)), sharded(b)); },
          {"9 x 0", "columns are needed"});
  const SlabLayout none({0, 0, 0}, 1);
  refused([&] { qr(mesh, RowBlocks<double>(none, 3)); }, {"0 x 3"});
  refused([&] { qr(mesh, sharded(right_hand_sides<double>(9, 12))); },
          {"9 x 12", "at least as many rows", "least_squares"});
  for (const double rcond : {0.0, -1.0, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    refused([&] { lstsq(mesh, sharded(a), sharded(b), rcond); }, {"rcond", "between 0 and 1"});
  }
  for (const double eps : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    refused([&] { ridge(mesh, sharded(a), sharded(b), eps); }, {"eps", "positive"});
  }
  const LeastSquares<double> deficient =
      least_squares(mesh, sharded(DenseMatrix<double>(9, 3)), sharded(b));
  EXPECT_EQ(deficient.outcome.status, Status::rank_deficient);
  EXPECT_NE(deficient.outcome.message().find("lstsq"), std::string::npos);
}

TEST_F(Qr, AnswersBeyondTheRange_AreOverflows) {
  const SlabLayout layout = SlabLayout::even(6, 2, 1);
  Mesh mesh = make_mesh(2);
  DenseMatrix<float> a = right_hand_sides<float>(6, 2, 5);
  DenseMatrix<float> b = right_hand_sides<float>(6, 1);
  for (std::int64_t i = 0; i < 12; ++i) {
    a.data()[i] *= 1e-30F;
  }
  for (std::int64_t i = 0; i < 6; ++i) {
    b.data()[i] *= 1e30F;
  }
  const LeastSquares<float> found =
      least_squares(mesh, shard_rows(a, layout), shard_rows(b, layout));
  EXPECT_EQ(found.outcome.status, Status::overflow);
  EXPECT_TRUE(found.x.empty());
}

TEST_F(Qr, AnswersBelowTheRange_AreInaccurate) {
  const SlabLayout layout = SlabLayout::even(6, 2, 1);
  Mesh mesh = make_mesh(2);
  DenseMatrix<float> a = right_hand_sides<float>(6, 2, 5);
  DenseMatrix<float> b = right_hand_sides<float>(6, 1);
  for (std::int64_t i = 0; i < 12; ++i) {
    a.data()[i] *= 1e20F;
  }
  for (std::int64_t i = 0; i < 6; ++i) {
    b.data()[i] *= 1e-30F;
  }
  for (const bool is_ridge : {false, true}) {
    const RowBlocks<float> rows = shard_rows(a, layout);
    const LeastSquares<float> found = is_ridge ? ridge(mesh, rows, shard_rows(b, layout), 0.1F)
                                               : least_squares(mesh, rows, shard_rows(b, layout));
    EXPECT_EQ(found.outcome.status, Status::inaccurate) << is_ridge;
  }
}

/// CPU devices without kernels of this family.
class DeviceWithoutQr final : public runtime::host::HostDevice {
 public:
  using HostDevice::HostDevice;
  const void* find_kernels(runtime::KernelSet set, Dtype dtype) const override {
    return set == runtime::KernelSet::qr ? nullptr : HostDevice::find_kernels(set, dtype);
  }
};
class BackendWithoutQr final : public mesh::HostBackend {
 public:
  using HostBackend::HostBackend;
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<DeviceWithoutQr>(pulse);
  }
};

TEST_F(Qr, DevicesWithoutItsKernels_RefuseBeforeAnyWorkAndGoOn) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  const SlabLayout layout = SlabLayout::even(20, 3, 4);
  Mesh mesh{mesh::MeshState::start(std::make_unique<BackendWithoutQr>(3))};
  const DenseMatrix<double> a = right_hand_sides<double>(20, 5);
  const RowBlocks<double> blocks = shard_rows(a, layout);
  const std::vector<std::string> words{
      "no kernels for QR factorisations and least squares in float64"};
  expect_error([&] { qr(mesh, blocks); }, ErrorKind::unsupported, words);
  expect_error([&] { least_squares(mesh, blocks, blocks); }, ErrorKind::unsupported, words);
  EXPECT_TRUE(same_bits(whole(blocks), a));
  EXPECT_TRUE(still_solves(mesh));
}

TYPED_TEST(QrFamily, Factor_OnOneToFourRanks_IsTheSameButForRounding) {
  using T = TypeParam;
  for (const auto& [m, n] : {std::pair{130, 129}, {100, 51}, {33, 33}}) {
    const DenseMatrix<T> a = right_hand_sides<T>(m, n, 5);
    const double lapack = q_ratio(lapack_qr(a).q);
    std::vector<T> first;
    for (std::int64_t ranks = 1; ranks <= 4; ++ranks) {
      SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " on " + std::to_string(ranks));
      Mesh mesh = make_mesh(ranks);
      const RowBlocks<T> q = shard_rows(a, SlabLayout::even(m, ranks, 1));
      const QrFactor<T> made = qr(mesh, q);
      ASSERT_TRUE(made.outcome.ok()) << made.outcome.message();
      const double orthogonal = q_ratio(whole(q));
      EXPECT_TRUE(orthogonal <= qr_limit(lapack)) << orthogonal << ", LAPACK " << lapack;
      if (first.empty()) {
        first = made.r;
      }
      double off = 0.0;
      double norm = 0.0;
      for (std::size_t at = 0; at < first.size(); ++at) {
        off = std::hypot(off, std::abs(made.r[at] - first[at]));
        norm = std::hypot(norm, std::abs(first[at]));
      }
      EXPECT_TRUE(off <= 1e5 * unit_roundoff<T> * norm) << off / norm;
    }
  }
}

/// Columns that are equal, so that rounding is one-sided and fills all that is behind the first.
TYPED_TEST(QrFamily, Factor_OfEqualEntriesThatAreMany_IsAsOrthonormalAsLapacks) {
  using T = TypeParam;
  constexpr std::int64_t n = 540;
  DenseMatrix<T> a(n, n);
  std::fill(a.data(), a.data() + n * n, T{1});
  const LapackQr<T> lapack = lapack_qr(a);
  Mesh mesh = make_mesh(3);
  const RowBlocks<T> q = shard_rows(a, SlabLayout::even(n, 3, 1));
  const QrFactor<T> made = qr(mesh, q);
  ASSERT_TRUE(made.outcome.ok()) << made.outcome.message();
  const double orthogonal = q_ratio(whole(q));
  EXPECT_TRUE(orthogonal <= qr_limit(q_ratio(lapack.q))) << orthogonal;
  const double ratio = qr_ratio(a, whole(q), matrix_of(made.r, n, n));
  EXPECT_TRUE(ratio <= qr_limit(qr_ratio(a, lapack.q, lapack.r))) << ratio;
}

TYPED_TEST(QrFamily, TwoFactorisations_GiveTheSameBits) {
  using T = TypeParam;
  for (const auto& [m, n] : {std::pair{90, 7}, {90, 80}}) {
    const SlabLayout layout({0, m / 4, m / 4, m / 2, m}, 7);
    const DenseMatrix<T> a = right_hand_sides<T>(m, n, 5);
    std::vector<T> first;
    DenseMatrix<T> first_q;
    for (int i = 0; i < 5; ++i) {
      Mesh mesh = make_mesh(layout.ranks());
      const RowBlocks<T> q = shard_rows(a, layout);
      const QrFactor<T> made = qr(mesh, q);
      ASSERT_TRUE(made.outcome.ok());
      if (first.empty()) {
        first = made.r;
        first_q = whole(q);
      }
      EXPECT_EQ(made.r, first);
      EXPECT_TRUE(same_bits(whole(q), first_q));
    }
  }
}

TEST_F(Qr, FactorOfInput_ThatIsNotFinite_IsRefusedAndLeavesIt) {
  const SlabLayout layout = SlabLayout::even(9, 3, 2);
  Mesh mesh = make_mesh(3);
  DenseMatrix<double> bad = right_hand_sides<double>(9, 8, 5);
  bad(7, 6) = std::numeric_limits<double>::quiet_NaN();
  const RowBlocks<double> a = shard_rows(bad, layout);
  const Outcome outcome = qr(mesh, a, shard_rows(bad, layout));
  EXPECT_EQ(outcome.status, Status::nonfinite_input);
  ASSERT_TRUE(outcome.location);
  EXPECT_EQ(outcome.location->row.value(), 7);
  EXPECT_EQ(outcome.location->column.value(), 6);
  EXPECT_TRUE(same_bits(whole(a), bad));
}

TEST_F(Qr, R_BeyondTheRange_IsAnOverflow) {
  const SlabLayout layout = SlabLayout::even(8, 2, 1);
  Mesh mesh = make_mesh(2);
  DenseMatrix<float> a(8, 7);
  std::fill(a.data(), a.data() + 56, 3e38F);
  for (const std::int64_t columns : {7, 2}) {
    const DenseMatrix<float> some(MatrixView<const float>(a.data(), 8, columns));
    const QrFactor<float> made = qr(mesh, shard_rows(some, layout));
    EXPECT_EQ(made.outcome.status, Status::overflow) << columns;
    EXPECT_TRUE(made.r.empty());
    EXPECT_EQ(qr(mesh, shard_rows(some, layout), shard_rows(some, layout)).status,
              Status::overflow);
  }
}

TEST_F(Qr, APlaceForR_ThatIsNotAsA_IsRefused) {
  Mesh mesh = make_mesh(2);
  const DenseMatrix<double> a = right_hand_sides<double>(8, 6, 5);
  const RowBlocks<double> blocks = shard_rows(a, SlabLayout::even(8, 2, 1));
  const std::vector<std::string> words{"8 x 6", "place for R"};
  expect_error([&] { qr(mesh, blocks, shard_rows(a, SlabLayout({0, 3, 8}, 1))); },
               ErrorKind::invalid_argument, words);
  expect_error(
      [&] {
        qr(mesh, blocks, shard_rows(right_hand_sides<double>(8, 5), SlabLayout::even(8, 2, 1)));
      },
      ErrorKind::invalid_argument, words);
}

TYPED_TEST(QrFamily, TwoRuns_GiveTheSameBits) {
  using T = TypeParam;
  for (const auto& [m, n] : {std::pair{90, 7}, {7, 90}}) {
    const SlabLayout layout({0, m / 4, m / 4, m / 2, m}, 7);
    const DenseMatrix<T> a = right_hand_sides<T>(m, n, 5);
    const DenseMatrix<T> b = right_hand_sides<T>(m, 2);
    std::vector<T> first;
    for (int i = 0; i < 5; ++i) {
      Mesh mesh = make_mesh(layout.ranks());
      const LeastSquares<T> found =
          least_squares(mesh, shard_rows(a, layout), shard_rows(b, layout));
      ASSERT_TRUE(found.outcome.ok());
      if (first.empty()) {
        first = found.x;
      }
      EXPECT_EQ(found.x, first);
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing
