/// The library's Krylov methods as solvers of Newton's linear systems.
#pragma once

#include "banded_lu.hpp"
#include "csr.hpp"
#include "linear_solver.hpp"

#include <shardsolve/krylov.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace beam {

enum class Preconditioner : std::uint8_t {
  none,
  jacobi,  ///< the diagonal
  blocks,  ///< blocks of consecutive rows on the diagonal, each solved by its LU factors
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

/// The diagonal blocks of a matrix as a preconditioner. All have as many rows, but the last, which
/// may have fewer.
class DiagonalBlocks {
 public:
  /// Returns why a block has no factors; nothing if all have.
  std::string factor(const Csr& a, std::int64_t block_rows) {
    begins_ = {0};
    while (begins_.back() < a.rows()) {
      const std::int64_t begin = begins_.back();
      const std::int64_t end = std::min(begin + block_rows, a.rows());
      const std::size_t block = begins_.size() - 1;
      if (block == factors_.size()) factors_.emplace_back();
      const std::string failure = factors_[block].factor(cut_out(a, begin, end));
      if (!failure.empty()) return "the block of row " + std::to_string(begin) + ": " + failure;
      begins_.push_back(end);
    }
    return {};
  }

  /// Rows `begin` to `end` of y = M x. A block that they cut is solved as a whole, so that a row is
  /// the same whoever asks for it.
  void apply_rows(const double* x, std::int64_t begin, std::int64_t end, double* y) const {
    for (std::size_t block = 0; block + 1 < begins_.size(); ++block) {
      const std::int64_t from = std::max(begin, begins_[block]);
      const std::int64_t to = std::min(end, begins_[block + 1]);
      if (from >= to) continue;
      Vector part(x + begins_[block], x + begins_[block + 1]);
      factors_[block].solve(part.data());
      std::copy(part.begin() + (from - begins_[block]), part.begin() + (to - begins_[block]),
                y + (from - begin));
    }
  }

 private:
  static Csr cut_out(const Csr& a, std::int64_t begin, std::int64_t end) {
    Csr block;
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t k = a.row_pointers[row]; k < a.row_pointers[row + 1]; ++k) {
        const std::int64_t column = a.column_indices[k];
        if (column < begin || column >= end) continue;
        block.column_indices.push_back(column - begin);
        block.values.push_back(a.values[k]);
      }
      block.row_pointers.push_back(block.entries());
    }
    return block;
  }

  std::vector<std::int64_t> begins_{0};  // rows at which blocks begin, and the number of all rows
  std::vector<BandedFactors> factors_;   // of each block
};

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
    } else if (settings_.preconditioner == Preconditioner::jacobi) {
      Vector entries = diagonal(a);
      const Vectors of_diagonal(layout, shardsolve::MatrixView<double>(entries.data(), n, 1));
      result = shardsolve::krylov::solve<double>(mesh_, product, Operator::jacobi(of_diagonal),
                                                 of_b, of_x, options);
    } else {
      const std::string failure = blocks_.factor(a, settings_.block_rows);
      if (!failure.empty()) return {false, 0, "no preconditioner: " + failure};
      const auto preconditioner =
          Operator::callable([this](const double* from, shardsolve::GlobalRange rows, double* to) {
            blocks_.apply_rows(from, rows.begin.value(), rows.end.value(), to);
          });
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

  KrylovSettings settings_;
  shardsolve::Mesh mesh_;
  DiagonalBlocks blocks_;  // of Preconditioner::blocks
  bool is_first_ = true;
  std::vector<LogRecord> log_;
};

}  // namespace beam
