/// A factor that lies in the buffers of a call which uses one.
#pragma once

#include "jax/task.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/dtype.hpp>

#include <memory>
#include <vector>

namespace shardsolve::jax {

/// Throws if a factor was made of another matrix or on other devices.
void require_made_for(const Job& job, const FactorRecord& record);

template <Scalar T>
CholeskyFactor<T> adopt(const Task& task, const FactorRecord& record, BufferIndex slab,
                        BufferIndex diagonal) {
  const Job& job = task.job();
  require_made_for(job, record);
  const SlabLayout layout = rows_layout(job.n, job.ranks, record.tile);
  CholeskyFactor<T> factor{task.matrix<T>(layout, slab),
                           std::make_shared<std::vector<RealOf<T>>>(job.n),
                           record.norm(),
                           {}};
  task.read_rows(layout, diagonal, factor.diagonal->data());
  return factor;
}

/// Why there is nothing to do a call with: the verdict on its factor, if it is not ok, or what was
/// in the way before.
inline Verdict before_use(const Task& task, const FactorRecord& record) {
  return task.before().ok() ? record.verdict : task.before();
}

}  // namespace shardsolve::jax
