/// QR with column pivoting of many boxes' rows, a block of threads for each. The matrix stays in
/// memory; a warp applies a reflector to four columns at a time and gets the norms of what is left
/// of them on the way, so that no norm is updated. Columns are not moved: their order is kept.
#include "runtime/cuda/box_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr int together = 4;

/// In dynamic shared memory: so many of each as there are columns.
struct ColumnFigures {
  double* norms;  ///< squared, of rows from the next step on, by column
  double* tau;    ///< of the reflectors, by step
  double* scale;
  double* beta;
  int* order;  ///< of the columns

  static std::size_t bytes(std::int64_t columns) {
    return static_cast<std::size_t>(columns) * (4 * sizeof(double) + sizeof(int));
  }
  __device__ ColumnFigures(double* memory, std::int64_t columns)
      : norms(memory),
        tau(memory + columns),
        scale(memory + 2 * columns),
        beta(memory + 3 * columns),
        order(reinterpret_cast<int*>(memory + 4 * columns)) {}
};

__device__ int lane() { return static_cast<int>(threadIdx.x) % 32; }
__device__ int warp() { return static_cast<int>(threadIdx.x) / 32; }

__device__ double sum_of_lanes(double value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += from_partner(value, distance);
  }
  return value;
}

/// I - tau v v^T for v = (1, scale x) from row `step` on.
struct Reflector {
  const double* x;  ///< row 0
  std::int64_t step;
  double tau;
  double scale;
};

/// Applies it to `count` columns; the sums of squares of their rows behind the step are returned
/// to all lanes. A lane has the same rows each time.
__device__ void reflect(const Reflector& reflector, std::int64_t rows,
                        double* const (&columns)[together], int count,
                        double (&squares)[together]) {
  const std::int64_t step = reflector.step;
  const std::int64_t first = step / 32 * 32 + lane();
  double dots[together] = {};
  for (std::int64_t row = first; row < rows; row += 32) {
    const double x = row > step ? reflector.x[row] : 0.0;
#pragma unroll
    for (int c = 0; c < together; ++c) {
      dots[c] += x * columns[c][row];
    }
  }
  double factors[together];
  double heads[together];
#pragma unroll
  for (int c = 0; c < together; ++c) {
    heads[c] = columns[c][step];
    const double product = reflector.tau * (heads[c] + reflector.scale * sum_of_lanes(dots[c]));
    factors[c] = product * reflector.scale;
    heads[c] -= product;
    squares[c] = 0.0;
  }
  __syncwarp();
  for (std::int64_t row = first; row < rows; row += 32) {
    const double x = row > step ? reflector.x[row] : 0.0;
#pragma unroll
    for (int c = 0; c < together; ++c) {
      if (c < count && row >= step) {
        const double value = row == step ? heads[c] : columns[c][row] - factors[c] * x;
        columns[c][row] = value;
        squares[c] += row == step ? 0.0 : value * value;
      }
    }
  }
#pragma unroll
  for (int c = 0; c < together; ++c) {
    squares[c] = sum_of_lanes(squares[c]);
  }
  __syncwarp();
}

/// The place in the order, from `step` on, of the column with the largest norm; the first of those.
__device__ int place_of_largest(const ColumnFigures& figures, int step, int columns) {
  double most = -1.0;
  int place = columns;
  for (int j = step + lane(); j < columns; j += 32) {
    const double norm = figures.norms[figures.order[j]];
    if (norm > most) {
      most = norm;
      place = j;
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const double other = from_partner(most, distance);
    const int other_place = from_partner(place, distance);
    if (other > most || (other == most && other_place < place)) {
      most = other;
      place = other_place;
    }
  }
  return place < columns ? place : step;
}

/// Chooses the pivot and makes its reflector. False if the columns that are left do not count.
/// By the first warp.
__device__ bool choose(const ColumnFigures& figures, const double* m, std::int64_t rows, int step,
                       int columns, double tolerance, double& largest) {
  const int place = place_of_largest(figures, step, columns);
  const int pivot = figures.order[place];
  const double norm = sqrt(max(figures.norms[pivot], 0.0));
  if (step == 0) {
    largest = norm;
  }
  if (!(norm > tolerance * largest)) {
    return false;
  }
  const double alpha = m[step + pivot * rows];
  const double beta = alpha > 0.0 ? -norm : norm;
  __syncwarp();
  if (lane() == 0) {
    figures.order[place] = figures.order[step];
    figures.order[step] = pivot;
    figures.beta[step] = beta;
    figures.tau[step] = (beta - alpha) / beta;
    figures.scale[step] = 1.0 / (alpha - beta);
  }
  return true;
}

__device__ Reflector reflector_of(const ColumnFigures& figures, const double* m, std::int64_t rows,
                                  int step) {
  return {m + figures.order[step] * rows, step, figures.tau[step], figures.scale[step]};
}

/// M P = Q R in place of M; the rank.
__device__ int factor(const ColumnFigures& figures, double* m, std::int64_t rows, int columns,
                      double tolerance) {
  __shared__ int is_done;
  for (int j = warp(); j < columns; j += warps) {
    double sum = 0.0;
    for (std::int64_t row = lane(); row < rows; row += 32) {
      const double value = m[row + j * rows];
      sum += value * value;
    }
    sum = sum_of_lanes(sum);
    if (lane() == 0) {
      figures.norms[j] = sum;
      figures.order[j] = j;
    }
  }
  double largest = 0.0;
  const int steps = static_cast<int>(min(rows, std::int64_t{columns}));
  int rank = 0;
  for (; rank < steps; ++rank) {
    __syncthreads();
    if (warp() == 0) {
      const bool found = choose(figures, m, rows, rank, columns, tolerance, largest);
      if (lane() == 0) {
        is_done = found ? 0 : 1;
      }
    }
    __syncthreads();
    if (is_done != 0) {
      break;
    }
    const Reflector reflector = reflector_of(figures, m, rows, rank);
    for (int first = rank + 1 + warp() * together; first < columns; first += warps * together) {
      const int count = min(together, columns - first);
      double* to[together];
      double squares[together];
#pragma unroll
      for (int c = 0; c < together; ++c) {
        to[c] = m + figures.order[first + (c < count ? c : 0)] * rows;
      }
      reflect(reflector, rows, to, count, squares);
#pragma unroll
      for (int c = 0; c < together; ++c) {
        if (c < count && lane() == 0) {
          figures.norms[figures.order[first + c]] = squares[c];
        }
      }
    }
  }
  __syncthreads();
  return rank;
}

/// The first `rank` columns of the product of the reflectors.
__device__ void make_columns(const ColumnFigures& figures, const double* m, std::int64_t rows,
                             int rank, double* q) {
  const int groups = (rank + together - 1) / together;
  // The last columns take longest.
  for (int g = groups - 1 - warp(); g >= 0; g -= warps) {
    const int first = g * together;
    const int count = min(together, rank - first);
    double* to[together];
    double squares[together];
#pragma unroll
    for (int c = 0; c < together; ++c) {
      to[c] = q + (first + (c < count ? c : 0)) * rows;
    }
    for (int c = 0; c < count; ++c) {
      for (std::int64_t row = lane(); row < rows; row += 32) {
        to[c][row] = row == first + c ? 1.0 : 0.0;
      }
    }
    __syncwarp();
    for (int step = first + count - 1; step >= 0; --step) {
      reflect(reflector_of(figures, m, rows, step), rows, to, count, squares);
    }
  }
}

__global__ void __launch_bounds__(threads)
    orthonormalise_boxes(const __grid_constant__ BoxBlocks blocks, std::int64_t first,
                         double tolerance, double* all_rows) {
  const ColumnFigures figures(&dynamic_shared<double>(), blocks.columns);
  const std::int64_t box = first + blockIdx.x;
  const std::int64_t begin = blocks.begin[box];
  const std::int64_t rows = blocks.begin[box + 1] - begin;
  double* const m = all_rows + (begin - blocks.begin[first]) * blocks.columns;
  const int columns = static_cast<int>(blocks.columns);
  const int rank = factor(figures, m, rows, columns, tolerance);
  double* const r = blocks.r + box * blocks.columns * blocks.columns;
  for (int n = static_cast<int>(threadIdx.x); n < rank * rank; n += threads) {
    const int i = n / rank;
    const int j = n % rank;
    if (j >= i) {
      r[i * blocks.columns + j] = i == j ? figures.beta[i] : m[i + figures.order[j] * rows];
    }
  }
  for (int j = static_cast<int>(threadIdx.x); j < rank; j += threads) {
    blocks.kept[box * blocks.columns + j] = figures.order[j];
  }
  if (threadIdx.x == 0) {
    blocks.rank[box] = rank;
  }
  make_columns(figures, m, rows, rank, blocks.q + begin * blocks.columns);
}

}  // namespace

std::int64_t BoxDeviceKernels::max_columns() {
  constexpr std::size_t besides = 1024;  // what is declared as shared
  return static_cast<std::int64_t>((max_shared() - besides) / ColumnFigures::bytes(1));
}

void BoxDeviceKernels::orthonormalise(cudaStream_t stream, const BoxBlocks& blocks,
                                      std::int64_t first, std::int64_t count, double tolerance,
                                      double* rows) {
  const Block block{dim3(threads), ColumnFigures::bytes(blocks.columns)};
  allow_shared(&orthonormalise_boxes, block.shared_bytes);
  launch(stream, &orthonormalise_boxes, count, block, blocks, first, tolerance, rows);
}

}  // namespace shardsolve::runtime::cuda
