/// Kernels of GPUs for calls from JAX that no rank program makes. CPUs do these without a queue: a
/// dot product of a few numbers takes less than a queue does.
#pragma once

#include "runtime/fixed_dot.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/queue.hpp"
#include "runtime/small_systems.hpp"

#include <shardsolve/dtype.hpp>

namespace shardsolve::runtime {

/// Calls say of which dtype they are; what they point to lies on the GPU.
class LocalKernels {
 public:
  static constexpr KernelSet set = KernelSet::local;
  static constexpr Dtype dtype = Dtype::float64;  ///< where the set is found

  virtual ~LocalKernels() = default;

  void dot(Queue& queue, const DotCall& call) const { do_dot(queue, {.name = "dot"}, call); }
  void solve_small(Queue& queue, const SmallSystems& call) const {
    do_solve_small(queue, {.name = "small systems"}, call);
  }

 protected:
  virtual void do_dot(Queue& queue, const WorkInfo& info, const DotCall& call) const = 0;
  virtual void do_solve_small(Queue& queue, const WorkInfo& info,
                              const SmallSystems& call) const = 0;
};

}  // namespace shardsolve::runtime
