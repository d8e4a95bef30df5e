/// The conjugate of a number of any dtype, of the same dtype.
#pragma once

#include <shardsolve/dtype.hpp>

#include <complex>

namespace shardsolve::runtime::host {

template <Scalar T>
T conjugate(T value) {
  if constexpr (is_complex<T>) {
    return std::conj(value);
  } else {
    return value;
  }
}

}  // namespace shardsolve::runtime::host
