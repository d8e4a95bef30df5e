/// Device memory that calls borrow.
#pragma once

#include "runtime/device.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace shardsolve::runtime {

/// Where memory comes from: so many bytes as a Buffer. Throws Error(out_of_memory).
using Allocate = std::function<Buffer(std::size_t)>;

/// Memory of one device for one call after the other. What a call gives back stays for the next, as
/// new memory is slow: the system has to clear each page. Holds at no time more than the call that
/// took most.
class Workspace {
 public:
  explicit Workspace(Allocate allocate) : allocate_(std::move(allocate)) {}

  /// Not initialised; valid until give_back. Throws Error(out_of_memory).
  void* take(std::size_t bytes);
  /// The call has ended: all its memory may be taken again.
  void give_back();
  /// Bytes that are kept, in use or not. Any thread may ask.
  std::size_t held() const { return held_; }

 private:
  Allocate allocate_;
  std::vector<Buffer> taken_;
  std::vector<Buffer> idle_;
  std::atomic<std::size_t> held_ = 0;  // bytes of both
  std::size_t in_use_ = 0;
  std::size_t most_ = 0;  // that a call has used
};

}  // namespace shardsolve::runtime
