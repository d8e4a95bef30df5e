/// Device memory that calls borrow.
#pragma once

#include "runtime/device.hpp"

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace shardsolve::runtime {

/// Where memory comes from: so many bytes as a Buffer. Throws Error(out_of_memory).
using Allocate = std::function<Buffer(std::size_t)>;

/// Memory of one device for one call after the other. What a call gives back stays for the next, as
/// new memory is slow: the system has to clear each page, and a GPU to come to a halt. Holds at no
/// time more than the call that took most, and what it may hold besides.
///
/// Or it lies in a room: one piece of memory, of its own or kept by somebody else, which calls take
/// from its beginning on. What does not fit is allocated, and goes when the call has ended. Calls
/// of different kinds take turns without allocating anything.
class Workspace {
 public:
  /// `besides`: bytes of idle memory that may stay beside that of the largest call.
  explicit Workspace(Allocate allocate, std::size_t besides = 0)
      : allocate_(std::move(allocate)), besides_(besides) {}

  /// Not initialised; valid until give_back. Throws Error(out_of_memory).
  void* take(std::size_t bytes);
  /// The call has ended: all its memory may be taken again.
  void give_back();
  /// Bytes that are kept, in use or not. Any thread may ask.
  std::size_t held() const { return held_; }
  /// Bytes that a call has taken, the one that took most. Any thread may ask.
  std::size_t most() const { return most_; }

  /// Takes from `room` from now on; from the device again if it is empty. A room of its own goes.
  /// Only while nothing is taken. The room is kept by others until this is told of another.
  void use(std::span<std::byte> room);
  /// Takes from a room of its own of at least so many bytes; a smaller one goes first. Only while
  /// nothing is taken. Throws Error(out_of_memory), and keeps nothing then.
  void make_room(std::size_t bytes);
  /// Gives up what is kept outside of a room. Only while nothing is taken.
  void drop_idle();
  /// Bytes of the room for the next call, which plans to take `bytes`: the present room if it
  /// suffices, else the plan and what alignment loses between pieces. At least what the last call
  /// took that needed more than its room, unless that call planned more than `bytes`.
  std::size_t room_for(std::size_t bytes);

 private:
  void* take_of_room(std::size_t bytes);

  Allocate allocate_;
  std::size_t besides_;
  std::optional<Buffer> own_;  // room
  std::span<std::byte> room_;
  std::size_t room_used_ = 0;
  std::vector<Buffer> taken_;
  std::vector<Buffer> idle_;
  std::atomic<std::size_t> held_ = 0;  // bytes of all
  std::size_t in_use_ = 0;
  std::atomic<std::size_t> most_ = 0;  // that a call has used
  std::size_t said_ = 0;               // by the call that takes; 0: nothing
  // Of the last call that has taken more than its room: what it said and what it took.
  std::size_t too_little_ = 0;
  std::size_t taken_then_ = 0;
};

}  // namespace shardsolve::runtime
