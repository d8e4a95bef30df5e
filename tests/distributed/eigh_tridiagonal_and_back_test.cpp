// The reductions of an eigenproblem and the way back as the call goes through them, on CPU devices
// or GPUs: with the identity in the place of the tridiagonal's eigenvectors, what comes back is the
// product of all reflectors.

#include "dense/eigh/back_transform.hpp"
#include "dense/eigh/band_to_tridiagonal.hpp"
#include "dense/eigh/full_to_band.hpp"
#include "dense/eigh/row_order.hpp"
#include "support/backend.hpp"
#include "support/bits.hpp"
#include "support/dtypes.hpp"
#include "support/eigh_reduction.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <vector>

namespace shardsolve::testing::reduction {
namespace {

struct Way {
  SlabLayout layout;
  std::int64_t sweeps;  ///< of a group
  bool mirrored = true;
};

std::vector<Way> ways() {
  std::vector<Way> all = {{SlabLayout({0, 40, 40, 97, 150}, 8), 16},
                          {SlabLayout::even(90, 1, 1), 5},
                          {SlabLayout::even(200, 2, 64), 64},
                          {SlabLayout({0, 40, 40, 97, 150}, 8), 16, false}};
  if (!test_gpus().empty()) {
    all.push_back({SlabLayout::even(700, 2, 64), 64});
    all.push_back({SlabLayout::even(700, 2, 64), 64, false});
    all.push_back({SlabLayout::even(900, 1, 32), 64});
  }
  return all;
}

/// Q^H A Q = the tridiagonal.
template <Scalar T>
struct Transformed {
  DenseMatrix<T> q;
  DenseMatrix<RealOf<T>> tridiagonal;
};

template <Scalar T>
Transformed<T> transformed(Mesh& mesh, const Way& way, const DenseMatrix<T>& a) {
  const std::int64_t n = a.rows();
  const SlabLayout& layout = way.layout;
  const dense::eigh::SweepGroups groups{
      {n, layout.tile(), is_complex<T>}, way.sweeps, layout.ranks()};
  const ShardedMatrix<T> slabs = to_devices(shard(a, layout));
  Transformed<T> result{DenseMatrix<T>(n, n), DenseMatrix<RealOf<T>>(n, 2)};
  run_on(mesh, [&](mesh::Rank& rank) {
    const MatrixView<T> slab = slabs.slab(rank.index());
    const dense::eigh::BandForm<T> form = dense::eigh::make_band_form<T>(rank, layout);
    const dense::eigh::RowOrder<T> order(rank, layout);
    order.to_elimination_order(slab);
    dense::eigh::Mirror<T> mirror(rank, layout, order, slab);
    dense::eigh::full_to_band(rank, layout, order, slab, {24, way.mirrored ? &mirror : nullptr},
                              form);
    const MatrixView<T> reflectors = dense::eigh::make_reflectors<T>(rank, groups);
    const MatrixView<RealOf<T>> tridiagonal = rank.workspace<RealOf<T>>(n, 2);
    dense::eigh::band_to_tridiagonal<T>(rank, groups, form.band, reflectors, tridiagonal);
    // this rank's columns of I
    const std::int64_t first = layout.segment(rank.index()).begin.value();
    const std::int64_t width = layout.width(rank.index());
    const MatrixView<T> z = rank.workspace<T>(n, width);
    rank.kernels<T>().fill(rank.update(), T{0}, z);
    rank.kernels<T>().identity(rank.update(), z.block(first, 0, width, width));
    dense::eigh::apply_sweeps(rank, groups, reflectors, z);
    dense::eigh::apply_panels(rank, layout, slab, form.t, 40, z);
    order.to_caller_order(z);
    const std::vector<T> columns = rank.fetch(rank.update(), z.data(), n * width);
    std::copy(columns.begin(), columns.end(), result.q.data() + n * first);
    const std::vector<RealOf<T>> diagonals = rank.fetch(rank.update(), tridiagonal.data(), 2 * n);
    if (rank.index() == 0) {
      std::copy(diagonals.begin(), diagonals.end(), result.tridiagonal.data());
    }
  });
  return result;
}

template <class T>
class EighTridiagonalAndBack : public ::testing::Test {};
TYPED_TEST_SUITE(EighTridiagonalAndBack, Dtypes, DtypeNames);

TYPED_TEST(EighTridiagonalAndBack, ProductOfAllReflectors_MakesASimilarTridiagonal) {
  using T = TypeParam;
  for (const Way& way : ways()) {
    const std::int64_t n = way.layout.size();
    SCOPED_TRACE(fmt::format("n {}, b {}, {} ranks, groups of {}", n, way.layout.tile(),
                             way.layout.ranks(), way.sweeps));
    Mesh mesh = make_mesh(way.layout.ranks());
    const DenseMatrix<T> a = random_hermitian<T>(n, 11);
    const Transformed<T> found = transformed(mesh, way, a);
    const DenseMatrix<T> tridiagonal = from_tridiagonal<T>(found.tridiagonal);
    EXPECT_LE(similarity_ratio(a, found.q, tridiagonal), 2 * similarity_limit(n));
    EXPECT_LE(orthogonality_ratio(found.q), orthogonality_limit(n));
    const Transformed<T> again = transformed(mesh, way, a);
    EXPECT_TRUE(same_bits(again.q, found.q) && same_bits(again.tridiagonal, found.tridiagonal));
  }
}

}  // namespace
}  // namespace shardsolve::testing::reduction
