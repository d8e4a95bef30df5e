/// Work of the CPU's kernels in the caller's thread, without a mesh.
#pragma once

#include "core/floating_point.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/host/spare_threads.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/pulse.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>

namespace shardsolve::runtime::host {

/// Those of every CPU device, for as long as the library is there.
const KernelSource& host_kernels();

/// enqueue(device, queue) with a queue whose work is done when it returns, in IEEE arithmetic,
/// with help by threads that are to spare. Throws what the work throws.
template <class Enqueue>
void in_caller(SpareThreads* spare, const Enqueue& enqueue) {
  const core::IeeeArithmetic scope;
  Pulse pulse;
  std::exception_ptr failure;
  pulse.on_failure = [&failure](std::exception_ptr error) { failure = std::move(error); };
  HostQueue queue("caller", pulse, RunsIn::caller, spare);
  enqueue(host_kernels(), queue);
  if (failure) {
    std::rethrow_exception(failure);
  }
}

/// enqueue(device, queue, begin, end) for all of `count` things, at least so many of them
/// together, in the caller and in threads that are to spare.
template <class Enqueue>
void in_caller(SpareThreads* spare, std::int64_t count, std::int64_t together,
               const Enqueue& enqueue) {
  const std::int64_t pieces = std::max<std::int64_t>(count / together, 1);
  const auto run = [&](std::int64_t piece) {
    in_caller(spare, [&](const KernelSource& device, Queue& queue) {
      enqueue(device, queue, piece * count / pieces, (piece + 1) * count / pieces);
    });
  };
  if (pieces == 1) {
    run(0);
  } else {
    in_pieces(spare, pieces, run);
  }
}

}  // namespace shardsolve::runtime::host
