// Sums of Krylov solves: the bits of the fixed dot on any cut.

#include "runtime/fixed_dot.hpp"
#include "runtime/host/fixed_dot.hpp"
#include "runtime/host/krylov_kernels.hpp"
#include "runtime/host/krylov_program.hpp"
#include "runtime/krylov/sum_layout.hpp"
#include "support/dtypes.hpp"
#include "support/host_rank.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

namespace shardsolve::testing::krylov_sums {
namespace {

using krylov::SumLayout;
using krylov::SumPart;

/// Boundaries of cuts into several ranks, empty ones and ones within a leaf among them.
std::vector<std::vector<std::int64_t>> cuts_of(std::int64_t n) {
  const auto at = [&](std::int64_t row) { return std::min(row, n); };
  return {{0, n},
          {0, n / 2, n},
          {0, at(63), at(65), at(66), n},
          {0, 0, at(64), at(64), n, n},
          {0, n / 3, 2 * (n / 3), n, n},
          {0, at(1), at(2), at(3), at(130), at(131), n}};
}

TEST(KrylovSumLayout, Parts_HaveEachRowOnce) {
  for (const std::int64_t n : {1, 63, 64, 65, 200, 1000}) {
    for (const std::int64_t block_leaves : {1, 2, 8}) {
      for (const auto& boundaries : cuts_of(n)) {
        const SumLayout layout{n, static_cast<std::int64_t>(boundaries.size()) - 1,
                               boundaries.data(), block_leaves};
        std::vector<int> seen(static_cast<std::size_t>(n), 0);
        for (std::int64_t r = 0; r < layout.ranks; ++r) {
          const SumPart part = layout.part(r);
          std::vector<int> used(static_cast<std::size_t>(part.length()), 0);
          for (std::int64_t row = part.begin; row < part.end; ++row) {
            const std::int64_t leaf = row / runtime::dot_leaf;
            const std::int64_t block = leaf / block_leaves;
            ++seen[static_cast<std::size_t>(row)];
            const std::int64_t place = part.has_block(block) ? part.at_block(block)
                                       : part.has_leaf(leaf) ? part.at_leaf(leaf, block_leaves)
                                                             : part.at_row(row);
            ASSERT_GE(place, 0);
            ASSERT_LT(place, part.length() - (part.has_leaf(leaf) ? 0 : part.loose_rows()));
            used[static_cast<std::size_t>(place)] = 1;
            if (!part.has_leaf(leaf)) {
              used[static_cast<std::size_t>(place + part.loose_rows())] = 1;
            }
          }
          EXPECT_EQ(std::count(used.begin(), used.end(), 1), part.length());
        }
        EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), n);
      }
    }
  }
}

TEST(KrylovSumLayout, Blocks_AreAtMost2048) {
  for (const std::int64_t n : {1, 131072, 131073, 262145, 100000000}) {
    const SumLayout layout{.n = n, .block_leaves = SumLayout::block_leaves_of(n)};
    EXPECT_LE(layout.blocks(), SumLayout::max_blocks);
    EXPECT_TRUE(layout.block_leaves == 1 || layout.blocks() > SumLayout::max_blocks / 2);
  }
}

template <class T>
class KrylovSums : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovSums, Dtypes, DtypeNames);

template <Scalar T>
std::vector<T> random_vector(std::int64_t n, std::int64_t stream) {
  std::vector<T> x(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    auto& target = x[static_cast<std::size_t>(i)];
    const auto re = static_cast<RealOf<T>>(krylov::random_number(stream, i));
    if constexpr (is_complex<T>) {
      target = {re, static_cast<RealOf<T>>(krylov::random_number(stream + 1, i))};
    } else {
      target = re;
    }
  }
  return x;
}

template <Scalar T>
T fixed_dot(const std::vector<T>& x, const std::vector<T>& y) {
  const auto n = static_cast<std::int64_t>(x.size());
  T result{};
  runtime::host::fixed_dot({.step = runtime::DotStep::all,
                            .is_double = sizeof(RealOf<T>) == 8,
                            .is_complex = is_complex<T>,
                            .batch = 1,
                            .layout = {n, n},
                            .x = x.data(),
                            .y = y.data(),
                            .result = &result});
  return result;
}

/// The kernels' own order, or pieces from the last to the first.
enum class Order : std::uint8_t { kernels, pieces_backwards };

/// <x, y> by the kernels, rank after rank; `block_leaves` as a large n would have them.
template <Scalar T>
krylov::Number sum_on(const std::vector<std::int64_t>& boundaries, std::int64_t block_leaves,
                      std::vector<T> x, std::vector<T> y, Order order = Order::kernels) {
  HostRank rank;
  runtime::host::HostQueue queue("test", rank.pulse());
  const runtime::host::HostKrylovKernels<T> kernels;
  const auto ranks = static_cast<std::int64_t>(boundaries.size()) - 1;
  const SumLayout layout{boundaries.back(), ranks, boundaries.data(), block_leaves};
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t r = 0; r < ranks; ++r) {
    offsets.push_back(offsets.back() + krylov::SumTable<T>::length(layout.part(r), 1));
  }
  std::vector<T> parts(static_cast<std::size_t>(offsets.back()));
  krylov::Problem problem;
  problem.method = krylov::Method::bicgstab;
  krylov::State state;
  state.actions = krylov::act_always;
  std::vector<krylov::Number> sums(8);
  const krylov::StateRoom room{.sums = sums.data()};
  const krylov::Program program =
      krylov::Program{.name = "dot"}.sum({krylov::act_always, 0, 1, 0, 0});
  krylov::SumTable<T> table{layout, 0, 1, 1, parts.data(), offsets.data()};
  for (std::int64_t r = 0; r < ranks; ++r) {
    krylov::Vectors<T> vectors;
    vectors.first_row = boundaries[static_cast<std::size_t>(r)];
    vectors.rows = boundaries[static_cast<std::size_t>(r) + 1] - vectors.first_row;
    vectors.base[0] = x.data() + vectors.first_row;
    vectors.base[1] = y.data() + vectors.first_row;
    table.rank = r;
    if (order == Order::kernels) {
      kernels.run(queue, program, vectors, &state, room, table);
      continue;
    }
    const runtime::host::RowPieces pieces(layout, vectors.first_row, vectors.rows);
    for (std::int64_t piece = pieces.count() - 1; piece >= 0; --piece) {
      runtime::host::run_program(program, vectors, state, room, table, pieces.begin(piece),
                                 pieces.begin(piece + 1));
    }
  }
  kernels.finish(queue, problem, 1, table, &state, room);
  queue.synchronize();
  return sums[0];
}

TYPED_TEST(KrylovSums, AnyCut_HasTheBitsOfTheFixedDot) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 63, 64, 65, 200, 1000}) {
    const std::vector<T> x = random_vector<T>(n, 1);
    const std::vector<T> y = random_vector<T>(n, 5);
    const T truth = fixed_dot(x, y);
    for (const std::int64_t block_leaves : {1, 2, 4}) {
      for (const auto& boundaries : cuts_of(n)) {
        const krylov::Number sum = sum_on(boundaries, block_leaves, x, y);
        EXPECT_EQ(sum.re, double{std::real(truth)});
        EXPECT_EQ(sum.im, double{std::imag(truth)});
      }
    }
  }
}

TYPED_TEST(KrylovSums, PiecesInAnyOrder_HaveTheBitsOfTheFixedDot) {
  using T = TypeParam;
  constexpr std::int64_t n = 70001;
  const std::vector<T> x = random_vector<T>(n, 1);
  const std::vector<T> y = random_vector<T>(n, 5);
  const T truth = fixed_dot(x, y);
  for (const std::int64_t block_leaves : {1, 4, 8, 16, 512}) {
    for (const auto& boundaries : cuts_of(n)) {
      const krylov::Number sum = sum_on(boundaries, block_leaves, x, y, Order::pieces_backwards);
      EXPECT_EQ(sum.re, double{std::real(truth)});
      EXPECT_EQ(sum.im, double{std::imag(truth)});
    }
  }
}

TEST(RowPieces, Bounds_CoverAllRowsAndAreThoseOfBlocks) {
  for (const std::int64_t block_leaves : {1, 8, 512}) {
    const SumLayout layout{.n = 500000, .block_leaves = block_leaves};
    for (const std::int64_t first_row : {0, 1, 16384, 70001}) {
      for (const std::int64_t rows : {0, 1, 16383, 16384, 100000}) {
        const runtime::host::RowPieces pieces(layout, first_row, rows);
        std::int64_t next = 0;
        for (std::int64_t piece = 0; piece < pieces.count(); ++piece) {
          ASSERT_EQ(pieces.begin(piece), next);
          next = pieces.begin(piece + 1);
          ASSERT_TRUE(next == rows || (first_row + next) % layout.block_rows() == 0);
          ASSERT_LT(pieces.begin(piece), next);
        }
        EXPECT_EQ(next, rows);
      }
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing::krylov_sums
