// Products with sparse matrices on a mesh.

#include "matgen/sparse_matrices.hpp"
#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "sparse/operator.hpp"
#include "support/bits.hpp"
#include "support/dtypes.hpp"
#include "support/faults.hpp"
#include "support/faulty_backend.hpp"
#include "support/process_meshes.hpp"
#include "support/rank_program.hpp"
#include "support/sparse_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/sparse.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <stop_token>
#include <vector>

namespace shardsolve::testing::sparse_problem {
namespace {

using Windows = mesh::HostBackend::Windows;

/// Kept for all tests; of GPUs if there are some to test.
Mesh& mesh_of(std::int64_t ranks) { return transfer_mesh(ranks); }
Mesh cpu_mesh(std::int64_t ranks, Windows windows) {
  return Mesh{mesh::MeshState::start(std::make_unique<mesh::HostBackend>(ranks, windows))};
}

/// A x by the public call.
template <Scalar T>
DenseMatrix<T> product(Mesh& mesh, const SparseMatrix<T>& a, const std::vector<T>& x) {
  const auto rows = static_cast<std::size_t>(a.rows().size());
  const T unwritten{std::numeric_limits<RealOf<T>>::quiet_NaN()};
  const RightHandSides<T> y = shard_rows(column(std::vector<T>(rows, unwritten)), a.rows());
  const Outcome outcome = multiply(mesh, a, shard_rows(column(x), a.columns()), y);
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  return whole(y);
}

template <class T>
class Sparse : public ::testing::Test {};
TYPED_TEST_SUITE(Sparse, Dtypes, DtypeNames);

/// Of short and long rows, with empty ones, and with rows that need nothing of others.
template <Scalar T>
std::vector<CsrMatrix<T>> square_matrices() {
  return {matgen::laplacian_3d<T>(4),
          matgen::convection_diffusion_2d<T>(7, 0.4, -0.3),
          matgen::random_sparse<T>(60, 60, 3, 1),
          matgen::random_sparse<T>(60, 60, 150, 2),
          matgen::random_sparse<T>(9, 9, 5, 3),
          matgen::random_sparse<T>(1, 1, 2, 4),
          matgen::random_sparse<T>(0, 0, 4, 5)};
}

TYPED_TEST(Sparse, ProductOnEveryCut_HasTheBitsOfTheReference) {
  using T = TypeParam;
  for (const CsrMatrix<T>& a : square_matrices<T>()) {
    const std::vector<T> x = random_vector<T>(a.columns);
    const DenseMatrix<T> expected = expected_product(a, x);
    for (const SlabLayout& layout : row_cuts(a.rows)) {
      SCOPED_TRACE(fmt::format("{} entries, cut at {}", a.entries(), layout.boundaries()));
      Mesh& mesh = mesh_of(layout.ranks());
      EXPECT_TRUE(same_bits(product(mesh, SparseMatrix<T>(mesh, a, layout), x), expected));
    }
  }
}

TYPED_TEST(Sparse, ProductOfThreeThreeThreeNothing_HasTheBitsOfTheReference) {
  using T = TypeParam;
  const auto a = matgen::random_sparse<T>(9, 9, 5, 3);
  const std::vector<T> x = random_vector<T>(9);
  Mesh& mesh = mesh_of(4);
  const SparseMatrix<T> on_mesh(mesh, a, row_slabs({0, 3, 6, 9, 9}));
  EXPECT_TRUE(same_bits(product(mesh, on_mesh, x), expected_product(a, x)));
  EXPECT_EQ(on_mesh.halo(3), 0);
  for (const std::int64_t rank : {-1, 4}) {
    expect_error([&] { on_mesh.halo(rank); }, ErrorKind::invalid_argument, {"there is no rank"});
  }
}

TYPED_TEST(Sparse, Product_IsNearTheExactOne) {
  using T = TypeParam;
  const auto a = matgen::random_sparse<T>(60, 60, 150, 2);
  const std::vector<T> x = random_vector<T>(60);
  Mesh& mesh = mesh_of(3);
  const DenseMatrix<T> y = product(mesh, SparseMatrix<T>(mesh, a, row_slabs(60, 3)), x);
  const auto exact = reference::multiply(a, x);
  for (std::size_t i = 0; i < 60; ++i) {
    const auto error =
        std::abs(reference::widen(y(static_cast<std::int64_t>(i), 0)) - exact.product[i]);
    EXPECT_LE(static_cast<double>(error),
              30 * unit_roundoff<T> * static_cast<double>(exact.size[i]));
  }
}

TYPED_TEST(Sparse, ProductOfOblongMatrix_HasTheBitsOfTheReference) {
  using T = TypeParam;
  for (const auto& [rows, columns] : {std::pair{37, 60}, std::pair{60, 37}, std::pair{5, 0}}) {
    const auto a = matgen::random_sparse<T>(rows, columns, 9, 6);
    const std::vector<T> x = random_vector<T>(columns);
    const DenseMatrix<T> expected = expected_product(a, x);
    const auto column_cuts = row_cuts(columns);
    const auto cuts = row_cuts(rows);
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      SCOPED_TRACE(fmt::format("cut at {}", cuts[i].boundaries()));
      Mesh& mesh = mesh_of(cuts[i].ranks());
      const SparseMatrix<T> on_mesh(mesh, a, cuts[i], column_cuts[i]);
      EXPECT_TRUE(same_bits(product(mesh, on_mesh, x), expected));
    }
  }
}

TYPED_TEST(Sparse, Transposed_IsTheTransposedMatrix) {
  using T = TypeParam;
  const auto a = matgen::random_sparse<T>(37, 60, 9, 6);
  const CsrMatrix<T> plain = transposed(a);
  CsrMatrix<T> conjugated = plain;
  if constexpr (is_complex<T>) {
    for (T& value : conjugated.values) {
      value = std::conj(value);
    }
  }
  const std::vector<T> x = random_vector<T>(37);
  const auto cuts = row_cuts(37);
  const auto column_cuts = row_cuts(60);
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    SCOPED_TRACE(fmt::format("cut at {}", cuts[i].boundaries()));
    Mesh& mesh = mesh_of(cuts[i].ranks());
    const SparseMatrix<T> on_mesh(mesh, a, cuts[i], column_cuts[i]);
    EXPECT_TRUE(same_bits(product(mesh, on_mesh.transposed(mesh), x), expected_product(plain, x)));
    EXPECT_TRUE(same_bits(product(mesh, on_mesh.transposed(mesh, true), x),
                          expected_product(conjugated, x)));
  }
}

TYPED_TEST(Sparse, ProductOfSeveralVectors_HasTheBitsOfEach) {
  using T = TypeParam;
  const auto a = matgen::random_sparse<T>(60, 60, 9, 1);
  Mesh& mesh = mesh_of(3);
  const SparseMatrix<T> on_mesh(mesh, a, row_slabs(60, 3));
  DenseMatrix<T> x(60, 3);
  for (std::int64_t j = 0; j < 3; ++j) {
    const auto one = random_vector<T>(60, static_cast<std::uint64_t>(j));
    std::copy(one.begin(), one.end(), &x(0, j));
  }
  const RightHandSides<T> y = to_devices(RightHandSides<T>(on_mesh.rows(), 3));
  EXPECT_TRUE(multiply(mesh, on_mesh, shard_rows(x, on_mesh.columns()), y).ok());
  const DenseMatrix<T> all = whole(y);
  for (std::int64_t j = 0; j < 3; ++j) {
    DenseMatrix<T> one(60, 1);
    std::copy(&all(0, j), &all(0, j) + 60, one.data());
    EXPECT_TRUE(
        same_bits(one, expected_product(a, random_vector<T>(60, static_cast<std::uint64_t>(j)))));
  }
}

/// x = A x, time after time, with nothing between the products but what `queue` does.
template <Scalar T>
DenseMatrix<T> powers(Mesh& mesh, const SparseMatrix<T>& a, const std::vector<T>& x, int times) {
  const RightHandSides<T> result = shard_rows(column(x), a.rows());
  run_on(mesh, [&](mesh::Rank& rank) {
    sparse::Operator<T> product(rank, a);
    const MatrixView<T> from = result.block(rank.index());
    const MatrixView<T> to = rank.workspace<T>(product.rows(), 1);
    for (int time = 0; time < times; ++time) {
      product.apply(rank.update(), from.data(), to.data());
      rank.kernels<T>().copy(rank.update(), to, from);
      rank.kernels<T>().scale(rank.update(), RealOf<T>{1} / 8, from);
    }
    rank.finish(rank.update());
  });
  return whole(result);
}

TYPED_TEST(Sparse, ManyProductsWithoutCommonMemoryAndWithLateCalls_GiveTheSameBits) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  using T = TypeParam;
  const auto a = matgen::laplacian_3d<T>(5);
  const std::vector<T> x = random_vector<T>(a.rows);
  const SlabLayout layout = row_slabs({0, 40, 40, 101, 125});
  Mesh& alone = mesh_of(1);
  const auto expected = powers(alone, SparseMatrix<T>(alone, a, row_slabs(125, 1)), x, 6);
  Mesh copied = cpu_mesh(4, Windows::copied);
  EXPECT_TRUE(same_bits(powers(copied, SparseMatrix<T>(copied, a, layout), x, 6), expected));

  const auto faults = std::make_shared<Faults>(4);
  Mesh late{mesh::MeshState::start(std::make_unique<FaultyBackend>(
      std::make_unique<mesh::HostBackend>(4, Windows::in_place), faults))};
  const SparseMatrix<T> on_late(late, a, layout);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    for (const std::int64_t call : {0, 1, 4}) {
      faults->clear();
      faults->strike_call(rank, call, Fault::delayed, std::chrono::milliseconds(2));
      EXPECT_TRUE(same_bits(powers(late, on_late, x, 6), expected));
    }
  }
}

TYPED_TEST(Sparse, InTheCallersThread_GivesTheSameBits) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  using T = TypeParam;
  const auto a = matgen::random_sparse<T>(60, 60, 9, 1);
  const std::vector<T> x = random_vector<T>(60);
  Mesh serial = Mesh::serial();
  EXPECT_TRUE(same_bits(product(serial, SparseMatrix<T>(serial, a, row_slabs(60, 1)), x),
                        expected_product(a, x)));
}

TYPED_TEST(Sparse, RowsOfProcesses_GiveTheSameBits) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  using T = TypeParam;
  const auto a = matgen::random_sparse<T>(60, 60, 9, 1);
  const std::vector<T> x = random_vector<T>(60);
  const SlabLayout layout = row_slabs({0, 17, 17, 50, 60});
  ProcessMeshes processes(layout.ranks());
  const RightHandSides<T> sides = shard_rows(column(x), layout);
  const RightHandSides<T> products(layout, 1);
  const RightHandSides<T> turned(layout, 1);
  const auto errors = processes.together([&](Mesh& own, std::int64_t rank) {
    std::vector<CsrMatrix<T>> slabs(static_cast<std::size_t>(layout.ranks()));
    slabs[static_cast<std::size_t>(rank)] = rows_of(a, layout.segment(rank));
    const SparseMatrix<T> on_mesh(own, slabs, layout, layout);
    EXPECT_EQ(on_mesh.entries(), a.entries());
    EXPECT_TRUE(multiply(own, on_mesh, sides, products).ok());
    EXPECT_TRUE(multiply(own, on_mesh.transposed(own), sides, turned).ok());
  });
  for (const auto& error : errors) {
    EXPECT_FALSE(error.has_value()) << error->what();
  }
  EXPECT_TRUE(same_bits(whole(products), expected_product(a, x)));
  EXPECT_TRUE(same_bits(whole(turned), expected_product(transposed(a), x)));
}

TYPED_TEST(Sparse, NumbersThatAreNone_StayInTheRowsThatHaveThem) {
  using T = TypeParam;
  CsrMatrix<T> a = matgen::laplacian_3d<T>(3);
  a.values[static_cast<std::size_t>(a.row_pointers[5])] =
      std::numeric_limits<RealOf<T>>::quiet_NaN();
  Mesh& mesh = mesh_of(3);
  const auto y = product(mesh, SparseMatrix<T>(mesh, a, row_slabs(27, 3)), random_vector<T>(27));
  for (std::int64_t i = 0; i < 27; ++i) {
    EXPECT_EQ(std::isnan(std::real(y(i, 0))), i == 5) << i;
  }
}

TEST(SparseOperator, ToldThatAllIsDone_LeavesTheResultAlone) {
  const auto a = matgen::laplacian_3d<double>(4);
  Mesh& mesh = mesh_of(3);
  const SparseMatrix<double> on_mesh(mesh, a, row_slabs(64, 3));
  const std::vector<double> x = random_vector<double>(64);
  const RightHandSides<double> sides = shard_rows(column(x), on_mesh.columns());
  for (const std::int32_t done : {0, 1}) {
    const RightHandSides<double> y =
        shard_rows(column(std::vector<double>(64, 2.5)), on_mesh.rows());
    run_on(mesh, [&](mesh::Rank& rank) {
      sparse::Operator<double> product(rank, on_mesh);
      product.apply(rank.update(), sides.block(rank.index()).data(), y.block(rank.index()).data(),
                    rank.upload(rank.update(), &done, 1));
      rank.finish(rank.update());
    });
    EXPECT_TRUE(same_bits(
        whole(y), done == 0 ? expected_product(a, x) : column(std::vector<double>(64, 2.5))));
  }
}

TEST(SparseOperator, OfMatrixWithoutHalo_SendsNothing) {
  CsrMatrix<double> a{6, 6, {0, 1, 2, 3, 4, 5, 6}, {0, 1, 2, 3, 4, 5}, {1, 2, 3, 4, 5, 6}};
  Mesh& mesh = mesh_of(3);
  const SparseMatrix<double> on_mesh(mesh, a, row_slabs(6, 3));
  EXPECT_FALSE(on_mesh.parts().exchanges);
  const std::vector<double> x = random_vector<double>(6);
  EXPECT_TRUE(same_bits(product(mesh, on_mesh, x), expected_product(a, x)));
}

TEST(SparseMatrixOf, WrongInput_IsRefusedWithTheRow) {
  Mesh& mesh = mesh_of(2);
  const SlabLayout layout = row_slabs(3, 2);
  const CsrMatrix<double> good{3, 3, {0, 2, 2, 3}, {0, 2, 1}, {1, 2, 3}};
  const auto refused = [&](CsrMatrix<double> a, const std::vector<std::string>& words) {
    expect_error([&] { SparseMatrix<double>(mesh, a, layout); }, ErrorKind::invalid_argument,
                 words);
  };
  const auto changed = [&](auto change) {
    CsrMatrix<double> a = good;
    change(a);
    return a;
  };
  EXPECT_NO_THROW(SparseMatrix<double>(mesh, good, layout));
  refused(changed([](auto& a) { a.column_indices = {2, 0, 1}; }),
          {"row 0", "column 0 behind column 2", "sorted()"});
  refused(changed([](auto& a) { a.column_indices = {2, 2, 1}; }), {"column 2 behind column 2"});
  refused(changed([](auto& a) { a.column_indices = {0, 2, 3}; }), {"row 2", "column 3", "0 to 2"});
  refused(changed([](auto& a) { a.column_indices = {-1, 2, 1}; }), {"row 0", "column -1"});
  refused(changed([](auto& a) { a.row_pointers = {0, 2, 1, 3}; }), {"never falling"});
  refused(changed([](auto& a) { a.row_pointers = {0, 2, 3}; }), {"3 row pointers"});
  refused(changed([](auto& a) { a.values.pop_back(); }), {"2 values"});
  refused(changed([](auto& a) { a.columns = 4; }), {"3 x 4", "3 x 3"});
  expect_error([&] { SparseMatrix<double>(mesh, good, row_slabs(3, 3)); },
               ErrorKind::invalid_argument, {"3 slabs", "2 ranks"});
}

TEST(SparseMatrixOf, ProcessesThatCutDifferently_AreRefused) {
  ProcessMeshes processes(2);
  const auto a = matgen::laplacian_3d<double>(3);
  const auto errors = processes.together([&](Mesh& own, std::int64_t rank) {
    SparseMatrix<double>(own, a, row_slabs({0, rank == 0 ? 10 : 11, 27}));
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->kind(), ErrorKind::invalid_argument) << error->what();
    EXPECT_THAT(error->what(), ::testing::HasSubstr("other places"));
  }
}

TEST(SparseProduct, OfVectorsThatDoNotFit_IsRefused) {
  Mesh& mesh = mesh_of(2);
  const SparseMatrix<double> a(mesh, matgen::laplacian_3d<double>(3), row_slabs(27, 2));
  const RightHandSides<double> fits(a.rows(), 1);
  expect_error([&] { multiply(mesh, a, RightHandSides<double>(row_slabs({0, 1, 27}), 1), fits); },
               ErrorKind::invalid_argument, {"cut as the columns"});
  expect_error([&] { multiply(mesh, a, fits, RightHandSides<double>(a.rows(), 2)); },
               ErrorKind::invalid_argument, {"as many columns"});
}

/// What scripts/prove_waits.py runs.
class SparseWaits : public ::testing::TestWithParam<Windows> {};

TEST_P(SparseWaits, ManyProducts_WithAllWaits_AreRight) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  const auto a = matgen::laplacian_3d<double>(5);
  const std::vector<double> x = random_vector<double>(a.rows);
  Mesh& alone = mesh_of(1);
  const auto expected = powers(alone, SparseMatrix<double>(alone, a, row_slabs(125, 1)), x, 8);
  for (const SlabLayout& layout : {row_slabs(125, 2), row_slabs({0, 40, 40, 101, 125})}) {
    Mesh mesh = cpu_mesh(layout.ranks(), GetParam());
    EXPECT_TRUE(same_bits(powers(mesh, SparseMatrix<double>(mesh, a, layout), x, 8), expected));
  }
}

INSTANTIATE_TEST_SUITE_P(Meshes, SparseWaits, ::testing::Values(Windows::in_place, Windows::copied),
                         [](const ::testing::TestParamInfo<Windows>& case_info) {
                           return case_info.param == Windows::in_place ? "in_place" : "copied";
                         });

}  // namespace
}  // namespace shardsolve::testing::sparse_problem
