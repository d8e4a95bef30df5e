/// Chebyshev's iteration between products that somebody else makes: what the JAX package calls. The
/// kernels are those of Operator::chebyshev, so the bits are.
#pragma once

#include "runtime/host/spare_threads.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>

namespace shardsolve::krylov {

/// One step on one device, whose memory this is.
struct LocalChebyshev {
  Dtype dtype = Dtype::float64;
  std::int64_t rows = 0;
  double low = 0.0;
  double high = 0.0;
  std::int64_t step = 0;          ///< 0: the beginning
  const void* product = nullptr;  ///< A d; the vector that the polynomial is applied to at first
  void* residual = nullptr;
  void* direction = nullptr;
  void* sum = nullptr;
  /// D of the iteration for D^-1 A, and memory for D^-1 times the residual; or both null: D = I.
  const void* diagonal = nullptr;
  void* scaled = nullptr;
  /// 0, in the device's memory.
  const std::int32_t* zero = nullptr;
};

/// Does nothing but enqueue.
void enqueue(const runtime::KernelSource& device, runtime::Queue& queue,
             const LocalChebyshev& call);

/// Does it on the CPU, in the caller's thread, with help if there are many rows: so few of them at
/// a time that they are in the cache from one of a step's updates to the next.
void run_on_host(const LocalChebyshev& call, runtime::host::SpareThreads* spare = nullptr);

}  // namespace shardsolve::krylov
