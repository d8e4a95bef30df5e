/// Long lists of numbers that several threads write.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {

/// Numbers are not set when a vector gets longer, and long lists lie in large pages where the
/// system has them: to bring memory in takes as long as what is done with it else.
template <class T>
struct UnsetAllocator {
  using value_type = T;
  static constexpr std::size_t page = std::size_t{2} << 20U;

  UnsetAllocator() = default;
  template <class U>
  UnsetAllocator(const UnsetAllocator<U>&) {}  // NOLINT: implicit, as the standard wants it

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < 2 * page) {
      return std::allocator<T>().allocate(count);
    }
    const std::size_t pages = (bytes + page - 1) / page * page;
    void* const memory = std::aligned_alloc(page, pages);
    if (memory == nullptr) {
      throw std::bad_alloc();
    }
#ifdef MADV_HUGEPAGE
    ::madvise(memory, pages, MADV_HUGEPAGE);  // a wish
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) {
    if (count * sizeof(T) < 2 * page) {
      std::allocator<T>().deallocate(memory, count);
    } else {
      std::free(memory);
    }
  }
  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <class U, class... Given>
  void construct(U* place, Given&&... given) {
    ::new (static_cast<void*>(place)) U(std::forward<Given>(given)...);
  }
  friend bool operator==(const UnsetAllocator&, const UnsetAllocator&) { return true; }
};

/// resize() leaves new ones as they are: to be written by whoever does a piece.
template <class T>
using Numbers = std::vector<T, UnsetAllocator<T>>;

}  // namespace shardsolve::fbpinn
