/// The four element types that shardsolve computes with.
#pragma once

#include <shardsolve/export.hpp>

#include <complex>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

namespace shardsolve {

enum class Dtype : std::uint8_t { float32, float64, complex64, complex128 };

namespace detail {
[[noreturn]] SHARDSOLVE_EXPORT void throw_bad_dtype(int dtype);
template <class T>
struct DtypeOf;
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::float32;
  using Real = float;
};
template <>
struct DtypeOf<double> {
  static constexpr Dtype value = Dtype::float64;
  using Real = double;
};
template <>
struct DtypeOf<std::complex<float>> {
  static constexpr Dtype value = Dtype::complex64;
  using Real = float;
};
template <>
struct DtypeOf<std::complex<double>> {
  static constexpr Dtype value = Dtype::complex128;
  using Real = double;
};
}  // namespace detail

/// float, double, std::complex<float> or std::complex<double>.
template <class T>
concept Scalar = requires { detail::DtypeOf<T>::value; };

template <Scalar T>
inline constexpr Dtype dtype_of = detail::DtypeOf<T>::value;

/// The type of |x|: float for float32 and complex64, double for float64 and complex128.
template <Scalar T>
using RealOf = typename detail::DtypeOf<T>::Real;

template <Scalar T>
inline constexpr bool is_complex = !std::is_same_v<T, RealOf<T>>;

/// Unit roundoff u = eps / 2 of the arithmetic of T.
template <Scalar T>
inline constexpr double unit_roundoff = 0.5 * double{std::numeric_limits<RealOf<T>>::epsilon()};

/// "float32", "float64", "complex64" or "complex128".
constexpr std::string_view name(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return "float32";
    case Dtype::float64:
      return "float64";
    case Dtype::complex64:
      return "complex64";
    case Dtype::complex128:
      return "complex128";
  }
  return "unknown";
}

/// Bytes of one element. Throws Error(invalid_argument) on what is no Dtype.
constexpr std::int64_t element_size(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return 4;
    case Dtype::float64:
    case Dtype::complex64:
      return 8;
    case Dtype::complex128:
      return 16;
  }
  detail::throw_bad_dtype(static_cast<int>(dtype));
}

}  // namespace shardsolve
