/// The systems that all programs solve, made on the GPUs entry by entry: the same matrix however it
/// is cut. Nothing is stored twice; whoever needs A again makes it again.
#pragma once

#include "bench/cuda/axis.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cmath>
#include <cstdint>

namespace shardsolve::bench {

enum class Kind {
  /// Hermitian, entries pseudo-random in [-1, 1] (real and imaginary part), and 2.5 sigma sqrt(n)
  /// on
  /// the diagonal, sigma^2 = E|a_ij|^2. By Wigner's semicircle the spectrum of the random part
  /// is [-2, 2] sigma sqrt(n), so the condition number is about (2.5 + 2) / (2.5 - 2) = 9.
  well_conditioned,
  /// exp(-(t_i - t_j)^2 / (2 l^2)) for n equidistant t in [0, 1] and l = 0.1, plus a jitter on the
  /// diagonal; complex: times the phase exp(6 pi i (t_i - t_j)), which leaves the spectrum alone.
  /// All
  /// but about thirty eigenvalues are the jitter, the largest is about n / 4.
  gaussian,
};

/// One matrix, and right-hand sides pseudo-random in [-1, 1].
template <Scalar T>
struct Problem {
  Kind kind = Kind::well_conditioned;
  std::int64_t n = 0;
  /// What is added to the diagonal.
  double diagonal = 0.0;

  Problem(Kind of_kind, std::int64_t size)
      : kind(of_kind), n(size), diagonal(of_kind == Kind::gaussian ? jitter() : shift()) {}

 private:
  double shift() const {
    const double variance = is_complex<T> ? 2.0 / 3.0 : 1.0 / 3.0;
    return 2.5 * std::sqrt(variance * static_cast<double>(n));
  }
  /// 1e-8 (condition about 2.5e7 n); in single precision 3e-7 n (condition about 8e5, a tenth
  /// of 1 / eps): with less no Cholesky factor exists in that precision.
  double jitter() const {
    return std::is_same_v<RealOf<T>, double> ? 1e-8 : 3e-7 * static_cast<double>(n);
  }
};

/// Writes the entries with these rows and columns of A, which lie in the memory of `device`. Has
/// finished when it returns.
template <Scalar T>
void fill(const Problem<T>& problem, int device, Axis rows, Axis columns, MatrixView<T> to);

/// Writes the entries with these rows and columns of the right-hand sides.
template <Scalar T>
void fill_right_hand_sides(const Problem<T>& problem, int device, Axis rows, Axis columns,
                           MatrixView<T> to);

}  // namespace shardsolve::bench
