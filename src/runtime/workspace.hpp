/// Device memory that calls borrow.
#pragma once

#include "runtime/device.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace shardsolve::runtime {

/// Where memory comes from: so many bytes as a Buffer. Throws Error(out_of_memory).
using Allocate = std::function<Buffer(std::size_t)>;

/// Memory of one device for one call after the other. What a call gives back stays for the next, as
/// new memory is slow: the system has to clear each page. Holds at no time more than the call that
/// took most.
///
/// Or it lies in a room: one piece of memory that somebody else keeps, which calls take from its
/// beginning on. What does not fit is allocated, and goes when the call has ended.
class Workspace {
 public:
  explicit Workspace(Allocate allocate) : allocate_(std::move(allocate)) {}

  /// Not initialised; valid until give_back. Throws Error(out_of_memory).
  void* take(std::size_t bytes);
  /// The call has ended: all its memory may be taken again.
  void give_back();
  /// Bytes that are kept, in use or not. Any thread may ask.
  std::size_t held() const { return held_; }

  /// Takes from `room` from now on; from the device again if it is empty. Only while nothing is
  /// taken. The room is kept by others until this is told of another.
  void use(std::span<std::byte> room);
  /// How large a room has to be for a call that says it takes `bytes`: with what is lost between
  /// pieces, and at least what a call has taken.
  std::size_t room_for(std::size_t bytes) const;

 private:
  void* take_of_room(std::size_t bytes);

  Allocate allocate_;
  std::span<std::byte> room_;
  std::size_t room_used_ = 0;
  std::vector<Buffer> taken_;
  std::vector<Buffer> idle_;
  std::atomic<std::size_t> held_ = 0;  // bytes of all
  std::size_t in_use_ = 0;
  std::size_t most_ = 0;  // that a call has used
};

}  // namespace shardsolve::runtime
