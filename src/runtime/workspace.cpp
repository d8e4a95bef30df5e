#include "runtime/workspace.hpp"

#include <algorithm>
#include <iterator>

namespace shardsolve::runtime {

void* Workspace::take(std::size_t bytes) {
  const auto fits = std::find_if(idle_.begin(), idle_.end(),
                                 [&](const Buffer& buffer) { return buffer.bytes() == bytes; });
  if (fits != idle_.end()) {
    taken_.push_back(std::move(*fits));
    idle_.erase(fits);
  } else {
    while (!idle_.empty() && held_ + bytes > std::max(most_, in_use_ + bytes)) {
      held_ -= idle_.back().bytes();
      idle_.pop_back();
    }
    taken_.push_back(allocate_(bytes));
    held_ += bytes;
  }
  in_use_ += bytes;
  most_ = std::max(most_, in_use_);
  return taken_.back().data();
}

void Workspace::give_back() {
  std::move(taken_.begin(), taken_.end(), std::back_inserter(idle_));
  taken_.clear();
  in_use_ = 0;
}

}  // namespace shardsolve::runtime
