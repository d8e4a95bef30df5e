/// The GPU kernels of our own behind BandKernels, as nvcc compiles them.
#pragma once

#include "runtime/chase.hpp"
#include "runtime/cuda/element.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// As DeviceKernels: enqueued on a stream of the current device, shapes checked by the caller. What
/// they compute is said in runtime/band_kernels.hpp. Sums are added in an order that depends on
/// shapes alone: neither on how many blocks a GPU runs at a time nor on which of them is first.
template <class E>
struct BandDeviceKernels {
  using Real = RealPart<E>;
  using In = MatrixView<const E>;
  using Out = MatrixView<E>;

  /// Bytes of scratch that panel_qr takes for so many columns, and chase for any.
  static std::size_t panel_scratch(std::int64_t columns);
  static std::size_t chase_scratch();

  static void panel_qr(cudaStream_t stream, Out a, Out r, Out t, void* scratch);
  static void store_band(cudaStream_t stream, In top, In r, Out band);
  /// Of at most so many sweeps.
  static constexpr std::int64_t max_sweeps = 1024;
  static void chase(cudaStream_t stream, const Chase& chase, const SweepGroup& sweeps,
                    const WaveRange& waves, Out band, Out reflectors, void* scratch);
  static void tridiagonal(cudaStream_t stream, In band, Real* diagonal, Real* off_diagonal);
  /// `scratch`: of windows_scratch bytes, of which there may be none.
  static void windows(cudaStream_t stream, const Chase& chase, const SweepGroup& sweeps,
                      In reflectors, Out v, Out vt, void* scratch);
  static std::size_t windows_scratch(const Chase& chase, const SweepGroup& sweeps);
  /// Whether windows of such shapes, without gaps, are applied in one kernel by the current device.
  /// Then these take the place of windows(), with contents of their own in v and vt, and of
  /// products.
  static bool slides(const Chase& chase, const SweepGroup& sweeps, In v, In vt);
  static void sliding_windows(cudaStream_t stream, const Chase& chase, const SweepGroup& sweeps,
                              In reflectors, Out v, Out vt);
  static void slide_windows(cudaStream_t stream, const Chase& chase, const SweepGroup& sweeps, In v,
                            In vt, Out z);
  static void mirror(cudaStream_t stream, In below, Out above, std::int64_t tile,
                     std::int64_t ahead);
  static void permute_rows(cudaStream_t stream, const std::int64_t* order, In source, Out target);
  static void fix_phases(cudaStream_t stream, Out z);
};

}  // namespace shardsolve::runtime::cuda
