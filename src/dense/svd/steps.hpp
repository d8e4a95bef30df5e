/// What the ways to singular values share: the task, the look at A, and steps that follow each
/// other.
#pragma once

#include "dense/qr/column_norms.hpp"
#include "dense/qr/wide_solve.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "dense/svd/certificate.hpp"
#include "dense/svd/problem.hpp"
#include "dense/svd/task.hpp"
#include "programs/memory_of_call.hpp"
#include "programs/public_call.hpp"
#include "programs/require_reachable.hpp"
#include "runtime/qr_kernels.hpp"

#include <shardsolve/outcome.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/sharded.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::dense::svd {

/// `rows` times 2^exponent, in memory of this call.
template <Scalar T>
MatrixView<T> scaled(mesh::Rank& rank, MatrixView<const T> rows, std::int64_t exponent) {
  const MatrixView<T> target = rank.workspace<T>(rows.rows(), rows.columns());
  const std::vector<std::int64_t> exponents(static_cast<std::size_t>(rows.columns()), exponent);
  const std::int64_t* const there =
      rank.upload(rank.update(), exponents.data(), static_cast<std::int64_t>(exponents.size()));
  rank.kernels<runtime::QrKernels<T>>().scale_columns(rank.update(), rows, there, target);
  return target;
}

/// The conjugate transpose, in memory of this call.
template <Scalar T>
MatrixView<T> adjoint_of(mesh::Rank& rank, MatrixView<const T> rows) {
  const MatrixView<T> target = rank.workspace<T>(rows.columns(), rows.rows());
  rank.kernels<T>().conjugate_transpose(rank.update(), rows, target);
  return target;
}

/// Norm over all ranks, Frobenius.
template <Scalar T>
double norm_of(mesh::Rank& rank, MatrixView<const T> rows) {
  double sum = 0.0;
  for (const double norm : qr::column_norms<T>(rank, rows)) {
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

/// One call, step by step. What steps leave to each other is kept where the ranks compute.
template <Scalar T>
class Steps {
 public:
  /// `plan`: of the whole call.
  Steps(const Task<T>& task, const Problem& problem, const Plan& plan)
      : task_(task), problem_(problem), plan_(plan) {}

  const Problem& problem() const { return problem_; }
  const Outcome& outcome() const { return outcome_; }

 protected:
  int exponent() const { return looked_->exponent; }
  static double relative(double rest, double norm) { return norm > 0.0 ? rest / norm : rest; }

  /// One step. Its outcome takes the place of the one before, but for costs.
  bool run(std::int64_t bytes, std::function<Outcome(mesh::Rank&)> program) {
    Plan plan = plan_;
    plan.workspace_bytes = bytes;
    const programs::PublicCall call{task_.name, task_.mesh, problem_.columns, plan, task_.options};
    const Outcome before = outcome_;
    outcome_ = call.run(std::move(program));
    programs::add_cost(outcome_, before);
    return outcome_.ok();
  }
  void add(const Outcome& other) { programs::add_cost(outcome_, other); }

  /// Refuses what does not fit, and sets aside what is not finite; finds exponent().
  bool look() {
    const std::int64_t available = programs::memory_for(task_.mesh, plan_.workspace_bytes);
    const std::int64_t bytes = 64 * task_.a.columns() * (task_.a.layout().ranks() + 4);
    return run(bytes, [looked = looked_, a = task_.a, apart = task_.apart, plan = plan_, available,
                       job = fmt::format("the workspace of {}", task_.name)](mesh::Rank& rank) {
      static_cast<void>(rank.kernels<runtime::QrKernels<T>>());  // throws where there are none
      if (rank.leads()) {
        plan.require(plan.workspace_bytes, available, job);
      }
      programs::require_reachable(rank, a);
      apart.require(rank);
      rank.report("check", 0.0);
      CheckedSides checked = check_right_hand_sides<T>(rank, a.layout(), a.block(rank.index()));
      if (checked.outcome.location) {
        checked.outcome.location->what = Located::matrix_entry;
      }
      if (rank.leads() && checked.outcome.ok()) {
        const double most = *std::max_element(checked.maxima.begin(), checked.maxima.end());
        int exponent = 0;
        static_cast<void>(std::frexp(most, &exponent));
        looked->exponent = -exponent;
      }
      return checked.outcome;
    });
  }

  /// A, or A^H by rows if A has fewer rows than columns.
  RowBlocks<T> tall() {
    if (!problem_.is_adjoint) {
      return task_.a;
    }
    const programs::MemoryOfCall<T> memory(task_.mesh);
    run(adjoint_bytes(problem_, dtype_of<T>),
        [memory, a = task_.a, layout = problem_.rows, n = problem_.size()](mesh::Rank& rank) {
          const MatrixView<T> rows = memory.make(rank, layout.width(rank.index()), n);
          const MatrixView<T> made =
              qr::adjoint_rows<T>(rank, a.layout(), a.block(rank.index()), layout, std::int64_t{0});
          rank.kernels<T>().copy(rank.update(), made, rows);
          rank.finish(rank.update());
          return Outcome{};
        });
    return memory.rows(problem_.rows);
  }

  /// How well A = U S V^H for rows of A and U and own rows of V, and how orthonormal both are.
  Outcome certify(mesh::Rank& rank, MatrixView<const T> a, MatrixView<const T> u,
                  const std::vector<RealOf<T>>& sizes, MatrixView<const T> v) const {
    Outcome outcome;
    Certificate<T> certificate(rank);
    const MatrixView<T> tall = scaled<T>(rank, a, exponent());
    const double rest =
        certificate.residual(tall, u, sizes, v, problem_.columns.segment(rank.index()));
    outcome.residual = relative(rest, norm_of<T>(rank, tall));
    outcome.orthogonality = std::max(certificate.orthogonality(u), certificate.orthogonality(v));
    return outcome;
  }

  Task<T> task_;
  Problem problem_;
  Plan plan_;
  Outcome outcome_;

 private:
  /// What a look at A has found.
  struct Looked {
    int exponent = 0;  ///< A times 2^exponent has entries of size 1
  };

  std::shared_ptr<Looked> looked_ = std::make_shared<Looked>();
};

}  // namespace shardsolve::dense::svd
