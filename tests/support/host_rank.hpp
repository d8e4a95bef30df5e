/// Queues without a mesh around them.
#pragma once

#include "runtime/host/host_queue.hpp"
#include "runtime/pulse.hpp"

#include <atomic>
#include <exception>
#include <string>
#include <utility>

namespace shardsolve::testing {

/// The pulse of a rank that remembers its first failure. Outlives its queues.
class HostRank {
 public:
  HostRank() {
    pulse_.on_failure = [this](std::exception_ptr reason) {
      failure_ = std::move(reason);
      pulse_.set_failed(true);
    };
  }

  runtime::Pulse& pulse() { return pulse_; }
  /// What work on a queue has thrown; look after the queue was synchronised.
  bool failed() const { return pulse_.failed(); }
  void rethrow() const {
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  runtime::Pulse pulse_;
  std::exception_ptr failure_;
};

}  // namespace shardsolve::testing
