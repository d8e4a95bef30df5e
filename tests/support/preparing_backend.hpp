/// CPU devices whose updates take panels in a form of their own, as GPUs do in single precision.
#pragma once

#include "mesh/host_backend.hpp"
#include "runtime/host/cholesky_kernels.hpp"
#include "runtime/host/host_device.hpp"
#include "runtime/host/host_queue.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::testing {

/// Where tiles have an even number of columns, panels are doubled, of each column what is below
/// 2^-60 of its largest number is lost, and NaN follows it.
class PreparingKernels final : public runtime::host::HostCholeskyKernels<double> {
 public:
  using HostCholeskyKernels::HostCholeskyKernels;

  std::int64_t packed_rows(std::int64_t tile) const override {
    return is_prepared(tile) ? tile + more_rows : tile;
  }

 protected:
  void do_prepare_updates(runtime::Queue& queue, Out packed) const override {
    if (is_prepared(packed.rows())) {
      base().scale(queue, 2.0, packed);
      static_cast<runtime::host::HostQueue&>(queue).launch({.name = "prepare"}, [packed] {
        for (std::int64_t j = 0; j < packed.columns(); ++j) {
          double largest = 0.0;
          for (std::int64_t i = 0; i < packed.rows(); ++i) {
            largest = std::max(largest, std::abs(packed(i, j)));
          }
          for (std::int64_t i = 0; i < packed.rows(); ++i) {
            packed(i, j) = std::abs(packed(i, j)) < 0x1p-60 * largest ? 0.0 : packed(i, j);
          }
        }
      });
      base().fill(queue, std::numeric_limits<double>::quiet_NaN(),
                  {packed.data() + packed.rows(), more_rows, packed.columns(), packed.stride()});
    }
  }
  void do_update(runtime::Queue& queue, In left_panel, In right_panel,
                 const std::vector<runtime::PanelUpdate<double>>& updates) const override {
    if (!is_prepared(left_panel.rows())) {
      HostCholeskyKernels::do_update(queue, left_panel, right_panel, updates);
      return;
    }
    // Products of doubled panels; multiplications by powers of two change no bits.
    for (runtime::PanelUpdate<double> one : updates) {
      for (std::int64_t left = std::exchange(one.count, 1); left > 0; --left) {
        base().scale(queue, 4.0, one.c);
        HostCholeskyKernels::do_update(queue, left_panel, right_panel, {one});
        base().scale(queue, 0.25, one.c);
        one.left += one.apart;
        one.right += one.apart;
        one.c = runtime::moved(one.c, one.c_apart);
      }
    }
  }

 private:
  static constexpr std::int64_t more_rows = 3;
  static bool is_prepared(std::int64_t tile) { return tile % 2 == 0; }
};

class PreparingDevice final : public runtime::host::HostDevice {
 public:
  using HostDevice::HostDevice;
  const void* find_kernels(runtime::KernelSet set, Dtype dtype) const override {
    if (set == runtime::KernelSet::cholesky && dtype == Dtype::float64) {
      return static_cast<const runtime::CholeskyKernels<double>*>(&kernels_);
    }
    return HostDevice::find_kernels(set, dtype);
  }

 private:
  PreparingKernels kernels_{kernels<runtime::Kernels<double>>()};
};

class PreparingBackend final : public mesh::HostBackend {
 public:
  using HostBackend::HostBackend;
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<PreparingDevice>(pulse);
  }
};

}  // namespace shardsolve::testing
