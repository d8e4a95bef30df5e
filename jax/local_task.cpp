#include "jax/local_task.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::jax {

void LocalTask::require_length(BufferIndex buffer, std::int64_t length) const {
  if (at(buffer).length != length) {
    throw Error(ErrorKind::internal,
                fmt::format("internal: {} of {} has {} elements, where {} belong",
                            row->buffers.at(buffer).name, row->name, at(buffer).length, length));
  }
}

}  // namespace shardsolve::jax
