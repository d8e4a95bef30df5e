/// The library's Krylov methods as solvers of Newton's linear systems.
#pragma once

#include "csr.hpp"
#include "linear_solver.hpp"

#include <shardsolve/krylov.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace beam {

enum class Preconditioner : std::uint8_t {
  none,
  jacobi,  ///< the diagonal
  blocks,  ///< blocks of consecutive rows on the diagonal, each solved by its factors
};

struct KrylovSettings {
  shardsolve::krylov::Method method = shardsolve::krylov::Method::cg;
  Preconditioner preconditioner = Preconditioner::jacobi;
  std::int64_t block_rows = 375;  ///< of Preconditioner::blocks: five cross sections of reference
  std::int64_t max_iterations = 20000;
  std::int64_t restart = 100;  ///< of fgmres: vectors of a basis
  std::int64_t ranks = 1;      ///< CPU devices; the answers do not depend on them
};

/// Rows `begin` to `end` of y = A x.
inline void multiply_rows(const Csr& a, const double* x, std::int64_t begin, std::int64_t end,
                          double* y) {
  for (std::int64_t row = begin; row < end; ++row) {
    double sum = 0.0;
    for (std::int64_t k = a.row_pointers[row]; k < a.row_pointers[row + 1]; ++k) {
      sum += a.values[k] * x[a.column_indices[k]];
    }
    *y++ = sum;
  }
}

/// The square block of A with rows and columns from `begin`, with zeros where A has no entries.
inline void copy_block(const Csr& a, std::int64_t begin, shardsolve::MatrixView<double> block) {
  const std::int64_t end = begin + block.rows();
  for (std::int64_t column = 0; column < block.columns(); ++column) {
    std::fill_n(&block(0, column), block.rows(), 0.0);
  }
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t k = a.row_pointers[row]; k < a.row_pointers[row + 1]; ++k) {
      const std::int64_t column = a.column_indices[k];
      if (begin <= column && column < end) block(row - begin, column - begin) = a.values[k];
    }
  }
}

/// A LinearSolver on CPU ranks. Throws what shardsolve::krylov::solve() throws.
class KrylovSolver {
 public:
  using LogRecord = shardsolve::krylov::LogRecord;

  explicit KrylovSolver(const KrylovSettings& settings)
      : settings_(settings), mesh_(shardsolve::Mesh::host(settings.ranks)) {}

  LinearOutcome operator()(const Csr& a, const Vector& b, double rtol, Vector& x) {
    using shardsolve::krylov::Result;
    const bool is_first = std::exchange(is_first_, false);
    const shardsolve::krylov::Options options{.method = settings_.method,
                                              .rtol = rtol,
                                              .max_iterations = settings_.max_iterations,
                                              .restart = settings_.restart,
                                              .log = is_first};
    const auto product =
        Operator::callable([&a](const double* from, shardsolve::GlobalRange rows, double* to) {
          multiply_rows(a, from, rows.begin.value(), rows.end.value(), to);
        });
    const std::int64_t n = a.rows();
    const auto layout = shardsolve::SlabLayout::even(n, settings_.ranks, 1);
    Vector rhs = b;
    x.resize(b.size());
    const Vectors of_b(layout, shardsolve::MatrixView<double>(rhs.data(), n, 1));
    const Vectors of_x(layout, shardsolve::MatrixView<double>(x.data(), n, 1));

    Result result;
    if (settings_.preconditioner == Preconditioner::none) {
      result = shardsolve::krylov::solve<double>(mesh_, product, of_b, of_x, options);
    } else {
      Vector entries = diagonal(a);
      const Vectors of_diagonal(layout, shardsolve::MatrixView<double>(entries.data(), n, 1));
      const Operator preconditioner = settings_.preconditioner == Preconditioner::jacobi
                                          ? Operator::jacobi(of_diagonal)
                                          : blocks_of(a);
      result =
          shardsolve::krylov::solve<double>(mesh_, product, preconditioner, of_b, of_x, options);
    }
    if (is_first) log_ = std::move(result.log);
    const bool is_solved = shardsolve::krylov::is_converged(result.status);
    return {is_solved, result.iterations, is_solved ? std::string() : result.message};
  }

  /// Iterations of the first solve.
  const std::vector<LogRecord>& log() const { return log_; }

 private:
  using Operator = shardsolve::krylov::Operator<double>;
  using Vectors = shardsolve::RightHandSides<double>;

  static Vector diagonal(const Csr& a) {
    Vector entries(a.rows());
    for (std::int64_t row = 0; row < a.rows(); ++row) {
      entries[row] = a.values[entry_number(a, row, row)];
    }
    return entries;
  }

  Operator blocks_of(const Csr& a) const {
    std::vector<std::int64_t> begins{0};
    while (begins.back() < a.rows()) {
      begins.push_back(std::min(begins.back() + settings_.block_rows, a.rows()));
    }
    return Operator::block_jacobi(
        begins, [&a](shardsolve::GlobalRange rows, shardsolve::MatrixView<double> block) {
          copy_block(a, rows.begin.value(), block);
        });
  }

  KrylovSettings settings_;
  shardsolve::Mesh mesh_;
  bool is_first_ = true;
  std::vector<LogRecord> log_;
};

}  // namespace beam
