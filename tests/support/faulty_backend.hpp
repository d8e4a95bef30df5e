/// Ranks of any kind of devices, with faults.
#pragma once

#include "mesh/backend.hpp"
#include "tests/support/faults.hpp"
#include "tests/support/faulty_communicator.hpp"
#include "tests/support/faulty_device.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {

class FaultyBackend final : public mesh::Backend {
 public:
  FaultyBackend(std::unique_ptr<mesh::Backend> inner, std::shared_ptr<Faults> faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  std::int64_t ranks() const override { return inner_->ranks(); }
  comm::ProcessGroup* processes() override { return inner_->processes(); }
  Memory memory() const override { return inner_->memory(); }
  std::unique_ptr<runtime::Device> make_device(std::int64_t rank, runtime::Pulse& pulse) override {
    return std::make_unique<FaultyDevice>(inner_->make_device(rank, pulse), *faults_, rank);
  }
  std::unique_ptr<comm::Communicator> make_communicator(const comm::Pulses& pulses,
                                                        std::int64_t rank) override {
    return std::make_unique<FaultyCommunicator>(inner_->make_communicator(pulses, rank), *faults_,
                                                rank);
  }
  std::vector<std::unique_lock<std::mutex>> keep_others_away() override {
    return inner_->keep_others_away();
  }
  std::int64_t available_memory() const override { return inner_->available_memory(); }
  std::int64_t default_tile(std::int64_t n, Dtype dtype, Routine routine) const override {
    return inner_->default_tile(n, dtype, routine);
  }
  std::string device_kind() const override { return inner_->device_kind(); }
  std::int64_t largest_tile() const override { return inner_->largest_tile(); }

 private:
  std::unique_ptr<mesh::Backend> inner_;
  std::shared_ptr<Faults> faults_;
};

}  // namespace shardsolve::testing
