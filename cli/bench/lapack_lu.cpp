#include "lapack_lu.hpp"

#include "core/each_dtype.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <complex>
#include <cstddef>
#include <numeric>
#include <utility>

// Symbols as in runtime/host/blas.cpp.
#define SHARDSOLVE_GETRF(T, symbol)                                     \
  extern "C" void symbol(const int*, const int*, T*, const int*, int*,  \
                         int*) __asm__(SHARDSOLVE_BLAS_PREFIX #symbol); \
  int getrf(const int* n, T* a, int* pivots) {                          \
    int info = 0;                                                       \
    symbol(n, n, a, n, pivots, &info);                                  \
    return info;                                                        \
  }

namespace shardsolve::cli::bench {
namespace {

SHARDSOLVE_GETRF(float, sgetrf_)
SHARDSOLVE_GETRF(double, dgetrf_)
SHARDSOLVE_GETRF(std::complex<float>, cgetrf_)
SHARDSOLVE_GETRF(std::complex<double>, zgetrf_)

}  // namespace

template <Scalar T>
std::vector<std::int64_t> lapack_lu(MatrixView<T> a) {
  if (a.columns() != a.rows() || a.stride() != a.rows()) {
    throw Error(ErrorKind::internal,
                fmt::format("LAPACK was given {} x {} numbers", a.rows(), a.columns()));
  }
  const auto n = static_cast<int>(a.rows());
  std::vector<int> pivots(static_cast<std::size_t>(n));
  if (const int info = getrf(&n, a.data(), pivots.data()); info != 0) {
    throw Error(ErrorKind::internal, fmt::format("LAPACK's getrf returned {}", info));
  }
  std::vector<std::int64_t> rows(pivots.size());
  std::iota(rows.begin(), rows.end(), 0);
  for (std::size_t i = 0; i < pivots.size(); ++i) {
    std::swap(rows[i], rows[static_cast<std::size_t>(pivots[i] - 1)]);
  }
  return rows;
}

#define SHARDSOLVE_INSTANTIATE(T) template std::vector<std::int64_t> lapack_lu(MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::cli::bench
