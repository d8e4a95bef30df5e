/// Solves with factored blocks (runtime/krylov/block_factors.hpp), one block of threads each.
/// Compiled with --fmad=false: as on the CPU nothing is fused.
#include "runtime/cuda/kernels/krylov/numbers.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/krylov/block_factors.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

using krylov::BlockFactors;
using krylov::BlockSweep;
using krylov::FactoredBlock;
using krylov::SparseLists;

constexpr int max_threads = 256;
/// Steps of a band whose numbers are under way.
constexpr int steps_ahead = 4;

template <class E>
using NumberOf = krylov::BlockNumber<RealPart<E>, parts<E>>;

template <class E>
__device__ NumberOf<E> number_at(const E* place) {
  const E loaded = *place;
  return NumberOf<E>::from(reals(loaded));
}
template <class E>
__device__ void store_number(const NumberOf<E>& number, E* place) {
  if constexpr (parts<E> == 2) {
    *place = {number.part[0], number.part[1]};
  } else {
    *place = number.part[0];
  }
}

template <class E>
struct BlocksCall {
  BlockFactors<E> factors;
  const E* source;
  E* work;
  std::int64_t first;
  E* target;
  std::int64_t rows;
  const std::int32_t* skip;
  const std::int32_t* rank_at;
  bool of_own;     ///< source and work have the rows of target alone
  bool in_shared;  ///< the rows of a block
};

/// What a thread needs for one step of a band that does not depend on the vector.
template <class E>
struct BandStep {
  NumberOf<E> entry;
  NumberOf<E> divisor;
  std::int32_t pivot;
};

template <class E>
class BandSweep {
 public:
  __device__ BandSweep(const BlockFactors<E>& factors, const BlockSweep& sweep, std::int64_t n,
                       E* x)
      : sweep_(sweep),
        entries_(factors.numbers + sweep.entries),
        divisors_(sweep.divisors == BlockSweep::none ? nullptr : factors.numbers + sweep.divisors),
        pivots_(sweep.lists == BlockSweep::none ? nullptr : factors.lists + sweep.lists),
        n_(n),
        x_(x) {}

  /// By all threads, who see x as it is and have left it as it is.
  __device__ void run() {
    BandStep<E> ahead[steps_ahead];
#pragma unroll
    for (int s = 0; s < steps_ahead; ++s) {
      ahead[s] = fetch(s);
    }
    for (std::int64_t step = 0; step < n_; step += steps_ahead) {
#pragma unroll
      for (int s = 0; s < steps_ahead; ++s) {
        if (step + s < n_) {
          const BandStep<E> now = ahead[s];
          ahead[s] = fetch(step + s + steps_ahead);
          take(row_of(step + s), now);
        }
      }
    }
    __syncthreads();
  }

 private:
  __device__ std::int64_t row_of(std::int64_t step) const {
    return sweep_.is_backward != 0 ? n_ - 1 - step : step;
  }

  __device__ BandStep<E> fetch(std::int64_t step) const {
    BandStep<E> found{};
    if (step < n_) {
      const std::int64_t row = row_of(step);
      if (threadIdx.x < sweep_.width) {
        found.entry = number_at(entries_ + row * sweep_.width + threadIdx.x);
      }
      if (divisors_ != nullptr) {
        found.divisor = number_at(divisors_ + row);
      }
      found.pivot = pivots_ != nullptr ? pivots_[row] : static_cast<std::int32_t>(row);
    }
    return found;
  }

  __device__ void take(std::int64_t row, const BandStep<E>& step) {
    if (step.pivot != row) {
      if (threadIdx.x == 0) {
        const E own = x_[row];
        x_[row] = x_[step.pivot];
        x_[step.pivot] = own;
      }
      __syncthreads();
    }
    NumberOf<E> own = number_at(x_ + row);
    if (divisors_ != nullptr) {
      own.divide(step.divisor);
    }
    const std::int64_t first = sweep_.is_backward != 0 ? row - sweep_.width : row + 1;
    for (std::int64_t at = threadIdx.x; at < sweep_.width; at += blockDim.x) {
      const std::int64_t i = first + at;
      if (0 <= i && i < n_) {
        NumberOf<E> other = number_at(x_ + i);
        other.subtract(at < blockDim.x ? step.entry : number_at(entries_ + row * sweep_.width + at),
                       own);
        store_number<E>(other, x_ + i);
      }
    }
    __syncthreads();
    // Nobody reads it any more in this sweep.
    if (threadIdx.x == 0 && divisors_ != nullptr) {
      store_number<E>(own, x_ + row);
    }
  }

  BlockSweep sweep_;
  const E* entries_;
  const E* divisors_;
  const std::int32_t* pivots_;
  std::int64_t n_;
  E* x_;
};

/// Likewise, of a sparse factor: a thread has a row, all threads a level.
template <class E>
__device__ void sweep_sparse(const BlockFactors<E>& factors, const BlockSweep& sweep,
                             std::int64_t n, E* x) {
  const SparseLists lists(sweep, n, factors.lists);
  const E* const entries = factors.numbers + sweep.entries;
  const bool divides = sweep.divisors != BlockSweep::none;
  for (std::int64_t level = 0; level < sweep.levels; ++level) {
    const std::int32_t end = lists.level_begins[level + 1];
    for (std::int32_t at = lists.level_begins[level] + static_cast<std::int32_t>(threadIdx.x);
         at < end; at += static_cast<std::int32_t>(blockDim.x)) {
      const std::int32_t row = lists.levels[at];
      NumberOf<E> own = number_at(x + row);
      if (divides && sweep.divides_before != 0) {
        own.divide(number_at(factors.numbers + sweep.divisors + row));
      }
      for (std::int32_t k = lists.row_pointers[row]; k < lists.row_pointers[row + 1]; ++k) {
        own.subtract(number_at(entries + k), number_at(x + lists.columns[k]));
      }
      if (divides && sweep.divides_before == 0) {
        own.divide(number_at(factors.numbers + sweep.divisors + row));
      }
      store_number<E>(own, x + row);
    }
    __syncthreads();
  }
}

template <bool is_band, class E>
__global__ void __launch_bounds__(max_threads)
    solve_with_blocks(const __grid_constant__ BlocksCall<E> call) {
  begin_after_last();
  if (*call.skip != 0) {
    return;
  }
  const FactoredBlock& block = call.factors.blocks[blockIdx.x];
  const std::int64_t first =
      call.rank_at != nullptr ? std::int64_t{*call.rank_at} * call.rows : call.first;
  if (block.begin + block.size <= first || block.begin >= first + call.rows) {
    return;
  }
  const std::int64_t begin = block.begin - (call.of_own ? first : 0);
  E* const x = call.in_shared ? &dynamic_shared<E>() : call.work + begin;
  for (std::int64_t i = threadIdx.x; i < block.size; i += blockDim.x) {
    x[i] = call.source[begin + i];
  }
  __syncthreads();
#pragma unroll 1
  for (int at = 0; at < 2; ++at) {
    if constexpr (is_band) {
      BandSweep<E>(call.factors, block.sweeps[at], block.size, x).run();
    } else {
      sweep_sparse(call.factors, block.sweeps[at], block.size, x);
    }
  }
  for (std::int64_t i = threadIdx.x; i < block.size; i += blockDim.x) {
    const std::int64_t row = block.begin + i - first;
    if (0 <= row && row < call.rows) {
      call.target[row] = x[i];
    }
  }
}

}  // namespace

template <class E>
void KrylovDeviceKernels<E>::solve_blocks(cudaStream_t stream, const BlockFactors<E>& factors,
                                          In source, Out work, std::int64_t first, Out target,
                                          const std::int32_t* skip, const std::int32_t* rank_at) {
  const auto bytes = static_cast<std::size_t>(factors.largest) * sizeof(E);
  const bool in_shared = bytes <= max_shared();
  const std::size_t shared = in_shared ? bytes : 0;
  const auto kernel = factors.is_band ? &solve_with_blocks<true, E> : &solve_with_blocks<false, E>;
  const std::int64_t of_band = divide_up(factors.widest, 32) * 32;
  const std::int64_t threads =
      factors.is_band ? std::clamp<std::int64_t>(of_band, 32, max_threads) : max_threads;
  allow_shared(kernel, max_shared());  // the same for all ranks of a GPU, which launch at once
  launch_early(
      stream, kernel, factors.count, {dim3(static_cast<unsigned>(threads)), shared},
      BlocksCall<E>{factors, source.data(), work.data(), first, target.data(), target.rows(), skip,
                    rank_at, source.rows() == target.rows(), in_shared});
}

#define SHARDSOLVE_INSTANTIATE(E)                                                                 \
  template void KrylovDeviceKernels<E>::solve_blocks(cudaStream_t, const BlockFactors<E>&, In,    \
                                                     Out, std::int64_t, Out, const std::int32_t*, \
                                                     const std::int32_t*);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
