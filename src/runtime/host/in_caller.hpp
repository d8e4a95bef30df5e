/// Work of the CPU's kernels in the caller's thread, without a mesh.
#pragma once

#include "core/floating_point.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/pulse.hpp"

#include <exception>
#include <utility>

namespace shardsolve::runtime::host {

/// enqueue(queue) with a queue whose work is done when it returns, in IEEE arithmetic. Throws what
/// the work throws.
template <class Enqueue>
void in_caller(Enqueue enqueue) {
  const core::IeeeArithmetic scope;
  Pulse pulse;
  std::exception_ptr failure;
  pulse.on_failure = [&failure](std::exception_ptr error) { failure = std::move(error); };
  HostQueue queue("caller", pulse, RunsIn::caller);
  enqueue(queue);
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace shardsolve::runtime::host
