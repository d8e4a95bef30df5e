#include "runtime/cuda/band_kernels.hpp"

#include "runtime/cuda/band_device_kernels.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/operand_shapes.hpp"

#include <algorithm>
#include <complex>
#include <limits>

namespace shardsolve::runtime::cuda {
namespace {

/// The kernels of our own for T.
template <Scalar T>
using OwnBand = BandDeviceKernels<Element<T>>;

/// Each further product reads and writes its result once more: a sixteenth of them costs little. Of
/// few rows products are short anyway, and each costs what its launch does. With 128 rows at once
/// 90 equal ones left eigenvalues off by 54 u, and vectors of 1000 were orthogonal to 4700 u in the
/// 1-norm, where LAPACK's are to 460 (H100).
std::int64_t rows_at_once(std::int64_t n) {
  return n < 256 ? 8 : n < 4096 ? std::max<std::int64_t>(n / 64, 32) : n / 16;
}

}  // namespace

template <Scalar T>
std::int64_t CudaBandKernels<T>::scratch(std::int64_t bandwidth) const {
  return static_cast<std::int64_t>(
      std::max(OwnBand<T>::panel_scratch(bandwidth), OwnBand<T>::chase_scratch()));
}

// A sweep is one block of threads, and follows the one before at two tasks' distance: a GPU has
// room for one a multiprocessor, which are two groups; a third takes what these leave. A kernel of
// fewer waves would take little longer than it takes to start it; of more, the next group would
// follow from further behind: at n = 8192 on an H100, 8 are as good as 16, and 32 take 5 ms more.
// Windows of many sweeps are products of a size that cuBLAS is good at.
// At n = 16384 on two H100 a mirror took 1.0 to 1.5 ms, where the other half of the products takes
// 1.4 at first and 0.5 on average.
template <Scalar T>
BandTuning CudaBandKernels<T>::tuning(const Chase& chase) const {
  return {.rows_at_once = rows_at_once(chase.size),
          .mirrors_between_ranks = false,
          .group = 64,
          .queues = 3,
          .queues_a_rank = 3,
          .waves = 16,
          .sweeps = 1,
          .columns = std::numeric_limits<std::int64_t>::max()};
}

template <Scalar T>
void CudaBandKernels<T>::do_panel_qr(Queue& queue, const WorkInfo& info, Out a, Out r, Out t,
                                     void* scratch) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnBand<T>::panel_qr(cuda.stream(), elements(a), elements(r), elements(t), scratch);
  });
}

template <Scalar T>
void CudaBandKernels<T>::do_store_band(Queue& queue, const WorkInfo& info, In top, In r,
                                       Out band) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnBand<T>::store_band(cuda.stream(), elements(top), elements(r), elements(band));
  });
}

template <Scalar T>
void CudaBandKernels<T>::do_chase(Queue& queue, const WorkInfo& info, const Chase& chase,
                                  const SweepGroup& sweeps, const WaveRange& waves, Out band,
                                  Out reflectors, void* scratch) const {
  require(sweeps.count <= OwnBand<T>::max_sweeps, "chase");
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnBand<T>::chase(cuda.stream(), chase, sweeps, waves, elements(band), elements(reflectors),
                      scratch);
  });
}

template <Scalar T>
void CudaBandKernels<T>::do_tridiagonal(Queue& queue, const WorkInfo& info, In band, Real* diagonal,
                                        Real* off_diagonal) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnBand<T>::tridiagonal(cuda.stream(), elements(band), diagonal, off_diagonal);
  });
}

template <Scalar T>
void CudaBandKernels<T>::do_windows(Queue& queue, const WorkInfo& info, const Chase& chase,
                                    const SweepGroup& sweeps, In reflectors, Out v, Out vt) const {
  CudaQueue& cuda = as_cuda(queue);
  if (OwnBand<T>::slides(chase, sweeps, elements(In(v)), elements(In(vt)))) {
    cuda.launch(info, [&] {
      OwnBand<T>::sliding_windows(cuda.stream(), chase, sweeps, elements(reflectors), elements(v),
                                  elements(vt));
    });
    return;
  }
  const std::size_t bytes = OwnBand<T>::windows_scratch(chase, sweeps);
  void* const scratch = bytes > 0 ? cuda.scratch(bytes) : nullptr;
  cuda.launch(info, [&] {
    OwnBand<T>::windows(cuda.stream(), chase, sweeps, elements(reflectors), elements(v),
                        elements(vt), scratch);
  });
}

template <Scalar T>
void CudaBandKernels<T>::do_apply_windows(Queue& queue, const WorkInfo& info, const Chase& chase,
                                          std::span<const SweepWindows<T>> groups, Out z) const {
  WorkInfo share = info;
  share.flops /= static_cast<double>(groups.size());
  for (const SweepWindows<T>& group : groups) {
    apply_group(queue, share, chase, group, z);
  }
}

// In one kernel, or z -= V t (V^H z), window after window, of as many columns as there is scratch
// memory for.
template <Scalar T>
void CudaBandKernels<T>::apply_group(Queue& queue, const WorkInfo& info, const Chase& chase,
                                     const SweepWindows<T>& group, Out z) const {
  const auto& [sweeps, v, vt] = group;
  CudaQueue& cuda = as_cuda(queue);
  if (OwnBand<T>::slides(chase, sweeps, elements(v), elements(vt))) {
    cuda.launch(info, [&] {
      OwnBand<T>::slide_windows(cuda.stream(), chase, sweeps, elements(v), elements(vt),
                                elements(z));
    });
    return;
  }
  const std::int64_t count = sweeps.count;
  const auto bytes_a_column = static_cast<std::size_t>(count) * sizeof(T);
  T* const scratch = static_cast<T*>(cuda.scratch(std::max(own_scratch, bytes_a_column)));
  const auto at_once =
      std::max<std::int64_t>(static_cast<std::int64_t>(own_scratch / bytes_a_column), 1);
  for (std::int64_t first = 0; first < z.columns(); first += at_once) {
    const Out some = z.columns_from(first, std::min(at_once, z.columns() - first));
    const Out vz(scratch, count, some.columns());
    for (std::int64_t k = 0; k < chase.tasks(sweeps.first); ++k) {
      const std::int64_t row = chase.task(sweeps.first, k).row;
      const std::int64_t rows = std::min(v.rows(), chase.size - row);
      const Out z_rows = some.block(row, 0, rows, some.columns());
      base_.gemm(queue, Op::conjugate_transpose, Op::none, T{1}, v.block(0, k * count, rows, count),
                 z_rows, T{0}, vz);
      base_.gemm(queue, Op::none, Op::none, T{-1}, vt.block(0, k * count, rows, count), vz, T{1},
                 z_rows);
    }
  }
}

template <Scalar T>
void CudaBandKernels<T>::do_mirror(Queue& queue, const WorkInfo& info, In below, Out above,
                                   std::int64_t tile, std::int64_t ahead) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnBand<T>::mirror(cuda.stream(), elements(below), elements(above), tile, ahead);
  });
}

template <Scalar T>
void CudaBandKernels<T>::do_permute_rows(Queue& queue, const WorkInfo& info,
                                         const std::int64_t* order, In source, Out target) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] {
    OwnBand<T>::permute_rows(cuda.stream(), order, elements(source), elements(target));
  });
}

template <Scalar T>
void CudaBandKernels<T>::do_fix_phases(Queue& queue, const WorkInfo& info, Out z) const {
  CudaQueue& cuda = as_cuda(queue);
  cuda.launch(info, [&] { OwnBand<T>::fix_phases(cuda.stream(), elements(z)); });
}

template class CudaBandKernels<float>;
template class CudaBandKernels<double>;
template class CudaBandKernels<std::complex<float>>;
template class CudaBandKernels<std::complex<double>>;

}  // namespace shardsolve::runtime::cuda
