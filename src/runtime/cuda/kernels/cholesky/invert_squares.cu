/// Inverses of small triangular squares, with which CudaKernels::invert begins.
#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

/// A row of the inverse is four lanes' work.
constexpr int lanes_a_row = 4;

template <class E>
constexpr int side = static_cast<int>(CholeskyDeviceKernels<E>::inverted_square);
template <class E>
constexpr int threads = side<E> * lanes_a_row;

template <class E>
struct Shared {
  // One column more than there are, so that lanes of different rows meet different memory banks.
  E l[side<E>][side<E> + 1];
  E m[side<E>][side<E> + 1];
};

/// Square number blockIdx.x % squares of a tile. Rows of m are solved for by themselves,
///
///     m_ij = (delta_ij - sum of m_ik l_kj over j < k <= i) / l_jj,    j from i down to 0,
///
/// which makes m l = I, not l m = I, accurate.
template <class E>
__global__ void __launch_bounds__(threads<E>)
    invert(DeviceMatrix<const E> l, DeviceMatrix<E> m, int squares, std::int64_t l_apart,
           std::int64_t m_apart) {
  auto& shared = dynamic_shared<Shared<E>>();
  const std::int64_t tile = static_cast<int>(blockIdx.x) / squares;
  const std::int64_t top = std::int64_t{static_cast<int>(blockIdx.x) % squares} * side<E>;
  l.data += tile * l_apart;
  m.data += tile * m_apart;
  const int n = static_cast<int>(min(std::int64_t{side<E>}, l.rows - top));
  for (int at = static_cast<int>(threadIdx.x); at < side<E> * n; at += threads<E>) {
    const int i = at % side<E>;
    const int j = at / side<E>;
    if (j <= i && i < n) {
      shared.l[i][j] = l(top + i, top + j);
    }
  }
  __syncthreads();

  const int i = static_cast<int>(threadIdx.x) / lanes_a_row;
  const int lane = static_cast<int>(threadIdx.x) % lanes_a_row;
  E* const row = shared.m[i];
  for (int j = n - 1; j >= 0; --j) {
    E sum = from_real<E>(0);
    for (int k = j + 1 + lane; k <= i && i < n; k += lanes_a_row) {
      sum = add_product(sum, row[k], shared.l[k][j]);
    }
    for (int distance = 1; distance < lanes_a_row; distance *= 2) {
      sum = add_product(sum, from_real<E>(1), from_partner(sum, distance));
    }
    if (lane == 0 && j <= i && i < n) {
      const E left = add_product(from_real<E>(i == j ? 1 : 0), from_real<E>(-1), sum);
      row[j] = scaled(left, 1 / real(shared.l[j][j]));
    }
    __syncwarp();
  }
  __syncthreads();

  // The square, and what is above the diagonal right of it.
  for (std::int64_t at = threadIdx.x; at < (m.columns - top) * n; at += threads<E>) {
    const auto row_of = static_cast<int>(at % n);
    const std::int64_t column = at / n;
    m(top + row_of, top + column) = column <= row_of ? shared.m[row_of][column] : from_real<E>(0);
  }
}

}  // namespace

template <class E>
void CholeskyDeviceKernels<E>::invert_squares(cudaStream_t stream, In l, Out m,
                                              const BatchStrides& strides) {
  const std::int64_t squares = divide_up(l.rows(), inverted_square);
  allow_shared(&invert<E>, sizeof(Shared<E>));
  launch(stream, &invert<E>, squares * strides.count, {dim3(threads<E>), sizeof(Shared<E>)},
         device(l), device(m), static_cast<int>(squares), strides.a, strides.c);
}

template void CholeskyDeviceKernels<float>::invert_squares(cudaStream_t, In, Out,
                                                           const BatchStrides&);
template void CholeskyDeviceKernels<double>::invert_squares(cudaStream_t, In, Out,
                                                            const BatchStrides&);
template void CholeskyDeviceKernels<Complex<float>>::invert_squares(cudaStream_t, In, Out,
                                                                    const BatchStrides&);
template void CholeskyDeviceKernels<Complex<double>>::invert_squares(cudaStream_t, In, Out,
                                                                     const BatchStrides&);

}  // namespace shardsolve::runtime::cuda
