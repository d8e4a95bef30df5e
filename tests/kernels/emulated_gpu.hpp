/// Meshes of devices whose fronts and boxes are done by the GPU's kernels, emulated.
#pragma once

#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/process_backend.hpp"
#include "runtime/box_kernels.hpp"
#include "runtime/cuda/box_device_kernels.hpp"
#include "runtime/cuda/front_device_kernels.hpp"
#include "runtime/front_kernels.hpp"
#include "runtime/host/host_device.hpp"
#include "runtime/host/host_queue.hpp"

#include <shardsolve/mesh.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::testing {

class EmulatedFrontKernels final : public runtime::FrontKernels {
  using Own = runtime::cuda::FrontDeviceKernels;
  using Queue = runtime::Queue;
  using WorkInfo = runtime::WorkInfo;
  using FrontBatch = runtime::FrontBatch;

 protected:
  void do_add_to_parents(Queue& queue, const WorkInfo& info,
                         const FrontBatch& children) const override {
    enqueue(queue, info, [=] { Own::add_to_parents(nullptr, children); });
  }
  void do_factor(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                 std::int32_t* failed) const override {
    enqueue(queue, info, [=] { Own::factor(nullptr, batch, failed); });
  }
  void do_solve_forward(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                        double* x) const override {
    enqueue(queue, info, [=] { Own::solve_forward(nullptr, batch, x); });
  }
  void do_solve_back(Queue& queue, const WorkInfo& info, const FrontBatch& batch,
                     double* x) const override {
    enqueue(queue, info, [=] { Own::solve_back(nullptr, batch, x); });
  }
  void do_pack_columns(Queue& queue, const WorkInfo& info,
                       const runtime::ColumnMove& move) const override {
    enqueue(queue, info, [=] { Own::pack_columns(nullptr, move); });
  }
  void do_add_columns(Queue& queue, const WorkInfo& info,
                      const runtime::ColumnMove& move) const override {
    enqueue(queue, info, [=] { Own::add_columns(nullptr, move); });
  }

 private:
  template <class Work>
  static void enqueue(Queue& queue, const WorkInfo& info, Work work) {
    static_cast<runtime::host::HostQueue&>(queue).launch(info, work);
  }
};

class EmulatedBoxKernels final : public runtime::BoxKernels {
  using Own = runtime::cuda::BoxDeviceKernels;
  using Queue = runtime::Queue;
  using WorkInfo = runtime::WorkInfo;
  using Networks = runtime::BoxNetworks;
  using Points = runtime::BoxPoints;
  using Run = runtime::BoxRun;
  using Blocks = runtime::BoxBlocks;

 protected:
  void do_feature_rows(Queue& queue, const WorkInfo& info, const Networks& networks,
                       const Points& points, const Run* runs, std::int64_t count,
                       std::int64_t max_points, const double* derivatives, const Blocks& blocks,
                       std::int64_t first_slot, double* rows) const override {
    enqueue(queue, info, [=] {
      std::vector<double> scratch = scratch_for(networks);
      Own::feature_rows(nullptr, networks, points, runs, count, max_points, derivatives, blocks,
                        first_slot, rows, scratch.data());
    });
  }
  void do_orthonormalise(Queue& queue, const WorkInfo& info, const Blocks& blocks,
                         std::int64_t first, std::int64_t count, double tolerance,
                         double* rows) const override {
    enqueue(queue, info,
            [=] { Own::orthonormalise(nullptr, blocks, first, count, tolerance, rows); });
  }
  void do_gram(Queue& queue, const WorkInfo& info, const Blocks& blocks,
               const runtime::GramBlock* wanted, std::int64_t count, double shift) const override {
    enqueue(queue, info, [=] { Own::gram(nullptr, blocks, wanted, count, shift); });
  }
  void do_multiply(Queue& queue, const WorkInfo& info, const Blocks& blocks,
                   const std::int64_t* offsets, const double* y, double* slots) const override {
    enqueue(queue, info, [=] { Own::multiply(nullptr, blocks, offsets, y, slots); });
  }
  void do_multiply_adjoint(Queue& queue, const WorkInfo& info, const Blocks& blocks,
                           const std::int64_t* offsets, const double* r, double* slots,
                           double* g) const override {
    enqueue(queue, info, [=] { Own::multiply_adjoint(nullptr, blocks, offsets, r, slots, g); });
  }
  void do_weights_of(Queue& queue, const WorkInfo& info, const Blocks& blocks,
                     const std::int64_t* offsets, const double* y, double* z) const override {
    enqueue(queue, info, [=] { Own::weights_of(nullptr, blocks, offsets, y, z); });
  }
  void do_network_jets(Queue& queue, const WorkInfo& info, const Networks& networks,
                       const Points& points, const Run* runs, std::int64_t count,
                       std::int64_t max_points, const double* last_layer,
                       double* jets) const override {
    enqueue(queue, info, [=] {
      std::vector<double> scratch = scratch_for(networks);
      Own::network_jets(nullptr, networks, points, runs, count, max_points, last_layer, jets,
                        scratch.data());
    });
  }
  void do_add_listed(Queue& queue, const WorkInfo& info, std::int64_t count, std::int64_t width,
                     const std::int64_t* begin, const std::int32_t* which, const double* values,
                     double* sums) const override {
    enqueue(queue, info,
            [=] { Own::add_listed(nullptr, count, width, begin, which, values, sums); });
  }
  void do_pointwise_rows(Queue& queue, const WorkInfo& info, const runtime::PointwisePart& part,
                         std::int64_t* nonfinite) const override {
    enqueue(queue, info, [=] { Own::pointwise_rows(nullptr, part, nonfinite); });
  }
  void do_largest(Queue& queue, const WorkInfo& info, const double* a, const double* b,
                  std::int64_t count, double* largest) const override {
    enqueue(queue, info, [=] { Own::largest(nullptr, a, b, count, largest); });
  }

 private:
  static std::vector<double> scratch_for(const Networks& networks) {
    return std::vector<double>(Own::layer_scratch(networks) / sizeof(double));
  }
  template <class Work>
  static void enqueue(Queue& queue, const WorkInfo& info, Work work) {
    static_cast<runtime::host::HostQueue&>(queue).launch(info, work);
  }
};

class EmulatedGpu final : public runtime::host::HostDevice {
 public:
  using HostDevice::HostDevice;
  /// Holds NaN: what is not written is not to be taken for zero.
  runtime::Buffer allocate(std::size_t bytes) override {
    runtime::Buffer buffer = HostDevice::allocate(bytes);
    std::fill_n(static_cast<double*>(buffer.data()), bytes / sizeof(double),
                std::numeric_limits<double>::quiet_NaN());
    return buffer;
  }
  const void* find_kernels(runtime::KernelSet set, Dtype dtype) const override {
    if (set == runtime::KernelSet::fronts && dtype == Dtype::float64) {
      return static_cast<const runtime::FrontKernels*>(&fronts_);
    }
    if (set == runtime::KernelSet::boxes && dtype == Dtype::float64) {
      return static_cast<const runtime::BoxKernels*>(&boxes_);
    }
    return HostDevice::find_kernels(set, dtype);
  }

 private:
  EmulatedFrontKernels fronts_;
  EmulatedBoxKernels boxes_;
};

/// A single one computes in the thread that makes the call.
class EmulatedGpuBackend final : public mesh::HostBackend {
 public:
  explicit EmulatedGpuBackend(std::int64_t ranks) : HostBackend(ranks) {}
  Memory memory() const override { return Memory::device; }
  bool runs_in_caller() const override { return ranks() == 1; }
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<EmulatedGpu>(pulse, runs_in_caller()
                                                    ? runtime::host::RunsIn::caller
                                                    : runtime::host::RunsIn::own_thread);
  }
};

/// That of one of several processes, with so many bytes of memory free.
class EmulatedGpuOfProcess final : public mesh::ProcessBackend {
 public:
  static constexpr std::int64_t plenty = std::int64_t{1} << 40;
  explicit EmulatedGpuOfProcess(std::unique_ptr<comm::Transport> transport,
                                std::int64_t available = plenty)
      : ProcessBackend(std::move(transport)), available_(available) {}
  Memory memory() const override { return Memory::device; }
  std::int64_t available_memory() const override { return available_; }
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<EmulatedGpu>(pulse, runtime::host::RunsIn::own_thread);
  }

 private:
  std::int64_t available_;
};

inline Mesh emulated_gpus(std::int64_t ranks) {
  return Mesh(mesh::MeshState::start(std::make_unique<EmulatedGpuBackend>(ranks)));
}
inline Mesh emulated_gpu() { return emulated_gpus(1); }

}  // namespace shardsolve::testing
