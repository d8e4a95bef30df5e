/// What a Krylov solve does to single vectors: a scan, a product with a power of two, a division by
/// a diagonal. Compiled with --fmad=false.
#include "runtime/cuda/kernels/krylov/numbers.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/krylov/number.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads_a_block = 256;
constexpr int rows_a_thread = 4;
constexpr int max_scanning_blocks = 1024;

template <class E>
__device__ RealPart<E> part_of(const E& x, int at) {
  return reinterpret_cast<const RealPart<E>*>(&x)[at];
}

/// A scan of no rows; the row is the largest number where there is none.
constexpr std::int64_t no_row = std::int64_t{1} << 62;
struct Seen {
  std::int64_t row;
  std::int64_t exponent;
  std::int64_t least;
};
constexpr Seen nothing{no_row, Scan::zero, -Scan::zero};

__device__ Seen both(const Seen& a, const Seen& b) {
  return {min(a.row, b.row), max(a.exponent, b.exponent), min(a.least, b.least)};
}
/// Thread 0 gets what the threads of the block have seen.
__device__ Seen of_block(Seen seen) {
  __shared__ std::int64_t rows[threads_a_block / 32];
  __shared__ std::int64_t exponents[threads_a_block / 32];
  __shared__ std::int64_t least[threads_a_block / 32];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    seen = both(seen, {__shfl_xor_sync(0xffffffffU, seen.row, distance),
                       __shfl_xor_sync(0xffffffffU, seen.exponent, distance),
                       __shfl_xor_sync(0xffffffffU, seen.least, distance)});
  }
  if (threadIdx.x % 32 == 0) {
    rows[threadIdx.x / 32] = seen.row;
    exponents[threadIdx.x / 32] = seen.exponent;
    least[threadIdx.x / 32] = seen.least;
  }
  __syncthreads();
  for (int warp = 0; threadIdx.x == 0 && warp < threads_a_block / 32; ++warp) {
    seen = both(seen, {rows[warp], exponents[warp], least[warp]});
  }
  return seen;
}

template <class E>
__global__ void __launch_bounds__(threads_a_block)
    scan_rows(const E* x, std::int64_t rows, std::int64_t blocks, Seen* seen_by_blocks) {
  Seen seen = nothing;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads_a_block + threadIdx.x; i < rows;
       i += blocks * threads_a_block) {
    const E number = x[i];
    for (int at = 0; at < parts<E>; ++at) {
      const RealPart<E> part = part_of(number, at);
      if (!isfinite(part)) {
        seen.row = min(seen.row, i);
      } else if (part != 0) {
        const std::int64_t exponent = ilogb(part) + 1;
        seen.exponent = max(seen.exponent, exponent);
        seen.least = min(seen.least, exponent);
      }
    }
  }
  seen = of_block(seen);
  if (threadIdx.x == 0) {
    seen_by_blocks[blockIdx.x] = seen;
  }
}

__global__ void __launch_bounds__(threads_a_block)
    add_scans(const Seen* seen_by_blocks, std::int64_t blocks, Scan* result) {
  Seen seen = nothing;
  for (std::int64_t block = threadIdx.x; block < blocks; block += threads_a_block) {
    seen = both(seen, seen_by_blocks[block]);
  }
  seen = of_block(seen);
  if (threadIdx.x == 0) {
    result->first_nonfinite = seen.row == no_row ? -1 : seen.row;
    result->exponent = seen.exponent;
    result->least = seen.least;
  }
}

template <class E>
__device__ E scaled(E number, int exponent) {
  if constexpr (parts<E> == 2) {
    return {scalbn(number.re, exponent), scalbn(number.im, exponent)};
  } else {
    return scalbn(number, exponent);
  }
}

template <class E>
__global__ void __launch_bounds__(threads_a_block)
    scale_rows(int exponent, const E* source, E* target, std::int64_t rows) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_a_block + threadIdx.x;
  if (i < rows) {
    target[i] = scaled(source[i], exponent);
  }
}

template <class E>
__global__ void __launch_bounds__(threads_a_block)
    scale_by_solve(krylov::Way way, const krylov::SolveState* solve, const E* source, E* target,
                   std::int64_t rows) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_a_block + threadIdx.x;
  if (i < rows) {
    const int exponent = krylov::exponent_of(*solve, way);
    target[i] = krylov::is_zero_vector(*solve) ? E{} : scaled(source[i], exponent);
  }
}

template <class E>
__global__ void __launch_bounds__(threads_a_block)
    divide(const E* diagonal, const E* source, E* target, std::int64_t rows,
           const std::int32_t* skip) {
  begin_after_last();
  if (*skip != 0) {
    return;
  }
  const std::int64_t first =
      std::int64_t{blockIdx.x} * threads_a_block * rows_a_thread + threadIdx.x;
  E numbers[rows_a_thread];
#pragma unroll
  for (int e = 0; e < rows_a_thread; ++e) {
    const std::int64_t i = first + e * threads_a_block;
    if (i < rows) {
      numbers[e] = diagonal == nullptr ? source[i] : quotient(source[i], diagonal[i]);
    }
  }
#pragma unroll
  for (int e = 0; e < rows_a_thread; ++e) {
    const std::int64_t i = first + e * threads_a_block;
    if (i < rows) {
      target[i] = numbers[e];
    }
  }
}

template <class E>
__device__ E combination(RealPart<E> a, E x, RealPart<E> b, E y) {
  if constexpr (parts<E> == 2) {
    return {combination(a, x.re, b, y.re), combination(a, x.im, b, y.im)};
  } else {
    return fused_multiply_add(a, x, b * y);
  }
}
template <class E>
__device__ E product(RealPart<E> a, E x) {
  if constexpr (parts<E> == 2) {
    return {a * x.re, a * x.im};
  } else {
    return a * x;
  }
}

template <class E>
__global__ void __launch_bounds__(threads_a_block)
    combine_rows(RealPart<E> a, const E* x, RealPart<E> b, E* y, std::int64_t rows,
                 const std::int32_t* skip) {
  begin_after_last();
  if (*skip != 0) {
    return;
  }
  const std::int64_t first =
      std::int64_t{blockIdx.x} * threads_a_block * rows_a_thread + threadIdx.x;
  E numbers[rows_a_thread];
#pragma unroll
  for (int e = 0; e < rows_a_thread; ++e) {
    const std::int64_t i = first + e * threads_a_block;
    if (i < rows) {
      numbers[e] = b == 0 ? product(a, x[i]) : combination(a, x[i], b, y[i]);
    }
  }
#pragma unroll
  for (int e = 0; e < rows_a_thread; ++e) {
    const std::int64_t i = first + e * threads_a_block;
    if (i < rows) {
      y[i] = numbers[e];
    }
  }
}

}  // namespace

template <class E>
std::size_t KrylovDeviceKernels<E>::scan_scratch() {
  return max_scanning_blocks * sizeof(Seen);
}

template <class E>
void KrylovDeviceKernels<E>::scan(cudaStream_t stream, In x, Scan* result, void* scratch) {
  const std::int64_t blocks = std::clamp<std::int64_t>(
      divide_up(x.rows(), threads_a_block * rows_a_thread), 1, max_scanning_blocks);
  auto* const seen = static_cast<Seen*>(scratch);
  launch(stream, &scan_rows<E>, blocks, {dim3(threads_a_block)}, x.data(), x.rows(), blocks, seen);
  launch(stream, &add_scans, 1, {dim3(threads_a_block)}, seen, blocks, result);
}

template <class E>
void KrylovDeviceKernels<E>::scale_exactly(cudaStream_t stream, int exponent, In source,
                                           Out target) {
  for (std::int64_t j = 0; j < target.columns(); ++j) {
    launch(stream, &scale_rows<E>, divide_up(target.rows(), threads_a_block),
           {dim3(threads_a_block)}, exponent, source.columns_from(j, 1).data(),
           target.columns_from(j, 1).data(), target.rows());
  }
}

template <class E>
void KrylovDeviceKernels<E>::scale_for(cudaStream_t stream, krylov::Way way,
                                       const krylov::SolveState* solve, In source, Out target) {
  launch(stream, &scale_by_solve<E>, divide_up(target.rows(), threads_a_block),
         {dim3(threads_a_block)}, way, solve, source.data(), target.data(), target.rows());
}

template <class E>
void KrylovDeviceKernels<E>::divide_rows(cudaStream_t stream, In diagonal, In source, Out target,
                                         const std::int32_t* skip) {
  launch_early(stream, &divide<E>, divide_up(target.rows(), threads_a_block * rows_a_thread),
               {dim3(threads_a_block)}, diagonal.empty() ? nullptr : diagonal.data(), source.data(),
               target.data(), target.rows(), skip);
}

template <class E>
void KrylovDeviceKernels<E>::combine(cudaStream_t stream, RealPart<E> a, In x, RealPart<E> b, Out y,
                                     const std::int32_t* skip) {
  launch_early(stream, &combine_rows<E>, divide_up(x.rows(), threads_a_block * rows_a_thread),
               {dim3(threads_a_block)}, a, x.data(), b, y.data(), x.rows(), skip);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                                \
  template void KrylovDeviceKernels<E>::scale_for(cudaStream_t, krylov::Way,                     \
                                                  const krylov::SolveState*, In, Out);           \
  template std::size_t KrylovDeviceKernels<E>::scan_scratch();                                   \
  template void KrylovDeviceKernels<E>::scan(cudaStream_t, In, Scan*, void*);                    \
  template void KrylovDeviceKernels<E>::scale_exactly(cudaStream_t, int, In, Out);               \
  template void KrylovDeviceKernels<E>::divide_rows(cudaStream_t, In, In, Out,                   \
                                                    const std::int32_t*);                        \
  template void KrylovDeviceKernels<E>::combine(cudaStream_t, RealPart<E>, In, RealPart<E>, Out, \
                                                const std::int32_t*);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
