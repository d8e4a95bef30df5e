/// BandKernels whose kernels are those of a GPU, run by the emulator.
#pragma once

#include "reference/matmul.hpp"
#include "runtime/band_kernels.hpp"
#include "runtime/cuda/band_device_kernels.hpp"
#include "runtime/host/host_queue.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shardsolve::testing {

/// Work is done where it is enqueued.
template <Scalar T>
class EmulatedBandKernels final : public runtime::BandKernels<T> {
  using Own = runtime::cuda::BandDeviceKernels<runtime::cuda::Element<T>>;
  using typename runtime::BandKernels<T>::Real;
  using typename runtime::BandKernels<T>::In;
  using typename runtime::BandKernels<T>::Out;
  using Queue = runtime::Queue;
  using WorkInfo = runtime::WorkInfo;

 public:
  std::int64_t scratch(std::int64_t bandwidth) const override {
    return static_cast<std::int64_t>(std::max(Own::panel_scratch(bandwidth), Own::chase_scratch()));
  }
  runtime::BandTuning tuning(const runtime::Chase& /*chase*/) const override { return {}; }

 protected:
  void do_panel_qr(Queue& /*queue*/, const WorkInfo& /*info*/, Out a, Out r, Out t,
                   void* scratch) const override {
    Own::panel_qr(nullptr, elements(a), elements(r), elements(t), scratch);
  }
  void do_store_band(Queue& /*queue*/, const WorkInfo& /*info*/, In top, In r,
                     Out band) const override {
    Own::store_band(nullptr, elements(top), elements(r), elements(band));
  }
  void do_chase(Queue& /*queue*/, const WorkInfo& /*info*/, const runtime::Chase& chase,
                const runtime::SweepGroup& sweeps, const runtime::WaveRange& waves, Out band,
                Out reflectors, void* scratch) const override {
    Own::chase(nullptr, chase, sweeps, waves, elements(band), elements(reflectors), scratch);
  }
  void do_tridiagonal(Queue& /*queue*/, const WorkInfo& /*info*/, In band, Real* diagonal,
                      Real* off_diagonal) const override {
    Own::tridiagonal(nullptr, elements(band), diagonal, off_diagonal);
  }
  void do_windows(Queue& /*queue*/, const WorkInfo& /*info*/, const runtime::Chase& chase,
                  const runtime::SweepGroup& sweeps, In reflectors, Out v, Out vt) const override {
    if (Own::slides(chase, sweeps, elements(In(v)), elements(In(vt)))) {
      Own::sliding_windows(nullptr, chase, sweeps, elements(reflectors), elements(v), elements(vt));
      return;
    }
    std::vector<std::byte> scratch(Own::windows_scratch(chase, sweeps));
    Own::windows(nullptr, chase, sweeps, elements(reflectors), elements(v), elements(vt),
                 scratch.data());
  }
  /// On a GPU products are cuBLAS's work.
  void do_apply_windows(Queue& /*queue*/, const WorkInfo& /*info*/, const runtime::Chase& chase,
                        std::span<const runtime::SweepWindows<T>> groups, Out z) const override {
    for (const auto& [sweeps, v, vt] : groups) {
      apply_group(chase, sweeps, v, vt, z);
    }
  }
  void apply_group(const runtime::Chase& chase, const runtime::SweepGroup& sweeps, In v, In vt,
                   Out z) const {
    if (Own::slides(chase, sweeps, elements(v), elements(vt))) {
      Own::slide_windows(nullptr, chase, sweeps, elements(v), elements(vt), elements(z));
      return;
    }
    const std::int64_t count = sweeps.count;
    std::vector<T> sums(static_cast<std::size_t>(count));
    for (std::int64_t k = 0; k < chase.tasks(sweeps.first); ++k) {
      const std::int64_t row = chase.task(sweeps.first, k).row;
      const std::int64_t rows = std::min(v.rows(), chase.size - row);
      for (std::int64_t column = 0; column < z.columns(); ++column) {
        for (std::int64_t j = 0; j < count; ++j) {
          T sum{0};
          for (std::int64_t i = 0; i < rows; ++i) {
            sum += reference::conjugate(v(i, k * count + j)) * z(row + i, column);
          }
          sums[static_cast<std::size_t>(j)] = sum;
        }
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < count; ++j) {
            z(row + i, column) -= vt(i, k * count + j) * sums[static_cast<std::size_t>(j)];
          }
        }
      }
    }
  }
  void do_mirror(Queue& /*queue*/, const WorkInfo& /*info*/, In below, Out above, std::int64_t tile,
                 std::int64_t ahead) const override {
    Own::mirror(nullptr, elements(below), elements(above), tile, ahead);
  }
  void do_permute_rows(Queue& /*queue*/, const WorkInfo& /*info*/, const std::int64_t* order,
                       In source, Out target) const override {
    Own::permute_rows(nullptr, order, elements(source), elements(target));
  }
  void do_fix_phases(Queue& /*queue*/, const WorkInfo& /*info*/, Out z) const override {
    Own::fix_phases(nullptr, elements(z));
  }

 private:
  template <class V>
  static auto elements(V view) {
    return runtime::cuda::elements(view);
  }
};

}  // namespace shardsolve::testing
