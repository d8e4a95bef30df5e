#include "programs/step_flags.hpp"

#include "programs/wait_sites.hpp"

#include <shardsolve/error.hpp>

namespace shardsolve::programs {

StepFlags::StepFlags(mesh::Rank& rank)
    : rank_(rank), headers_(rank.host_workspace<StepHeader>(depth)) {
  for (std::int64_t i = 0; i < depth; ++i) {
    arrived_.push_back(&rank.event());
  }
}

bool StepFlags::may_enqueue(std::int64_t step) { return finish(step - depth + 1); }

void StepFlags::receive(std::int64_t step, const StepHeader* header) {
  const std::int64_t slot = step % depth;
  rank_.transfer().copy(&headers_[slot], header, sizeof(StepHeader));
  rank_.transfer().record(*arrived_[static_cast<std::size_t>(slot)]);
}

bool StepFlags::finish(std::int64_t steps) {
  while (next_ < steps && !stopped_ && failed_step_ < 0) {
    read(next_++);
  }
  return !stopped_ && failed_step_ < 0;
}

void StepFlags::read(std::int64_t step) {
  const std::int64_t slot = step % depth;
  arrived_[static_cast<std::size_t>(slot)]->synchronize(sites::step_flags);
  rank_.leave_if_failed();
  const StepHeader& header = headers_[slot];
  stopped_ = header.stop != 0;
  if (header.pivot != 0) {
    failed_step_ = step;
    pivot_ = header.pivot;
  }
}

void StepFlags::throw_if_cancelled() const {
  if (stopped_) {
    throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
  }
}

}  // namespace shardsolve::programs
