/// What the handlers need of XLA's FFI.
#pragma once

#include <shardsolve/dtype.hpp>

#include <xla/ffi/api/ffi.h>

#include <optional>
#include <string>

namespace shardsolve::jax {

namespace ffi = xla::ffi;

using Words = ffi::Buffer<ffi::S32>;

inline std::optional<Dtype> dtype_of_buffer(ffi::DataType type) {
  switch (type) {
    case ffi::DataType::F32:
      return Dtype::float32;
    case ffi::DataType::F64:
      return Dtype::float64;
    case ffi::DataType::C64:
      return Dtype::complex64;
    case ffi::DataType::C128:
      return Dtype::complex128;
    default:
      return std::nullopt;
  }
}

inline ffi::DataType ffi_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return ffi::DataType::F32;
    case Dtype::float64:
      return ffi::DataType::F64;
    case Dtype::complex64:
      return ffi::DataType::C64;
    case Dtype::complex128:
      return ffi::DataType::C128;
  }
  return ffi::DataType::INVALID;
}

inline ffi::Error failed(XLA_FFI_Error_Code code, const std::string& text) {
  return {code, "shardsolve: " + text};
}

}  // namespace shardsolve::jax
