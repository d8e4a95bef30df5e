// Triangular solves of columns on the ranks, with a factor that travels.

#include "dense/eigh/solve_columns.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/eigh_reduction.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <stop_token>

namespace shardsolve::testing::reduction {
namespace {

using runtime::Op;

/// L for some elimination order, its rows and columns in the caller's order; above its diagonal are
/// numbers that no solve may look at.
template <Scalar T>
struct Triangle {
  DenseMatrix<T> stored;
  DenseMatrix<T> l;
};

template <Scalar T>
Triangle<T> random_triangle(const SlabLayout& layout) {
  const std::int64_t n = layout.size();
  Triangle<T> triangle{random_hermitian<T>(n, 3), DenseMatrix<T>(n, n)};
  for (std::int64_t j = 0; j < n; ++j) {
    triangle.stored(j, j) =
        T{static_cast<RealOf<T>>(4.0 + 2.0 * std::sqrt(static_cast<double>(n)))};
    for (std::int64_t i = 0; i < n; ++i) {
      if (layout.position(GlobalIndex(i)) >= layout.position(GlobalIndex(j))) {
        triangle.l(i, j) = triangle.stored(i, j);
      }
    }
  }
  return triangle;
}

/// The solution of op(L) X = L^H + I, whose columns are where L's are.
template <Scalar T>
void expect_solved(Mesh& mesh, const SlabLayout& layout) {
  const Triangle<T> triangle = random_triangle<T>(layout);
  const DenseMatrix<T> b = random_hermitian<T>(layout.size(), 9);
  const ShardedMatrix<T> l = shard(triangle.stored, layout);
  for (const Op op : {Op::none, Op::conjugate_transpose}) {
    const ShardedMatrix<T> x = shard(b, layout);
    run_on(mesh, [&](mesh::Rank& rank) {
      dense::eigh::solve_columns<T>(rank, layout, l.slab(rank.index()), op, x.slab(rank.index()));
    });
    const DenseMatrix<T> solved = whole(x);
    const DenseMatrix<T> back = op == Op::none ? matmul(triangle.l, solved)
                                               : matmul(ReferenceOp::conjugate_transpose,
                                                        triangle.l, ReferenceOp::none, solved);
    const double scale = static_cast<double>(reference::one_norm(triangle.l)) *
                         static_cast<double>(reference::one_norm(solved));
    EXPECT_LE(in_roundoffs(difference(back, b)), 10.0 * scale);
  }
}

template <class T>
class EighSolveColumns : public ::testing::Test {};
TYPED_TEST_SUITE(EighSolveColumns, Dtypes, DtypeNames);

TYPED_TEST(EighSolveColumns, OnEveryCut_IsRight) {
  for (const Cut& cut : reduction_cuts()) {
    SCOPED_TRACE(cut.name);
    Mesh mesh = make_mesh(cut.layout.ranks());
    expect_solved<TypeParam>(mesh, cut.layout);
  }
}

TYPED_TEST(EighSolveColumns, AskedToStop_ThrowsCancelled) {
  using T = TypeParam;
  const Ragged ragged;
  Mesh mesh = make_mesh(ragged.layout.ranks());
  const ShardedMatrix<T> l = shard(random_triangle<T>(ragged.layout).stored, ragged.layout);
  const ShardedMatrix<T> x = shard(random_hermitian<T>(ragged.layout.size()), ragged.layout);
  std::stop_source stop;
  stop.request_stop();
  expect_error(
      [&] {
        run_on(mesh,
               [&](mesh::Rank& rank) {
                 dense::eigh::solve_columns<T>(rank, ragged.layout, l.slab(rank.index()), Op::none,
                                               x.slab(rank.index()));
               },
               {.cancel = stop.get_token()});
      },
      ErrorKind::cancelled, {"cancelled"});
}

class EighSolveColumnsWaits : public ReductionWaits {};

TEST_P(EighSolveColumnsWaits, SolveColumns_WithAllWaits_IsRight) {
  expect_solved<double>(mesh_, layout_);
}

INSTANTIATE_TEST_SUITE_P(Meshes, EighSolveColumnsWaits, ReductionWaits::cases(),
                         ReductionWaits::name);

}  // namespace
}  // namespace shardsolve::testing::reduction
