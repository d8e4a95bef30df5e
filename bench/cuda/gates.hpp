/// Is the answer of a timed run right? Every program is asked by these functions. A is made again
/// entry by entry, and sums are wider than the arithmetic that is judged: twice double where the
/// residual is a difference of nearly equal numbers.
#pragma once

#include "bench/cuda/axis.hpp"
#include "bench/cuda/matrices.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <vector>

namespace shardsolve::bench {

constexpr double solve_limit = 10.0;
constexpr double inverse_limit = 30.0;
constexpr double eigenpair_limit = 30.0;
constexpr double eigenvalue_limit = 20.0;
/// Of n vectors: it grows with the root of n (LAPACK: 2 sqrt(n)).
inline double orthogonality_limit(std::int64_t n) {
  return eigenpair_limit * std::sqrt(static_cast<double>(n));
}

/// ||b - A x|| / ((||A|| ||x|| + ||b||) u) in the infinity norm, the largest over the columns; NaN
/// if x has one. The rows of A are spread over `devices`.
///
/// `x`: n x columns, column-major, on the host.
template <Scalar T>
double solution_ratio(const Problem<T>& problem, const std::vector<int>& devices,
                      const std::vector<T>& x, std::int64_t columns);

/// The rows and columns of a matrix that lie on one device.
template <Scalar T>
struct Part {
  int device = 0;
  Axis rows;
  Axis columns;
  MatrixView<const T> entries;
};

/// What a program writes of an inverse.
enum class Triangle { both, lower };

/// Of a matrix X: X^H w, and the sum of the magnitudes of each column. Complete once the sums of
/// all parts are added.
struct ColumnSums {
  std::vector<std::complex<double>> products;
  std::vector<double> magnitudes;
};

/// ||v - X^H A v|| / (||A|| ||X|| u) in the infinity norm, v of random signs: no more than
/// ||I - A X||_1 / (||A||_1 ||X||_1 u). X need not be exactly Hermitian.
///
/// `parts`: of X, on any devices of this process. `combine` adds the sums of other processes.
template <Scalar T>
double inverse_ratio(
    const Problem<T>& problem, const std::vector<int>& devices, const std::vector<Part<T>>& parts,
    Triangle triangle, const std::function<void(ColumnSums&)>& combine = [](ColumnSums&) {});

/// Of k eigenpairs, the largest entries of (A Z - Z diag(w))^H v / (||A|| u) and of
/// (Z^H Z - I) v / u, v of random signs; an entry of the former has about the size of the 2-norm of
/// its column.
struct EigenpairRatios {
  double residual = 0.0;
  double orthogonality = 0.0;
};

/// `parts`: of Z, its k columns, on any devices of this process. `values`: k. `combine` adds the
/// numbers of other processes.
template <Scalar T>
EigenpairRatios eigenpair_ratios(
    const Problem<T>& problem, const std::vector<int>& devices, const std::vector<Part<T>>& parts,
    const std::vector<double>& values,
    const std::function<void(std::vector<std::complex<double>>&)>& combine =
        [](std::vector<std::complex<double>>&) {});

/// The largest difference of values from those of the same place among `all`, over the largest of
/// these and u; NaN if there are more than of them.
template <Scalar T>
double eigenvalue_ratio(const std::vector<double>& values, const std::vector<double>& all);

}  // namespace shardsolve::bench
