/// Every algorithm once, on a small system: what tests make fail in the middle.
#pragma once

#include "dense/qr/lstsq_in_steps.hpp"
#include "dense/svd/by_polar.hpp"
#include "matgen/sparse_matrices.hpp"
#include "tests/support/backend.hpp"
#include "tests/support/matrix_zoo.hpp"
#include "tests/support/network_jobs.hpp"
#include "tests/support/sharded_problem.hpp"
#include "tests/support/tridiagonal_job.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/eigh.hpp>
#include <shardsolve/krylov.hpp>
#include <shardsolve/lu.hpp>
#include <shardsolve/qr.hpp>
#include <shardsolve/sparse.hpp>
#include <shardsolve/svd.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {

/// The slabs of the ranks that are in this process; empty views for the others.
template <Scalar T>
ShardedMatrix<T> only_here(const Mesh& mesh, const ShardedMatrix<T>& a) {
  std::vector<MatrixView<T>> slabs;
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    slabs.push_back(mesh.is_here(rank) ? a.slab(rank) : MatrixView<T>());
  }
  return {a.layout(), std::move(slabs), a.memory(), std::make_shared<ShardedMatrix<T>>(a)};
}
template <Scalar T>
RightHandSides<T> only_here(const Mesh& mesh, const RightHandSides<T>& b) {
  std::vector<MatrixView<T>> blocks;
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    blocks.push_back(mesh.is_here(rank) ? b.block(rank) : MatrixView<T>());
  }
  return {b.layout(), std::move(blocks), b.memory(), std::make_shared<RightHandSides<T>>(b)};
}

/// All that a job gives, to be compared bit for bit.
struct Answer {
  std::vector<double> numbers;             ///< the same in all processes
  std::vector<std::vector<double>> parts;  ///< of each rank; empty if it is in another process

  template <Scalar T>
  void add(std::int64_t rank, MatrixView<T> part) {
    parts.resize(std::max(parts.size(), static_cast<std::size_t>(rank) + 1));
    for (std::int64_t j = 0; j < part.columns(); ++j) {
      for (std::int64_t i = 0; i < part.rows(); ++i) {
        parts[static_cast<std::size_t>(rank)].push_back(double{std::real(part(i, j))});
        parts[static_cast<std::size_t>(rank)].push_back(double{std::imag(part(i, j))});
      }
    }
  }
};

inline bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

/// Whether the parts that `ours` has are those of `theirs`, and its numbers too.
inline ::testing::AssertionResult same_bits(const Answer& ours, const Answer& theirs) {
  if (!same_bits(ours.numbers, theirs.numbers)) {
    return ::testing::AssertionFailure() << "certificates or the like differ";
  }
  for (std::size_t rank = 0; rank < theirs.parts.size(); ++rank) {
    if (rank >= ours.parts.size() ||
        (!ours.parts[rank].empty() && !same_bits(ours.parts[rank], theirs.parts[rank]))) {
      return ::testing::AssertionFailure() << "what rank " << rank << " has differs";
    }
  }
  return ::testing::AssertionSuccess();
}

/// A system of `n` unknowns on a mesh.
template <Scalar T>
struct SmallSystem {
  Mesh& mesh;
  SlabLayout layout;

  SmallSystem(Mesh& on, std::int64_t n, std::int64_t tile)
      : mesh(on), layout(SlabLayout::even(n, on.ranks(), tile)) {}

  ShardedMatrix<T> matrix(const matgen::Recipe& recipe) const {
    return only_here(mesh, shard(dense<T>(recipe), layout));
  }
  ShardedMatrix<T> matrix() const { return matrix({.n = layout.size(), .seed = 3}); }
  RightHandSides<T> sides(std::int64_t columns) const {
    return only_here(mesh, shard_rows(right_hand_sides<T>(layout.size(), columns), layout));
  }
  void add(Answer& answer, const ShardedMatrix<T>& anywhere) const {
    const ShardedMatrix<T> a = to_host(anywhere);
    for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      answer.add(rank, a.slab(rank));
    }
  }
  void add(Answer& answer, const RightHandSides<T>& anywhere) const {
    const RightHandSides<T> b = to_host(anywhere);
    for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
      answer.add(rank, b.block(rank));
    }
  }
};

/// A public call, or several, with what they give. Throws what they throw.
struct Job {
  std::string name;
  std::function<Answer(Mesh&, const RunOptions&)> run;

  friend std::ostream& operator<<(std::ostream& out, const Job& job) { return out << job.name; }
};

template <Scalar T>
Answer run_solve(Mesh& mesh, const RunOptions& options, std::int64_t n = 22,
                 std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const RightHandSides<T> x = system.sides(2);
  const Outcome outcome = solve(mesh, system.matrix(), x, options);
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  Answer answer{{outcome.backward_error.value_or(-1), outcome.rcond.value_or(-1)}, {}};
  system.add(answer, x);
  return answer;
}

template <Scalar T>
Answer run_inverse(Mesh& mesh, const RunOptions& options, std::int64_t n = 22,
                   std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const ShardedMatrix<T> a = system.matrix();
  const Outcome outcome = cholesky_inverse(mesh, cholesky_factor(mesh, a, options), options);
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  Answer answer{{outcome.backward_error.value_or(-1), outcome.rcond.value_or(-1)}, {}};
  system.add(answer, a);
  return answer;
}

template <Scalar T>
Answer run_log_determinant(Mesh& mesh, const RunOptions& options, std::int64_t n = 22,
                           std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  return {{log_determinant(cholesky_factor(mesh, system.matrix(), options))}, {}};
}

template <Scalar T>
Answer run_reuse(Mesh& mesh, const RunOptions& options, std::int64_t n = 22,
                 std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const CholeskyFactor<T> factor = cholesky_factor(mesh, system.matrix(), options);
  Answer answer{{condition_estimate(mesh, factor, options)}, {}};
  for (const std::int64_t columns : {1, 7}) {
    const RightHandSides<T> x = system.sides(columns);
    const Outcome outcome = cholesky_solve(mesh, factor, x, options);
    EXPECT_TRUE(outcome.ok()) << outcome.message();
    answer.numbers.push_back(outcome.backward_error.value_or(-1));
    system.add(answer, x);
  }
  return answer;
}

template <Scalar T>
Answer run_half(Mesh& mesh, const RunOptions& options, std::int64_t n = 22, std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const CholeskyFactor<T> factor = cholesky_factor(mesh, system.matrix(), options);
  Answer answer;
  for (const Half half :
       {Half::solve, Half::solve_adjoint, Half::multiply, Half::multiply_adjoint}) {
    const RightHandSides<T> x = system.sides(7);
    const Outcome outcome = cholesky_half(mesh, factor, x, half, options);
    EXPECT_TRUE(outcome.ok()) << outcome.message();
    system.add(answer, x);
  }
  return answer;
}

/// A matrix that is not Hermitian, and has no large pivots on its diagonal.
template <Scalar T>
ShardedMatrix<T> general_matrix(const SmallSystem<T>& system) {
  const std::int64_t n = system.layout.size();
  return only_here(system.mesh, shard(right_hand_sides<T>(n, n, 5), system.layout));
}

template <Scalar T>
Answer run_general_solve(Mesh& mesh, const RunOptions& options, std::int64_t n = 22,
                         std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const RightHandSides<T> x = system.sides(2);
  const Outcome outcome =
      solve(mesh, general_matrix(system), x, options, Rcond::estimated, Assume::general);
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  Answer answer{{outcome.backward_error.value_or(-1), outcome.component_error.value_or(-1),
                 outcome.growth.value_or(-1), outcome.rcond.value_or(-1)},
                {}};
  system.add(answer, x);
  return answer;
}

/// A factor, its determinant and condition number, and what it solves.
template <Scalar T>
Answer run_lu(Mesh& mesh, const RunOptions& options, std::int64_t n = 22, std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const LuFactor<T> factor = lu_factor(mesh, general_matrix(system), options);
  EXPECT_TRUE(factor.outcome.ok()) << factor.outcome.message();
  Answer answer{{factor.log_modulus, double{std::real(factor.sign)},
                 condition_estimate(mesh, factor, options)},
                {}};
  system.add(answer, factor.slabs);
  for (const Transpose transpose : {Transpose::none, Transpose::transpose, Transpose::adjoint}) {
    const RightHandSides<T> x = system.sides(7);
    const Outcome outcome = lu_solve(mesh, factor, x, options, transpose);
    EXPECT_TRUE(outcome.ok()) << outcome.message();
    answer.numbers.push_back(outcome.backward_error.value_or(-1));
    system.add(answer, x);
  }
  return answer;
}

/// What a factor solves that has overwritten its matrix.
template <Scalar T>
Answer run_lu_in_place(Mesh& mesh, const RunOptions& options, std::int64_t n = 22,
                       std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const ShardedMatrix<T> a = general_matrix(system);
  const LuFactor<T> factor = lu_factor(mesh, a, a, options);
  EXPECT_TRUE(factor.outcome.ok()) << factor.outcome.message();
  Answer answer{{condition_estimate(mesh, factor, options)}, {}};
  for (const Transpose transpose : {Transpose::none, Transpose::adjoint}) {
    const RightHandSides<T> x = system.sides(4);
    const Outcome outcome = lu_solve(mesh, factor, x, options, transpose);
    EXPECT_TRUE(outcome.ok()) << outcome.message();
    answer.numbers.push_back(outcome.backward_error.value_or(-1));
    system.add(answer, x);
  }
  return answer;
}

/// The inverses in memory of their own and in the place of A.
template <Scalar T>
Answer run_lu_inverse(Mesh& mesh, const RunOptions& options, std::int64_t n = 22,
                      std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const ShardedMatrix<T> a = general_matrix(system);
  Answer answer;
  for (const bool in_place : {false, true}) {
    LuFactor<T> factor = in_place ? lu_factor(mesh, a, a, options) : lu_factor(mesh, a, options);
    const ShardedMatrix<T> x = factor.slabs;
    const Outcome outcome = lu_inverse(mesh, std::move(factor), options);
    EXPECT_TRUE(outcome.ok()) << outcome.message();
    answer.numbers.push_back(outcome.backward_error.value_or(-1));
    answer.numbers.push_back(outcome.rcond.value_or(-1));
    system.add(answer, x);
  }
  return answer;
}

/// Q and R of so many columns.
template <Scalar T>
Answer run_qr_of(std::int64_t columns, const SmallSystem<T>& system, const RunOptions& options) {
  Mesh& mesh = system.mesh;
  const RowBlocks<T> a = system.sides(columns);
  const QrFactor<T> made = qr(mesh, a, QrMode::reduced, options);
  EXPECT_TRUE(made.outcome.ok()) << made.outcome.message();
  Answer answer{{made.outcome.residual.value_or(-1), made.outcome.orthogonality.value_or(-1)}, {}};
  for (const T entry : made.r) {
    answer.numbers.push_back(double{std::real(entry)});
  }
  system.add(answer, a);
  return answer;
}

template <Scalar T>
Answer run_qr(Mesh& mesh, const RunOptions& options, std::int64_t n = 22, std::int64_t tile = 3) {
  return run_qr_of<T>(5, SmallSystem<T>(mesh, n, tile), options);
}

/// With columns dealt to the ranks, to the host and in slabs.
template <Scalar T>
Answer run_square_qr(Mesh& mesh, const RunOptions& options, std::int64_t n = 22,
                     std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const RowBlocks<T> a = system.sides(n);
  const RowBlocks<T> r = system.sides(n);
  const Outcome outcome = qr(mesh, a, r, QrMode::reduced, options);
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  Answer answer = run_qr_of<T>(n - 1, system, options);
  system.add(answer, a);
  system.add(answer, r);
  return answer;
}

/// Solutions of each kind, with more rows than columns and with fewer.
template <Scalar T>
Answer run_least_squares(Mesh& mesh, const RunOptions& options, std::int64_t n = 22,
                         std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const RowBlocks<T> b = system.sides(2);
  Answer answer;
  const auto add = [&](const LeastSquares<T>& found) {
    EXPECT_TRUE(found.outcome.ok()) << found.outcome.message();
    answer.numbers.push_back(found.outcome.backward_error.value_or(-1));
    answer.numbers.push_back(static_cast<double>(found.rank));
    for (const T entry : found.x) {
      answer.numbers.push_back(double{std::real(entry)});
    }
  };
  for (const std::int64_t columns : {std::int64_t{5}, n + 8}) {
    const RowBlocks<T> a = system.sides(columns);
    add(least_squares(mesh, a, b, options));
    add(lstsq(mesh, a, b, 0.5, options));
    add(ridge(mesh, a, b, 0.1, options));
  }
  // columns that are zero are left to reflections
  const RowBlocks<T> zero = only_here(mesh, shard_rows(DenseMatrix<T>(n, 3), system.layout));
  add(lstsq(mesh, zero, b, std::nullopt, options));
  return answer;
}

/// lstsq() as of many columns, with the largest singular values alone: all of its programs.
template <Scalar T>
Answer run_lstsq_in_steps(Mesh& mesh, const RunOptions& options) {
  const SmallSystem<T> system(mesh, 13, 2);
  const dense::qr::Request request{.by_singular_values = true, .rcond = 0.9};
  const LeastSquares<T> found =
      dense::qr::lstsq_in_steps(mesh, system.sides(3), system.sides(2), request, options);
  EXPECT_TRUE(found.outcome.ok()) << found.outcome.message();
  Answer answer{{found.outcome.backward_error.value_or(-1), static_cast<double>(found.rank)}, {}};
  for (const T entry : found.x) {
    answer.numbers.push_back(double{std::real(entry)});
  }
  return answer;
}

/// Singular values and vectors of a wide matrix: its adjoint crosses the ranks, then QR comes
/// first. By a bidiagonal form where ranks are CPUs, or by polar factors as on GPUs.
template <Scalar T>
Answer run_svd(Mesh& mesh, const RunOptions& options, bool by_polar) {
  const SmallSystem<T> rows(mesh, 3, 2);
  const SmallSystem<T> columns(mesh, 13, 2);
  const RowBlocks<T> u = rows.sides(3);
  const RowBlocks<T> v = columns.sides(3);
  const RowBlocks<T> a = rows.sides(13);
  const SingularValues<T> found =
      by_polar ? dense::svd::svd_by_polar<T>(
                     {"svd", mesh, a, v.layout(), dense::svd::Wanted::vectors, options},
                     {.u = v, .v = u, .vh = nullptr})
               : svd(mesh, a, u, v, options);
  EXPECT_TRUE(found.outcome.ok()) << found.outcome.message();
  Answer answer{{found.outcome.residual.value_or(-1), found.outcome.orthogonality.value_or(-1)},
                {}};
  answer.numbers.insert(answer.numbers.end(), found.values.begin(), found.values.end());
  rows.add(answer, u);
  columns.add(answer, v);
  return answer;
}

/// The polar factors of a matrix that is nearly square: there is no QR.
template <Scalar T>
Answer run_polar(Mesh& mesh, const RunOptions& options) {
  const SmallSystem<T> rows(mesh, 7, 2);
  const SmallSystem<T> columns(mesh, 5, 2);
  const RowBlocks<T> u = rows.sides(5);
  const ShardedMatrix<T> h = columns.matrix();
  const Outcome outcome = polar(mesh, rows.sides(5), u, h, options);
  EXPECT_TRUE(outcome.ok()) << outcome.message();
  Answer answer{{outcome.residual.value_or(-1), outcome.orthogonality.value_or(-1)}, {}};
  rows.add(answer, u);
  columns.add(answer, h);
  return answer;
}

template <Scalar T>
Answer run_eigh(Mesh& mesh, const RunOptions& options, std::int64_t n = 22, std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const ShardedMatrix<T> a = system.matrix();
  const Eigenvalues<T> found = eigh(mesh, a, {}, options);
  EXPECT_TRUE(found.outcome.ok()) << found.outcome.message();
  Answer answer{{found.outcome.residual.value_or(-1), found.outcome.orthogonality.value_or(-1)},
                {}};
  answer.numbers.insert(answer.numbers.end(), found.values.begin(), found.values.end());
  system.add(answer, a);
  return answer;
}

/// A matrix, its transpose, and products with both.
template <Scalar T>
Answer run_sparse(Mesh& mesh, const RunOptions& options, std::int64_t n = 22,
                  std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const SparseMatrix<T> a(mesh, matgen::random_sparse<T>(n, n, 9, 3), system.layout, options);
  const RightHandSides<T> x = system.sides(2);
  const RightHandSides<T> y = system.sides(2);
  Answer answer{{static_cast<double>(a.entries())}, {}};
  for (const auto& matrix : {a, a.transposed(mesh, true, options)}) {
    EXPECT_TRUE(multiply(mesh, matrix, x, y, options).ok());
    system.add(answer, y);
  }
  return answer;
}

/// cg for the tridiagonal matrix (-1, 2.5, -1), with blocks that the ranks cut.
template <Scalar T>
Answer run_krylov(Mesh& mesh, const RunOptions& options, std::int64_t n = 22,
                  std::int64_t tile = 3) {
  const SmallSystem<T> system(mesh, n, tile);
  const auto entry = [](std::int64_t i, std::int64_t j) {
    return i == j ? T(2.5) : i - j == 1 || j - i == 1 ? T(-1) : T(0);
  };
  const auto a = krylov::Operator<T>::callable([=](const T* x, GlobalRange rows, T* y) {
    for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
      *y++ = entry(i, i) * x[i] - (i > 0 ? x[i - 1] : T(0)) - (i + 1 < n ? x[i + 1] : T(0));
    }
  });
  const auto m =
      krylov::Operator<T>::block_jacobi({0, n / 2, n}, [=](GlobalRange rows, MatrixView<T> block) {
        for (std::int64_t j = 0; j < rows.size(); ++j) {
          for (std::int64_t i = 0; i < rows.size(); ++i) {
            block(i, j) = entry(i, j);
          }
        }
      });
  const RightHandSides<T> x = system.sides(1);
  const krylov::Result result =
      krylov::solve(mesh, a, m, system.sides(1), x, {.rtol = 1e-10}, options);
  EXPECT_TRUE(result.outcome.ok()) << result.message;
  Answer answer{{result.residual, static_cast<double>(result.iterations)}, {}};
  system.add(answer, x);
  return answer;
}

template <class Real>
Answer run_tridiagonal(Mesh& mesh, const RunOptions& options) {
  const auto results = tridiagonal::run_job<Real>(mesh, options);
  Answer answer;
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    DenseMatrix<Real> z = results->z[index];
    answer.add(rank, z.view());
    if (mesh.is_here(rank)) {
      answer.numbers.assign(results->values[index].begin(), results->values[index].end());
    }
  }
  return answer;
}

inline std::vector<Job> jobs() {
  const auto job = [](std::string name, auto run) {
    return Job{std::move(name),
               [run](Mesh& mesh, const RunOptions& options) { return run(mesh, options, 22, 3); }};
  };
  std::vector<Job> all{
      job("solve", run_solve<double>), job("inverse", run_inverse<std::complex<double>>),
      job("log_determinant", run_log_determinant<float>),
      job("reuse", run_reuse<std::complex<float>>), job("half", run_half<std::complex<double>>)};
  all.push_back({"tridiagonal", run_tridiagonal<double>});
  all.push_back(job("eigh", run_eigh<std::complex<double>>));
  all.push_back(job("general_solve", run_general_solve<float>));
  all.push_back(job("lu", run_lu<std::complex<double>>));
  all.push_back(job("lu_in_place", run_lu_in_place<std::complex<float>>));
  all.push_back(job("lu_inverse", run_lu_inverse<std::complex<double>>));
  all.push_back(job("qr", run_qr<std::complex<float>>));
  all.push_back(job("square_qr", run_square_qr<double>));
  all.push_back(job("least_squares", run_least_squares<double>));
  all.push_back({"lstsq_in_steps", run_lstsq_in_steps<double>});
  all.push_back({"svd", [](Mesh& mesh, const RunOptions& options) {
                   return run_svd<std::complex<float>>(mesh, options, false);
                 }});
  all.push_back({"svd_by_polar", [](Mesh& mesh, const RunOptions& options) {
                   return run_svd<std::complex<float>>(mesh, options, true);
                 }});
  all.push_back({"polar", run_polar<float>});
  all.push_back({"networks", [](Mesh& mesh, const RunOptions& options) {
                   return Answer{train_few_networks(mesh, options), {}};
                 }});
  // An operator that is a function of C++ is for CPU devices; of sparse matrices faults are
  // injected there alone.
  if (test_gpus().empty()) {
    all.push_back(job("sparse", run_sparse<std::complex<double>>));
    all.push_back(job("krylov", run_krylov<std::complex<double>>));
  }
  return all;
}

}  // namespace shardsolve::testing
