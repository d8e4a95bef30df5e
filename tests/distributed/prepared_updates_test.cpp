// Updates that take panels in a form of their own: factor and inverse use nothing else of such a
// panel, and have room for it.

#include "mesh/mesh_state.hpp"
#include "support/backend.hpp"
#include "support/bits.hpp"
#include "support/matrix_zoo.hpp"
#include "support/preparing_backend.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/mesh.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

void expect_the_bits_of_plain_panels(const SlabLayout& layout, const DenseMatrix<double>& a) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  const auto expect_same = [&](Mesh one, Mesh other) {
    CholeskyFactor<double> a_factor = cholesky_factor(one, shard(a, layout));
    CholeskyFactor<double> b_factor = cholesky_factor(other, shard(a, layout));
    const auto same = [&] { return same_bits(whole(a_factor.slabs), whole(b_factor.slabs)); };
    EXPECT_TRUE(a_factor.outcome.ok()) << a_factor.outcome.message();
    EXPECT_TRUE(same());
    EXPECT_TRUE(cholesky_inverse(one, std::move(a_factor)).ok());
    EXPECT_TRUE(cholesky_inverse(other, std::move(b_factor)).ok());
    EXPECT_TRUE(same());
  };
  using Windows = mesh::HostBackend::Windows;
  for (const Windows windows : {Windows::in_place, Windows::copied}) {
    auto backend = std::make_unique<PreparingBackend>(layout.ranks(), windows);
    expect_same(Mesh(mesh::MeshState::start(std::move(backend))), Mesh::host(layout.ranks()));
  }
}

TEST(PreparedUpdates, GiveTheBitsOfPlainPanels) {
  for (const std::int64_t ranks : {1, 2, 3}) {
    for (const std::int64_t tile : {8, 9, 16}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, tile " + std::to_string(tile));
      expect_the_bits_of_plain_panels(SlabLayout::even(101, ranks, tile),
                                      dense<double>({.n = 101, .seed = 3}));
    }
  }
}

// Its 8 columns are prepared and have more rows than those of a tile of 9.
TEST(PreparedUpdates, NarrowFirstBlock_FitsItsSlot) {
  expect_the_bits_of_plain_panels(SlabLayout({0, 8, 101}, 9), dense<double>({.n = 101, .seed = 3}));
}

// In a product of M and L the scaling is that of the terms, not of the factors' columns.
TEST(PreparedUpdates, BadlyScaledMatrix_LosesNothing) {
  DenseMatrix<double> a = dense<double>({.n = 101, .seed = 3});
  const auto scale_of = [](std::int64_t i) {
    return std::ldexp(1.0, static_cast<int>(i % 7) * 10);
  };
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      a(i, j) *= scale_of(i) * scale_of(j);
    }
  }
  expect_the_bits_of_plain_panels(SlabLayout::even(101, 2, 16), a);
}

}  // namespace
}  // namespace shardsolve::testing
