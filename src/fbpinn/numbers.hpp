/// Long lists of numbers that several threads write.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {

/// Numbers are not set when a vector gets longer.
template <class T>
struct UnsetAllocator : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = UnsetAllocator<U>;
  };
  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <class U, class... Given>
  void construct(U* place, Given&&... given) {
    ::new (static_cast<void*>(place)) U(std::forward<Given>(given)...);
  }
};

/// resize() leaves new ones as they are: to be written by whoever does a piece. Memory is brought
/// in by the first to write to it, which for long lists takes as long as what is written there.
template <class T>
using Numbers = std::vector<T, UnsetAllocator<T>>;

}  // namespace shardsolve::fbpinn
