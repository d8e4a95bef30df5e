/// The four element types, one after the other, and the one that a dtype names.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/error.hpp>

#include <complex>

/// X(T) for each of them: explicit instantiations of templates.
#define SHARDSOLVE_FOR_EACH_DTYPE(X) \
  X(float) X(double) X(std::complex<float>) X(std::complex<double>)

namespace shardsolve {

/// Returns body.operator()<T>() for the T of a dtype.
template <class Body>
auto with_dtype(Dtype dtype, Body body) {
  switch (dtype) {
    case Dtype::float32:
      return body.template operator()<float>();
    case Dtype::float64:
      return body.template operator()<double>();
    case Dtype::complex64:
      return body.template operator()<std::complex<float>>();
    case Dtype::complex128:
      return body.template operator()<std::complex<double>>();
  }
  throw Error(ErrorKind::internal, "no dtype: this is a bug of shardsolve");
}

}  // namespace shardsolve
