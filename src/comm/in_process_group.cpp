#include "comm/in_process_group.hpp"

namespace shardsolve::comm {

InProcessGroup::InProcessGroup(const Pulses& pulses)
    : pulses_(pulses), channels_(static_cast<std::size_t>(ranks() * ranks())) {}

void InProcessGroup::begin_call(std::int64_t rank) {
  for (std::int64_t to = 0; to < ranks(); ++to) {
    Channel& sends = channel(rank, to);
    sends.posted.reset();
    sends.taken.reset();
    sends.sends = 0;
    sends.receives = 0;
  }
  shared_windows_.clear();
}

InProcessGroup::SharedWindow& InProcessGroup::shared_window(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (index == shared_windows_.size()) {
    shared_windows_.push_back(std::make_unique<SharedWindow>(static_cast<std::size_t>(ranks())));
  }
  return *shared_windows_[index];
}

}  // namespace shardsolve::comm
