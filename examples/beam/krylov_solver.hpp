/// The library's Krylov methods as solvers of Newton's linear systems.
#pragma once

#include "csr.hpp"
#include "linear_solver.hpp"

#include <shardsolve/krylov.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>
#include <shardsolve/sparse.hpp>

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
    const std::int64_t n = a.rows();
    const auto layout = shardsolve::row_slabs(n, settings_.ranks);
    const Matrix matrix{n, n, a.row_pointers, a.column_indices, a.values};
    const auto product = Operator::sparse(shardsolve::SparseMatrix<double>(mesh_, matrix, layout));
    Vector rhs = b;
    x.resize(b.size());
    const Vectors of_b(layout, shardsolve::MatrixView<double>(rhs.data(), n, 1));
    const Vectors of_x(layout, shardsolve::MatrixView<double>(x.data(), n, 1));

    Result result;
    if (settings_.preconditioner == Preconditioner::none) {
      result = shardsolve::krylov::solve<double>(mesh_, product, of_b, of_x, options);
    } else {
      const Operator preconditioner = settings_.preconditioner == Preconditioner::jacobi
                                          ? Operator::jacobi(matrix)
                                          : Operator::block_jacobi(boundaries(n), matrix);
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
  using Matrix = shardsolve::CsrMatrix<double>;

  /// Blocks of settings_.block_rows, the last one of what is left.
  std::vector<std::int64_t> boundaries(std::int64_t rows) const {
    std::vector<std::int64_t> begins{0};
    while (begins.back() < rows) {
      begins.push_back(std::min(begins.back() + settings_.block_rows, rows));
    }
    return begins;
  }

  KrylovSettings settings_;
  shardsolve::Mesh mesh_;
  bool is_first_ = true;
  std::vector<LogRecord> log_;
};

}  // namespace beam
