/// Short solves with a right-hand side of random numbers.
#pragma once

#include <shardsolve/diagnose.hpp>
#include <shardsolve/dtype.hpp>
#include <shardsolve/krylov.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::krylov {

/// A preconditioner that is to be tried; none if it is empty.
template <Scalar T>
struct Candidate {
  std::string name;
  std::optional<Operator<T>> preconditioner;
  double numbers = 0.0;                         ///< multiplications of a product with it
  std::vector<std::int64_t> blocks = {};        ///< see Trial
  std::optional<Method> method = std::nullopt;  ///< that it is for, if not for that of the others
};

/// Solves of one system with what it is given.
template <Scalar T>
class Trials {
 public:
  Trials(Mesh& mesh, const Operator<T>& a, const SlabLayout& layout, double entries, double rtol,
         const RunOptions& run);

  /// From here on b is in the range of a matrix, which is the operator: the product with what b
  /// was.
  void set_b_in_range(const CsrMatrix<T>& a);
  /// Likewise of a Hermitian operator whose null space are the constants: b without its mean.
  void take_mean_from_b();

  /// One solve from 0, by this method or that of the candidate.
  Trial run(const Candidate<T>& candidate, Method method, std::int64_t max_iterations);

  /// ||A^-1|| from below, for a Hermitian positive definite A: inverse iteration, each step a solve
  /// by cg. 0 if one does not converge.
  double inverse_norm(const Candidate<T>& candidate, std::int64_t max_iterations);

 private:
  template <class EntryOfRow>
  void set_b(const EntryOfRow& entry_of_row);
  Result solve(const Candidate<T>& candidate, const Options& options);
  std::vector<T> whole_x();

  Mesh& mesh_;
  Operator<T> a_;
  RightHandSides<T> b_;
  RightHandSides<T> x_;
  double entries_;
  double rtol_;
  RunOptions run_;
};

/// Iterations that cg needs at most for a condition number.
std::int64_t predicted_iterations(double condition, double rtol);

/// The condition of M A from the coefficients of cg, before it was restarted; 0 if there are none.
double condition_of(const std::vector<LogRecord>& log);

}  // namespace shardsolve::krylov
