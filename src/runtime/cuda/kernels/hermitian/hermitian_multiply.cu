// A product with a Hermitian matrix of which half is there, read once: every entry is used for its
// row and, conjugated, for its column. The slab is cut into patches, one thread block each, which
// leave sums of rows and columns in scratch; a second kernel adds those of all patches in order.
// All sums are made in twice the precision, as y may be small beside the terms that it is made of.
#include "runtime/cuda/hermitian_device_kernels.hpp"
#include "runtime/cuda/kernels/hermitian/wide_sum.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;
constexpr int lanes = 32;
constexpr int warps = threads / lanes;

/// Columns whose sums go through a warp together, and columns between two meetings of the warps.
constexpr int together = 4;
constexpr int chunk = 32;

/// Many turns on every multiprocessor, so that the last turn is short beside them.
constexpr std::int64_t enough_patches = 4096;

template <class E>
constexpr int rows_a_thread = sizeof(E) <= 8 ? 4 : 2;
template <class E>
constexpr std::int64_t rows_a_patch = rows_a_thread<E> * threads;

template <class E>
using Upper = UpperPart<E, RealPart<E>>;

/// Bands of rows, each within one segment, by groups of columns.
struct Partition {
  std::int64_t bands_before[UpperPart<double, double>::max_ranks + 1];  ///< each segment
  std::int64_t bands;
  std::int64_t groups;
  std::int64_t group_columns;
};

template <class E>
Partition partition(const Upper<E>& a) {
  Partition cut{};
  for (std::int32_t r = 0; r < a.ranks; ++r) {
    cut.bands_before[r] = cut.bands;
    cut.bands += divide_up(a.begin[r + 1] - a.begin[r], rows_a_patch<E>);
  }
  cut.bands_before[a.ranks] = cut.bands;
  const std::int64_t columns = a.slab.columns();
  if (columns > 0 && cut.bands > 0) {
    const std::int64_t wanted = std::min(divide_up(enough_patches, cut.bands),  //
                                         divide_up(columns, std::int64_t{chunk}));
    cut.group_columns = divide_up(divide_up(columns, wanted), std::int64_t{chunk}) * chunk;
    cut.groups = divide_up(columns, cut.group_columns);
  }
  return cut;
}

/// Sums at [band][column], then [group][row].
template <class E>
struct Sums {
  WideElement<E>* of_columns;
  WideElement<E>* of_rows;
};

template <class E>
struct Slab {
  const E* data;
  std::int64_t columns;
  std::int64_t stride;
};

template <class E>
__global__ void __launch_bounds__(threads, 2)
    multiply_patches(Slab<E> slab, const __grid_constant__ Upper<E> a,
                     const __grid_constant__ Partition cut, const E* x, Sums<E> sums) {
  using Sum = WideSum<RealPart<E>>;
  constexpr int count = rows_a_thread<E>;
  __shared__ Sum meeting[warps][chunk * parts<E>];
  const std::int64_t band = blockIdx.x % cut.bands;
  const std::int64_t group = blockIdx.x / cut.bands;
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  int segment = 0;
  while (band >= cut.bands_before[segment + 1]) {
    ++segment;
  }
  const std::int64_t height = a.begin[segment + 1] - a.begin[segment];
  const std::int64_t first_row = (band - cut.bands_before[segment]) * rows_a_patch<E>;
  const bool own = segment == a.rank;
  const E* corner = slab.data + a.begin[segment];
  const E* x_of_rows = x + a.begin[segment];
  const E* x_of_columns = x + a.begin[a.rank];

  E x_row[count];
  WideElement<E> row[count];
  std::int64_t place[count];  // in the segment
#pragma unroll
  for (int r = 0; r < count; ++r) {
    place[r] = first_row + r * threads + threadIdx.x;
    x_row[r] = place[r] < height ? x_of_rows[place[r]] : from_real<E>(0);
    row[r] = {};
  }
  // Rows of the segment that come before a column: no fewer than before the columns to its left.
  const auto limit_of = [&](std::int64_t column) {
    return own ? column : a.eliminated[column / a.tile * a.ranks + segment];
  };
  const std::int64_t begin = group * cut.group_columns;
  const std::int64_t end = min(begin + cut.group_columns, slab.columns);
  for (std::int64_t from = begin; from < end; from += chunk) {
    const std::int64_t to = min(from + chunk, end);
    if (limit_of(to - 1) <= first_row) {  // nothing is there
      for (std::int64_t j = from + threadIdx.x; j < to; j += threads) {
        sums.of_columns[band * slab.columns + j] = {};
      }
      continue;
    }
    for (std::int64_t j = from; j < to; j += together) {
      E entries[together][count];
      Sum columns[parts<E>][together];
#pragma unroll
      for (int c = 0; c < together; ++c) {
        const std::int64_t column = j + c;
        const std::int64_t limit = column < to ? limit_of(column) : 0;
#pragma unroll
        for (int r = 0; r < count; ++r) {
          entries[c][r] = place[r] < limit ? corner[place[r] + column * slab.stride]  //
                                           : from_real<E>(0);
        }
      }
#pragma unroll
      for (int c = 0; c < together; ++c) {
        const E x_column = j + c < to ? x_of_columns[j + c] : from_real<E>(0);
        WideElement<E> sum = {};
#pragma unroll
        for (int r = 0; r < count; ++r) {
          row[r].add_product(entries[c][r], x_column);
          sum.add_product(conjugate(entries[c][r]), x_row[r]);
        }
#pragma unroll
        for (int p = 0; p < parts<E>; ++p) {
          columns[p][c] = sum.part[p];
        }
      }
#pragma unroll
      for (int p = 0; p < parts<E>; ++p) {
        const Sum sum = sum_four(columns[p]);
        if (lane % 8 == 0) {
          meeting[warp][(j - from + lane / 8) * parts<E> + p] = sum;
        }
      }
    }
    __syncthreads();
    const int found = static_cast<int>(to - from) * parts<E>;
    for (int s = static_cast<int>(threadIdx.x); s < found; s += threads) {
      Sum sum = {};
#pragma unroll
      for (int w = 0; w < warps; ++w) {
        sum.add(meeting[w][s]);
      }
      reinterpret_cast<Sum*>(sums.of_columns + band * slab.columns + from)[s] = sum;
    }
    __syncthreads();
  }
  const std::int64_t n = a.begin[a.ranks];
#pragma unroll
  for (int r = 0; r < count; ++r) {
    if (place[r] < height) {
      sums.of_rows[group * n + a.begin[segment] + place[r]] = row[r];
    }
  }
}

/// Adds `count` values that lie `distance` apart, in their order.
template <class E>
__device__ void add_all(WideElement<E>& sum, const WideElement<E>* values, std::int64_t count,
                        std::int64_t distance) {
#pragma unroll 8
  for (std::int64_t k = 0; k < count; ++k) {
    sum.add(values[k * distance]);
  }
}

/// One thread a row.
template <class E>
__global__ void __launch_bounds__(threads)
    add_patches(std::int64_t columns, const __grid_constant__ Upper<E> a,
                const __grid_constant__ Partition cut, const E* x, Sums<E> sums, E* y) {
  const std::int64_t n = a.begin[a.ranks];
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= n) {
    return;
  }
  WideElement<E> sum = {};
  add_all(sum, sums.of_rows + row, cut.groups, n);
  const std::int64_t column = row - a.begin[a.rank];
  if (column >= 0 && column < columns) {
    add_all(sum, sums.of_columns + column, cut.bands, columns);
    sum.add_product(from_real<E>(a.diagonal[column]), x[row]);
  }
  int segment = 0;
  while (row >= a.begin[segment + 1]) {
    ++segment;
  }
  E* const target = y + a.begin[segment] + row;  // each row before the segment has two numbers
  target[0] = sum.leading();
  target[a.begin[segment + 1] - a.begin[segment]] = sum.rest();
}

/// One thread a real number. `low` is null where `high` is all of the source.
template <class R>
__global__ void __launch_bounds__(threads)
    add_to_twofold(std::int64_t count, std::int64_t rows, const R* source_high, const R* source_low,
                   std::int64_t source_stride, R* high, R* low, std::int64_t stride) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= count) {
    return;
  }
  const std::int64_t from = at / rows * source_stride + at % rows;
  const std::int64_t to = at / rows * stride + at % rows;
  const R term = source_high[from];
  const R sum = high[to];
  const R next = sum + term;
  const R taken = next - sum;
  low[to] += (sum - (next - taken)) + (term - taken);
  if (source_low != nullptr) {
    low[to] += source_low[from];
  }
  high[to] = next;
}

}  // namespace

template <class E>
void HermitianDeviceKernels<E>::hermitian_multiply(cudaStream_t stream, const Upper& a, const E* x,
                                                   E* y, void* scratch) {
  const Partition cut = partition<E>(a);
  const std::int64_t columns = a.slab.columns();
  auto* const memory = static_cast<WideElement<E>*>(scratch);
  const Sums<E> sums{memory, memory + cut.bands * columns};
  launch(stream, &multiply_patches<E>, cut.bands * cut.groups, {dim3(threads)},
         Slab<E>{a.slab.data(), columns, a.slab.stride()}, a, cut, x, sums);
  launch(stream, &add_patches<E>, divide_up(a.begin[a.ranks], threads), {dim3(threads)}, columns, a,
         cut, x, sums, y);
}

template <class E>
std::size_t HermitianDeviceKernels<E>::hermitian_multiply_scratch(const Upper& a) {
  const Partition cut = partition<E>(a);
  const std::int64_t elements = cut.bands * a.slab.columns() + cut.groups * a.begin[a.ranks];
  return static_cast<std::size_t>(elements) * sizeof(WideElement<E>);
}

template <class E>
void HermitianDeviceKernels<E>::add_twofold(cudaStream_t stream, In source, Out sums) {
  using R = RealPart<E>;
  const std::int64_t k = sums.columns() / 2;
  const std::int64_t rows = parts<E> * sums.rows();
  const std::int64_t source_stride = parts<E> * source.stride();
  const std::int64_t stride = parts<E> * sums.stride();
  auto* const high = reinterpret_cast<R*>(sums.data());
  const auto* const source_high = reinterpret_cast<const R*>(source.data());
  launch(stream, &add_to_twofold<R>, divide_up(rows * k, threads), {dim3(threads)}, rows * k, rows,
         source_high, source.columns() > k ? source_high + k * source_stride : nullptr,
         source_stride, high, high + k * stride, stride);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                           \
  template void HermitianDeviceKernels<E>::hermitian_multiply(cudaStream_t, const Upper&,   \
                                                              const E*, E*, void*);         \
  template std::size_t HermitianDeviceKernels<E>::hermitian_multiply_scratch(const Upper&); \
  template void HermitianDeviceKernels<E>::add_twofold(cudaStream_t, In, Out);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
