#include "bench/cuda/device_buffer.hpp"

#include <algorithm>
#include <utility>

namespace shardsolve::bench {

MemoryMeter::MemoryMeter(std::vector<int> devices)
    : devices_(std::move(devices)), held_(devices_.size(), 0) {
  for (const int device : devices_) {
    select(device);
    check(cudaFree(nullptr), "making the context of a GPU, which is not counted");
  }
  begin();
}

std::int64_t MemoryMeter::end() {
  const std::vector<std::int64_t> after = free();
  for (std::size_t k = 0; k < held_.size(); ++k) {
    held_[k] += before_[k] - after[k];
  }
  before_ = after;
  const std::int64_t held = *std::max_element(held_.begin(), held_.end());
  peak_ = std::max(peak_, held);
  return held;
}

std::vector<std::int64_t> MemoryMeter::free() const {
  std::vector<std::int64_t> bytes;
  for (const int device : devices_) {
    select(device);
    std::size_t available = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    bytes.push_back(static_cast<std::int64_t>(available));
  }
  return bytes;
}

}  // namespace shardsolve::bench
