#include "runtime/cuda/wide_gemm.hpp"

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/cublas.hpp"

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <initializer_list>

namespace shardsolve::runtime::cuda {
namespace {

template <Scalar T>
constexpr cudaDataType_t data_type = is_complex<T> ? CUDA_C_64F : CUDA_R_64F;

// On the stack: these are made for every product.

template <Scalar T>
cublasLtMatmulDescOpaque_t adjoint_times_plain() {
  cublasLtMatmulDescOpaque_t description{};
  check(cublasLtMatmulDescInit(&description, CUBLAS_COMPUTE_64F, data_type<T>), "MatmulDescInit");
  const cublasOperation_t adjoint = is_complex<T> ? CUBLAS_OP_C : CUBLAS_OP_T;
  check(cublasLtMatmulDescSetAttribute(&description, CUBLASLT_MATMUL_DESC_TRANSA, &adjoint,
                                       sizeof(adjoint)),
        "MatmulDescSetAttribute");
  return description;
}

template <Scalar T>
cublasLtMatrixLayoutOpaque_t layout(std::int64_t rows, std::int64_t columns, std::int64_t stride,
                                    std::int64_t step, std::int64_t count) {
  cublasLtMatrixLayoutOpaque_t layout{};
  check(cublasLtMatrixLayoutInit(&layout, data_type<T>, static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), stride),
        "MatrixLayoutInit");
  if (count > 1) {
    const auto batch = static_cast<std::int32_t>(count);
    check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                           sizeof(batch)),
          "MatrixLayoutSetAttribute");
    check(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &step, sizeof(step)),
          "MatrixLayoutSetAttribute");
  }
  return layout;
}

/// The strictest of some alignments that the algorithm needs, in bytes.
std::uint32_t alignment(const cublasLtMatmulAlgo_t& algorithm,
                        std::initializer_list<cublasLtMatmulAlgoCapAttributes_t> of) {
  std::uint32_t strictest = 1;
  for (const cublasLtMatmulAlgoCapAttributes_t one : of) {
    std::uint32_t bytes = 0;
    std::size_t written = 0;
    check(cublasLtMatmulAlgoCapGetAttribute(&algorithm, one, &bytes, sizeof(bytes), &written),
          "MatmulAlgoCapGetAttribute");
    strictest = std::max(strictest, bytes);
  }
  return strictest;
}

template <class T>
bool is_aligned(MatrixView<T> matrix, std::int64_t step, std::uint32_t bytes) {
  return reinterpret_cast<std::uintptr_t>(matrix.data()) % bytes == 0 &&
         matrix.stride() * sizeof(T) % bytes == 0 && step * sizeof(T) % bytes == 0;
}

template <class Value>
Value configured(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t what) {
  Value value{};
  std::size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, what, &value, sizeof(value), &written),
        "MatmulAlgoConfigGetAttribute");
  return value;
}

}  // namespace

WideGemm::WideGemm(cublasHandle_t blas, void* workspace, std::size_t workspace_bytes)
    : library_(reinterpret_cast<cublasLtHandle_t>(blas)),  // as cuBLAS's manual allows
      workspace_(workspace),
      workspace_bytes_(workspace_bytes),
      real_64x128_(find<double>(CUBLASLT_MATMUL_TILE_64x128, 512)),
      real_128x128_(find<double>(CUBLASLT_MATMUL_TILE_128x128, 1024)),
      complex_64x64_(find<std::complex<double>>(CUBLASLT_MATMUL_TILE_64x64, 1024)) {}

template <Scalar T>
WideGemm::Algorithm WideGemm::find(cublasLtMatmulTile_t tile, std::int64_t k) const {
  constexpr std::int64_t typical = 8192;
  cublasLtMatmulDescOpaque_t description = adjoint_times_plain<T>();
  cublasLtMatrixLayoutOpaque_t operand = layout<T>(k, typical, k, 0, 1);
  cublasLtMatrixLayoutOpaque_t result = layout<T>(typical, typical, 4 * typical, 0, 1);
  cublasLtMatmulPreferenceOpaque_t preference{};
  check(cublasLtMatmulPreferenceInit(&preference), "MatmulPreferenceInit");
  check(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes_, sizeof(workspace_bytes_)),
        "MatmulPreferenceSetAttribute");
  std::array<cublasLtMatmulHeuristicResult_t, 32> proposals{};
  int count = 0;
  if (cublasLtMatmulAlgoGetHeuristic(library_, &description, &operand, &operand, &result, &result,
                                     &preference, static_cast<int>(proposals.size()),
                                     proposals.data(), &count) != CUBLAS_STATUS_SUCCESS) {
    return std::nullopt;
  }
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulAlgo_t& proposal = proposals[static_cast<std::size_t>(i)].algo;
    if (configured<std::uint32_t>(proposal, CUBLASLT_ALGO_CONFIG_TILE_ID) == tile &&
        configured<std::uint32_t>(proposal, CUBLASLT_ALGO_CONFIG_STAGES_ID) ==
            CUBLASLT_MATMUL_STAGES_16x3 &&
        configured<std::int32_t>(proposal, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1) {
      return Choice{
          proposal,
          alignment(proposal, {CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES,
                               CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES}),
          alignment(proposal, {CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES,
                               CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES}),
      };
    }
  }
  return std::nullopt;
}

template <Scalar T>
const WideGemm::Algorithm* WideGemm::choose(std::int64_t rows, std::int64_t columns, std::int64_t k,
                                            std::int64_t count) const {
  constexpr std::int64_t shallow = 384;
  if (k < shallow) {
    return nullptr;
  }
  if constexpr (is_complex<T>) {
    constexpr std::int64_t few_tiles = 512;
    const std::int64_t tiles = count * ((rows + 63) / 64) * ((columns + 63) / 64);
    return tiles < few_tiles ? nullptr : &complex_64x64_;
  } else {
    constexpr std::int64_t deep = 1024;
    constexpr std::int64_t large = 8192;
    constexpr std::int64_t few_tiles = 1024;
    const std::int64_t tiles = count * ((rows + 63) / 64) * ((columns + 127) / 128);
    if (tiles < few_tiles || columns < 512) {
      return nullptr;
    }
    const bool one_large = count == 1 && rows >= large && columns >= large;
    return k >= deep && one_large ? &real_128x128_ : &real_64x128_;
  }
}

template <Scalar T>
bool WideGemm::enqueue(cudaStream_t stream, T alpha, MatrixView<const T> a, MatrixView<const T> b,
                       T beta, MatrixView<T> c, const BatchStrides& strides) const {
  const std::int64_t k = a.rows();
  const Algorithm* const found = choose<T>(c.rows(), c.columns(), k, strides.count);
  if (found == nullptr || !*found) {
    return false;
  }
  const Choice& choice = **found;
  if (!is_aligned(a, strides.a, choice.operand_alignment) ||
      !is_aligned(b, strides.b, choice.operand_alignment) ||
      !is_aligned(c, strides.c, choice.result_alignment)) {
    return false;
  }
  cublasLtMatmulDescOpaque_t description = adjoint_times_plain<T>();
  cublasLtMatrixLayoutOpaque_t of_a =
      layout<T>(k, a.columns(), a.stride(), strides.a, strides.count);
  cublasLtMatrixLayoutOpaque_t of_b =
      layout<T>(k, b.columns(), b.stride(), strides.b, strides.count);
  cublasLtMatrixLayoutOpaque_t of_c =
      layout<T>(c.rows(), c.columns(), c.stride(), strides.c, strides.count);
  const auto factor = cublas_scalar(alpha);
  const auto keep = cublas_scalar(beta);
  return cublasLtMatmul(library_, &description, &factor, a.data(), &of_a, b.data(), &of_b, &keep,
                        c.data(), &of_c, c.data(), &of_c, &choice.algorithm, workspace_,
                        workspace_bytes_, stream) == CUBLAS_STATUS_SUCCESS;
}

template bool WideGemm::enqueue(cudaStream_t, double, MatrixView<const double>,
                                MatrixView<const double>, double, MatrixView<double>,
                                const BatchStrides&) const;
template bool WideGemm::enqueue(cudaStream_t, std::complex<double>,
                                MatrixView<const std::complex<double>>,
                                MatrixView<const std::complex<double>>, std::complex<double>,
                                MatrixView<std::complex<double>>, const BatchStrides&) const;

}  // namespace shardsolve::runtime::cuda
