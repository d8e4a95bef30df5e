// The reflectors of a window as one product I - V t V^H, a block of threads a window:
//
//   V             reflectors side by side, each a row lower than the one before
//   g = V^H V     what is above the diagonal
//   t_j = -tau_j t g_j,  t_jj = tau_j          column by column, in place of g
//   V t
//
// t is in shared memory if it fits there, else in scratch.
#include "runtime/cuda/band_device_kernels.hpp"
#include "runtime/cuda/kernels/band/reflector.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;
constexpr int lanes = 32;
constexpr int warps = threads / lanes;

template <class E>
class Window {
 public:
  /// The columns of one window; t is square.
  __device__ Window(const DeviceMatrix<const E>& reflectors, const DeviceMatrix<E>& v,
                    const DeviceMatrix<E>& vt, const DeviceMatrix<E>& t)
      : reflectors_(reflectors),
        v_(v),
        vt_(vt),
        t_(t),
        bandwidth_(static_cast<int>(reflectors.rows) - 1),
        rows_(static_cast<int>(v.rows)),
        count_(static_cast<int>(t.columns)),
        warp_(static_cast<int>(threadIdx.x) / lanes),
        lane_(static_cast<int>(threadIdx.x) % lanes) {}

  __device__ void run() {
    place_reflectors();
    __syncthreads();
    multiply();
    __syncthreads();
    for (int j = 0; j < count_; ++j) {
      extend_t(j);
    }
    multiply_by_t();
  }

 private:
  __device__ void place_reflectors() {
    for (int j = warp_; j < count_; j += warps) {
      for (int i = lane_; i < rows_; i += lanes) {
        const bool inside = i >= j && i < j + bandwidth_;
        v_(i, j) = inside ? reflectors_(1 + i - j, j) : from_real<E>(0);
      }
    }
  }
  /// g, of whose columns j the first j; reflectors i and j have the rows from j to i + b in common.
  __device__ void multiply() {
    for (int at = warp_; at < count_ * count_; at += warps) {
      const int i = at % count_;
      const int j = at / count_;
      if (i >= j) {
        continue;
      }
      E sum = from_real<E>(0);
      for (int row = j + lane_; row < min(i + bandwidth_, rows_); row += lanes) {
        sum = add_product(sum, conjugate(v_(row, i)), v_(row, j));
      }
      sum = sum_over_lanes(sum);
      if (lane_ == 0) {
        t_(i, j) = sum;
      }
    }
  }
  /// Rows by the threads; all have read the column before it is written.
  __device__ void extend_t(int j) {
    const E tau = reflectors_(0, j);
    constexpr int most = 4;
    E kept[most];
    for (int from = 0; from < j; from += most * threads) {
      for (int part = 0; part < most; ++part) {
        const int i = from + part * threads + static_cast<int>(threadIdx.x);
        E sum = from_real<E>(0);
        for (int l = i; l < j; ++l) {
          sum = subtract_product(sum, t_(i, l), t_(l, j));
        }
        kept[part] = product_of(tau, sum);
      }
      __syncthreads();
      for (int part = 0; part < most; ++part) {
        const int i = from + part * threads + static_cast<int>(threadIdx.x);
        if (i < j) {
          t_(i, j) = kept[part];
        }
      }
    }
    if (threadIdx.x == 0) {
      t_(j, j) = tau;
    }
    __syncthreads();
  }
  __device__ void multiply_by_t() {
    for (int j = warp_; j < count_; j += warps) {
      for (int i = lane_; i < rows_; i += lanes) {
        E sum = from_real<E>(0);
        for (int l = max(i - bandwidth_ + 1, 0); l <= min(i, j); ++l) {
          sum = add_product(sum, v_(i, l), t_(l, j));
        }
        vt_(i, j) = sum;
      }
    }
  }

  const DeviceMatrix<const E>& reflectors_;
  const DeviceMatrix<E>& v_;
  const DeviceMatrix<E>& vt_;
  const DeviceMatrix<E>& t_;
  int bandwidth_;
  int rows_;
  int count_;
  int warp_;
  int lane_;
};

template <class E>
__device__ DeviceMatrix<E> columns_from(const DeviceMatrix<E>& a, std::int64_t column,
                                        std::int64_t count) {
  return {a.data + column * a.stride, a.rows, count, a.stride};
}

template <class E, bool in_shared>
__global__ void __launch_bounds__(threads)
    make_windows(DeviceMatrix<const E> reflectors, DeviceMatrix<E> v, DeviceMatrix<E> vt,
                 std::int64_t count, E* scratch) {
  const std::int64_t first = blockIdx.x * count;
  E* const memory = in_shared ? &dynamic_shared<E>() : scratch + first * count;
  Window<E>(columns_from(reflectors, first, count), columns_from(v, first, count),
            columns_from(vt, first, count), {memory, count, count, count})
      .run();
}

template <class E>
std::size_t bytes_of_t(const SweepGroup& sweeps) {
  return sizeof(E) * static_cast<std::size_t>(sweeps.count * sweeps.count);
}

}  // namespace

template <class E>
std::size_t BandDeviceKernels<E>::windows_scratch(const Chase& chase, const SweepGroup& sweeps) {
  const std::size_t bytes = bytes_of_t<E>(sweeps);
  const auto count = static_cast<std::size_t>(chase.tasks(sweeps.first));
  return bytes <= max_shared() ? 0 : bytes * count;
}

template <class E>
void BandDeviceKernels<E>::windows(cudaStream_t stream, const Chase& chase,
                                   const SweepGroup& sweeps, In reflectors, Out v, Out vt,
                                   void* scratch) {
  const std::size_t bytes = bytes_of_t<E>(sweeps);
  const bool in_shared = bytes <= max_shared();
  const auto kernel = in_shared ? &make_windows<E, true> : &make_windows<E, false>;
  allow_shared(kernel, max_shared());
  launch(stream, kernel, chase.tasks(sweeps.first), {dim3(threads), in_shared ? bytes : 0},
         device(reflectors), device(v), device(vt), sweeps.count, static_cast<E*>(scratch));
}

template std::size_t BandDeviceKernels<float>::windows_scratch(const Chase&, const SweepGroup&);
template std::size_t BandDeviceKernels<double>::windows_scratch(const Chase&, const SweepGroup&);
template std::size_t BandDeviceKernels<Complex<float>>::windows_scratch(const Chase&,
                                                                        const SweepGroup&);
template std::size_t BandDeviceKernels<Complex<double>>::windows_scratch(const Chase&,
                                                                         const SweepGroup&);

template void BandDeviceKernels<float>::windows(cudaStream_t, const Chase&, const SweepGroup&, In,
                                                Out, Out, void*);
template void BandDeviceKernels<double>::windows(cudaStream_t, const Chase&, const SweepGroup&, In,
                                                 Out, Out, void*);
template void BandDeviceKernels<Complex<float>>::windows(cudaStream_t, const Chase&,
                                                         const SweepGroup&, In, Out, Out, void*);
template void BandDeviceKernels<Complex<double>>::windows(cudaStream_t, const Chase&,
                                                          const SweepGroup&, In, Out, Out, void*);

}  // namespace shardsolve::runtime::cuda
