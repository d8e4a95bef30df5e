// LU of general matrices: factor and raw solves beside LAPACK's, before any refinement; then what
// is returned, on the caller's own A, b, x.

#include "reference/lu.hpp"

#include "dense/lu/certified_solve.hpp"
#include "dense/lu/factor.hpp"
#include "dense/lu/triangular_solve.hpp"
#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "reference/matmul.hpp"
#include "runtime/host/host_device.hpp"
#include "runtime/host/host_kernels.hpp"
#include "runtime/host/lu_kernels.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/lapack.hpp"
#include "support/lu_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/lu.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace shardsolve::testing {
namespace {

using reference::Op;

class Lu : public ::testing::Test {};

template <class T>
class LuFamily : public Lu {};
TYPED_TEST_SUITE(LuFamily, Dtypes, DtypeNames);

/// One of -e ... e.
int exponent_at(int e, std::int64_t index, int step) {
  return e == 0 ? 0
                : static_cast<int>(index * step * std::abs(e) / 16 % (2 * std::abs(e) + 1)) -
                      std::abs(e);
}

/// The factor of a whole matrix, in its slabs.
template <Scalar T>
struct Raw {
  ShardedMatrix<T> slabs;
  dense::lu::Factored<T> found;
};

template <Scalar T>
Raw<T> factor_raw(Mesh& mesh, const DenseMatrix<T>& a, const SlabLayout& layout) {
  Raw<T> raw{shard(a, layout), {}};
  const auto found = std::make_shared<dense::lu::Factored<T>>();
  run_on(mesh, [slabs = raw.slabs, found](mesh::Rank& rank) {
    const auto mine = dense::lu::factor<T>(rank, slabs.layout(), slabs.slab(rank.index()));
    if (rank.leads()) {
      *found = mine;
    }
  });
  raw.found = *found;
  return raw;
}

runtime::Op op_of(Op op) {
  return op == Op::none        ? runtime::Op::none
         : op == Op::transpose ? runtime::Op::transpose
                               : runtime::Op::conjugate_transpose;
}

template <Scalar T>
DenseMatrix<T> solve_raw(Mesh& mesh, const Raw<T>& raw, Op op, const DenseMatrix<T>& b) {
  const RightHandSides<T> x = shard_rows(b, raw.slabs.layout());
  run_on(mesh, [slabs = raw.slabs, x, op, rows = raw.found.rows](mesh::Rank& rank) {
    dense::lu::TriangularSolve<T> solve(rank, slabs.layout(), slabs.slab(rank.index()), rows,
                                        x.columns());
    solve.run(op_of(op), x.block(rank.index()));
  });
  return whole(x);
}

template <Scalar T>
DenseMatrix<T> applied(Op op, const DenseMatrix<T>& a) {
  return reference::matmul(op, a, Op::none, DenseMatrix<T>::identity(a.rows()));
}

/// Of LAPACK, on A as it is and with its columns in the order of elimination.
template <Scalar T>
double lapack_ratio(Op op, const DenseMatrix<T>& a, const DenseMatrix<T>& b,
                    const SlabLayout& layout) {
  const LapackLu<T> plain = lapack_lu(a);
  const double of_a =
      plain.ok() ? solve_ratio(applied(op, a), lapack_lu_solve(plain, op, b), b) : 0.0;
  const DenseMatrix<T> aq = columns_in_order(a, layout);
  const LapackLu<T> ordered = lapack_lu(aq);
  const double of_aq =
      ordered.ok() ? solve_ratio(applied(op, aq), lapack_lu_solve(ordered, op, b), b) : 0.0;
  return std::max(of_a, of_aq);
}

/// Layouts for the zoo: one rank; ragged; an empty slab; an odd elimination order; narrow tiles.
std::vector<Cut> zoo_cuts(std::int64_t n) {
  return {{"one", SlabLayout::even(n, 1, 8)},
          {"ragged", SlabLayout({0, n / 3, n / 2, n}, 4)},
          {"one_empty", SlabLayout({0, n / 2, n / 2, n - 1, n}, 5)},
          {"odd_order", SlabLayout({0, n / 4, n / 4 + n / 3, n}, 1)}};
}

/// As the gates of the house: un-normalised, and no worse than four times LAPACK's.
double limit(double lapack) { return std::max(10.0, 4.0 * lapack); }

TYPED_TEST(LuFamily, RawFactor_OfEveryMatrixOnEveryCut_IsAsGoodAsLapacks) {
  using T = TypeParam;
  for (const std::int64_t n : {7, 33, 64}) {
    const std::vector<LuCase<T>> zoo = lu_zoo<T>(n);
    for (const Cut& cut : zoo_cuts(n)) {
      Mesh mesh = make_mesh(cut.layout.ranks());
      for (const LuCase<T>& one : zoo) {
        SCOPED_TRACE(one.name + " n " + std::to_string(n) + " " + cut.name);
        const Raw<T> raw = factor_raw(mesh, one.a, cut.layout);
        ASSERT_NE(raw.found.outcome.status, Status::overflow);
        std::vector<std::int64_t> sorted = raw.found.rows;
        std::sort(sorted.begin(), sorted.end());
        for (std::int64_t i = 0; i < n; ++i) {
          ASSERT_EQ(sorted[static_cast<std::size_t>(i)], i);
        }
        EXPECT_TRUE(factors_general(in_pivot_order(one.a, raw.found.rows, cut.layout),
                                    columns_in_order(whole(raw.slabs), cut.layout)));
        if (one.verdict == LuVerdict::singular) {
          EXPECT_EQ(raw.found.outcome.status, Status::singular);
          EXPECT_EQ(raw.found.sign, T{0});
          EXPECT_EQ(raw.found.log, -std::numeric_limits<double>::infinity());
        } else if (one.verdict == LuVerdict::solved) {
          EXPECT_TRUE(raw.found.outcome.ok()) << raw.found.outcome.message();
        }
      }
    }
  }
}

TYPED_TEST(LuFamily, RawSolves_OfEveryMatrix_AreAsGoodAsLapacks) {
  using T = TypeParam;
  constexpr std::int64_t n = 33;
  const DenseMatrix<T> b = right_hand_sides<T>(n, 3);
  const std::vector<LuCase<T>> zoo = lu_zoo<T>(n);
  for (const Cut& cut : zoo_cuts(n)) {
    Mesh mesh = make_mesh(cut.layout.ranks());
    for (const LuCase<T>& one : zoo) {
      const Raw<T> raw = factor_raw(mesh, one.a, cut.layout);
      if (raw.found.outcome.status == Status::singular) {
        continue;
      }
      for (const Op op : {Op::none, Op::transpose, Op::conjugate_transpose}) {
        SCOPED_TRACE(one.name + " " + cut.name + " op " + std::to_string(static_cast<int>(op)));
        const DenseMatrix<T> x = solve_raw(mesh, raw, op, b);
        const bool in_range = std::all_of(x.data(), x.data() + n * 3,
                                          [](T value) { return std::isfinite(std::abs(value)); });
        if (!in_range && one.verdict == LuVerdict::any) {
          continue;
        }
        const double ratio = solve_ratio(applied(op, one.a), x, b);
        const double lapack = lapack_ratio(op, one.a, b, cut.layout);
        EXPECT_TRUE(ratio <= limit(lapack)) << ratio << " u, LAPACK " << lapack;
      }
    }
  }
}

TYPED_TEST(LuFamily, RawSolves_OnEveryCut_AreThoseOfTheSystemAsked) {
  using T = TypeParam;
  for (const Cut& cut : cuts()) {
    const std::int64_t n = cut.layout.size();
    const DenseMatrix<T> a = n < 2 ? DenseMatrix<T>::identity(n) : lu_zoo<T>(n).front().a;
    Mesh mesh = make_mesh(cut.layout.ranks());
    const Raw<T> raw = factor_raw(mesh, a, cut.layout);
    ASSERT_TRUE(raw.found.outcome.ok());
    for (const Op op : {Op::none, Op::transpose, Op::conjugate_transpose}) {
      for (const std::int64_t columns : {1, 20}) {
        SCOPED_TRACE(cut.name + " op " + std::to_string(static_cast<int>(op)) + " columns " +
                     std::to_string(columns));
        const DenseMatrix<T> b = right_hand_sides<T>(n, columns);
        const double ratio = solve_ratio(applied(op, a), solve_raw(mesh, raw, op, b), b);
        EXPECT_TRUE(ratio <= limit(n < 2 ? 0.0 : lapack_ratio(op, a, b, cut.layout))) << ratio;
      }
    }
  }
}

/// The largest |b - A x|_i / (|A| |x| + |b|)_i, over u, where the sum is in range.
template <Scalar T>
double component_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& x, const DenseMatrix<T>& b) {
  using reference::widen;
  reference::WideReal<T> worst = 0;
  for (std::int64_t j = 0; j < b.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      reference::Wide<T> residual = widen(b(i, j));
      reference::WideReal<T> size = std::abs(widen(b(i, j)));
      for (std::int64_t k = 0; k < a.columns(); ++k) {
        residual -= reference::product(widen(a(i, k)), widen(x(k, j)));
        size += std::abs(widen(a(i, k))) * std::abs(widen(x(k, j)));
      }
      if (size > 0) {
        worst = reference::larger(worst, std::abs(residual) / size);
      }
    }
  }
  return static_cast<double>(worst) / unit_roundoff<T>;
}

TYPED_TEST(LuFamily, Solve_OfEveryMatrix_IsRefinedAndCertifiedOrRefused) {
  using T = TypeParam;
  for (const std::int64_t n : {7, 40}) {
    const DenseMatrix<T> b = right_hand_sides<T>(n, 3);
    const std::vector<LuCase<T>> zoo = lu_zoo<T>(n);
    for (const Cut& cut : zoo_cuts(n)) {
      Mesh mesh = make_mesh(cut.layout.ranks());
      for (const LuCase<T>& one : zoo) {
        SCOPED_TRACE(one.name + " n " + std::to_string(n) + " " + cut.name);
        const ShardedMatrix<T> a = shard(one.a, cut.layout);
        const RightHandSides<T> x = shard_rows(b, cut.layout);
        const Outcome outcome = solve(mesh, a, x, {}, Rcond::estimated, Assume::general);
        EXPECT_TRUE(same_bits(whole(a), one.a)) << "A is not to be written";
        if (one.verdict == LuVerdict::singular) {
          EXPECT_EQ(outcome.status, Status::singular);
          EXPECT_TRUE(outcome.location);
          continue;
        }
        if (one.verdict == LuVerdict::any && class_of(outcome.status) != StatusClass::answered) {
          EXPECT_NE(outcome.message(), "");
          continue;
        }
        ASSERT_EQ(class_of(outcome.status), StatusClass::answered) << outcome.message();
        const double ratio = solve_ratio(one.a, whole(x), b);
        EXPECT_TRUE(ratio <= 10.0) << ratio;
        // Never better than the truth but for rounding, and not much worse.
        const double certified = *outcome.backward_error / unit_roundoff<T>;
        EXPECT_TRUE(certified >= 0.95 * ratio && certified <= 1.2 * ratio + 0.1)
            << certified << " for " << ratio;
        // Scales of rows and columns make rcond small, and no equation harder to meet.
        if (one.verdict == LuVerdict::solved || *outcome.rcond > 1e3 * unit_roundoff<T>) {
          const double by_components = component_ratio(one.a, whole(x), b);
          EXPECT_TRUE(by_components <= 100.0) << by_components;
        }
        const bool in_doubt = *outcome.rcond < 2 * unit_roundoff<T>;
        EXPECT_TRUE(in_doubt || !outcome.forward_error);
        EXPECT_EQ(outcome.status == Status::nearly_singular,
                  in_doubt && !(outcome.forward_error.value_or(1.0) < 1.0));
      }
    }
  }
}

TYPED_TEST(LuFamily, Rcond_IsNeverBelowTheTrueOneAndRarelyFarAbove) {
  using T = TypeParam;
  for (const std::int64_t n : {7, 33}) {
    for (const LuCase<T>& one : lu_zoo<T>(n)) {
      SCOPED_TRACE(one.name + " n " + std::to_string(n));
      const reference::LuFactor<T> plain = reference::lu(one.a);
      if (plain.zero_pivot) {
        continue;
      }
      const DenseMatrix<T> inverse =
          reference::lu_solve(plain, Op::none, DenseMatrix<T>::identity(n));
      const double exact =
          1.0 / static_cast<double>(reference::one_norm(one.a) * reference::one_norm(inverse));
      if (!(exact > 200 * static_cast<double>(n) * unit_roundoff<T>)) {
        continue;
      }
      for (const Cut& cut : zoo_cuts(n)) {
        Mesh mesh = make_mesh(cut.layout.ranks());
        const LuFactor<T> factor = lu_factor(mesh, shard(one.a, cut.layout));
        ASSERT_TRUE(factor.outcome.ok());
        if (*factor.outcome.growth > dense::lu::largest_growth<T>()) {
          continue;  // of which rcond knows nothing: the verdict is `inaccurate`
        }
        const double rcond = condition_estimate(mesh, factor);
        EXPECT_GE(rcond, 0.9 * exact) << cut.name;
        EXPECT_LE(rcond, 3.5 * exact) << cut.name;
      }
    }
  }
}

TYPED_TEST(LuFamily, LuSolve_OfEachKind_IsCertified) {
  using T = TypeParam;
  constexpr std::int64_t n = 50;
  const DenseMatrix<T> a = lu_zoo<T>(n).front().a;
  const DenseMatrix<T> b = right_hand_sides<T>(n, 7);
  for (const Cut& cut : zoo_cuts(n)) {
    Mesh mesh = make_mesh(cut.layout.ranks());
    const LuFactor<T> factor = lu_factor(mesh, shard(a, cut.layout));
    ASSERT_TRUE(factor.outcome.ok());
    const auto solved = [&](Transpose transpose, Op op) {
      SCOPED_TRACE(cut.name + " op " + std::to_string(static_cast<int>(op)));
      const RightHandSides<T> x = shard_rows(b, cut.layout);
      const Outcome outcome = lu_solve(mesh, factor, x, {}, transpose);
      ASSERT_TRUE(outcome.ok()) << outcome.message();
      const double ratio = solve_ratio(applied(op, a), whole(x), b);
      EXPECT_TRUE(ratio <= 10.0) << ratio;
      const double certified = *outcome.backward_error / unit_roundoff<T>;
      EXPECT_TRUE(certified >= 0.95 * ratio && certified <= 1.2 * ratio + 0.1)
          << certified << " for " << ratio;
      EXPECT_TRUE(component_ratio(applied(op, a), whole(x), b) <= 20.0);
      EXPECT_LE(*outcome.component_error, 20.0 * unit_roundoff<T>);
    };
    solved(Transpose::none, Op::none);
    solved(Transpose::transpose, Op::transpose);
    solved(Transpose::adjoint, Op::conjugate_transpose);
  }
}

/// |sign exp(log) - det| / |det|, of determinants that may be out of range.
template <Scalar T>
double determinant_error(T sign, double log, const reference::SignAndLog<T>& exact) {
  const std::complex<double> ours = std::complex<double>(sign) * std::exp(log - exact.log);
  return std::abs(ours - std::complex<double>(exact.sign));
}

TYPED_TEST(LuFamily, Determinant_OnEveryCut_HasItsSign) {
  using T = TypeParam;
  std::vector<Cut> all = cuts();
  all.push_back({"odd_order", SlabLayout({0, 2, 5, 8}, 1)});
  all.push_back({"even_order", SlabLayout({0, 2, 4, 8}, 1)});
  int odd = 0;
  for (const Cut& cut : all) {
    SCOPED_TRACE(cut.name);
    const std::int64_t n = cut.layout.size();
    Mesh mesh = make_mesh(cut.layout.ranks());
    const DenseMatrix<T> a = n < 2 ? DenseMatrix<T>::identity(n) : lu_zoo<T>(n).front().a;
    const LuFactor<T> factor = lu_factor(mesh, shard(a, cut.layout));
    ASSERT_TRUE(factor.outcome.ok());
    const auto exact = reference::lu_determinant(reference::lu(a));
    EXPECT_LT(determinant_error(factor.sign, factor.log_modulus, exact),
              1000.0 * static_cast<double>(n + 1) * unit_roundoff<T>);
    int inversions = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i + 1; j < n; ++j) {
        inversions += cut.layout.row_at(Position(i)) > cut.layout.row_at(Position(j)) ? 1 : 0;
      }
    }
    odd += inversions % 2;
  }
  EXPECT_GE(odd, 2) << "layouts whose elimination order is odd are to be tested";
}

/// More right-hand sides at a time than have exact residuals each.
TYPED_TEST(LuFamily, ManyRightHandSides_AreRefinedAndTheWorstIsCertified) {
  using T = TypeParam;
  constexpr std::int64_t n = 70;
  const DenseMatrix<T> b = right_hand_sides<T>(n, 60);
  for (const LuCase<T>& one : lu_zoo<T>(n)) {
    if (one.name != "random" && one.name != "rows" && one.name != "columns") {
      continue;
    }
    for (const SlabLayout& layout : {SlabLayout::even(n, 1, 32), SlabLayout({0, 30, 30, n}, 40)}) {
      Mesh mesh = make_mesh(layout.ranks());
      const LuFactor<T> factor = lu_factor(mesh, shard(one.a, layout));
      ASSERT_TRUE(factor.outcome.ok());
      const auto solved = [&](Transpose transpose, Op op) {
        SCOPED_TRACE(one.name + " ranks " + std::to_string(layout.ranks()) + " op " +
                     std::to_string(static_cast<int>(op)));
        const RightHandSides<T> x = shard_rows(b, layout);
        const Outcome outcome = lu_solve(mesh, factor, x, {}, transpose);
        ASSERT_TRUE(outcome.ok()) << outcome.message();
        const DenseMatrix<T> given = applied(op, one.a);
        const double ratio = solve_ratio(given, whole(x), b);
        EXPECT_TRUE(ratio <= 10.0) << ratio;
        const double certified = *outcome.backward_error / unit_roundoff<T>;
        EXPECT_TRUE(certified >= 0.5 * ratio && certified <= 1.2 * ratio + 0.1)
            << certified << " for " << ratio;
        const double by_components = component_ratio(given, whole(x), b);
        EXPECT_TRUE(by_components <= 100.0) << by_components;
        EXPECT_GE(*outcome.component_error, 0.3 * by_components * unit_roundoff<T>);
      };
      solved(Transpose::none, Op::none);
      solved(Transpose::transpose, Op::transpose);
      solved(Transpose::adjoint, Op::conjugate_transpose);
    }
  }
}

TEST_F(Lu, Pivots_OfMatricesWithTies_AreTheFirstOfEquals) {
  for (const std::int64_t n : {4, 5, 6}) {
    for (const LuCase<double>& one : lu_zoo<double>(n)) {
      if (one.name != "signs" && one.name != "antidiagonal" && one.name != "wilkinson") {
        continue;
      }
      for (const Cut& cut : zoo_cuts(n)) {
        SCOPED_TRACE(one.name + " n " + std::to_string(n) + " " + cut.name);
        Mesh mesh = make_mesh(cut.layout.ranks());
        const Raw<double> raw = factor_raw(mesh, one.a, cut.layout);
        EXPECT_EQ(raw.found.rows, reference::lu(columns_in_order(one.a, cut.layout)).rows);
      }
    }
  }
}

TEST_F(Lu, AskedToStop_ShortCallsEndToo) {
  const SlabLayout layout = SlabLayout::even(24, 3, 8);
  Mesh mesh = make_mesh(3);
  const LuFactor<double> factor = lu_factor(mesh, shard(lu_zoo<double>(24).front().a, layout));
  std::stop_source stop;
  stop.request_stop();
  const RunOptions options{.cancel = stop.get_token()};
  for (const std::int64_t columns : {1, 20}) {
    const DenseMatrix<double> given = right_hand_sides<double>(layout.size(), columns);
    const RightHandSides<double> b = shard_rows(given, layout);
    EXPECT_TRUE(throws(ErrorKind::cancelled, [&] { lu_solve(mesh, factor, b, options); }));
    EXPECT_TRUE(same_bits(whole(b), given));
  }
  EXPECT_TRUE(throws(ErrorKind::cancelled, [&] { condition_estimate(mesh, factor, options); }));
  EXPECT_TRUE(factor.outcome.ok());
}

TEST_F(Lu, MatrixOfOnes_IsSingularAtTheSecondPivot) {
  for (const std::int64_t ranks : {1, 2, 3}) {
    Mesh mesh = make_mesh(ranks);
    DenseMatrix<double> ones(3, 3);
    std::fill_n(ones.data(), 9, 1.0);
    const SlabLayout layout = SlabLayout::even(3, ranks, 1);
    const LuFactor<double> factor = lu_factor(mesh, shard(ones, layout));
    EXPECT_EQ(factor.outcome.status, Status::singular);
    ASSERT_TRUE(factor.outcome.location);
    EXPECT_EQ(factor.outcome.location->rows_before, 1);
    EXPECT_EQ(factor.outcome.location->row, layout.row_at(Position(1)));
    EXPECT_EQ(factor.sign, 0.0);
    EXPECT_EQ(condition_estimate(mesh, factor), 0.0);
    expect_error([&] { lu_solve(mesh, factor, RightHandSides<double>(layout, 1)); },
                 ErrorKind::invalid_argument, {"no factor", "singular"});
  }
}

/// Of which LU is one of another matrix: it has grown to 2^(n - 1).
template <Scalar T>
std::vector<LuCase<T>> grown(std::int64_t n) {
  std::vector<LuCase<T>> found;
  for (LuCase<T>& one : lu_zoo<T>(n)) {
    if (one.name == "wilkinson" || one.name == "wilkinson_t") {
      found.push_back(std::move(one));
    }
  }
  return found;
}

TYPED_TEST(LuFamily, Growth_BeyondTheSquareRootOfRounding_IsAnsweredByQr) {
  using T = TypeParam;
  constexpr std::int64_t n = 64;
  const DenseMatrix<T> b = right_hand_sides<T>(n, 20);  // of a tile of 16, 12 and 1 at a time
  bool has_grown = false;
  for (const LuCase<T>& one : grown<T>(n)) {
    const reference::LuFactor<T> plain = reference::lu(one.a);
    const double exact =
        1.0 / static_cast<double>(reference::one_norm(one.a) *
                                  reference::one_norm(reference::lu_solve(
                                      plain, Op::none, DenseMatrix<T>::identity(n))));
    for (const Cut& cut : zoo_cuts(n)) {
      SCOPED_TRACE(one.name + " " + cut.name);
      Mesh mesh = make_mesh(cut.layout.ranks());
      const LuFactor<T> factor = lu_factor(mesh, shard(one.a, cut.layout));
      has_grown = has_grown || *factor.outcome.growth > 1e17;
      const auto solved = [&](Transpose transpose, Op op) {
        const RightHandSides<T> x = shard_rows(b, cut.layout);
        const Outcome outcome = lu_solve(mesh, factor, x, {}, transpose);
        ASSERT_TRUE(outcome.ok()) << outcome.message() << outcome.backward_error.value_or(-1);
        const double ratio = solve_ratio(applied(op, one.a), whole(x), b);
        EXPECT_TRUE(ratio <= 10.0) << ratio;
        EXPECT_TRUE(*outcome.backward_error >= 0.95 * ratio * unit_roundoff<T>);
      };
      solved(Transpose::none, Op::none);
      solved(Transpose::transpose, Op::transpose);
      solved(Transpose::adjoint, Op::conjugate_transpose);
      const double rcond = condition_estimate(mesh, factor);
      EXPECT_GE(rcond, 0.1 * exact);
      EXPECT_LE(rcond, 10 * exact);
    }
  }
  EXPECT_TRUE(has_grown);
}

/// `solve` of A with 20 right-hand sides, which are of a tile of 16, 12 or 1 at a time.
template <Scalar T>
Outcome expect_solved(const DenseMatrix<T>& a, const DenseMatrix<T>& b, const Cut& cut) {
  Mesh mesh = make_mesh(cut.layout.ranks());
  const ShardedMatrix<T> slabs = shard(a, cut.layout);
  const RightHandSides<T> x = shard_rows(b, cut.layout);
  Outcome outcome = solve(mesh, slabs, x, {}, Rcond::estimated, Assume::general);
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_TRUE(same_bits(whole(slabs), a));
  const double ratio = solve_ratio(a, whole(x), b);
  EXPECT_TRUE(ratio <= 10.0) << ratio;
  EXPECT_TRUE(outcome.backward_error.value_or(-1) >= 0.95 * ratio * unit_roundoff<T>);
  return outcome;
}

TYPED_TEST(LuFamily, Growth_OutOfTheRange_IsAnsweredByQr) {
  using T = TypeParam;
  constexpr std::int64_t n = 40;
  const DenseMatrix<T> b = right_hand_sides<T>(n, 20);
  bool has_left_range = false;
  for (LuCase<T>& one : grown<T>(n)) {
    for (std::int64_t i = 0; i < n * n; ++i) {
      one.a.data()[i] *=
          std::ldexp(RealOf<T>{1}, std::numeric_limits<RealOf<T>>::max_exponent - 20);
    }
    for (const Cut& cut : zoo_cuts(n)) {
      SCOPED_TRACE(one.name + " " + cut.name);
      Mesh mesh = make_mesh(cut.layout.ranks());
      const LuFactor<T> factor = lu_factor(mesh, shard(one.a, cut.layout));
      has_left_range = has_left_range || factor.outcome.status == Status::overflow;
      EXPECT_EQ(factor.rows == nullptr, factor.outcome.status == Status::overflow);
      const Outcome outcome = expect_solved(one.a, b, cut);
      EXPECT_GE(outcome.rcond.value_or(-1), 1e-4);
      EXPECT_LE(outcome.rcond.value_or(-1), 1.0);
    }
  }
  EXPECT_TRUE(has_left_range);
}

/// Numbers whose reciprocals are out of range.
TYPED_TEST(LuFamily, SubnormalPivots_CostNoAnswer) {
  using T = TypeParam;
  using Real = RealOf<T>;
  constexpr std::int64_t n = 13;
  const Real tiny = std::numeric_limits<Real>::min() / 64;
  DenseMatrix<T> all(n, n);
  DenseMatrix<T> first = DenseMatrix<T>::identity(n);
  DenseMatrix<T> last = first;
  DenseMatrix<T> x(n, 20);
  first(0, 0) = tiny;
  last(n - 1, n - 1) = tiny;
  last(0, n - 2) = Real{0.5};
  for (std::int64_t i = 0; i < n; ++i) {
    all(i, i) = 2 * tiny;
    if (i > 0) {
      all(i, i - 1) = all(i - 1, i) = tiny;
    }
    for (std::int64_t j = 0; j < x.columns(); ++j) {
      x(i, j) = static_cast<Real>((i + j) % 3 + 1);
    }
  }
  for (const auto& [name, a] : {std::pair{"all", all}, {"first", first}, {"last", last}}) {
    for (const Cut& cut : zoo_cuts(n)) {
      for (const std::int64_t columns : {std::int64_t{1}, x.columns()}) {
        SCOPED_TRACE(std::string(name) + " " + cut.name + " " + std::to_string(columns));
        DenseMatrix<T> some(n, columns);
        copy_entries<T>(x.view().block(0, 0, n, columns), some.view());
        const Outcome outcome =
            expect_solved(a, reference::matmul(Op::none, a, Op::none, some), cut);
        EXPECT_GE(outcome.rcond.value_or(-1), 1e-3);
      }
      // 1 / tiny
      Mesh mesh = make_mesh(cut.layout.ranks());
      DenseMatrix<T> ones(n, 1);
      std::fill_n(ones.data(), n, T{1});
      const RightHandSides<T> right = shard_rows(ones, cut.layout);
      EXPECT_EQ(
          solve(mesh, shard(a, cut.layout), right, {}, Rcond::left_out, Assume::general).status,
          Status::overflow);
    }
  }
}

/// Powers of two grow without rounding. Of other numbers LU is that of another matrix,
/// whose condition number says nothing.
TEST_F(Lu, Rcond_OfAMatrixThatHasGrownWithRounding_IsItsOwn) {
  constexpr std::int64_t n = 72;
  DenseMatrix<double> a = lu_zoo<double>(n)[1].a;
  const DenseMatrix<double> some = right_hand_sides<double>(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j + 1; i < n; ++i) {
      a(i, j) = -1.0 + 0.05 * std::abs(some(i, j));
    }
  }
  // by the transpose, which does not grow
  const DenseMatrix<double> turned = applied(Op::transpose, a);
  const DenseMatrix<double> inverse = applied(
      Op::transpose,
      reference::lu_solve(reference::lu(turned), Op::none, DenseMatrix<double>::identity(n)));
  const auto exact =
      1.0 / static_cast<double>(reference::one_norm(a) * reference::one_norm(inverse));
  for (const std::int64_t ranks : {1, 3}) {
    const SlabLayout layout = SlabLayout::even(n, ranks, 32);
    Mesh mesh = make_mesh(ranks);
    const LuFactor<double> factor = lu_factor(mesh, shard(a, layout));
    const double rcond = condition_estimate(mesh, factor);
    EXPECT_GE(rcond, 0.1 * exact) << *factor.outcome.growth;
    EXPECT_LE(rcond, 10 * exact) << *factor.outcome.growth;
    EXPECT_TRUE(ranks > 1 || *factor.outcome.growth > 1e15) << *factor.outcome.growth;
  }
}

/// CPU devices that have three mebibytes each.
class BackendOfLittleMemory final : public mesh::HostBackend {
 public:
  using HostBackend::HostBackend;
  std::int64_t available_memory() const override { return std::int64_t{3} << 20; }
};

TEST_F(Lu, Growth_WithoutMemoryForQr_IsNoAnswerAndLeavesB) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  constexpr std::int64_t n = 400;
  for (const LuCase<double>& one : grown<double>(n)) {
    if (one.name == "wilkinson_t") {
      continue;  // its columns are eliminated, and do not grow
    }
    Mesh mesh{mesh::MeshState::start(std::make_unique<BackendOfLittleMemory>(1))};
    const SlabLayout layout = SlabLayout::even(n, 1, 16);
    const DenseMatrix<double> b = right_hand_sides<double>(n, 1);
    const RightHandSides<double> x = shard_rows(b, layout);
    const LuFactor<double> factor = lu_factor(mesh, shard(one.a, layout));
    ASSERT_GT(factor.outcome.growth.value_or(0.0), 1e17) << one.name;
    const Outcome outcome = lu_solve(mesh, factor, x);
    EXPECT_EQ(outcome.status, Status::inaccurate);
    EXPECT_NE(outcome.message(), "");
    EXPECT_TRUE(same_bits(whole(x), b));
  }
}

TEST_F(Lu, NearlySingular_HasAnAnswerAndSaysSo) {
  constexpr std::int64_t n = 16;
  for (const LuCase<double>& one : lu_zoo<double>(n)) {
    if (one.name != "hilbert") {
      continue;
    }
    Mesh mesh = make_mesh(2);
    const SlabLayout layout = SlabLayout::even(n, 2, 4);
    const DenseMatrix<double> b = right_hand_sides<double>(n, 1);
    const RightHandSides<double> x = shard_rows(b, layout);
    const Outcome outcome =
        solve(mesh, shard(one.a, layout), x, {}, Rcond::estimated, Assume::general);
    EXPECT_EQ(outcome.status, Status::nearly_singular);
    EXPECT_LT(*outcome.rcond, 2 * unit_roundoff<double>);
    EXPECT_TRUE(solve_ratio(one.a, whole(x), b) <= 10.0);
  }
}

/// The matrix with its rows and columns multiplied by 2^-e ... 2^e.
template <Scalar T>
DenseMatrix<T> with_scales(const DenseMatrix<T>& a, int rows, int columns) {
  DenseMatrix<T> found = a;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      found(i, j) *= std::ldexp(RealOf<T>{1}, exponent_at(rows, i, 7) + exponent_at(columns, j, 5));
    }
  }
  return found;
}

TYPED_TEST(LuFamily, Scales_OfRowsAndColumns_CostNoDigits) {
  using T = TypeParam;
  constexpr double u = unit_roundoff<T>;
  constexpr std::int64_t n = 40;
  const int e = std::is_same_v<RealOf<T>, double> ? 300 : 30;
  const DenseMatrix<T> b = right_hand_sides<T>(n, 12);  // of a tile of 16, and more than are exact
  const DenseMatrix<T> plain = lu_zoo<T>(n).front().a;
  for (const Cut& cut : zoo_cuts(n)) {
    Mesh mesh = make_mesh(cut.layout.ranks());
    const auto solved = [&](const DenseMatrix<T>& a, const DenseMatrix<T>& right) {
      const RightHandSides<T> x = shard_rows(right, cut.layout);
      const Outcome outcome =
          solve(mesh, shard(a, cut.layout), x, {}, Rcond::estimated, Assume::general);
      return std::pair(whole(x), outcome);
    };
    const auto [expected, unscaled] = solved(plain, b);
    for (const auto& [rows, columns] : {std::pair(e, 0), std::pair(0, e), std::pair(e, -e)}) {
      SCOPED_TRACE(cut.name + " rows " + std::to_string(rows) + " columns " +
                   std::to_string(columns));
      const auto [x, outcome] = solved(with_scales(plain, rows, columns), with_scales(b, rows, 0));
      ASSERT_EQ(outcome.status, Status::ok) << outcome.message();
      EXPECT_LT(*outcome.rcond, 2 * u);
      double worst = 0.0;
      for (std::int64_t j = 0; j < x.columns(); ++j) {
        double distance = 0.0;
        double size = 0.0;
        for (std::int64_t i = 0; i < n; ++i) {
          const T exact = expected(i, j) * std::ldexp(RealOf<T>{1}, -exponent_at(columns, i, 5));
          distance = std::max(distance, double{std::abs(x(i, j) - exact)});
          size = std::max(size, double{std::abs(exact)});
        }
        worst = std::max(worst, distance / size);
      }
      // What is expected has such an error, too.
      EXPECT_LE(worst, 2 * *outcome.forward_error);
      EXPECT_LE(*outcome.forward_error, 1e3 * u / *unscaled.rcond);
    }
    // A matrix of few independent rows stays one.
    DenseMatrix<T> kernel = with_scales(lu_zoo<T>(n)[6].a, e, 0);
    const Outcome doubtful = solved(kernel, with_scales(b, e, 0)).second;
    EXPECT_EQ(doubtful.status, Status::nearly_singular);
    EXPECT_FALSE(*doubtful.forward_error < 1.0);
  }
}

/// Residuals that would drown are scaled, and b where numbers inside a solve leave the range: by
/// powers of two, which no digit depends on.
// ||A^-1|| is out of the range, so that QR says how A is conditioned, with columns at equal size.
// x2 is large where its column is small: no digit of it is known.
TEST_F(Lu, Solve_WithASmallColumn_SaysWhatThatIsWorthForX) {
  DenseMatrix<double> a(2, 2);
  a(0, 0) = 3.0;
  a(1, 0) = 1.0;
  a(0, 1) = 1e-300;
  a(1, 1) = 0.333333334e-300;
  DenseMatrix<double> b(2, 1);
  b(0, 0) = 1e-20;
  b(1, 0) = 1e-20 / 3;
  for (const std::int64_t ranks : {1, 2, 3}) {
    const SlabLayout layout = SlabLayout::even(2, ranks, 1);
    Mesh mesh = make_mesh(ranks);
    const Outcome outcome =
        solve(mesh, shard(a, layout), shard_rows(b, layout), {}, Rcond::estimated, Assume::general);
    EXPECT_EQ(outcome.status, Status::nearly_singular) << ranks;
    EXPECT_GE(outcome.forward_error.value_or(0.0), 1.0) << ranks;
  }
}

TEST_F(Lu, Solve_NearTheEndsOfTheRange_HasTheDigitsOfAnyOther) {
  constexpr std::int64_t n = 20;
  const SlabLayout layout = SlabLayout::even(n, 1, 4);
  Mesh mesh = make_mesh(1);
  const auto times = [](DenseMatrix<double> values, int exponent) {
    for (std::int64_t i = 0; i < values.rows() * values.columns(); ++i) {
      values.data()[i] = std::ldexp(values.data()[i], exponent);
    }
    return values;
  };
  // one that has grown, but not so much that QR takes its place: it needs refinement
  const DenseMatrix<double> a = lu_zoo<double>(n)[1].a;
  const DenseMatrix<double> b = right_hand_sides<double>(n, 1);
  const auto solved = [&](int of_a, int of_b) {
    const RightHandSides<double> x = shard_rows(times(b, of_b), layout);
    const LuFactor<double> factor = lu_factor(mesh, shard(times(a, of_a), layout));
    const Outcome outcome = lu_solve(mesh, factor, x);
    EXPECT_TRUE(outcome.ok()) << outcome.message();
    return times(whole(x), of_a - of_b);
  };
  const DenseMatrix<double> expected = solved(0, 0);
  EXPECT_TRUE(same_bits(solved(-500, -950), expected));
  EXPECT_TRUE(same_bits(solved(0, 1019), expected));
}

TEST_F(Lu, Factor_ThatOverwritesItsMatrix_IsTheSameAndNeedsItsSketchForSolves) {
  constexpr std::int64_t n = 23;
  const DenseMatrix<double> a = lu_zoo<double>(n).front().a;
  const SlabLayout layout = SlabLayout::even(n, 3, 4);
  Mesh mesh = make_mesh(3);
  const ShardedMatrix<double> slabs = shard(a, layout);
  LuFactor<double> in_place = lu_factor(mesh, slabs, slabs);
  const LuFactor<double> apart = lu_factor(mesh, shard(a, layout));
  ASSERT_TRUE(in_place.outcome.ok());
  EXPECT_EQ(in_place.log_modulus, apart.log_modulus);
  EXPECT_EQ(in_place.sign, apart.sign);
  EXPECT_TRUE(same_bits(whole(slabs), whole(apart.slabs)));
  in_place.sketch.reset();
  expect_error([&] { lu_solve(mesh, in_place, RightHandSides<double>(layout, 1)); },
               ErrorKind::invalid_argument, {"overwritten its matrix", "no sketch"});
}

TEST_F(Lu, BadInput_IsRefusedWithItsPlace) {
  const SlabLayout layout({0, 5, 5, 9}, 2);
  Mesh mesh = make_mesh(3);
  DenseMatrix<double> a = lu_zoo<double>(9).front().a;
  a(7, 3) = std::numeric_limits<double>::quiet_NaN();
  const LuFactor<double> factor = lu_factor(mesh, shard(a, layout));
  EXPECT_EQ(factor.outcome.status, Status::nonfinite_input);
  ASSERT_TRUE(factor.outcome.location);
  EXPECT_EQ(factor.outcome.location->row.value(), 7);
  EXPECT_EQ(factor.outcome.location->column.value(), 3);
  EXPECT_TRUE(std::isnan(factor.log_modulus));
  expect_error([&] { condition_estimate(mesh, factor); }, ErrorKind::invalid_argument,
               {"no factor", "NaN"});

  a(7, 3) = 1.0;
  DenseMatrix<double> b = right_hand_sides<double>(9, 2);
  b(8, 1) = std::numeric_limits<double>::infinity();
  const RightHandSides<double> x = shard_rows(b, layout);
  const Outcome outcome = solve(mesh, shard(a, layout), x, {}, Rcond::estimated, Assume::general);
  EXPECT_EQ(outcome.status, Status::nonfinite_input);
  EXPECT_EQ(outcome.location->what, Located::right_hand_side_entry);
  EXPECT_TRUE(same_bits(whole(x), b));

  const LuFactor<double> good = lu_factor(mesh, shard(a, layout));
  expect_error([&] { lu_solve(mesh, good, RightHandSides<double>(SlabLayout::even(9, 3, 2), 1)); },
               ErrorKind::invalid_argument, {"another layout"});
  expect_error([&] { lu_factor(mesh, shard(a, layout), shard(a, SlabLayout::even(9, 3, 2))); },
               ErrorKind::invalid_argument, {"different layouts"});
}

/// CPU devices without kernels of LU.
class DeviceWithoutLu final : public runtime::host::HostDevice {
 public:
  using HostDevice::HostDevice;
  const void* find_kernels(runtime::KernelSet set, Dtype dtype) const override {
    return set == runtime::KernelSet::lu ? nullptr : HostDevice::find_kernels(set, dtype);
  }
};
class BackendWithoutLu final : public mesh::HostBackend {
 public:
  using HostBackend::HostBackend;
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<DeviceWithoutLu>(pulse);
  }
};

TEST_F(Lu, DevicesWithoutItsKernels_RefuseBeforeAnyWorkAndGoOn) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  const SlabLayout layout = SlabLayout::even(20, 3, 4);
  Mesh mesh{mesh::MeshState::start(std::make_unique<BackendWithoutLu>(3))};
  const DenseMatrix<double> a = lu_zoo<double>(20).front().a;
  const DenseMatrix<double> b = right_hand_sides<double>(20, 2);
  const ShardedMatrix<double> slabs = shard(a, layout);
  const RightHandSides<double> x = shard_rows(b, layout);
  const std::vector<std::string> words{"no kernels for LU factorisations in float64"};
  expect_error([&] { lu_factor(mesh, slabs, slabs); }, ErrorKind::unsupported, words);
  expect_error([&] { solve(mesh, slabs, x, {}, Rcond::estimated, Assume::general); },
               ErrorKind::unsupported, words);
  EXPECT_TRUE(same_bits(whole(slabs), a));
  EXPECT_TRUE(same_bits(whole(x), b));
  EXPECT_TRUE(still_solves(mesh));
}

/// CPU devices that solve for up to 24 rows at once, as GPUs do for 1024.
class KernelsForMoreRows final : public runtime::host::HostLuKernels<double> {
 public:
  using HostLuKernels::HostLuKernels;
  std::int64_t rows_to_solve(runtime::Op /*op*/, std::int64_t columns) const override {
    return columns <= 8 ? 24 : 0;
  }
};
class DeviceForMoreRows final : public runtime::host::HostDevice {
 public:
  using HostDevice::HostDevice;
  const void* find_kernels(runtime::KernelSet set, Dtype dtype) const override {
    return set == runtime::KernelSet::lu && dtype == Dtype::float64
               ? static_cast<const runtime::LuKernels<double>*>(&kernels_)
               : HostDevice::find_kernels(set, dtype);
  }

 private:
  runtime::host::HostKernels<double> base_;
  KernelsForMoreRows kernels_{base_};
};
class BackendForMoreRows final : public mesh::HostBackend {
 public:
  using HostBackend::HostBackend;
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<DeviceForMoreRows>(pulse);
  }
};

/// One rank takes some steps as one, also the few that are left at either end.
TEST_F(Lu, RawSolves_InStepsOfSomeTiles_AreThoseOfTheSystemAsked) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  Mesh mesh{mesh::MeshState::start(std::make_unique<BackendForMoreRows>(1))};
  for (const std::int64_t n : {23, 24, 25, 50, 170}) {
    for (const std::int64_t tile : {1, 7, 8, 24, 30}) {
      const SlabLayout layout = SlabLayout::even(n, 1, tile);
      const DenseMatrix<double> a = lu_zoo<double>(n).front().a;
      const Raw<double> raw = factor_raw(mesh, a, layout);
      ASSERT_TRUE(raw.found.outcome.ok());
      for (const Op op : {Op::none, Op::transpose, Op::conjugate_transpose}) {
        for (const std::int64_t columns : {1, 8, 9}) {
          SCOPED_TRACE(std::to_string(n) + " tile " + std::to_string(tile) + " op " +
                       std::to_string(static_cast<int>(op)) + " columns " +
                       std::to_string(columns));
          const DenseMatrix<double> b = right_hand_sides<double>(n, columns);
          const double ratio = solve_ratio(applied(op, a), solve_raw(mesh, raw, op, b), b);
          EXPECT_TRUE(ratio <= limit(lapack_ratio(op, a, b, layout))) << ratio;
        }
      }
    }
  }
}

TEST_F(Lu, NumbersThatLeaveTheRange_AreAnOverflow) {
  // Growth takes U beyond the largest number, at the last pivot.
  constexpr std::int64_t n = 40;
  DenseMatrix<float> a = lu_zoo<float>(n)[1].a;
  for (std::int64_t i = 0; i < n * n; ++i) {
    a.data()[i] *= 1e30F;
  }
  Mesh mesh = make_mesh(1);
  const LuFactor<float> factor = lu_factor(mesh, shard(a, SlabLayout::even(n, 1, 8)));
  EXPECT_EQ(factor.outcome.status, Status::overflow);
  EXPECT_FALSE(factor.rows);
}

TYPED_TEST(LuFamily, TwoRuns_GiveTheSameBits) {
  using T = TypeParam;
  constexpr std::int64_t n = 90;
  const SlabLayout layout({0, 20, 20, 61, n}, 7);
  const DenseMatrix<T> a = lu_zoo<T>(n).front().a;
  const DenseMatrix<T> b = right_hand_sides<T>(n, 2);
  std::optional<DenseMatrix<T>> first;
  for (int i = 0; i < 5; ++i) {
    Mesh mesh = make_mesh(layout.ranks());
    const LuFactor<T> factor = lu_factor(mesh, shard(a, layout));
    const RightHandSides<T> x = shard_rows(b, layout);
    ASSERT_TRUE(lu_solve(mesh, factor, x).ok());
    if (!first) {
      first = whole(x);
    }
    EXPECT_TRUE(same_bits(whole(x), *first));
  }
}

}  // namespace
}  // namespace shardsolve::testing
