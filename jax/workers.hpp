/// Threads that may wait, as XLA's may not.
#pragma once

#include <functional>

namespace shardsolve::jax {

/// Runs `work`, which must not throw, on a thread that has nothing else to do: an idle one, or else
/// a new one, so that no work ever waits for another's end. Returns at once. Throws
/// std::system_error if the system has no thread to spare; the work is not done then.
void run_soon(std::function<void()> work);

}  // namespace shardsolve::jax
