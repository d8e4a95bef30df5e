/// A device with an allocation that fails.
#pragma once

#include "runtime/device.hpp"
#include "tests/support/faults.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace shardsolve::testing {

/// Passes everything on to another device. Queues, events, device memory and host memory count as
/// allocations.
class FaultyDevice final : public runtime::Device {
 public:
  FaultyDevice(std::unique_ptr<runtime::Device> inner, Faults& faults, std::int64_t rank)
      : inner_(std::move(inner)), faults_(faults), rank_(rank) {}

  std::unique_ptr<runtime::Queue> make_queue(const std::string& name,
                                             runtime::Priority priority) override {
    faults_.next_allocation(rank_);
    return inner_->make_queue(name, priority);
  }
  std::unique_ptr<runtime::Event> make_event() override {
    faults_.next_allocation(rank_);
    return inner_->make_event();
  }
  runtime::Buffer allocate(std::size_t bytes) override {
    faults_.next_allocation(rank_);
    return inner_->allocate(bytes);
  }
  runtime::Buffer allocate_host(std::size_t bytes) override {
    faults_.next_allocation(rank_);
    return inner_->allocate_host(bytes);
  }
  void adopt_thread() override { inner_->adopt_thread(); }
  void require_device_memory(const void* memory, Memory kind, const char* what) const override {
    inner_->require_device_memory(memory, kind, what);
  }
  const void* find_kernels(runtime::KernelSet set, Dtype dtype) const override {
    return inner_->find_kernels(set, dtype);
  }

 private:
  std::unique_ptr<runtime::Device> inner_;
  Faults& faults_;
  std::int64_t rank_;
};

}  // namespace shardsolve::testing
