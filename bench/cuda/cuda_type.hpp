/// CUDA's names of the four dtypes.
#pragma once

#include <shardsolve/dtype.hpp>

#include <library_types.h>

#include <type_traits>

namespace shardsolve::bench {

template <Scalar T>
constexpr cudaDataType cuda_type() {
  if constexpr (is_complex<T>) {
    return std::is_same_v<RealOf<T>, float> ? CUDA_C_32F : CUDA_C_64F;
  } else {
    return std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_64F;
  }
}

}  // namespace shardsolve::bench
