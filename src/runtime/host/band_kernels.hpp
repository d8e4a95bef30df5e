/// Reductions to band and tridiagonal form on the CPU: LAPACK's panels and reflectors.
#pragma once

#include "runtime/band_kernels.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

namespace shardsolve::runtime::host {

template <Scalar T>
class HostBandKernels : public BandKernels<T> {
 public:
  using typename BandKernels<T>::Real;
  using typename BandKernels<T>::In;
  using typename BandKernels<T>::Out;

  std::int64_t scratch(std::int64_t bandwidth) const override {
    return 3 * bandwidth * bandwidth * static_cast<std::int64_t>(sizeof(T));
  }
  /// Kernels of some milliseconds. A CPU of its own for each of three queues is not much to ask: it
  /// is where other ranks wait. Vectors pass through the cache once for so many sweeps.
  BandTuning tuning(const Chase& chase) const override {
    return {.blocks_at_once = 3,
            .rows_at_once = chase.size < 256 ? 8 : 16,
            .mirrors_between_ranks = true,
            .group = 16,
            .queues = 3,
            .waves = 8,
            .sweeps = 128,
            .columns = 144,
            .tall_products = true};
  }

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
};

/// One task of a chase: `reflectors` are those of its group, `work` has 2 b elements.
template <Scalar T>
void run_chase_task(const ChaseTask& task, const SweepGroup& sweeps, MatrixView<T> band,
                    MatrixView<T> reflectors, T* work);

}  // namespace shardsolve::runtime::host
