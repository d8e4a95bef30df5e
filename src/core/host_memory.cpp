#include "core/host_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

namespace shardsolve::core {

std::shared_ptr<void> allocate_host_memory(std::size_t bytes) {
  constexpr std::size_t line = 128;
  constexpr std::size_t huge_page = std::size_t{2} << 20U;
  const std::size_t alignment = bytes >= 2 * huge_page ? huge_page : line;
  const std::size_t rounded =
      (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* memory = rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) {
    return nullptr;
  }
  if (alignment == huge_page) {
    madvise(memory, rounded, MADV_HUGEPAGE);  // a hint: without it only slower
  }
  return {memory, [](void* data) { std::free(data); }};
}

}  // namespace shardsolve::core
