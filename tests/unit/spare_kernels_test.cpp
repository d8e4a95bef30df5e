// Kernels on a queue that has threads to spare: they take a part of the work, and the bits stay.

#include "krylov/local_blocks.hpp"
#include "krylov/local_chebyshev.hpp"
#include "matgen/sparse_matrices.hpp"
#include "runtime/host/in_caller.hpp"
#include "runtime/krylov/program.hpp"
#include "runtime/krylov_kernels.hpp"
#include "sparse/local_product.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::testing::spare_kernels {
namespace {

using krylov::BlockKind;

/// A thread for each task.
class Threads : public runtime::host::SpareThreads {
 public:
  ~Threads() override {
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  std::int64_t count() const override { return 3; }
  void start(std::function<void()> task) override { threads_.emplace_back(std::move(task)); }
  std::size_t started() const { return threads_.size(); }

 private:
  std::vector<std::thread> threads_;
};

std::vector<double> numbers(std::int64_t n, std::int64_t stream) {
  std::vector<double> x;
  for (std::int64_t i = 0; i < n; ++i) {
    x.push_back(krylov::random_number(stream, i));
  }
  return x;
}

/// What `compute(threads)` gives is the same without and with them, and they were asked.
void expect_same(const std::function<std::vector<double>(Threads*)>& compute) {
  const std::vector<double> alone = compute(nullptr);
  Threads threads;
  EXPECT_EQ(compute(&threads), alone);
  EXPECT_GT(threads.started(), 0U);
}

/// 5 entries a row, 90000 rows.
const CsrMatrix<double>& matrix() {
  static const CsrMatrix<double> a = matgen::convection_diffusion_2d<double>(300, 0.4, -0.3);
  return a;
}

TEST(SpareKernels, Product_HasTheSameBits) {
  const CsrMatrix<double>& a = matrix();
  const std::vector<std::int32_t> columns(a.column_indices.begin(), a.column_indices.end());
  const std::vector<double> x = numbers(a.rows, 1);
  const std::int32_t twofold = runtime::twofold_product;
  const std::int32_t bound = runtime::product_rounding;
  for (const std::int32_t* const flag :
       {static_cast<const std::int32_t*>(nullptr), &twofold, &bound}) {
    expect_same([&](Threads* threads) {
      std::vector<double> y(x.size());
      runtime::host::in_caller(threads,
                               [&](const runtime::KernelSource& device, runtime::Queue& queue) {
                                 sparse::enqueue(device, queue,
                                                 {.dtype = Dtype::float64,
                                                  .rows = a.rows,
                                                  .size = a.rows,
                                                  .lanes = 2,
                                                  .row_pointers = a.row_pointers.data(),
                                                  .columns = columns.data(),
                                                  .values = a.values.data(),
                                                  .x = x.data(),
                                                  .y = y.data(),
                                                  .skip = flag});
                               });
      return y;
    });
  }
}

/// Of one of three devices, from all of x, or from its own rows, where no block is cut.
std::vector<double> solved(const krylov::BlockTables<double>& tables, const std::vector<double>& x,
                           std::int64_t rank, bool of_own, Threads* threads) {
  const auto factors = tables.factors();
  const std::int64_t rows = tables.rows() / 3;
  const std::int64_t size = of_own ? rows : tables.rows();
  std::vector<double> work(static_cast<std::size_t>(size));
  std::vector<double> y(static_cast<std::size_t>(rows));
  const std::int32_t skip = 0;
  runtime::host::in_caller(
      threads, [&](const runtime::KernelSource& device, runtime::Queue& queue) {
        krylov::enqueue(device, queue,
                        krylov::LocalBlocks{.dtype = Dtype::float64,
                                            .is_band = factors.is_band,
                                            .count = factors.count,
                                            .largest = factors.largest,
                                            .widest = factors.widest,
                                            .entries = factors.entries,
                                            .blocks = factors.blocks,
                                            .numbers = factors.numbers,
                                            .lists = factors.lists,
                                            .rows = rows,
                                            .rank = rank,
                                            .x = x.data() + (of_own ? rank * rows : 0),
                                            .size = size,
                                            .work = work.data(),
                                            .y = y.data(),
                                            .skip = &skip});
      });
  return y;
}

TEST(SpareKernels, BlocksOfDevices_HaveTheSameBits) {
  const CsrMatrix<double>& a = matrix();
  const std::vector<double> x = numbers(a.rows, 2);
  // The devices' rows end with blocks, or within them.
  for (const std::int64_t size : {std::int64_t{1000}, std::int64_t{1700}}) {
    std::vector<std::int64_t> blocks;
    for (std::int64_t row = 0; row < a.rows; row += size) {
      blocks.push_back(row);
    }
    blocks.push_back(a.rows);
    const auto tables = krylov::factor_blocks<double>(BlockKind::incomplete_lu, blocks, a);
    for (const std::int64_t rank : {0, 1, 2}) {
      expect_same([&](Threads* threads) { return solved(tables, x, rank, false, threads); });
      if (size == 1000) {
        EXPECT_EQ(solved(tables, x, rank, true, nullptr), solved(tables, x, rank, false, nullptr));
      }
    }
  }
}

TEST(SpareKernels, Program_HasTheSameBits) {
  constexpr std::int64_t n = 100'000;
  constexpr std::int64_t shift = 777;  // rows of another rank before
  const krylov::Program program = krylov::Program{.name = "program"}
                                      .then({1, krylov::UpdateKind::add_scaled, 0, 1, 0, 1})
                                      .sum({1, 0, 1, 0, 0});
  const std::array<std::int64_t, 3> boundaries{0, shift, shift + n};
  const krylov::SumLayout layout{shift + n, 2, boundaries.data(),
                                 krylov::SumLayout::block_leaves_of(shift + n)};
  const std::vector<double> y = numbers(n, 4);
  expect_same([&](Threads* threads) {
    std::vector<double> x = numbers(n, 3);
    std::vector<double> parts(
        static_cast<std::size_t>(krylov::SumTable<double>::length(layout.part(1), 1)));
    const std::array<std::int64_t, 3> offsets{0, 0, static_cast<std::int64_t>(parts.size())};
    krylov::State state;
    state.actions = 1;
    state.coefficient[1] = {0.3, 0.0};
    krylov::Vectors<double> vectors;
    vectors.first_row = shift;
    vectors.rows = n;
    vectors.base[0] = x.data();
    vectors.base[1] = const_cast<double*>(y.data());
    runtime::host::in_caller(
        threads, [&](const runtime::KernelSource& device, runtime::Queue& queue) {
          device.kernels<runtime::KrylovKernels<double>>().run(
              queue, program, vectors, &state, {}, {layout, 1, 1, 1, parts.data(), offsets.data()});
        });
    x.insert(x.end(), parts.begin(), parts.end());
    return x;
  });
}

TEST(SpareKernels, StepOfChebyshev_HasTheSameBits) {
  constexpr std::int64_t n = 70'000;
  const std::vector<double> product = numbers(n, 5);
  const std::vector<double> diagonal(n, 3.0);
  const std::int32_t zero = 0;
  expect_same([&](Threads* threads) {
    std::vector<double> all = numbers(4 * n, 6);
    krylov::run_on_host({.dtype = Dtype::float64,
                         .rows = n,
                         .low = 0.1,
                         .high = 1.0,
                         .step = 2,
                         .product = product.data(),
                         .residual = all.data(),
                         .direction = all.data() + n,
                         .sum = all.data() + 2 * n,
                         .diagonal = diagonal.data(),
                         .scaled = all.data() + 3 * n,
                         .zero = &zero},
                        threads);
    return all;
  });
}

TEST(SpareKernels, WorkOfFewRows_AsksForNobody) {
  std::vector<double> x = numbers(1000, 7);
  const std::int32_t zero = 0;
  Threads threads;
  std::vector<double> all = numbers(3000, 8);
  krylov::run_on_host({.dtype = Dtype::float64,
                       .rows = 1000,
                       .low = 0.1,
                       .high = 1.0,
                       .product = x.data(),
                       .residual = all.data(),
                       .direction = all.data() + 1000,
                       .sum = all.data() + 2000,
                       .zero = &zero},
                      &threads);
  EXPECT_EQ(threads.started(), 0U);
}

}  // namespace
}  // namespace shardsolve::testing::spare_kernels
