/// What decides whether a Gram matrix is factored as it is or with a shift, on the device.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/qr/block_sums.cuh"
#include "runtime/cuda/qr_device_kernels.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace shardsolve::runtime::cuda {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

template <class E>
__global__ void __launch_bounds__(qr::threads)
    compare_columns(DeviceMatrix<E> g, DeviceMatrix<E> difference) {
  const std::int64_t j = blockIdx.x;
  for (std::int64_t i = threadIdx.x; i < g.rows; i += qr::threads) {
    const E entry = i < j ? g(i, j) : conjugate(g(j, i));
    const double inverse = 1 / sqrt(real(g(i, i)) * real(g(j, j)));
    difference(i, j) = i == j ? from_real<E>(0) : scaled(entry, inverse);
  }
}

template <class E>
__global__ void __launch_bounds__(qr::threads)
    measure_columns(DeviceMatrix<E> g, DeviceMatrix<E> difference, double* sums) {
  const std::int64_t j = blockIdx.x;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < g.rows; i += qr::threads) {
    sum += square(difference(i, j));
  }
  sum = qr::block_sum(sum);
  if (threadIdx.x == 0) {
    sums[2 * j] = sum;
    sums[2 * j + 1] = real(g(j, j));
  }
}

__global__ void __launch_bounds__(qr::threads)
    settle_shift(double shift, double least, std::int64_t n, const double* sums, double* numbers) {
  double distance = 0;
  double trace = 0;
  for (std::int64_t j = threadIdx.x; j < n; j += qr::threads) {
    distance += sums[2 * j];
    trace += sums[2 * j + 1];
  }
  distance = qr::block_sum(distance);
  trace = qr::block_sum(trace);
  if (threadIdx.x == 0) {
    numbers[0] = distance < least ? 1 : 0;
    numbers[1] = shift * trace;
  }
}

template <class E>
__global__ void __launch_bounds__(qr::threads)
    copy_both(DeviceMatrix<E> g, const double* numbers, DeviceMatrix<E> plain,
              DeviceMatrix<E> shifted) {
  const std::int64_t j = blockIdx.x;
  for (std::int64_t i = threadIdx.x; i < g.rows; i += qr::threads) {
    const E above = i <= j ? g(i, j) : from_real<E>(0);
    plain(i, j) = i == j ? from_real<E>(real(above)) : above;
    shifted(i, j) = i == j ? from_real<E>(real(above) + numbers[1]) : above;
  }
}

/// The verdicts are those of runtime::GramVerdict: far, near, broken.
template <class E>
__global__ void __launch_bounds__(qr::threads)
    judge_factors(DeviceMatrix<E> plain, double* numbers, const std::int64_t* infos,
                  std::int64_t blocks, std::int64_t* verdict) {
  double least = infinite;
  for (std::int64_t j = threadIdx.x; j < plain.rows; j += qr::threads) {
    least = qr::Smaller{}(least, real(plain(j, j)));
  }
  least = qr::over_block(least, qr::Smaller{});
  if (threadIdx.x == 0) {
    bool found = true;
    bool found_shifted = true;
    for (std::int64_t b = 0; b < blocks; ++b) {
      found = found && infos[b] == 0;
      found_shifted = found_shifted && infos[blocks + b] == 0;
    }
    const bool near = numbers[0] != 0;
    const bool shifts = !near && (!found || least * least < 4 * numbers[1]);
    numbers[0] = shifts ? 1 : 0;
    *verdict = !(shifts ? found_shifted : found) ? 2 : near ? 1 : 0;
  }
}

template <class E>
__global__ void __launch_bounds__(qr::threads)
    copy_chosen(DeviceMatrix<E> plain, DeviceMatrix<E> shifted, const double* numbers,
                DeviceMatrix<E> g) {
  const std::int64_t j = blockIdx.x;
  const bool shifts = numbers[0] != 0;
  for (std::int64_t i = threadIdx.x; i < g.rows; i += qr::threads) {
    g(i, j) = i > j ? from_real<E>(0) : shifts ? shifted(i, j) : plain(i, j);
  }
}

}  // namespace

template <class E>
void SmallQrDeviceKernels<E>::compare_gram(cudaStream_t stream, Out g, Out difference) {
  launch(stream, &compare_columns<E>, g.columns(), Block{dim3(qr::threads)}, device(g),
         device(difference));
}

template <class E>
void SmallQrDeviceKernels<E>::begin_gram(cudaStream_t stream, double shift, Out g, Out difference,
                                         double least, Out plain, Out shifted,
                                         const GramChoice& choice) {
  const Block block{dim3(qr::threads)};
  launch(stream, &measure_columns<E>, g.columns(), block, device(g), device(difference),
         choice.sums);
  launch(stream, &settle_shift, 1, block, shift, least, g.columns(),
         static_cast<const double*>(choice.sums), choice.numbers);
  launch(stream, &copy_both<E>, g.columns(), block, device(g),
         static_cast<const double*>(choice.numbers), device(plain), device(shifted));
}

template <class E>
void SmallQrDeviceKernels<E>::choose_factor(cudaStream_t stream, Out plain, Out shifted,
                                            const GramChoice& choice, Out g,
                                            std::int64_t* verdict) {
  const Block block{dim3(qr::threads)};
  launch(stream, &judge_factors<E>, 1, block, device(plain), choice.numbers,
         static_cast<const std::int64_t*>(choice.infos), choice.blocks, verdict);
  launch(stream, &copy_chosen<E>, g.columns(), block, device(plain), device(shifted),
         static_cast<const double*>(choice.numbers), device(g));
}

#define SHARDSOLVE_INSTANTIATE(E)                                                                 \
  template void SmallQrDeviceKernels<E>::compare_gram(cudaStream_t, Out, Out);                    \
  template void SmallQrDeviceKernels<E>::begin_gram(cudaStream_t, double, Out, Out, double, Out,  \
                                                    Out, const GramChoice&);                      \
  template void SmallQrDeviceKernels<E>::choose_factor(cudaStream_t, Out, Out, const GramChoice&, \
                                                       Out, std::int64_t*);

SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
