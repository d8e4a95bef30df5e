// The GPU's kernels of Krylov solves have the bits of the CPU's: programs and sums one by one, and
// whole solves of every method side by side.

#include "kernels/emulated_kernels.hpp"
#include "kernels/emulated_krylov.hpp"
#include "kernels/orders.hpp"
#include "krylov/stages.hpp"
#include "krylov/tables.hpp"
#include "matgen/sparse_matrices.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/host/krylov_kernels.hpp"
#include "runtime/host/sparse_kernels.hpp"
#include "runtime/krylov/ends.hpp"
#include "runtime/krylov/shape.hpp"
#include "runtime/krylov/step.hpp"
#include "support/dtypes.hpp"
#include "support/host_rank.hpp"

#include <shardsolve/sparse.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::testing::emulated_krylov {
namespace {

using krylov::InnerPreconditioner;
using krylov::Method;
using krylov::MethodTable;
using krylov::OtherStages;
using krylov::Problem;
using krylov::Program;
using krylov::Stage;
using krylov::State;
using krylov::StateRoom;
using krylov::SumLayout;
using krylov::SumTable;
using krylov::UpdateKind;
using krylov::Vectors;
using runtime::RowChoice;
using runtime::Scan;
using runtime::SparseRows;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <Scalar T>
T number(std::int64_t stream, std::int64_t i) {
  const auto re = static_cast<RealOf<T>>(krylov::random_number(2 * stream, i));
  if constexpr (is_complex<T>) {
    return {re, static_cast<RealOf<T>>(krylov::random_number(2 * stream + 1, i))};
  } else {
    return re;
  }
}
template <Scalar T>
std::vector<T> numbers(std::int64_t n, std::int64_t stream) {
  std::vector<T> x(at(n));
  for (std::int64_t i = 0; i < n; ++i) {
    x[at(i)] = number<T>(stream, i);
  }
  return x;
}

/// Kernels of the CPU, or of the GPU.
template <Scalar T, class Krylov, class Sparse>
class Side {
 public:
  const runtime::KrylovKernels<T>& kernels() const { return krylov_; }
  runtime::Queue& queue() { return queue_; }

  void run(const Program& program, const Vectors<T>& vectors, const State* state,
           const StateRoom& room, const SumTable<T>& sums, const std::int32_t* rank = nullptr) {
    krylov_.run(queue_, program, vectors, state, room, sums, rank);
    queue_.synchronize();
  }
  void finish(const Problem& problem, int reduction, const SumTable<T>& sums, State* state,
              const StateRoom& room) {
    krylov_.finish(queue_, problem, reduction, sums, state, room);
    queue_.synchronize();
  }
  void divide_rows(MatrixView<const T> diagonal, MatrixView<const T> source, MatrixView<T> target,
                   const std::int32_t* skip) {
    krylov_.divide_rows(queue_, diagonal, source, target, skip);
    queue_.synchronize();
  }
  void multiply(const SparseRows<T>& a, const std::vector<T>& x, MatrixView<T> y,
                const std::int32_t* done) {
    sparse_.multiply(queue_, a, RowChoice{.count = a.rows}, MatrixView<const T>(x.data(), a.own, 1),
                     {}, y, done);
    queue_.synchronize();
  }
  Scan scan(MatrixView<const T> x) {
    Scan result;
    krylov_.scan(queue_, x, &result);
    queue_.synchronize();
    return result;
  }
  void scale_exactly(int exponent, MatrixView<const T> source, MatrixView<T> target) {
    krylov_.scale_exactly(queue_, exponent, source, target);
    queue_.synchronize();
  }

 private:
  HostRank rank_;
  runtime::host::HostQueue queue_{"test", rank_.pulse(), runtime::host::RunsIn::caller};
  Krylov krylov_;
  Sparse sparse_;
};
template <Scalar T>
using Host = Side<T, runtime::host::HostKrylovKernels<T>, runtime::host::HostSparseKernels<T>>;
template <Scalar T>
using Gpu = Side<T, EmulatedKrylovKernels<T>, EmulatedSparseKernels<T>>;

/// Likewise, where only the GPU's memory says which rank it is.
template <Scalar T>
class GpuOfUnknownRank : public Gpu<T> {
 public:
  void run(const Program& program, const Vectors<T>& vectors, const State* state,
           const StateRoom& room, const SumTable<T>& sums) {
    Vectors<T> unplaced = vectors;
    unplaced.first_row = 0;
    for (std::int64_t r = 0; r < sums.layout.ranks; ++r) {
      unplaced.rows =
          std::max(unplaced.rows, sums.layout.boundaries[r + 1] - sums.layout.boundaries[r]);
    }
    const auto rank = static_cast<std::int32_t>(sums.rank);
    SumTable<T> of_nobody = sums;
    of_nobody.rank = 0;
    Gpu<T>::run(program, unplaced, state, room, of_nobody, &rank);
  }
};

/// Likewise, a program with the end of its reduction in one kernel, of the only rank.
template <Scalar T>
class GpuToEnd : public Gpu<T> {
 public:
  void run(const Program& program, const Vectors<T>& vectors, const State* /*state*/,
           const StateRoom& /*room*/, const SumTable<T>& /*sums*/) {
    program_ = program;
    vectors_ = vectors;
  }
  void finish(const Problem& problem, int reduction, const SumTable<T>& sums, State* state,
              const StateRoom& room) {
    using Krylov = runtime::cuda::KrylovDeviceKernels<Element<T>>;
    StateRoom with_turnstile = room;
    with_turnstile.turnstile = &turnstile_;
    const auto vectors = runtime::cuda::elements(vectors_);
    const auto table = runtime::cuda::elements(sums);
    ASSERT_TRUE(Krylov::fits_end(program_, vectors, table, with_turnstile));
    Krylov::run_to_end(no_stream, problem, program_, vectors, reduction, table, state,
                       with_turnstile);
    EXPECT_EQ(turnstile_, 0U);
  }

 private:
  Program program_;
  Vectors<T> vectors_;
  std::uint32_t turnstile_ = 0;
};

template <class Value>
bool same_bytes(const std::vector<Value>& ours, const std::vector<Value>& theirs) {
  return ours.size() == theirs.size() &&
         std::memcmp(ours.data(), theirs.data(), ours.size() * sizeof(Value)) == 0;
}

template <class T>
class EmulatedKrylov : public ::testing::Test {};
TYPED_TEST_SUITE(EmulatedKrylov, Dtypes, DtypeNames);

/// Cuts of n rows: none, even ones, within leaves, and slabs without rows.
std::vector<std::vector<std::int64_t>> cuts_of(std::int64_t n) {
  const auto row = [&](std::int64_t r) { return std::min(r, n); };
  return {{0, n}, {0, n / 2, n}, {0, row(63), row(65), row(66), n}, {0, 0, n / 3, n / 3, n, n}};
}

/// What a program leaves on all ranks, and the sums that they make of it.
template <Scalar T>
struct Left {
  std::vector<T> vectors;
  std::vector<T> parts;
  std::vector<double> sums;
};

/// Vectors 0 to 5, of which the last three are columns of a matrix.
template <Scalar T, class Side>
Left<T> run_everywhere(Side& side, const Program& program, State state,
                       const std::vector<std::int64_t>& boundaries, std::int64_t block_leaves,
                       int slots, int fixed) {
  const std::int64_t n = boundaries.back();
  const auto ranks = static_cast<std::int64_t>(boundaries.size()) - 1;
  const SumLayout layout{n, ranks, boundaries.data(), block_leaves};
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t r = 0; r < ranks; ++r) {
    offsets.push_back(offsets.back() + SumTable<T>::length(layout.part(r), slots));
  }
  Left<T> left{numbers<T>(6 * n, 3), std::vector<T>(at(offsets.back())), {}};
  std::vector<krylov::Number> sums(at(slots));
  std::vector<krylov::Number> factors;
  for (int k = 0; k < 3; ++k) {
    factors.push_back({0.3 + k, is_complex<T> ? 0.7 - k : 0.0});
  }
  std::vector<krylov::Number> weak(factors.rbegin(), factors.rend());
  const StateRoom room{
      .sums = sums.data(), .column_factors = factors.data(), .weak_factors = weak.data()};
  SumTable<T> table{layout, 0, slots, fixed, left.parts.data(), offsets.data()};
  for (std::int64_t r = 0; r < ranks; ++r) {
    Vectors<T> vectors;
    vectors.first_row = boundaries[at(r)];
    vectors.rows = boundaries[at(r + 1)] - boundaries[at(r)];
    for (int v = 0; v < 6; ++v) {
      vectors.base[v] = left.vectors.data() + v * n + vectors.first_row;
      vectors.stride[v] = n;
    }
    vectors.base[6] = vectors.base[3];
    vectors.stride[6] = n;
    vectors.column[6] = krylov::Column::current;
    table.rank = r;
    side.run(program, vectors, &state, room, table);
  }
  // A step that ends a solve at once, so that its sums are all that is new.
  Problem problem;
  problem.method = Method::bicgstab;
  side.finish(problem, 1, table, &state, room);
  for (const krylov::Number& sum : sums) {
    left.sums.push_back(sum.re);
    left.sums.push_back(sum.im);
  }
  return left;
}

template <Scalar T>
void expect_same_program(const Program& program, const State& state, std::int64_t n,
                         std::int64_t block_leaves, int slots, int fixed) {
  Host<T> host;
  Gpu<T> gpu;
  GpuOfUnknownRank<T> unknown;
  for (const auto& boundaries : cuts_of(n)) {
    SCOPED_TRACE(std::to_string(n) + " rows, " + std::to_string(boundaries.size() - 1) +
                 " ranks, blocks of " + std::to_string(block_leaves));
    const Left<T> expected =
        run_everywhere<T>(host, program, state, boundaries, block_leaves, slots, fixed);
    const Left<T> found =
        run_everywhere<T>(gpu, program, state, boundaries, block_leaves, slots, fixed);
    EXPECT_TRUE(same_bytes(found.vectors, expected.vectors));
    EXPECT_TRUE(same_bytes(found.parts, expected.parts));
    EXPECT_TRUE(same_bytes(found.sums, expected.sums));
    const Left<T> without_rank =
        run_everywhere<T>(unknown, program, state, boundaries, block_leaves, slots, fixed);
    EXPECT_TRUE(same_bytes(without_rank.vectors, expected.vectors));
    EXPECT_TRUE(same_bytes(without_rank.parts, expected.parts));
  }
}

State state_with(std::uint32_t actions) {
  State state;
  state.actions = actions;
  state.columns = 3;
  state.column = 1;
  state.seed = 5;
  for (int c = 0; c < krylov::coefficients; ++c) {
    state.coefficient[c] = {0.75 + 0.11 * c, 0.0};
  }
  return state;
}

TYPED_TEST(EmulatedKrylov, EveryUpdate_HasTheBitsOfTheCpu) {
  using T = TypeParam;
  State state = state_with(1);
  if constexpr (is_complex<T>) {
    state.coefficient[1].im = -0.3;
  }
  for (const UpdateKind kind :
       {UpdateKind::clear, UpdateKind::copy, UpdateKind::add_scaled, UpdateKind::scale_add,
        UpdateKind::scale, UpdateKind::subtract, UpdateKind::divide, UpdateKind::ones,
        UpdateKind::random, UpdateKind::add_random, UpdateKind::add_columns,
        UpdateKind::subtract_columns, UpdateKind::add_weak_columns}) {
    const bool over_columns = kind >= UpdateKind::add_columns;
    const Program program =
        Program{.name = "update"}
            .then({1, kind, 0, static_cast<std::uint8_t>(over_columns ? 3 : 1), 2, 1})
            .then({2, UpdateKind::clear, 1})  // not asked for
            .then({1, UpdateKind::copy, 6, 0})
            .sum({1, 6, 0, 0, 0});
    for (const std::int64_t n : {1, 130, 2100}) {
      expect_same_program<T>(program, state, n, 1, 1, 1);
    }
  }
}

TYPED_TEST(EmulatedKrylov, SumsOfAnyLayout_HaveTheBitsOfTheCpu) {
  using T = TypeParam;
  const Program program = Program{.name = "sums"}
                              .then({1, UpdateKind::add_scaled, 0, 1, 0, 1})
                              .sum({1, 0, 0, 0, 0})
                              .sum({2, 0, 2, 0, 1})  // not asked for
                              .sum({1, 1, 0, 0, 1})
                              .sum({1, 3, 0, 1, 2});
  for (const std::int64_t block_leaves : {1, 2, 4, 8, 16, 32, 64, 128}) {
    expect_same_program<T>(program, state_with(1), 9000, block_leaves, 5, 2);
  }
  in_each_order([&] { expect_same_program<T>(program, state_with(1), 4500, 64, 5, 2); });
  // More chunks than blocks of threads.
  runtime::cuda::multiprocessors() = 1;
  expect_same_program<T>(program, state_with(1), 9000, 2, 5, 2);
  expect_same_program<T>(program, state_with(1), 19000, 64, 5, 2);
  runtime::cuda::multiprocessors() = 132;
  if constexpr (std::is_same_v<T, double>) {
    // More leaves in a block than are put aside, and more blocks than a warp adds up.
    expect_same_program<T>(program, state_with(1), 40000, 256, 5, 2);
    expect_same_program<T>(program, state_with(1), 40000, 1, 5, 2);
  }
}

TYPED_TEST(EmulatedKrylov, ManyColumns_HaveTheBitsOfTheCpu) {
  using T = TypeParam;
  // The same three columns again and again, more than one pass takes.
  Program program{.name = "columns"};
  for (int d = 0; d < 12; ++d) {
    program.sum({1, 3, 0, 1, 3 * d});
  }
  expect_same_program<T>(program, state_with(1), 5000, 64, 36, 33);
  expect_same_program<T>(program, state_with(1), 700, 1, 36, 33);
}

/// A program of each shape that has kernels of its own, for a state whose action is 1.
std::vector<Program> known_programs() {
  const auto program = [] { return Program{.name = "known"}.usually(1, true); };
  return {program().sum({1, 0, 1, 0, 2}).sum({1, 0, 0, 0, 0}).sum({1, 1, 1, 0, 1}),
          program()
              .then({1, UpdateKind::add_scaled, 0, 1, 0, 1})
              .sum({1, 0, 0, 0, 0})
              .sum({1, 0, 0, 0, 1})
              .sum({2, 0, 1, 0, 2}),
          program()
              .then({1, UpdateKind::add_scaled, 0, 1, 0, 1})
              .then({1, UpdateKind::divide, 2, 0, 3, 0, krylov::Unless::skip_preconditioner})
              .sum({1, 0, 0, 0, 0})
              .sum({1, 0, 2, 0, 1})
              .sum({1, 2, 2, 0, 2}),
          program().sum({1, 0, 1, 0, 0}).sum({1, 1, 1, 0, 1}),
          program()
              .then({1, UpdateKind::add_scaled, 0, 1, 0, 1})
              .then({1, UpdateKind::scale_add, 1, 2, 0, 2})};
}

TYPED_TEST(EmulatedKrylov, ProgramsOfKnownShape_HaveTheBitsOfTheCpu) {
  using T = TypeParam;
  State state = state_with(1);
  if constexpr (is_complex<T>) {
    state.coefficient[1].im = -0.3;
  }
  int number = 0;
  for (const Program& program : known_programs()) {
    SCOPED_TRACE(number);
    std::vector<T> memory(4);
    Vectors<T> vectors;
    for (int v = 0; v < 4; ++v) {
      vectors.base[v] = &memory[at(v)];
    }
    ASSERT_EQ(krylov::ShapeFinder<T>(program, vectors).find().shape, number++);
    for (const auto& [n, block_leaves] : {std::pair{130, 1},
                                          {2100, 2},
                                          {4500, 4},
                                          {9000, 8},
                                          {4500, 32},
                                          {9000, 64},
                                          {19000, 128}}) {
      expect_same_program<T>(program, state, n, block_leaves, 3, 3);
    }
  }
  in_each_order([&] { expect_same_program<T>(known_programs()[2], state, 9000, 64, 3, 3); });
  runtime::cuda::multiprocessors() = 1;
  expect_same_program<T>(known_programs()[0], state, 19000, 2, 3, 3);
  runtime::cuda::multiprocessors() = 132;
}

TYPED_TEST(EmulatedKrylov, ProgramsToTheEndOfTheirReduction_HaveTheBitsOfTheCpu) {
  using T = TypeParam;
  for (const auto& [n, block_leaves] :
       {std::pair{130, 1}, {9000, 1}, {9000, 64}, {40000, 1}, {130000, 1}, {1100000, 16}}) {
    SCOPED_TRACE(n);
    Host<T> host;
    GpuToEnd<T> gpu;
    const Program program = known_programs().front();
    const Left<T> expected =
        run_everywhere<T>(host, program, state_with(1), {0, n}, block_leaves, 3, 3);
    const Left<T> found =
        run_everywhere<T>(gpu, program, state_with(1), {0, n}, block_leaves, 3, 3);
    EXPECT_TRUE(same_bytes(found.sums, expected.sums));
  }
}

TYPED_TEST(EmulatedKrylov, DoneStates_StayAsTheyAre) {
  using T = TypeParam;
  const Program program =
      Program{.name = "nothing"}.then({1, UpdateKind::clear, 0}).sum({1, 0, 0, 0, 0});
  State state = state_with(1);
  state.done = 1;
  Gpu<T> gpu;
  const Left<T> found = run_everywhere<T>(gpu, program, state, {0, 300}, 1, 1, 1);
  EXPECT_TRUE(same_bytes(found.vectors, numbers<T>(1800, 3)));
  EXPECT_TRUE(same_bytes(found.parts, std::vector<T>(found.parts.size())));
}

TYPED_TEST(EmulatedKrylov, ScansAndPowersOfTwo_AreThoseOfTheCpu) {
  using T = TypeParam;
  using Real = RealOf<T>;
  Host<T> host;
  Gpu<T> gpu;
  for (const std::int64_t n : {0, 1, 255, 5000}) {
    for (const Real special :
         {Real{1}, Real{0}, std::numeric_limits<Real>::denorm_min(),
          std::numeric_limits<Real>::max(), std::numeric_limits<Real>::quiet_NaN(),
          -std::numeric_limits<Real>::infinity()}) {
      std::vector<T> x = special == 0 ? std::vector<T>(at(n)) : numbers<T>(n, 1);
      if (n > 0) {
        x[at(n / 2)] = special;
        x[at(n - 1)] = special;
      }
      const MatrixView<const T> view(x.data(), n, 1);
      const Scan found = gpu.scan(view);
      const Scan expected = host.scan(view);
      EXPECT_EQ(found.first_nonfinite, expected.first_nonfinite);
      EXPECT_EQ(found.exponent, expected.exponent);
      EXPECT_EQ(found.least, expected.least);
      for (const int exponent : {0, 7, -40, std::numeric_limits<Real>::min_exponent - 3}) {
        std::vector<T> ours(at(n));
        std::vector<T> theirs(at(n));
        gpu.scale_exactly(exponent, view, {ours.data(), n, 1});
        host.scale_exactly(exponent, view, {theirs.data(), n, 1});
        EXPECT_TRUE(same_bytes(ours, theirs));
      }
    }
  }
}

TYPED_TEST(EmulatedKrylov, BeginningsAndEnds_AreThoseOfTheCpu) {
  using T = TypeParam;
  using Real = RealOf<T>;
  using E = Element<T>;
  using Kernels = runtime::cuda::KrylovDeviceKernels<E>;
  constexpr std::int64_t largest = std::numeric_limits<Real>::max_exponent;
  const std::vector<std::int64_t> boundaries{0, 10, 25};
  const std::vector<T> x = numbers<T>(25, 1);
  Problem problem;
  problem.n = 25;
  problem.atol = 0.25;
  for (const std::int64_t nonfinite : {-1, 3}) {
    for (const std::int64_t exponent : {std::int64_t{5}, largest - 1, Scan::zero}) {
      const std::vector<Scan> of_b{{-1, exponent}, {nonfinite, Scan::zero}};
      const std::vector<Scan> of_x{{-1, 2}, {-1, exponent}};
      for (const Scan* const guess : {static_cast<const Scan*>(nullptr), of_x.data()}) {
        krylov::SolveState expected =
            krylov::begin_solve(problem, krylov::merged(of_b.data(), boundaries.data(), 2),
                                krylov::merged(guess, boundaries.data(), 2), largest);
        krylov::SolveState found;
        Kernels::begin_solve(no_stream, problem, of_b.data(), guess, boundaries.data(), 2, &found);
        EXPECT_EQ(found.state.status, expected.state.status);
        EXPECT_EQ(found.exponent, expected.exponent);
        EXPECT_EQ(found.state.guess_exponent, expected.state.guess_exponent);
        EXPECT_EQ(found.guess_exponent, expected.guess_exponent);
        EXPECT_EQ(found.row, expected.row);
        EXPECT_EQ(found.state.atol, expected.state.atol);
        for (const krylov::Way way : {krylov::Way::b_to_solve, krylov::Way::guess_to_solve}) {
          std::vector<T> scaled(25);
          Kernels::scale_for(no_stream, way, &found, elements(MatrixView<const T>(x.data(), 25, 1)),
                             elements(MatrixView<T>(scaled.data(), 25, 1)));
          std::vector<T> by_host(25);
          if (!krylov::is_zero_vector(expected)) {
            Host<T>().scale_exactly(krylov::exponent_of(expected, way),
                                    MatrixView<const T>(x.data(), 25, 1), {by_host.data(), 25, 1});
          }
          EXPECT_TRUE(same_bytes(scaled, by_host));
        }
        krylov::Report report;
        krylov::Report expected_report;
        Real figures[krylov::report_figures];
        Real expected_figures[krylov::report_figures];
        krylov::end_solve(problem, of_x.data(), 2, expected, expected_report, expected_figures);
        Kernels::end_solve(no_stream, problem, of_x.data(), 2, &found, &report, figures);
        EXPECT_EQ(report.status, expected_report.status);
        EXPECT_EQ(report.residual, expected_report.residual);
        EXPECT_EQ(figures[2], expected_figures[2]);
      }
    }
  }
}

/// A solve on ranks that take turns, by the library's stages.
template <Scalar T, class Side>
class Solve {
 public:
  Solve(const Problem& problem, const CsrMatrix<T>& a, const std::vector<T>& b,
        std::vector<std::int64_t> boundaries, bool has_diagonal = true)
      : problem_(problem),
        table_(krylov::table_of(problem.method)),
        boundaries_(std::move(boundaries)),
        has_diagonal_(has_diagonal),
        a_(a),
        columns_(a.column_indices.begin(), a.column_indices.end()) {
    for (std::int64_t i = 0; i < problem.n; ++i) {
      diagonal_.push_back(
          static_cast<T>(static_cast<RealOf<T>>(2.0 + 0.25 * static_cast<double>(i % 7))));
    }
    const auto ranks = static_cast<std::int64_t>(boundaries_.size()) - 1;
    for (std::int64_t r = 0; r < ranks; ++r) {
      ranks_.push_back(std::make_unique<OneRank>(*this, r, b));
    }
  }

  const State& state() const { return ranks_.front()->state; }
  /// All numbers that a round may have changed.
  std::vector<T> numbers_of_all() const {
    std::vector<T> all;
    for (const auto& rank : ranks_) {
      all.insert(all.end(), rank->vectors.begin(), rank->vectors.end());
    }
    return all;
  }
  std::vector<State> states() const {
    std::vector<State> all;
    for (const auto& rank : ranks_) {
      all.push_back(rank->state);
    }
    return all;
  }

  /// Kernel by kernel, M one of its own.
  void round() {
    for (const Stage& stage : table_.stages) {
      if (stage.kind == Stage::Kind::reduce) {
        exchange(stage.reduction);
      }
      for (const auto& rank : ranks_) {
        rank->memory.inner = InnerPreconditioner::none;
        rank->stages.enqueue(stage);
        rank->stages.flush();
      }
    }
  }

  /// Several on one rank, with as much in a part as there may be: also of two rounds.
  void rounds_in_parts(int rounds) {
    OneRank& rank = *ranks_.front();
    rank.memory.inner = has_diagonal_ ? InnerPreconditioner::jacobi : InnerPreconditioner::identity;
    for (int round = 0; round < rounds; ++round) {
      for (const Stage& stage : table_.stages) {
        rank.stages.enqueue(stage);
      }
    }
    rank.stages.flush();
  }

 private:
  struct OneRank final : OtherStages {
    OneRank(Solve& of, std::int64_t index, const std::vector<T>& b)
        : solve(of), stages(of.side_.kernels(), of.side_.queue(), of.problem_, memory, *this) {
      // Compared byte by byte.
      std::memset(static_cast<void*>(&state), 0, sizeof(state));
      state = State{};
      krylov::begin(solve.problem_, state);
      memory.state = &state;
      add_vectors(index, b);
      add_sums(index);
      add_room();
    }

    void multiply(const Stage& stage) override {
      const Vectors<T>& all = memory.vectors;
      if (all.rows == 0) {
        return;
      }
      const MatrixView<T> output(all.base[stage.output], all.rows, 1);
      const std::int32_t* const skip = &(state.*stage.skip);
      if (stage.kind == Stage::Kind::multiply) {
        const SparseRows<T> slab{.rows = all.rows,
                                 .own = solve.problem_.n,
                                 .lanes = 2,
                                 .row_pointers = solve.a_.row_pointers.data() + all.first_row,
                                 .columns = solve.columns_.data(),
                                 .values = solve.a_.values.data()};
        solve.side_.multiply(slab, solve.gathered(stage.input), output, skip);
      } else {
        solve.side_.divide_rows({solve.diagonal_.data() + all.first_row, all.rows, 1},
                                {all.base[stage.input], all.rows, 1}, output, skip);
      }
    }
    void reduce(int reduction) override {
      solve.side_.finish(solve.problem_, reduction, memory.sums.at(at(reduction)), &state,
                         memory.room);
    }

    void add_vectors(std::int64_t index, const std::vector<T>& b) {
      const MethodTable& table = solve.table_;
      Vectors<T>& all = memory.vectors;
      all.first_row = solve.boundaries_[at(index)];
      all.rows = solve.boundaries_[at(index + 1)] - all.first_row;
      std::vector<std::int64_t> columns(Vectors<T>::most, 0);
      std::fill_n(columns.begin(), table.vectors, 1);
      for (const int matrix : table.matrices) {
        columns[at(matrix)] = solve.problem_.cycle;
      }
      vectors.assign(at(all.rows * (table.vectors + 2 * solve.problem_.cycle) + 1), T{0});
      T* next = vectors.data();
      for (int v = 0; v < Vectors<T>::most; ++v) {
        all.base[v] = next;
        all.stride[v] = all.rows;
        next += columns[at(v)] * all.rows;
      }
      std::copy_n(b.begin() + all.first_row, all.rows, all.base[krylov::vector_b]);
      all.base[Vectors<T>::diagonal] =
          solve.has_diagonal_ ? solve.diagonal_.data() + all.first_row : nullptr;
      memory.inner =
          solve.has_diagonal_ ? InnerPreconditioner::jacobi : InnerPreconditioner::identity;
      memory.add_names(table);
    }
    void add_sums(std::int64_t index) {
      const SumLayout layout{solve.problem_.n, static_cast<std::int64_t>(solve.ranks()),
                             solve.boundaries_.data(), 2};
      for (std::size_t r = 0; r < solve.table_.reductions.size(); ++r) {
        const krylov::TableReduction& reduction = solve.table_.reductions[r];
        const int slots = reduction.slots(solve.problem_.cycle);
        offsets[r] = {0};
        for (std::int64_t to = 0; to < layout.ranks; ++to) {
          offsets[r].push_back(offsets[r].back() + SumTable<T>::length(layout.part(to), slots));
        }
        parts[r].assign(at(offsets[r].back()), T{0});
        memory.sums[r] = {layout,          index,           slots,
                          reduction.fixed, parts[r].data(), offsets[r].data()};
      }
    }
    void add_room() {
      numbers.assign(2000, {});
      records.assign(at(solve.problem_.records), {});
      memory.room = {.sums = numbers.data(),
                     .records = records.data(),
                     .column_factors = numbers.data() + 100,
                     .weak_factors = numbers.data() + 150,
                     .hessenberg = numbers.data() + 200,
                     .turnstile = &turnstile};
    }

    Solve& solve;
    State state;
    std::vector<T> vectors;
    std::array<std::vector<T>, krylov::max_reductions> parts;  // all ranks'
    std::array<std::vector<std::int64_t>, krylov::max_reductions> offsets;
    std::vector<krylov::Number> numbers;
    std::vector<krylov::Record> records;
    std::uint32_t turnstile = 0;
    krylov::SolveMemory<T> memory;
    krylov::Stages<T> stages;
  };

  std::size_t ranks() const { return boundaries_.size() - 1; }

  std::vector<T> gathered(int vector) const {
    std::vector<T> whole;
    for (const auto& rank : ranks_) {
      const Vectors<T>& all = rank->memory.vectors;
      whole.insert(whole.end(), all.base[vector], all.base[vector] + all.rows);
    }
    return whole;
  }

  /// Every rank gets the parts of the others.
  void exchange(int reduction) {
    const auto which = at(reduction);
    for (const auto& to : ranks_) {
      for (std::size_t r = 0; r < ranks(); ++r) {
        if (ranks_[r] == to) {
          continue;
        }
        const auto& offsets = to->offsets[which];
        const auto& from = ranks_[r]->parts[which];
        std::copy(from.begin() + offsets[r], from.begin() + offsets[r + 1],
                  to->parts[which].begin() + offsets[r]);
      }
    }
  }

  Problem problem_;
  const MethodTable& table_;
  std::vector<std::int64_t> boundaries_;
  bool has_diagonal_;
  CsrMatrix<T> a_;
  std::vector<std::int32_t> columns_;
  std::vector<T> diagonal_;
  Side side_;
  std::vector<std::unique_ptr<OneRank>> ranks_;
};

template <Scalar T>
Problem problem_of(Method method, std::int64_t n) {
  const double u = unit_roundoff<T>;
  Problem problem;
  problem.method = method;
  problem.n = n;
  problem.cycle = method == Method::fgmres ? 9 : 0;
  problem.roundoff = u;
  problem.breakdown = 200 * u;
  problem.asymmetry = 1e4 * u;
  problem.growth = 1e8;
  problem.rtol = 1e4 * u;
  problem.max_iterations = 24;
  problem.drift_every = 7;
  problem.records = 20;
  problem.is_complex = is_complex<T> ? 1 : 0;
  problem.probes = problem.is_hermitian_method() ? 1 : 0;
  problem.is_twofold = 1;
  return problem;
}

TYPED_TEST(EmulatedKrylov, EveryRoundOfASolve_HasTheBitsOfTheCpu) {
  using T = TypeParam;
  const CsrMatrix<T> symmetric = matgen::laplacian_3d<T>(6);
  const CsrMatrix<T> convective = matgen::convection_diffusion_2d<T>(15, 0.4, -0.3);
  for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
    SCOPED_TRACE(static_cast<int>(method));
    const bool is_hermitian = method == Method::cg || method == Method::minres;
    const CsrMatrix<T>& a = is_hermitian ? symmetric : convective;
    const std::vector<T> b = numbers<T>(a.rows, 1);
    const Problem problem = problem_of<T>(method, a.rows);
    for (const std::vector<std::int64_t>& boundaries :
         {std::vector<std::int64_t>{0, a.rows}, {0, 70, 71, 71, a.rows}}) {
      Solve<T, Host<T>> expected(problem, a, b, boundaries);
      Solve<T, Gpu<T>> found(problem, a, b, boundaries);
      int rounds = 0;
      for (; rounds < 120 && expected.state().done == 0; ++rounds) {
        expected.round();
        found.round();
        ASSERT_TRUE(same_bytes(found.states(), expected.states())) << "round " << rounds;
        ASSERT_TRUE(same_bytes(found.numbers_of_all(), expected.numbers_of_all()))
            << "round " << rounds;
      }
      EXPECT_NE(expected.state().done, 0) << rounds;
    }
  }
}

TYPED_TEST(EmulatedKrylov, EveryRoundInParts_HasTheBitsOfTheCpu) {
  using T = TypeParam;
  // What is one kernel, and what is several.
  for (const auto& [points, edge] : {std::pair{6, 15}, std::pair{13, 47}}) {
    const CsrMatrix<T> symmetric = matgen::laplacian_3d<T>(points);
    const CsrMatrix<T> convective = matgen::convection_diffusion_2d<T>(edge, 0.4, -0.3);
    for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
      SCOPED_TRACE(static_cast<int>(method));
      const bool is_hermitian = method == Method::cg || method == Method::minres;
      const CsrMatrix<T>& a = is_hermitian ? symmetric : convective;
      const std::vector<T> b = numbers<T>(a.rows, 1);
      Problem problem = problem_of<T>(method, a.rows);
      problem.max_iterations = points == 6 ? 24 : 6;
      for (const bool has_diagonal : {true, false}) {
        if (!has_diagonal && krylov::table_of(method).identity.output < 0) {
          continue;  // nothing else than a division by ones
        }
        Solve<T, Host<T>> expected(problem, a, b, {0, a.rows}, has_diagonal);
        Solve<T, Gpu<T>> found(problem, a, b, {0, a.rows}, has_diagonal);
        // As a solve does it: what is recorded begins behind rounds that were alone.
        int together = 1;
        int rounds = 0;
        for (; rounds < 120 && expected.state().done == 0; rounds += together) {
          together = rounds < 2 ? 1 : 3;
          for (int round = 0; round < together; ++round) {
            has_diagonal ? expected.round() : expected.rounds_in_parts(1);
          }
          found.rounds_in_parts(together);
          ASSERT_TRUE(same_bytes(found.states(), expected.states())) << "round " << rounds;
          ASSERT_TRUE(same_bytes(found.numbers_of_all(), expected.numbers_of_all()))
              << "round " << rounds;
        }
        EXPECT_NE(expected.state().done, 0) << rounds;
      }
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing::emulated_krylov
