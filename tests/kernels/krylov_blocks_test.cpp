// Solves with factored blocks on the GPU have the bits of the CPU's, and those solve.

#include "kernels/emulated_kernels.hpp"
#include "kernels/orders.hpp"
#include "krylov/band_factor.hpp"
#include "krylov/incomplete_factor.hpp"
#include "matgen/sparse_matrices.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/host/krylov_kernels.hpp"
#include "runtime/krylov/program.hpp"
#include "support/dtypes.hpp"
#include "support/host_rank.hpp"

#include <shardsolve/sparse.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace shardsolve::testing::emulated_blocks {
namespace {

using krylov::BandFactor;
using krylov::BlockFactors;
using krylov::BlockTables;
using krylov::IncompleteCholesky;
using krylov::IncompleteLu;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <Scalar T>
T number(std::int64_t i) {
  const auto re = static_cast<RealOf<T>>(krylov::random_number(8, i));
  if constexpr (is_complex<T>) {
    return {re, static_cast<RealOf<T>>(krylov::random_number(9, i))};
  } else {
    return re;
  }
}

template <Scalar T, class Factor>
BlockTables<T> factored(const CsrMatrix<T>& a, const std::vector<std::int64_t>& blocks) {
  BlockTables<T> tables(std::is_same_v<Factor, BandFactor<T>>);
  for (std::size_t b = 0; b + 1 < blocks.size(); ++b) {
    Factor(a, {GlobalIndex(blocks[b]), GlobalIndex(blocks[b + 1])}).add_to(tables);
  }
  return tables;
}

/// Rows from `first` on, `rows` of them.
template <Scalar T>
std::vector<T> on_host(const BlockFactors<T>& factors, std::vector<T> source, std::int64_t first,
                       std::int64_t rows, std::int32_t skip) {
  HostRank rank;
  runtime::host::HostQueue queue{"test", rank.pulse()};
  std::vector<T> work(source.size());
  std::vector<T> target(at(rows), T{7});
  const auto n = static_cast<std::int64_t>(source.size());
  runtime::host::HostKrylovKernels<T>().solve_blocks(
      queue, "blocks", factors, MatrixView<const T>(source.data(), n, 1),
      MatrixView<T>(work.data(), n, 1), first, MatrixView<T>(target.data(), rows, 1), &skip);
  queue.synchronize();
  return target;
}
template <Scalar T>
std::vector<T> on_gpu(const BlockFactors<T>& factors, std::vector<T> source, std::int64_t first,
                      std::int64_t rows, std::int32_t skip) {
  std::vector<T> work(source.size());
  std::vector<T> target(at(rows), T{7});
  const auto n = static_cast<std::int64_t>(source.size());
  runtime::cuda::KrylovDeviceKernels<Element<T>>::solve_blocks(
      no_stream, runtime::cuda::elements(factors),
      elements(MatrixView<const T>(source.data(), n, 1)),
      elements(MatrixView<T>(work.data(), n, 1)), first,
      elements(MatrixView<T>(target.data(), rows, 1)), &skip);
  return target;
}

template <Scalar T>
void expect_same(const BlockTables<T>& tables, const char* name) {
  const BlockFactors<T> factors = tables.factors();
  const std::int64_t n = tables.rows();
  std::vector<T> source;
  for (std::int64_t i = 0; i < n; ++i) {
    source.push_back(number<T>(i));
  }
  for (const std::int64_t first : {std::int64_t{0}, n / 3}) {
    for (const std::int32_t skip : {0, 1}) {
      const std::vector<T> expected = on_host(factors, source, first, n - first - first / 2, skip);
      const std::vector<T> found = on_gpu(factors, source, first, n - first - first / 2, skip);
      EXPECT_EQ(std::memcmp(found.data(), expected.data(), expected.size() * sizeof(T)), 0)
          << name << " from row " << first;
    }
  }
}

/// Rows of each of several ranks, whose number is in the GPU's memory; from all of the source, or,
/// where no block is cut by them, from a rank's rows of it.
template <Scalar T>
void expect_same_of_ranks(const BlockTables<T>& tables, std::int64_t ranks, bool of_own) {
  const std::int64_t n = tables.rows();
  const std::int64_t rows = n / ranks;
  std::vector<T> source;
  for (std::int64_t i = 0; i < n; ++i) {
    source.push_back(number<T>(i));
  }
  const std::vector<T> expected = on_host(tables.factors(), source, 0, n, 0);
  const std::int32_t skip = 0;
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    const auto begin = source.begin() + rank * rows;
    std::vector<T> seen = of_own ? std::vector<T>(begin, begin + rows) : source;
    std::vector<T> work(seen.size());
    std::vector<T> found(at(rows), T{7});
    const auto size = static_cast<std::int64_t>(seen.size());
    runtime::cuda::KrylovDeviceKernels<Element<T>>::solve_blocks(
        no_stream, runtime::cuda::elements(tables.factors()),
        elements(MatrixView<const T>(seen.data(), size, 1)),
        elements(MatrixView<T>(work.data(), size, 1)), 0,
        elements(MatrixView<T>(found.data(), rows, 1)), &skip, &rank);
    EXPECT_EQ(std::memcmp(found.data(), expected.data() + rank * rows, found.size() * sizeof(T)), 0)
        << "rank " << rank << " of " << ranks;
  }
}

/// Entries at most `reach` away from the diagonal, so many that pivots are far from it.
template <Scalar T>
CsrMatrix<T> random_band(std::int64_t n, std::int64_t reach) {
  CsrMatrix<T> a{n, n, {0}, {}, {}};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = std::max<std::int64_t>(i - reach, 0); j <= std::min(i + reach, n - 1);
         ++j) {
      a.column_indices.push_back(j);
      a.values.push_back(number<T>(i * n + j));
    }
    a.row_pointers.push_back(a.entries());
  }
  return a;
}

template <class T>
class EmulatedKrylovBlocks : public ::testing::Test {};
TYPED_TEST_SUITE(EmulatedKrylovBlocks, Dtypes, DtypeNames);

TYPED_TEST(EmulatedKrylovBlocks, EveryFactor_HasTheBitsOfTheCpu) {
  using T = TypeParam;
  const CsrMatrix<T> symmetric = matgen::laplacian_3d<T>(5);
  const CsrMatrix<T> convective = matgen::convection_diffusion_2d<T>(11, 0.4, -0.3);
  const CsrMatrix<T> random = random_band<T>(70, 9);
  const std::vector<std::int64_t> of_symmetric{0, 40, 41, 125};
  const auto all = [&] {
    expect_same(factored<T, BandFactor<T>>(symmetric, of_symmetric), "cholesky");
    expect_same(factored<T, BandFactor<T>>(convective, {0, 50, 121}), "band lu");
    expect_same(factored<T, BandFactor<T>>(random, {0, 33, 70}), "pivoted lu");
    expect_same(factored<T, IncompleteCholesky<T>>(symmetric, of_symmetric), "ic");
    expect_same(factored<T, IncompleteLu<T>>(convective, {0, 50, 121}), "ilu");
  };
  in_each_order(all);
  // Blocks that shared memory does not hold.
  runtime::cuda::shared_limit() = 30 * sizeof(T);
  all();
  runtime::cuda::shared_limit() = std::size_t{227} << 10U;
}

TYPED_TEST(EmulatedKrylovBlocks, RanksOfJax_HaveTheirRows) {
  using T = TypeParam;
  const CsrMatrix<T> a = matgen::laplacian_3d<T>(6);
  const auto all = [&] {
    for (const std::int64_t ranks : {1, 2, 4}) {
      expect_same_of_ranks(factored<T, IncompleteLu<T>>(a, {0, 40, 41, 160, 216}), ranks, false);
      expect_same_of_ranks(factored<T, BandFactor<T>>(a, {0, 54, 108, 130, 162, 216}), ranks, true);
    }
  };
  all();
  // Blocks that shared memory does not hold.
  runtime::cuda::shared_limit() = 30 * sizeof(T);
  all();
  runtime::cuda::shared_limit() = std::size_t{227} << 10U;
}

TYPED_TEST(EmulatedKrylovBlocks, WideBand_HasTheBitsOfTheCpu) {
  using T = TypeParam;
  // More entries a step than a block has threads.
  expect_same(factored<T, BandFactor<T>>(random_band<T>(300, 290), {0, 300}), "wide");
}

TYPED_TEST(EmulatedKrylovBlocks, BandFactors_Solve) {
  using T = TypeParam;
  for (const CsrMatrix<T>& a : {matgen::laplacian_3d<T>(5), random_band<T>(70, 9)}) {
    std::vector<T> b;
    for (std::int64_t i = 0; i < a.rows; ++i) {
      b.push_back(number<T>(i));
    }
    const auto tables = factored<T, BandFactor<T>>(a, {0, a.rows});
    const std::vector<T> x = on_host(tables.factors(), b, 0, a.rows, 0);
    double residual = 0.0;
    for (std::int64_t i = 0; i < a.rows; ++i) {
      T sum = b[at(i)];
      for (std::int64_t k = a.row_pointers[at(i)]; k < a.row_pointers[at(i + 1)]; ++k) {
        sum -= a.values[at(k)] * x[at(a.column_indices[at(k)])];
      }
      residual = std::max(residual, static_cast<double>(std::abs(sum)));
    }
    EXPECT_LT(residual, 2e4 * unit_roundoff<T>);
  }
}

}  // namespace
}  // namespace shardsolve::testing::emulated_blocks
