/// Is the answer of a timed run right? Found without any BLAS, in wider arithmetic, with O(n^2)
/// operations: each product with A, L or the inverse is with a few vectors.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/lu.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/sharded.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::cli::bench {

/// A figure that an answer has to stay below, in units of the unit roundoff.
struct Gate {
  std::string name;
  double value = 0.0;
  double limit = 0.0;

  /// NaN does not.
  bool passed() const { return value < limit; }
};

/// max_j ||b_j - A x_j|| / ((||A|| ||x_j|| + ||b_j||) u) in the infinity norm, for the first and
/// the last column and two between them. `x`: solutions for System's right-hand sides.
template <Scalar T>
Gate judge_solution(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                    const RightHandSides<T>& x);

/// ||(P A P^T - L L^H) v|| / (||A|| u) in the infinity norm, v of random signs: no more than
/// ||P A P^T - L L^H||_1 / (||A||_1 u), which takes O(n^3) operations. Then how far
/// `log_determinant` is from 2 sum log(L_ii), in units of the sum's own rounding.
template <Scalar T>
std::vector<Gate> judge_factor(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                               const ShardedMatrix<T>& l, double log_determinant);

/// ||(P A Q^T - L U) v|| / (||A|| u) in the infinity norm, v of random signs, then how far
/// `log_modulus` is from sum log|U_ii|, likewise. The first grows with the root of n, as LAPACK's
/// does (11 for n = 3000, 19 for 8192), and so does its limit from n = 4096 on.
template <Scalar T>
std::vector<Gate> judge_lu(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                           const LuFactor<T>& factor);

/// ||v - X A v|| / (||A|| ||X|| u) in the infinity norm, v of random signs: no more than
/// ||I - X A||_inf / (||A|| ||X|| u).
template <Scalar T>
Gate judge_inverse(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                   const ShardedMatrix<T>& x);

/// Of k eigenpairs, `z` in the first k columns: ||(A Z - Z diag(w)) v|| / (||A|| u) in the infinity
/// norm, v of random signs, and ||(Z^H Z - I) v|| / u. The largest of n numbers of which each has
/// the size of a row's 2-norm; of Z^H Z - I these grow with the root of n (LAPACK: 2 sqrt(n) u), so
/// that its limit does.
template <Scalar T>
std::vector<Gate> judge_eigenpairs(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                                   const ShardedMatrix<T>& z, const std::vector<RealOf<T>>& values);

/// The largest difference of eigenvalues that were found in two ways, over ||A|| u, the infinity
/// norm.
template <Scalar T>
Gate judge_eigenvalues(Mesh& mesh, const RunOptions& options, const ShardedMatrix<T>& a,
                       const std::vector<RealOf<T>>& values, const std::vector<RealOf<T>>& others);

}  // namespace shardsolve::cli::bench
