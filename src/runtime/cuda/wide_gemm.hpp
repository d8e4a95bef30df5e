/// Large products by algorithms that were measured, in place of those that cuBLAS takes by itself.
#pragma once

#include "runtime/kernel_arguments.hpp"

#include <shardsolve/dtype.hpp>

#include <cublasLt.h>
#include <cublas_v2.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace shardsolve::runtime::cuda {

/// c_i = alpha a_i^H b_i + beta c_i in float64 and complex128, k first in both operands: the
/// updates that most of the time goes into. Which algorithm depends on the kind of GPU and on
/// shapes alone, so that results are the same bits every time. Figures are in docs/design/cuda.md.
class WideGemm {
 public:
  /// `blas` is used for its library context, `workspace` while a product runs.
  WideGemm(cublasHandle_t blas, void* workspace, std::size_t workspace_bytes);

  /// False, and nothing is enqueued, where cuBLAS's own choice is as good. T: double or
  /// std::complex<double>.
  template <Scalar T>
  bool enqueue(cudaStream_t stream, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
               MatrixView<T> c, const BatchStrides& strides) const;

 private:
  struct Choice {
    cublasLtMatmulAlgo_t algorithm;
    /// Bytes whose multiples its operands' and its result's columns begin at.
    std::uint32_t operand_alignment;
    std::uint32_t result_alignment;
  };
  using Algorithm = std::optional<Choice>;
  /// The one with tiles of so many rows and columns, if the library has it for this GPU.
  template <Scalar T>
  Algorithm find(cublasLtMatmulTile_t tile, std::int64_t k) const;
  /// The rule; none where cuBLAS chooses.
  template <Scalar T>
  const Algorithm* choose(std::int64_t rows, std::int64_t columns, std::int64_t k,
                          std::int64_t count) const;

  cublasLtHandle_t library_;
  void* workspace_;
  std::size_t workspace_bytes_;
  Algorithm real_64x128_;
  Algorithm real_128x128_;
  Algorithm complex_64x64_;
};

}  // namespace shardsolve::runtime::cuda
