/// The dtypes as a list for TYPED_TEST_SUITE(Suite, Dtypes, DtypeNames).
#pragma once

#include <shardsolve/dtype.hpp>

#include <gtest/gtest.h>

#include <complex>
#include <string>

namespace shardsolve::testing {

#ifdef SHARDSOLVE_TEST_OTHER_DTYPES
// Those that builds with sanitizers leave out.
using Dtypes = ::testing::Types<double, std::complex<float>>;
using ComplexDtypes = ::testing::Types<std::complex<float>>;
using RealDtypes = ::testing::Types<double>;
#elif defined(SHARDSOLVE_TEST_FEW_DTYPES)
#ifdef SHARDSOLVE_TEST_ONE_DTYPE
// Under ThreadSanitizer: who waits for whom is the same for all.
using Dtypes = ::testing::Types<float>;
#else
// Builds with sanitizers: one of each precision, one real and one complex.
using Dtypes = ::testing::Types<float, std::complex<double>>;
#endif
using ComplexDtypes = ::testing::Types<std::complex<double>>;
using RealDtypes = ::testing::Types<double>;
#else
using Dtypes = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
using ComplexDtypes = ::testing::Types<std::complex<float>, std::complex<double>>;
using RealDtypes = ::testing::Types<float, double>;
#endif

/// "float32" instead of "0" in the names of tests; `GetName` is what GoogleTest asks for.
struct DtypeNames {
  template <Scalar T>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming)
    return std::string(name(dtype_of<T>));
  }
};

}  // namespace shardsolve::testing
