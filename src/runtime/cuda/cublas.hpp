/// The cuBLAS routines that the kernels call, overloaded on the dtype, with 64-bit sizes.
#pragma once

#include "runtime/cuda/check.hpp"
#include "runtime/kernel_arguments.hpp"

#include <shardsolve/dtype.hpp>

#include <cublas_v2.h>

#include <complex>

namespace shardsolve::runtime::cuda {

inline cublasOperation_t as_cublas(Op op) {
  switch (op) {
    case Op::none:
      return CUBLAS_OP_N;
    case Op::transpose:
      return CUBLAS_OP_T;
    case Op::conjugate_transpose:
      break;
  }
  return CUBLAS_OP_C;
}
inline cublasFillMode_t as_cublas(Triangle triangle) {
  return triangle == Triangle::lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
}
inline cublasSideMode_t as_cublas(Side side) {
  return side == Side::left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
}

/// std::complex and cuComplex have one layout, but cuBLAS takes the alignment of its own for
/// granted where it reads on the host: see cublas_scalar.
template <class T>
struct CublasType {
  using type = T;
};
template <>
struct CublasType<std::complex<float>> {
  using type = cuComplex;
};
template <>
struct CublasType<std::complex<double>> {
  using type = cuDoubleComplex;
};
template <class T>
using CublasTypeOf = typename CublasType<T>::type;

template <class T>
const CublasTypeOf<T>* as_cublas(const T* pointer) {
  return reinterpret_cast<const CublasTypeOf<T>*>(pointer);
}
template <class T>
CublasTypeOf<T>* as_cublas(T* pointer) {
  return reinterpret_cast<CublasTypeOf<T>*>(pointer);
}

/// A factor as cuBLAS reads it: cublasZgemv by an aligned load, which std::complex<double> on a
/// stack need not bear.
template <Scalar T>
CublasTypeOf<T> cublas_scalar(T value) {
  if constexpr (is_complex<T>) {
    return {value.real(), value.imag()};
  } else {
    return value;
  }
}

/// The routines of one dtype.
template <Scalar T>
struct Cublas;

template <>
struct Cublas<float> {
  static constexpr auto gemm = cublasSgemm_64;
  static constexpr auto gemm_batch = cublasSgemmStridedBatched_64;
  static constexpr auto gemv = cublasSgemv_64;
  static constexpr auto herk = cublasSsyrk_64;
  static constexpr auto trsm = cublasStrsm_64;
};
template <>
struct Cublas<double> {
  static constexpr auto gemm = cublasDgemm_64;
  static constexpr auto gemm_batch = cublasDgemmStridedBatched_64;
  static constexpr auto gemv = cublasDgemv_64;
  static constexpr auto herk = cublasDsyrk_64;
  static constexpr auto trsm = cublasDtrsm_64;
};
template <>
struct Cublas<std::complex<float>> {
  static constexpr auto gemm = cublasCgemm_64;
  static constexpr auto gemm_batch = cublasCgemmStridedBatched_64;
  static constexpr auto gemv = cublasCgemv_64;
  static constexpr auto herk = cublasCherk_64;
  static constexpr auto trsm = cublasCtrsm_64;
};
template <>
struct Cublas<std::complex<double>> {
  static constexpr auto gemm = cublasZgemm_64;
  static constexpr auto gemm_batch = cublasZgemmStridedBatched_64;
  static constexpr auto gemv = cublasZgemv_64;
  static constexpr auto herk = cublasZherk_64;
  static constexpr auto trsm = cublasZtrsm_64;
};

}  // namespace shardsolve::runtime::cuda
