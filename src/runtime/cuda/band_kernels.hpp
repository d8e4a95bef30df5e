/// Reductions to band and tridiagonal form on a GPU: kernels of our own, and cuBLAS for the way
/// back.
#pragma once

#include "runtime/band_kernels.hpp"
#include "runtime/kernels.hpp"

#include <cstdint>
#include <span>

namespace shardsolve::runtime::cuda {

template <Scalar T>
class CudaBandKernels final : public BandKernels<T> {
 public:
  using typename BandKernels<T>::Real;
  using typename BandKernels<T>::In;
  using typename BandKernels<T>::Out;

  /// `base`: of the same device; outlives this.
  explicit CudaBandKernels(const Kernels<T>& base) : base_(base) {}

  std::int64_t scratch(std::int64_t bandwidth) const override;
  BandTuning tuning(const Chase& chase) const override;

 protected:
  void do_panel_qr(Queue& queue, const WorkInfo& info, Out a, Out r, Out t,
                   void* scratch) const override;
  void do_store_band(Queue& queue, const WorkInfo& info, In top, In r, Out band) const override;
  void do_chase(Queue& queue, const WorkInfo& info, const Chase& chase, const SweepGroup& sweeps,
                const WaveRange& waves, Out band, Out reflectors, void* scratch) const override;
  void do_tridiagonal(Queue& queue, const WorkInfo& info, In band, Real* diagonal,
                      Real* off_diagonal) const override;
  void do_windows(Queue& queue, const WorkInfo& info, const Chase& chase, const SweepGroup& sweeps,
                  In reflectors, Out v, Out vt) const override;
  void do_apply_windows(Queue& queue, const WorkInfo& info, const Chase& chase,
                        std::span<const SweepWindows<T>> groups, Out z) const override;
  void do_mirror(Queue& queue, const WorkInfo& info, In below, Out above, std::int64_t tile,
                 std::int64_t ahead) const override;
  void do_permute_rows(Queue& queue, const WorkInfo& info, const std::int64_t* order, In source,
                       Out target) const override;
  void do_fix_phases(Queue& queue, const WorkInfo& info, Out z) const override;

 private:
  void apply_group(Queue& queue, const WorkInfo& info, const Chase& chase,
                   const SweepWindows<T>& group, Out z) const;

  const Kernels<T>& base_;
};

}  // namespace shardsolve::runtime::cuda
