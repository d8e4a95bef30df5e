/// Kernels whose every output element depends on the input element at its own place.
#include "runtime/cuda/device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads_a_block = 256;

/// The power of two next below |x| or its reciprocal, as HostKernels has it.
template <class Real>
__device__ Real power_of_two(Real x, bool inverted) {
  if (x == 0 || !isfinite(x)) {
    return 1;
  }
  constexpr int largest = sizeof(Real) == sizeof(float) ? 120 : 1000;
  const int exponent = min(max(ilogb(x), -largest), largest);
  return scalbn(Real{1}, inverted ? -exponent : exponent);
}

/// Elements that one thread has under way at once: 32 bytes a thread keep the memory busy.
template <class E>
constexpr int columns_a_thread = 32 / static_cast<int>(sizeof(E));

/// An operation says by value() what an element of its target becomes.
template <class E>
struct Operation {
  using Value = E;
  DeviceMatrix<E> target;
};

template <class E>
struct Copy : Operation<E> {
  DeviceMatrix<const E> source;
  __device__ E value(std::int64_t i, std::int64_t j) const { return source(i, j); }
};

template <class E>
struct FromReal : Operation<E> {
  DeviceMatrix<const RealPart<E>> source;
  __device__ E value(std::int64_t i, std::int64_t j) const { return from_real<E>(source(i, j)); }
};

template <class E>
struct Convert : Operation<E> {
  DeviceMatrix<const OtherElement<E>> source;
  __device__ E value(std::int64_t i, std::int64_t j) const {
    using Real = RealPart<E>;
    const OtherElement<E> x = source(i, j);
    if constexpr (parts<E> == 2) {
      return {static_cast<Real>(x.re), static_cast<Real>(x.im)};
    } else {
      return static_cast<Real>(x);
    }
  }
};

template <class E>
struct Fill : Operation<E> {
  E everywhere;
  __device__ E value(std::int64_t, std::int64_t) const { return everywhere; }
};

template <class E>
struct Identity : Operation<E> {
  __device__ E value(std::int64_t i, std::int64_t j) const { return from_real<E>(i == j ? 1 : 0); }
};

template <class E>
struct LowerTriangle : Operation<E> {
  DeviceMatrix<const E> source;
  __device__ E value(std::int64_t i, std::int64_t j) const {
    return i < j ? from_real<E>(0) : source(i, j);
  }
};

template <class E>
struct ScaleRows : Operation<E> {
  DeviceMatrix<const E> source;
  DeviceMatrix<const E> scales;
  bool inverted;
  __device__ E value(std::int64_t i, std::int64_t j) const {
    return scaled(source(i, j), power_of_two(real(scales(i, i)), inverted));
  }
};

template <class E>
struct Add : Operation<E> {
  DeviceMatrix<const E> source;
  E alpha;
  __device__ E value(std::int64_t i, std::int64_t j) const {
    return add_product(this->target(i, j), alpha, source(i, j));
  }
};

template <class E>
struct Scale : Operation<E> {
  RealPart<E> factor;
  __device__ E value(std::int64_t i, std::int64_t j) const {
    return scaled(this->target(i, j), factor);
  }
};

/// One block a tile of blockDim.x rows and blockDim.y * columns_a_thread columns. A thread computes
/// all its values before it stores the first: loads do not move up across stores by themselves.
template <class Op>
__global__ void __launch_bounds__(threads_a_block) sweep(Op op, unsigned tile_rows) {
  using E = typename Op::Value;
  constexpr int count = columns_a_thread<E>;
  const std::int64_t i = std::int64_t{blockIdx.x % tile_rows} * blockDim.x + threadIdx.x;
  const std::int64_t first =
      std::int64_t{blockIdx.x / tile_rows} * blockDim.y * count + threadIdx.y;
  if (i >= op.target.rows) {
    return;
  }
  E values[count];
#pragma unroll
  for (int c = 0; c < count; ++c) {
    const std::int64_t j = first + c * blockDim.y;
    if (j < op.target.columns) {
      values[c] = op.value(i, j);
    }
  }
#pragma unroll
  for (int c = 0; c < count; ++c) {
    const std::int64_t j = first + c * blockDim.y;
    if (j < op.target.columns) {
      op.target(i, j) = values[c];
    }
  }
}

template <class Op>
void run(cudaStream_t stream, const Op& op) {
  using E = typename Op::Value;
  // Few rows, then narrow tiles, so that the threads find work.
  const unsigned height = op.target.rows <= 32 ? 32 : 128;
  const unsigned width = threads_a_block / height;
  const std::int64_t tile_rows = divide_up(op.target.rows, height);
  const std::int64_t tile_columns = divide_up(op.target.columns, width * columns_a_thread<E>);
  launch(stream, &sweep<Op>, tile_rows * tile_columns, {dim3(height, width)}, op,
         static_cast<unsigned>(tile_rows));
}

/// Blocks of 32 columns and 32 rows of one tile after the other; a thread has every eighth column.
template <class E>
__global__ void __launch_bounds__(threads_a_block)
    add_triangle(bool lower, DeviceMatrix<const E> source, DeviceMatrix<E> target,
                 BatchStrides strides, unsigned tile_rows) {
  constexpr int side = 32;
  const std::int64_t number = blockIdx.x / (tile_rows * tile_rows);
  const unsigned place = blockIdx.x % (tile_rows * tile_rows);
  const std::int64_t i = std::int64_t{place % tile_rows} * side + threadIdx.x;
  const std::int64_t left = std::int64_t{place / tile_rows} * side;
  source.data += number * strides.a;
  target.data += number * strides.c;
#pragma unroll
  for (int line = 0; line < side; line += threads_a_block / side) {
    const std::int64_t j = left + line + threadIdx.y;
    if (i < target.rows && j < target.columns) {
      if (i == j) {
        target(i, j) = from_real<E>(real(target(i, j)) + real(source(i, j)));
      } else if ((i > j) == lower) {
        target(i, j) = add_product(target(i, j), from_real<E>(1), source(i, j));
      }
    }
  }
}

template <class E>
__global__ void take_diagonal(DeviceMatrix<const E> a, RealPart<E>* target) {
  const std::int64_t j = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (j < a.columns) {
    target[j] = real(a(j, j));
  }
}

}  // namespace

template <class E>
void DeviceKernels<E>::copy(cudaStream_t stream, In source, Out target) {
  run(stream, Copy<E>{{device(target)}, device(source)});
}

template <class E>
void DeviceKernels<E>::convert(cudaStream_t stream, MatrixView<const OtherElement<E>> source,
                               Out target) {
  run(stream, Convert<E>{{device(target)}, device(source)});
}

template <class E>
void DeviceKernels<E>::from_real(cudaStream_t stream, MatrixView<const Real> source, Out target) {
  run(stream, FromReal<E>{{device(target)}, device(source)});
}

template <class E>
void DeviceKernels<E>::fill(cudaStream_t stream, E value, Out target) {
  run(stream, Fill<E>{{device(target)}, value});
}

template <class E>
void DeviceKernels<E>::identity(cudaStream_t stream, Out target) {
  run(stream, Identity<E>{{device(target)}});
}

template <class E>
void DeviceKernels<E>::lower_triangle(cudaStream_t stream, In source, Out target) {
  run(stream, LowerTriangle<E>{{device(target)}, device(source)});
}

template <class E>
void DeviceKernels<E>::scale_rows(cudaStream_t stream, In scales, bool inverted, In source,
                                  Out target) {
  run(stream, ScaleRows<E>{{device(target)}, device(source), device(scales), inverted});
}

template <class E>
void DeviceKernels<E>::add(cudaStream_t stream, E alpha, In source, Out target) {
  run(stream, Add<E>{{device(target)}, device(source), alpha});
}

template <class E>
void DeviceKernels<E>::scale(cudaStream_t stream, Real factor, Out target) {
  run(stream, Scale<E>{{device(target)}, factor});
}

template <class E>
void DeviceKernels<E>::add_triangles(cudaStream_t stream, Triangle triangle, In source, Out target,
                                     const BatchStrides& strides) {
  const std::int64_t tile_rows = divide_up(target.rows(), 32);
  launch(stream, &add_triangle<E>, tile_rows * tile_rows * strides.count,
         {dim3(32, threads_a_block / 32)}, triangle == Triangle::lower, device(source),
         device(target), strides, static_cast<unsigned>(tile_rows));
}

template <class E>
void DeviceKernels<E>::diagonal(cudaStream_t stream, In a, Real* target) {
  launch(stream, &take_diagonal<E>, divide_up(a.columns(), threads_a_block),
         {dim3(threads_a_block)}, device(a), target);
}

template void DeviceKernels<float>::copy(cudaStream_t, In, Out);
template void DeviceKernels<double>::copy(cudaStream_t, In, Out);
template void DeviceKernels<Complex<float>>::copy(cudaStream_t, In, Out);
template void DeviceKernels<Complex<double>>::copy(cudaStream_t, In, Out);

template void DeviceKernels<float>::convert(cudaStream_t, MatrixView<const double>, Out);
template void DeviceKernels<double>::convert(cudaStream_t, MatrixView<const float>, Out);
template void DeviceKernels<Complex<float>>::convert(cudaStream_t,
                                                     MatrixView<const Complex<double>>, Out);
template void DeviceKernels<Complex<double>>::convert(cudaStream_t,
                                                      MatrixView<const Complex<float>>, Out);

template void DeviceKernels<float>::from_real(cudaStream_t, MatrixView<const float>, Out);
template void DeviceKernels<double>::from_real(cudaStream_t, MatrixView<const double>, Out);
template void DeviceKernels<Complex<float>>::from_real(cudaStream_t, MatrixView<const float>, Out);
template void DeviceKernels<Complex<double>>::from_real(cudaStream_t, MatrixView<const double>,
                                                        Out);

template void DeviceKernels<float>::fill(cudaStream_t, float, Out);
template void DeviceKernels<double>::fill(cudaStream_t, double, Out);
template void DeviceKernels<Complex<float>>::fill(cudaStream_t, Complex<float>, Out);
template void DeviceKernels<Complex<double>>::fill(cudaStream_t, Complex<double>, Out);

template void DeviceKernels<float>::identity(cudaStream_t, Out);
template void DeviceKernels<double>::identity(cudaStream_t, Out);
template void DeviceKernels<Complex<float>>::identity(cudaStream_t, Out);
template void DeviceKernels<Complex<double>>::identity(cudaStream_t, Out);

template void DeviceKernels<float>::lower_triangle(cudaStream_t, In, Out);
template void DeviceKernels<double>::lower_triangle(cudaStream_t, In, Out);
template void DeviceKernels<Complex<float>>::lower_triangle(cudaStream_t, In, Out);
template void DeviceKernels<Complex<double>>::lower_triangle(cudaStream_t, In, Out);

template void DeviceKernels<float>::scale_rows(cudaStream_t, In, bool, In, Out);
template void DeviceKernels<double>::scale_rows(cudaStream_t, In, bool, In, Out);
template void DeviceKernels<Complex<float>>::scale_rows(cudaStream_t, In, bool, In, Out);
template void DeviceKernels<Complex<double>>::scale_rows(cudaStream_t, In, bool, In, Out);

template void DeviceKernels<float>::add(cudaStream_t, float, In, Out);
template void DeviceKernels<double>::add(cudaStream_t, double, In, Out);
template void DeviceKernels<Complex<float>>::add(cudaStream_t, Complex<float>, In, Out);
template void DeviceKernels<Complex<double>>::add(cudaStream_t, Complex<double>, In, Out);

template void DeviceKernels<float>::scale(cudaStream_t, Real, Out);
template void DeviceKernels<double>::scale(cudaStream_t, Real, Out);
template void DeviceKernels<Complex<float>>::scale(cudaStream_t, Real, Out);
template void DeviceKernels<Complex<double>>::scale(cudaStream_t, Real, Out);

template void DeviceKernels<float>::add_triangles(cudaStream_t, Triangle, In, Out,
                                                  const BatchStrides&);
template void DeviceKernels<double>::add_triangles(cudaStream_t, Triangle, In, Out,
                                                   const BatchStrides&);
template void DeviceKernels<Complex<float>>::add_triangles(cudaStream_t, Triangle, In, Out,
                                                           const BatchStrides&);
template void DeviceKernels<Complex<double>>::add_triangles(cudaStream_t, Triangle, In, Out,
                                                            const BatchStrides&);

template void DeviceKernels<float>::diagonal(cudaStream_t, In, Real*);
template void DeviceKernels<double>::diagonal(cudaStream_t, In, Real*);
template void DeviceKernels<Complex<float>>::diagonal(cudaStream_t, In, Real*);
template void DeviceKernels<Complex<double>>::diagonal(cudaStream_t, In, Real*);

}  // namespace shardsolve::runtime::cuda
