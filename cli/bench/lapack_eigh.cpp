#include "lapack_eigh.hpp"

#include "core/each_dtype.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>

// Symbols as in runtime/host/blas.cpp. Behind each the call with the arguments that all have.
#define SHARDSOLVE_SYEVD(T, symbol)                                                                \
  extern "C" void symbol(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, \
                         int*, const int*, int*, std::size_t,                                      \
                         std::size_t) __asm__(SHARDSOLVE_BLAS_PREFIX #symbol);                     \
  int eigenpairs(const int* n, T* a, T* values, T* work, const int* size, T*, const int*,          \
                 int* integers, const int* integers_size) {                                        \
    int info = 0;                                                                                  \
    symbol("V", "L", n, a, n, values, work, size, integers, integers_size, &info, 1, 1);           \
    return info;                                                                                   \
  }
#define SHARDSOLVE_HEEVD(T, Real, symbol)                                                     \
  extern "C" void symbol(const char*, const char*, const int*, T*, const int*, Real*, T*,     \
                         const int*, Real*, const int*, int*, const int*, int*, std::size_t,  \
                         std::size_t) __asm__(SHARDSOLVE_BLAS_PREFIX #symbol);                \
  int eigenpairs(const int* n, T* a, Real* values, T* work, const int* size, Real* reals,     \
                 const int* reals_size, int* integers, const int* integers_size) {            \
    int info = 0;                                                                             \
    symbol("V", "L", n, a, n, values, work, size, reals, reals_size, integers, integers_size, \
           &info, 1, 1);                                                                      \
    return info;                                                                              \
  }

namespace shardsolve::cli::bench {
namespace {

SHARDSOLVE_SYEVD(float, ssyevd_)
SHARDSOLVE_SYEVD(double, dsyevd_)
SHARDSOLVE_HEEVD(std::complex<float>, float, cheevd_)
SHARDSOLVE_HEEVD(std::complex<double>, double, zheevd_)

}  // namespace

template <Scalar T>
std::vector<RealOf<T>> lapack_eigh(MatrixView<T> a) {
  const std::int64_t rows = a.rows();
  // What LAPACK asks for, and room for blocks of 64 columns.
  const std::int64_t most = 1 + 70 * rows + 2 * rows * rows;
  if (a.columns() != rows || a.stride() != rows || most > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("LAPACK was given {} x {} numbers", rows, a.columns()));
  }
  const auto n = static_cast<int>(rows);
  const auto size = static_cast<int>(most);
  const int integers_size = 3 + 5 * n;
  std::vector<RealOf<T>> values(static_cast<std::size_t>(rows));
  std::vector<T> work(static_cast<std::size_t>(most));
  std::vector<RealOf<T>> reals(is_complex<T> ? static_cast<std::size_t>(most) : 1);
  std::vector<int> integers(static_cast<std::size_t>(integers_size));
  const int info = eigenpairs(&n, a.data(), values.data(), work.data(), &size, reals.data(), &size,
                              integers.data(), &integers_size);
  if (info != 0) {
    throw Error(ErrorKind::internal, fmt::format("LAPACK's eigenpairs returned {}", info));
  }
  return values;
}

#define SHARDSOLVE_INSTANTIATE(T) template std::vector<RealOf<T>> lapack_eigh(MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::cli::bench
