/// Kernels of ours that the emulator runs, and what they are judged by.
#pragma once

#include "reference/dense_matrix.hpp"
#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/hermitian_device_kernels.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace shardsolve::testing {

using reference::DenseMatrix;
using runtime::cuda::CholeskyDeviceKernels;
using runtime::cuda::DeviceKernels;
using runtime::cuda::Element;
using runtime::cuda::elements;
using runtime::cuda::HermitianDeviceKernels;
using runtime::cuda::PanelSolver;

inline constexpr cudaStream_t no_stream = nullptr;

template <class Real>
Real conjugate(Real x) {
  return x;
}
template <class Real>
std::complex<Real> conjugate(std::complex<Real> x) {
  return std::conj(x);
}

/// Sums of products are wider than what is judged.
template <Scalar T>
using Wide = std::conditional_t<is_complex<T>, std::complex<long double>, long double>;

/// All NaN: what a kernel leaves is not to be taken for zero.
template <Scalar T>
DenseMatrix<T> unwritten(std::int64_t rows, std::int64_t columns) {
  DenseMatrix<T> a(rows, columns);
  std::fill_n(a.data(), rows * columns, T{std::numeric_limits<RealOf<T>>::quiet_NaN()});
  return a;
}

template <Scalar T>
bool is_nan(T x) {
  return std::isnan(std::real(x));
}

template <class T>
class EmulatedKernels : public ::testing::Test {
 protected:
  using Kernels = DeviceKernels<Element<T>>;
  using Hermitian = HermitianDeviceKernels<Element<T>>;
  using Cholesky = CholeskyDeviceKernels<Element<T>>;

  struct Tile {
    DenseMatrix<T> a;  // overwritten
    DenseMatrix<T> adjoint;
    DenseMatrix<T> inverse;
    std::int64_t info = -99;
  };

  static Tile factored(const DenseMatrix<T>& a, std::int64_t inverted) {
    const std::int64_t n = a.rows();
    Tile tile{a, unwritten<T>(n, n), unwritten<T>(n, n)};
    Cholesky::factor_tile(no_stream, elements(tile.a.view()), elements(tile.adjoint.view()),
                          elements(tile.inverse.view()), inverted, &tile.info);
    return tile;
  }

  /// Those that there are for a panel of so many columns.
  static std::vector<PanelSolver> solvers(std::int64_t columns) {
    std::vector<PanelSolver> all;
    if (columns % (is_complex<T> ? 64 : 128) == 0) {
      all.push_back(PanelSolver::warps);
    }
    if constexpr (!std::is_same_v<T, std::complex<double>>) {
      all.push_back(PanelSolver::blocks);
    }
    return all;
  }

  /// x L^-H in place of x; returned as it is packed.
  static DenseMatrix<T> solve_panel(PanelSolver solver, const Tile& tile, DenseMatrix<T>& x) {
    DenseMatrix<T> packed = unwritten<T>(x.columns(), x.rows());
    Cholesky::solve_panel(no_stream, solver, elements(tile.adjoint.view()),
                          elements(tile.inverse.view()), elements(x.view()),
                          elements(packed.view()));
    return packed;
  }

  static void expect_right(const DenseMatrix<T>& a, const Tile& tile, std::int64_t inverted) {
    const std::int64_t n = a.rows();
    EXPECT_EQ(tile.info, 0);
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i) {
        if (i < j) {
          EXPECT_EQ(tile.a(i, j), a(i, j)) << "above the diagonal";
        } else {
          expect_entry(a, tile.a, i, j);
        }
        EXPECT_EQ(tile.adjoint(i, j), i <= j ? conjugate(tile.a(j, i)) : T{0}) << i << ", " << j;
      }
    }
    for (std::int64_t first = 0; first < n; first += inverted) {
      expect_inverse(tile, first, std::min(first + inverted, n));
    }
  }

  /// x L^H = a, and `packed` is x^H.
  static void expect_solved(const DenseMatrix<T>& a, const Tile& tile, const DenseMatrix<T>& x,
                            const DenseMatrix<T>& packed) {
    const std::int64_t n = a.columns();
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < a.rows(); ++i) {
        ASSERT_EQ(packed(j, i), conjugate(x(i, j)));
        Wide<T> sum = -Wide<T>(a(i, j));
        long double size = 0;
        for (std::int64_t k = 0; k <= j; ++k) {
          const Wide<T> term = Wide<T>(x(i, k)) * Wide<T>(tile.adjoint(k, j));
          sum += term;
          size += std::abs(term);
        }
        ASSERT_LE(std::abs(sum), unit_roundoff<T> * static_cast<double>(n) * size)
            << i << ", " << j;
      }
    }
  }

  /// L L^H is A to a few roundings of the largest that an entry there could be. (Without fused
  /// multiplications as GPUs have them pivots lose a bit.)
  static void expect_entry(const DenseMatrix<T>& a, const DenseMatrix<T>& l, std::int64_t i,
                           std::int64_t j) {
    Wide<T> sum = -Wide<T>(a(i, j));
    for (std::int64_t k = 0; k <= j; ++k) {
      sum += Wide<T>(l(i, k)) * conjugate(Wide<T>(l(j, k)));
    }
    const long double size = std::sqrt(std::abs(Wide<T>(a(i, i))) * std::abs(Wide<T>(a(j, j))));
    ASSERT_LE(std::abs(sum), 24 * unit_roundoff<T> * size) << i << ", " << j;
  }

  /// Rows and columns [first, end) of `inverse` times those of L^H are I.
  static void expect_inverse(const Tile& tile, std::int64_t first, std::int64_t end) {
    const double u = unit_roundoff<T>;
    for (std::int64_t j = first; j < end; ++j) {
      for (std::int64_t i = first; i < end; ++i) {
        Wide<T> sum = i == j ? -1 : 0;
        long double size = 1;
        for (std::int64_t k = first; k <= j; ++k) {
          const Wide<T> term = Wide<T>(tile.inverse(i, k)) * Wide<T>(tile.adjoint(k, j));
          sum += term;
          size += std::abs(term);
        }
        ASSERT_LE(std::abs(sum), 4 * u * static_cast<double>(end - first) * size) << i << ", " << j;
      }
    }
  }
};

}  // namespace shardsolve::testing
