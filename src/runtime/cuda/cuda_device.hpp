/// A GPU as one rank's share of the hardware.
#pragma once

#include "runtime/cuda/cuda_kernels.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/device.hpp"
#include "runtime/pulse.hpp"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace shardsolve::runtime::cuda {

/// Memory of the GPU that CUDA numbers `ordinal`. `block`: bytes that it is a whole multiple of.
/// Throws Error(out_of_memory).
Buffer allocate(int ordinal, std::size_t bytes, std::size_t block);

class CudaDevice final : public Device {
 public:
  /// `ordinal`: CUDA's number of the GPU. `delays`: see QueueOptions.
  /// `block`: bytes that allocations are whole multiples of.
  CudaDevice(int ordinal, Pulse& pulse, std::optional<std::uint64_t> delays, std::size_t block = 1);

  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  std::unique_ptr<Queue> make_queue(const std::string& name, Priority priority) override;
  std::unique_ptr<Event> make_event() override;
  Buffer allocate(std::size_t bytes) override;
  Buffer allocate_host(std::size_t bytes) override;
  void adopt_thread() override;
  void require_device_memory(const void* memory, Memory, const char* what) const override;

  const Kernels<float>& kernels(const float*) const override { return float32_; }
  const Kernels<double>& kernels(const double*) const override { return float64_; }
  const Kernels<std::complex<float>>& kernels(const std::complex<float>*) const override {
    return complex64_;
  }
  const Kernels<std::complex<double>>& kernels(const std::complex<double>*) const override {
    return complex128_;
  }

 private:
  int ordinal_;
  Pulse& pulse_;
  std::optional<std::uint64_t> delays_;
  std::size_t block_;
  Buffer failed_;  // the pulse's copy
  std::shared_ptr<BlasHandle> blas_ = std::make_shared<BlasHandle>(ordinal_);
  CudaKernels<float> float32_;
  CudaKernels<double> float64_;
  CudaKernels<std::complex<float>> complex64_;
  CudaKernels<std::complex<double>> complex128_;
};

}  // namespace shardsolve::runtime::cuda
