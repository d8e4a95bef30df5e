/// A rank's share of the CPU.
#pragma once

#include "runtime/device.hpp"
#include "runtime/host/host_kernels.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/pulse.hpp"

namespace shardsolve::runtime::host {

class HostDevice : public Device {
 public:
  explicit HostDevice(Pulse& pulse, RunsIn runs_in = RunsIn::own_thread);

  std::unique_ptr<Queue> make_queue(const std::string& name, Priority /*priority*/) override;
  std::unique_ptr<Event> make_event() override;
  Buffer allocate(std::size_t bytes) override;
  Buffer allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void adopt_thread() override {}
  void require_device_memory(const void*, Memory kind, const char* what) const override;
  const Kernels<float>& kernels(const float*) const override { return float32_; }
  const Kernels<double>& kernels(const double*) const override { return float64_; }
  const Kernels<std::complex<float>>& kernels(const std::complex<float>*) const override {
    return complex64_;
  }
  const Kernels<std::complex<double>>& kernels(const std::complex<double>*) const override {
    return complex128_;
  }

 private:
  Pulse& pulse_;
  RunsIn runs_in_;
  HostKernels<float> float32_;
  HostKernels<double> float64_;
  HostKernels<std::complex<float>> complex64_;
  HostKernels<std::complex<double>> complex128_;
};

}  // namespace shardsolve::runtime::host
