/// Is the answer of a timed run right? Every program is asked by these functions. A is made again
/// entry by entry, and sums are wider than the arithmetic that is judged: twice double where the
/// residual is a difference of nearly equal numbers.
#pragma once

#include "bench/cuda/axis.hpp"
#include "bench/cuda/matrices.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <complex>
#include <cstdint>
#include <functional>
#include <vector>

namespace shardsolve::bench {

constexpr double solve_limit = 10.0;
constexpr double inverse_limit = 30.0;

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

}  // namespace shardsolve::bench
