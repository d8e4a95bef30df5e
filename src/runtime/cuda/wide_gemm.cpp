#include "runtime/cuda/wide_gemm.hpp"

#include "runtime/cuda/check.hpp"

#include <array>

namespace shardsolve::runtime::cuda {
namespace {

// On the stack: these are made for every product.

cublasLtMatmulDescOpaque_t transposed_times_plain() {
  cublasLtMatmulDescOpaque_t description{};
  check(cublasLtMatmulDescInit(&description, CUBLAS_COMPUTE_64F, CUDA_R_64F), "MatmulDescInit");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  check(cublasLtMatmulDescSetAttribute(&description, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                       sizeof(transposed)),
        "MatmulDescSetAttribute");
  return description;
}

cublasLtMatrixLayoutOpaque_t layout(std::int64_t rows, std::int64_t columns, std::int64_t stride,
                                    std::int64_t step, std::int64_t count) {
  cublasLtMatrixLayoutOpaque_t layout{};
  check(cublasLtMatrixLayoutInit(&layout, CUDA_R_64F, static_cast<std::uint64_t>(rows),
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
      tiles_64x128_(find(CUBLASLT_MATMUL_TILE_64x128, 512)),
      tiles_128x128_(find(CUBLASLT_MATMUL_TILE_128x128, 1024)) {}

WideGemm::Algorithm WideGemm::find(cublasLtMatmulTile_t tile, std::int64_t k) const {
  constexpr std::int64_t typical = 8192;
  cublasLtMatmulDescOpaque_t description = transposed_times_plain();
  cublasLtMatrixLayoutOpaque_t operand = layout(k, typical, k, 0, 1);
  cublasLtMatrixLayoutOpaque_t result = layout(typical, typical, 4 * typical, 0, 1);
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
      return proposal;
    }
  }
  return std::nullopt;
}

bool WideGemm::enqueue(cudaStream_t stream, double alpha, MatrixView<const double> a,
                       MatrixView<const double> b, double beta, MatrixView<double> c,
                       const Steps& steps) const {
  constexpr std::int64_t shallow = 384;
  constexpr std::int64_t deep = 1024;
  constexpr std::int64_t large = 8192;
  constexpr std::int64_t few_tiles = 1024;
  const std::int64_t k = a.rows();
  const std::int64_t tiles = steps.count * ((c.rows() + 63) / 64) * ((c.columns() + 127) / 128);
  if (k < shallow || tiles < few_tiles || c.columns() < 512) {
    return false;
  }
  const bool one_large = steps.count == 1 && c.rows() >= large && c.columns() >= large;
  const Algorithm& algorithm = k >= deep && one_large ? tiles_128x128_ : tiles_64x128_;
  if (!algorithm) {
    return false;
  }
  cublasLtMatmulDescOpaque_t description = transposed_times_plain();
  cublasLtMatrixLayoutOpaque_t of_a = layout(k, a.columns(), a.stride(), steps.a, steps.count);
  cublasLtMatrixLayoutOpaque_t of_b = layout(k, b.columns(), b.stride(), steps.b, steps.count);
  cublasLtMatrixLayoutOpaque_t of_c =
      layout(c.rows(), c.columns(), c.stride(), steps.c, steps.count);
  return cublasLtMatmul(library_, &description, &alpha, a.data(), &of_a, b.data(), &of_b, &beta,
                        c.data(), &of_c, c.data(), &of_c, &*algorithm, workspace_, workspace_bytes_,
                        stream) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace shardsolve::runtime::cuda
