#include "runtime/workspace.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace shardsolve::runtime {
namespace {

/// Pieces of a room begin at multiples of this, as those that a device allocates.
constexpr std::size_t alignment = 512;
/// For so many bytes more a room takes four thousand pieces.
constexpr std::size_t between_pieces = 4096 * alignment;

std::size_t aligned(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

}  // namespace

void* Workspace::take(std::size_t bytes) {
  if (!room_.empty()) {
    return take_of_room(bytes);
  }
  const auto fits = std::find_if(idle_.begin(), idle_.end(),
                                 [&](const Buffer& buffer) { return buffer.bytes() == bytes; });
  if (fits != idle_.end()) {
    taken_.push_back(std::move(*fits));
    idle_.erase(fits);
  } else {
    while (!idle_.empty() &&
           held_ + bytes > std::max<std::size_t>(most_, in_use_ + bytes) + besides_) {
      held_ -= idle_.back().bytes();
      idle_.pop_back();
    }
    taken_.push_back(allocate_(bytes));
    held_ += bytes;
  }
  in_use_ += bytes;
  most_ = std::max<std::size_t>(most_, in_use_);
  return taken_.back().data();
}

void* Workspace::take_of_room(std::size_t bytes) {
  const std::size_t size = aligned(bytes);
  in_use_ += size;
  most_ = std::max<std::size_t>(most_, in_use_);
  if (size <= room_.size() - room_used_) {
    return room_.data() + std::exchange(room_used_, room_used_ + size);
  }
  taken_.push_back(allocate_(bytes));
  held_ += bytes;
  return taken_.back().data();
}

void Workspace::give_back() {
  if (room_.empty()) {
    std::move(taken_.begin(), taken_.end(), std::back_inserter(idle_));
  } else {
    held_ = room_.size();
    if (said_ > 0 && !taken_.empty()) {
      too_little_ = said_;
      taken_then_ = in_use_;
    }
  }
  taken_.clear();
  room_used_ = 0;
  in_use_ = 0;
  said_ = 0;
}

void Workspace::use(std::span<std::byte> room) {
  if (!room.empty()) {
    idle_.clear();
  } else {
    taken_then_ = 0;  // so much is perhaps not to be had
  }
  if (own_ && room.data() != own_->data()) {
    own_.reset();
  }
  room_ = room;
  held_ =
      std::accumulate(idle_.begin(), idle_.end(), room.size(),
                      [](std::size_t sum, const Buffer& buffer) { return sum + buffer.bytes(); });
}

void Workspace::drop_idle() {
  idle_.clear();
  use(room_);
}

void Workspace::make_room(std::size_t bytes) {
  if (room_.size() >= bytes) {
    return;
  }
  use({});
  drop_idle();
  own_ = allocate_(bytes);
  use({static_cast<std::byte*>(own_->data()), bytes});
}

std::size_t Workspace::room_for(std::size_t bytes) {
  said_ = std::max<std::size_t>(bytes, 1);
  const std::size_t taken = bytes >= too_little_ ? taken_then_ : 0;
  return room_.size() >= std::max(bytes, taken) ? room_.size()
                                                : std::max(bytes + between_pieces, taken);
}

}  // namespace shardsolve::runtime
