#include "comm/host_peers.hpp"

#include "comm/in_place_window.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/plan.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace shardsolve::comm {
namespace {

/// Where a workspace begins in its memory: at 4 kB, behind what the memory needs for itself.
constexpr std::size_t begin = 4096;
static_assert(begin >= SharedMemory::reserved);

}  // namespace

HostPeers::HostPeers(ProcessGroup& processes, const Pulses& pulses,
                     std::unique_ptr<HostBoard> board)
    : processes_(processes),
      pulses_(pulses),
      board_(std::move(board)),
      release_(board_->words(), processes.rank()),
      opened_(board_->ranks()) {}

/// No rank waits for counters of this one that are of earlier calls.
void HostPeers::begin_call() {
  first_ += numbers_of_a_call;
  board_->for_each_counter_of(static_cast<std::size_t>(processes_.rank()),
                              [this](HostBoard::Counter& counter) { counter.reset(first_); });
  release_.begin_call(first_);
  windows_made_ = 0;
}

void HostPeers::end_call() {
  for (std::size_t rank = 0; rank < opened_.size(); ++rank) {
    if (processes_.lost(static_cast<std::int64_t>(rank))) {
      opened_[rank].reset();
    }
  }
}

Bytes HostPeers::workspace() const {
  return own_ ? Bytes{own_->data() + begin, own_bytes_} : Bytes{};
}

Bytes HostPeers::make_workspace(std::size_t bytes) {
  const bool renews = shares_ && workspace().size < bytes;
  // Memory that others have open would go only when they close it.
  release_.meet(
      renews && own_,
      [this](const HostBoard::Counter& counter, std::uint32_t target, std::int64_t peer) {
        wait(counter, target, peer, "make_workspace");
      },
      [this] { opened_ = std::vector<std::unique_ptr<SharedMemory>>(opened_.size()); });
  if (renews) {
    own_.reset();
    allocate(bytes);
  }
  return workspace();
}

void HostPeers::allocate(std::size_t bytes) {
  // It would be there until it is used.
  if (const std::int64_t available = available_host_memory();
      bytes > static_cast<std::size_t>(available)) {
    throw Error(ErrorKind::out_of_memory,
                fmt::format("could not allocate {} bytes of host memory: {} are available", bytes,
                            available));
  }
  try {
    own_.emplace(begin + bytes);
  } catch (const std::exception&) {
    shares_ = false;
    return;
  }
  own_bytes_ = bytes;
  HostBoard::Workspace& told = board_->workspace(static_cast<std::size_t>(processes_.rank()));
  told.bytes = begin + bytes;
  const std::string ticket = own_->ticket();
  told.ticket.fill('\0');
  ticket.copy(told.ticket.data(), told.ticket.size() - 1);
}

bool HostPeers::open_all() {
  try {
    for (std::size_t rank = 0; rank < opened_.size(); ++rank) {
      if (!opened_[rank] && static_cast<std::int64_t>(rank) != processes_.rank()) {
        const HostBoard::Workspace& told = board_->workspace(rank);
        opened_[rank] = std::make_unique<SharedMemory>(told.ticket.data(), told.bytes);
      }
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::unique_ptr<Window> HostPeers::make_window(Bytes memory) {
  const std::size_t index = windows_made_++;
  if (index >= HostBoard::max_windows) {
    return nullptr;
  }
  const auto self = static_cast<std::size_t>(processes_.rank());
  const auto all_say = [&](auto counter, auto word) {
    bool yes = true;
    for (std::size_t rank = 0; rank < opened_.size(); ++rank) {
      HostBoard::WindowEntry& entry = board_->window_entry(index, rank);
      wait(entry.*counter, first_ + 1, static_cast<std::int64_t>(rank), "make_window");
      yes = yes && entry.*word;
    }
    return yes;
  };
  const Bytes room = workspace();
  const auto offset =
      reinterpret_cast<std::uintptr_t>(memory.data) - reinterpret_cast<std::uintptr_t>(room.data);
  HostBoard::WindowEntry& own = board_->window_entry(index, self);
  own.within_reach = own_ && offset <= room.size && memory.size <= room.size - offset;
  own.offset = offset;
  own.joined.store(first_ + 1);
  if (!all_say(&HostBoard::WindowEntry::joined, &HostBoard::WindowEntry::within_reach)) {
    return nullptr;
  }
  own.reaches_all = open_all();
  own.opened.store(first_ + 1);
  if (!all_say(&HostBoard::WindowEntry::opened, &HostBoard::WindowEntry::reaches_all)) {
    return nullptr;
  }
  std::vector<InPlaceWindow::Member> members;
  for (std::size_t rank = 0; rank < opened_.size(); ++rank) {
    HostBoard::WindowEntry& entry = board_->window_entry(index, rank);
    std::byte* const base = rank == self ? static_cast<std::byte*>(memory.data)
                                         : opened_[rank]->data() + begin + entry.offset;
    members.push_back({base, &entry.published, &board_->released(index, rank, self),
                       &board_->released(index, self, rank)});
  }
  return std::make_unique<InPlaceWindow>(
      std::move(members), processes_.rank(), index, first_,
      [this](const HostBoard::Counter& counter, std::uint32_t target, std::int64_t peer,
             const char* operation) { wait(counter, target, peer, operation); });
}

void HostPeers::wait(const HostBoard::Counter& counter, std::uint32_t target, std::int64_t peer,
                     const char* operation) const {
  processes_.wait(pulses_, counter, target, peer, operation);
}

}  // namespace shardsolve::comm
