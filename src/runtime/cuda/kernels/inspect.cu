/// Column sums, probe and partial product of a matrix that is read once.
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads_a_block = 256;
constexpr int lanes = 32;
constexpr int warps = threads_a_block / lanes;

/// Columns whose sums go through a warp together, and columns between two meetings of the warps.
constexpr int together = 4;
constexpr int chunk = 32;

/// Blocks there are at the least, where the matrix has work for them: many turns on every
/// multiprocessor, so that the last turn is short beside them.
constexpr std::int64_t enough_blocks = 2048;

template <class E>
constexpr int rows_a_thread = sizeof(E) <= 8 ? 4 : 2;

template <class E>
constexpr int rows_a_patch = rows_a_thread<E> * threads_a_block;

/// Sums of a column: its size and the parts of its probe.
template <class E>
constexpr int sums = 1 + parts<E>;

/// The matrix is cut into bands x groups patches, one block each. A block leaves the sums of its
/// columns and of its rows in scratch, where a second kernel adds those of all blocks in order.
struct Partition {
  std::int64_t bands;   ///< of rows_a_patch rows
  std::int64_t groups;  ///< of group_columns columns
  std::int64_t group_columns;
};

/// Depends on the shape alone, and so do then the bits of the results.
template <class E>
Partition partition(std::int64_t rows, std::int64_t columns) {
  const std::int64_t bands = divide_up(rows, rows_a_patch<E>);
  if (bands == 0 || columns == 0) {
    return {bands, 0, 0};
  }
  const std::int64_t wanted =
      std::min(divide_up(enough_blocks, bands), divide_up(columns, together));
  const std::int64_t group_columns = divide_up(divide_up(columns, wanted), together) * together;
  return {bands, divide_up(columns, group_columns), group_columns};
}

/// Doubles at [band][column][sum], then [group][row][part].
template <class E>
struct Scratch {
  double* of_columns;
  double* of_rows;
};

/// What the rows of one thread add to the sums of one column, and that column to the rows.
template <class E>
__device__ void take(E entry, double row_weight, double column_weight, double scale,
                     double (&column)[sums<E>][together], int c, double (&row)[parts<E>]) {
  if constexpr (parts<E> == 2) {
    const double re = static_cast<double>(entry.re) * scale;
    const double im = static_cast<double>(entry.im) * scale;
    column[0][c] += sqrt(re * re + im * im);
    column[1][c] += row_weight * re;
    column[2][c] -= row_weight * im;
    row[0] += column_weight * re;
    row[1] += column_weight * im;
  } else {
    const double x = static_cast<double>(entry) * scale;
    column[0][c] += fabs(x);
    column[1][c] += row_weight * x;
    row[0] += column_weight * x;
  }
}

template <class E>
__global__ void __launch_bounds__(threads_a_block, 2)
    inspect_patches(DeviceMatrix<const E> a, const double* weights, const double* column_weights,
                    double scale, Partition cut, Scratch<E> scratch) {
  constexpr int count = rows_a_thread<E>;
  __shared__ double meeting[warps][chunk * sums<E>];
  const std::int64_t band = blockIdx.x % cut.bands;
  const std::int64_t group = blockIdx.x / cut.bands;
  const std::int64_t begin = group * cut.group_columns;
  const std::int64_t end = min(begin + cut.group_columns, a.columns);
  const std::int64_t first_row = band * rows_a_patch<E> + threadIdx.x;
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;

  double row_weights[count];
  double rows[count][parts<E>] = {};
#pragma unroll
  for (int r = 0; r < count; ++r) {
    const std::int64_t i = first_row + r * threads_a_block;
    row_weights[r] = i < a.rows ? weights[i] : 0.0;
  }
  for (std::int64_t from = begin; from < end; from += chunk) {
    const std::int64_t to = min(from + chunk, end);
    for (std::int64_t j = from; j < to; j += together) {
      E entries[together][count];
      double columns[sums<E>][together] = {};
#pragma unroll
      for (int c = 0; c < together; ++c) {
#pragma unroll
        for (int r = 0; r < count; ++r) {
          const std::int64_t i = first_row + r * threads_a_block;
          entries[c][r] = i < a.rows && j + c < to ? a(i, j + c) : from_real<E>(0);
        }
      }
#pragma unroll
      for (int c = 0; c < together; ++c) {
        const double column_weight = j + c < to ? column_weights[j + c] : 0.0;
#pragma unroll
        for (int r = 0; r < count; ++r) {
          take(entries[c][r], row_weights[r], column_weight, scale, columns, c, rows[r]);
        }
      }
#pragma unroll
      for (int s = 0; s < sums<E>; ++s) {
        const double sum = sum_four(columns[s]);
        if (lane % 8 == 0) {
          meeting[warp][(j - from + lane / 8) * sums<E> + s] = sum;
        }
      }
    }
    __syncthreads();
    const int found = static_cast<int>(to - from) * sums<E>;
    for (int s = static_cast<int>(threadIdx.x); s < found; s += threads_a_block) {
      double sum = 0.0;
#pragma unroll
      for (int w = 0; w < warps; ++w) {
        sum += meeting[w][s];
      }
      scratch.of_columns[(band * a.columns + from) * sums<E> + s] = sum;
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < count; ++r) {
    const std::int64_t i = first_row + r * threads_a_block;
    if (i < a.rows) {
#pragma unroll
      for (int p = 0; p < parts<E>; ++p) {
        scratch.of_rows[(group * a.rows + i) * parts<E> + p] = rows[r][p];
      }
    }
  }
}

/// The sum of `count` values that lie `distance` apart, in their order.
__device__ double sum_of(const double* values, std::int64_t count, std::int64_t distance) {
  double sum = 0.0;
#pragma unroll 8
  for (std::int64_t k = 0; k < count; ++k) {
    sum += values[k * distance];
  }
  return sum;
}

/// One thread a sum: first those of the columns, then those of the rows.
template <class E>
__global__ void __launch_bounds__(threads_a_block)
    add_patches(std::int64_t rows, std::int64_t columns, Partition cut, Scratch<E> scratch,
                Inspection result, bool adds) {
  const std::int64_t of_columns = columns * sums<E>;
  const std::int64_t of_rows = rows * parts<E>;
  const std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (thread < of_columns) {
    const double sum = sum_of(scratch.of_columns + thread, cut.bands, of_columns);
    const std::int64_t column = thread / sums<E>;
    const std::int64_t which = thread % sums<E>;
    if (which == 0) {
      result.column_sums[column] = sum;
    } else {
      result.probe[column * parts<E> + which - 1] = sum;
    }
  } else if (thread - of_columns < of_rows) {
    const std::int64_t row = thread - of_columns;
    const double before = adds ? result.partial_product[row] : 0.0;
    result.partial_product[row] = before + sum_of(scratch.of_rows + row, cut.groups, of_rows);
  }
}

template <class E>
std::int64_t column_doubles(const Partition& cut, std::int64_t columns) {
  return cut.bands * columns * sums<E>;
}

}  // namespace

template <class E>
void DeviceKernels<E>::inspect(cudaStream_t stream, In a, std::int64_t first, const double* weights,
                               double scale, Inspection result, bool adds, void* scratch) {
  const Partition cut = partition<E>(a.rows(), a.columns());
  double* const memory = static_cast<double*>(scratch);
  const Scratch<E> sums_of{memory, memory + column_doubles<E>(cut, a.columns())};
  launch(stream, &inspect_patches<E>, cut.bands * cut.groups, {dim3(threads_a_block)}, device(a),
         weights, weights + first, scale, cut, sums_of);
  const std::int64_t results = a.columns() * sums<E> + a.rows() * parts<E>;
  launch(stream, &add_patches<E>, divide_up(results, threads_a_block), {dim3(threads_a_block)},
         a.rows(), a.columns(), cut, sums_of, result, adds);
}

template <class E>
std::size_t DeviceKernels<E>::inspect_scratch(std::int64_t rows, std::int64_t columns) {
  const Partition cut = partition<E>(rows, columns);
  const std::int64_t doubles = column_doubles<E>(cut, columns) + cut.groups * rows * parts<E>;
  return static_cast<std::size_t>(doubles) * sizeof(double);
}

template void DeviceKernels<float>::inspect(cudaStream_t, In, std::int64_t, const double*, double,
                                            Inspection, bool, void*);
template void DeviceKernels<double>::inspect(cudaStream_t, In, std::int64_t, const double*, double,
                                             Inspection, bool, void*);
template void DeviceKernels<Complex<float>>::inspect(cudaStream_t, In, std::int64_t, const double*,
                                                     double, Inspection, bool, void*);
template void DeviceKernels<Complex<double>>::inspect(cudaStream_t, In, std::int64_t, const double*,
                                                      double, Inspection, bool, void*);

template std::size_t DeviceKernels<float>::inspect_scratch(std::int64_t, std::int64_t);
template std::size_t DeviceKernels<double>::inspect_scratch(std::int64_t, std::int64_t);
template std::size_t DeviceKernels<Complex<float>>::inspect_scratch(std::int64_t, std::int64_t);
template std::size_t DeviceKernels<Complex<double>>::inspect_scratch(std::int64_t, std::int64_t);

}  // namespace shardsolve::runtime::cuda
