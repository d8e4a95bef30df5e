/// Products with a matrix whose sums are made in twice the precision, as what remains of them may
/// be small beside their terms; with them |a| |x|, which errors by components are measured by. By
/// rows, a thread has one, in groups of columns that a second kernel adds up in their order; by
/// columns, a block of threads has one.
#include "runtime/cuda/kernels/hermitian/wide_sum.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/lu_device_kernels.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;
constexpr int lanes = 32;
constexpr int warps = threads / lanes;

/// Columns of x at once, so that a is read less often.
constexpr int together = 4;

/// A few turns on every multiprocessor; and columns of which a group has at least so many.
constexpr std::int64_t enough_blocks = 1024;
constexpr std::int64_t least_group = 64;

/// Of sums at a time, where one group does not have more.
constexpr std::int64_t max_bytes = std::int64_t{32} << 20;

/// Of complex numbers max(p, q, (p + q) / sqrt(2)) for moduli p, q of their parts, as on CPUs.
template <class R>
__device__ R largest_of(R p, R q, R shrink) {
  const R largest = p > q ? p : q;
  const R mean = (p + q) * shrink;
  return largest > mean ? largest : mean;
}
template <class E>
__device__ double modulus(E x) {
  if constexpr (parts<E> == 1) {
    return fabs(static_cast<double>(x));
  } else {
    // below 1 / sqrt(2)
    return largest_of(fabs(static_cast<double>(x.re)), fabs(static_cast<double>(x.im)),
                      0.70710678118654752);
  }
}
template <class E>
__device__ RealPart<E> modulus_in_precision(E x) {
  if constexpr (parts<E> == 1) {
    return x < 0 ? -x : x;
  } else {
    return largest_of(x.re < 0 ? -x.re : x.re, x.im < 0 ? -x.im : x.im, RealPart<E>(0.70710677));
  }
}

struct Groups {
  std::int64_t row_blocks;
  std::int64_t columns;  ///< of each
  std::int64_t count;
};

Groups groups_of(std::int64_t rows, std::int64_t columns) {
  Groups groups{divide_up(rows, threads), std::max<std::int64_t>(columns, 1), 1};
  const std::int64_t fitting =
      max_bytes / (std::max<std::int64_t>(rows, 1) * together * 5 * std::int64_t{sizeof(double)});
  const std::int64_t wanted =
      std::max(std::min({divide_up(enough_blocks, std::max<std::int64_t>(groups.row_blocks, 1)),
                         divide_up(groups.columns, least_group), fitting}),
               std::int64_t{1});
  groups.columns = divide_up(groups.columns, wanted);
  groups.count = std::max<std::int64_t>(divide_up(columns, groups.columns), 1);
  return groups;
}

/// Sums of a group, at [group][column of x][row].
template <class E>
struct Sums {
  WideElement<E>* products;
  double* sizes;

  static Sums in(void* scratch, const Groups& groups, std::int64_t rows) {
    auto* const products = static_cast<WideElement<E>*>(scratch);
    return {products, reinterpret_cast<double*>(products + groups.count * together * rows)};
  }
  static std::size_t bytes(const Groups& groups, std::int64_t rows) {
    return static_cast<std::size_t>(groups.count * together * rows) *
           (sizeof(WideElement<E>) + sizeof(double));
  }
};

template <class E, int count>
__global__ void __launch_bounds__(threads)
    multiply_groups(DeviceMatrix<const E> a, DeviceMatrix<const E> x, Groups groups, Sums<E> sums) {
  const std::int64_t row = blockIdx.x % groups.row_blocks * threads + threadIdx.x;
  const std::int64_t group = blockIdx.x / groups.row_blocks;
  if (row >= a.rows) {
    return;
  }
  WideElement<E> products[count] = {};
  double sizes[count] = {};
  const std::int64_t end = min((group + 1) * groups.columns, a.columns);
#pragma unroll 4
  for (std::int64_t j = group * groups.columns; j < end; ++j) {
    const E entry = a(row, j);
    const double size = modulus(entry);
#pragma unroll
    for (int c = 0; c < count; ++c) {
      products[c].add_product(entry, x(j, c));
      sizes[c] += size * modulus(x(j, c));
    }
  }
#pragma unroll
  for (int c = 0; c < count; ++c) {
    sums.products[(group * count + c) * a.rows + row] = products[c];
    sums.sizes[(group * count + c) * a.rows + row] = sizes[c];
  }
}

template <class E, int count>
__global__ void __launch_bounds__(threads)
    add_groups(std::int64_t rows, std::int64_t groups, Sums<E> sums, DeviceMatrix<E> high,
               DeviceMatrix<E> low, DeviceMatrix<double> sizes) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= rows * count) {
    return;
  }
  WideElement<E> sum = {};
  double size = 0;
  for (std::int64_t group = 0; group < groups; ++group) {
    sum.add(sums.products[group * count * rows + at]);
    size += sums.sizes[group * count * rows + at];
  }
  const std::int64_t row = at % rows;
  const std::int64_t column = at / rows;
  high(row, column) = sum.leading();
  low(row, column) = sum.rest();
  sizes(row, column) = size;
}

/// Over the block, in the first thread.
template <class E>
__device__ void add_up(WideElement<E>& sum, double& size, WideElement<E>* meeting, double* sizes) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    for (int p = 0; p < parts<E>; ++p) {
      sum.part[p].add(from_partner(sum.part[p], distance));
    }
    size += from_partner(size, distance);
  }
  if (lane == 0) {
    meeting[warp] = sum;
    sizes[warp] = size;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < warps; ++w) {
      sum.add(meeting[w]);
      size += sizes[w];
    }
  }
  __syncthreads();
}

template <class E, int count>
__global__ void __launch_bounds__(threads)
    multiply_columns(bool conjugated, DeviceMatrix<const E> a, DeviceMatrix<const E> x,
                     DeviceMatrix<E> high, DeviceMatrix<E> low, DeviceMatrix<double> of_sizes) {
  __shared__ WideElement<E> meeting[warps];
  __shared__ double size_meeting[warps];
  const std::int64_t j = blockIdx.x;
  WideElement<E> products[count] = {};
  double sizes[count] = {};
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < a.rows; i += threads) {
    const E entry = conjugated ? conjugate(a(i, j)) : a(i, j);
    const double size = modulus(entry);
#pragma unroll
    for (int c = 0; c < count; ++c) {
      products[c].add_product(entry, x(i, c));
      sizes[c] += size * modulus(x(i, c));
    }
  }
#pragma unroll
  for (int c = 0; c < count; ++c) {
    add_up(products[c], sizes[c], meeting, size_meeting);
    if (threadIdx.x == 0) {
      high(j, c) = products[c].leading();
      low(j, c) = products[c].rest();
      of_sizes(j, c) = sizes[c];
    }
  }
}

template <class E>
__global__ void __launch_bounds__(threads)
    sum_groups_of_rows(double scale, DeviceMatrix<const E> a, Groups groups, double* sums,
                       double* largest) {
  const std::int64_t row = blockIdx.x % groups.row_blocks * threads + threadIdx.x;
  const std::int64_t group = blockIdx.x / groups.row_blocks;
  if (row >= a.rows) {
    return;
  }
  double sum = 0;
  double most = 0;  // of complex numbers the square
  const std::int64_t end = min((group + 1) * groups.columns, a.columns);
#pragma unroll 8
  for (std::int64_t j = group * groups.columns; j < end; ++j) {
    const E entry = a(row, j);
    if constexpr (parts<E> == 1) {
      const double size = modulus(static_cast<double>(entry) * scale);
      sum += size;
      most = fmax(most, size);
    } else {
      const Complex<double> scaled{entry.re * scale, entry.im * scale};
      const double square = scaled.re * scaled.re + scaled.im * scaled.im;
      sum += sqrt(square);
      most = fmax(most, square);
    }
  }
  sums[group * a.rows + row] = sum;
  largest[group * a.rows + row] = parts<E> == 1 ? most : sqrt(most);
}

__global__ void __launch_bounds__(threads)
    add_row_sums(std::int64_t rows, std::int64_t groups, const double* sums, const double* largest,
                 double* sum_target, double* largest_target) {
  const std::int64_t row = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (row < rows) {
    double sum = 0;
    double most = 0;
    for (std::int64_t group = 0; group < groups; ++group) {
      sum += sums[group * rows + row];
      most = fmax(most, largest[group * rows + row]);
    }
    sum_target[row] = sum;
    largest_target[row] = most;
  }
}

template <class E>
__global__ void __launch_bounds__(threads)
    take_moduli(DeviceMatrix<const E> source, DeviceMatrix<RealPart<E>> target) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t i = at % source.rows;
  const std::int64_t j = at / source.rows;
  if (j < source.columns) {
    target(i, j) = modulus_in_precision(source(i, j));
  }
}

/// Some columns of x, from `first` on.
template <class E, int count>
void multiply_some(cudaStream_t stream, Op op, MatrixView<const E> a, MatrixView<const E> x,
                   MatrixView<E> y, MatrixView<double> sizes, std::int64_t first, void* scratch) {
  const auto some = [&](auto view, std::int64_t from) {
    return device(view.columns_from(from, count));
  };
  const DeviceMatrix<const E> x_some = some(x, first);
  const DeviceMatrix<E> high = some(y, first);
  const DeviceMatrix<E> low = some(y, x.columns() + first);
  const DeviceMatrix<double> sizes_some = some(sizes, first);
  if (op != Op::none) {
    launch(stream, &multiply_columns<E, count>, a.columns(), {dim3(threads)},
           op == Op::conjugate_transpose, device(a), x_some, high, low, sizes_some);
    return;
  }
  const Groups groups = groups_of(a.rows(), a.columns());
  const Sums<E> sums = Sums<E>::in(scratch, groups, a.rows());
  launch(stream, &multiply_groups<E, count>, groups.row_blocks * groups.count, {dim3(threads)},
         device(a), x_some, groups, sums);
  launch(stream, &add_groups<E, count>, divide_up(a.rows() * count, threads), {dim3(threads)},
         a.rows(), groups.count, sums, high, low, sizes_some);
}

}  // namespace

template <class E>
std::size_t LuDeviceKernels<E>::multiply_scratch(Op op, In a) {
  return op == Op::none ? Sums<E>::bytes(groups_of(a.rows(), a.columns()), a.rows()) : 0;
}

template <class E>
void LuDeviceKernels<E>::multiply(cudaStream_t stream, Op op, In a, In x, Out y,
                                  MatrixView<double> sizes, void* scratch) {
  std::int64_t first = 0;
  for (; first + together <= x.columns(); first += together) {
    multiply_some<E, together>(stream, op, a, x, y, sizes, first, scratch);
  }
  for (; first < x.columns(); ++first) {
    multiply_some<E, 1>(stream, op, a, x, y, sizes, first, scratch);
  }
}

template <class E>
void LuDeviceKernels<E>::moduli(cudaStream_t stream, In source, MatrixView<Real> target) {
  launch(stream, &take_moduli<E>, divide_up(source.rows() * source.columns(), threads),
         {dim3(threads)}, device(source), device(target));
}

template <class E>
std::size_t LuDeviceKernels<E>::row_sums_scratch(In a) {
  return 2 * static_cast<std::size_t>(groups_of(a.rows(), a.columns()).count * a.rows()) *
         sizeof(double);
}

template <class E>
void LuDeviceKernels<E>::row_sums(cudaStream_t stream, double scale, In a, double* sums,
                                  double* largest, void* scratch) {
  const Groups groups = groups_of(a.rows(), a.columns());
  auto* const group_sums = static_cast<double*>(scratch);
  double* const group_largest = group_sums + groups.count * a.rows();
  launch(stream, &sum_groups_of_rows<E>, groups.row_blocks * groups.count, {dim3(threads)}, scale,
         device(a), groups, group_sums, group_largest);
  launch(stream, &add_row_sums, divide_up(a.rows(), threads), {dim3(threads)}, a.rows(),
         groups.count, group_sums, group_largest, sums, largest);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                               \
  template std::size_t LuDeviceKernels<E>::multiply_scratch(Op, In);                            \
  template void LuDeviceKernels<E>::multiply(cudaStream_t, Op, In, In, Out, MatrixView<double>, \
                                             void*);                                            \
  template void LuDeviceKernels<E>::moduli(cudaStream_t, In, MatrixView<RealPart<E>>);          \
  template std::size_t LuDeviceKernels<E>::row_sums_scratch(In);                                \
  template void LuDeviceKernels<E>::row_sums(cudaStream_t, double, In, double*, double*, void*);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
