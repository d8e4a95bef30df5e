#include "bench/cuda/check.hpp"
#include "bench/cuda/entries.cuh"
#include "bench/cuda/matrices.hpp"

#include <algorithm>
#include <complex>

namespace shardsolve::bench {
namespace {

struct MakeEntry {
  template <Scalar T>
  __device__ T operator()(const Problem<T>& problem, std::int64_t row, std::int64_t column) const {
    return entry(problem, row, column);
  }
};

struct MakeRightHandSide {
  template <Scalar T>
  __device__ T operator()(const Problem<T>&, std::int64_t row, std::int64_t column) const {
    return right_hand_side<T>(row, column);
  }
};

/// A thread has one row and the columns that blockIdx.y and gridDim.y give it.
template <Scalar T, class Make>
__global__ void fill_kernel(Problem<T> problem, Axis rows, Axis columns, T* to, std::int64_t height,
                            std::int64_t width, std::int64_t stride, Make make) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= height) {
    return;
  }
  const std::int64_t row = rows.global(i);
  for (std::int64_t j = blockIdx.y; j < width; j += gridDim.y) {
    to[i + j * stride] = make(problem, row, columns.global(j));
  }
}

template <Scalar T, class Make>
void launch(const Problem<T>& problem, int device, Axis rows, Axis columns, MatrixView<T> to,
            Make make) {
  if (to.empty()) {
    return;
  }
  select(device);
  constexpr unsigned threads = 256;
  constexpr std::int64_t most = 65535;
  const dim3 grid(static_cast<unsigned>((to.rows() + threads - 1) / threads),
                  static_cast<unsigned>(std::min(to.columns(), most)));
  fill_kernel<<<grid, threads>>>(problem, rows, columns, to.data(), to.rows(), to.columns(),
                                 to.stride(), make);
  check(cudaGetLastError(), "starting the kernel that fills a matrix");
  check(cudaDeviceSynchronize(), "filling a matrix");
}

}  // namespace

template <Scalar T>
void fill(const Problem<T>& problem, int device, Axis rows, Axis columns, MatrixView<T> to) {
  launch(problem, device, rows, columns, to, MakeEntry{});
}

template <Scalar T>
void fill_right_hand_sides(const Problem<T>& problem, int device, Axis rows, Axis columns,
                           MatrixView<T> to) {
  launch(problem, device, rows, columns, to, MakeRightHandSide{});
}

#define SHARDSOLVE_INSTANTIATE(T)                                        \
  template void fill(const Problem<T>&, int, Axis, Axis, MatrixView<T>); \
  template void fill_right_hand_sides(const Problem<T>&, int, Axis, Axis, MatrixView<T>);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(std::complex<float>)
SHARDSOLVE_INSTANTIATE(std::complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::bench
