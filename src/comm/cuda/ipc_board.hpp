/// What the processes of one machine write down for each other while they enqueue.
#pragma once

#include "comm/cuda/ipc_memory.hpp"
#include "comm/release_agreement.hpp"
#include "comm/shared_memory.hpp"
#include "runtime/host/one_way_counter.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace shardsolve::comm::cuda {

/// A table in memory that all processes share and all their GPUs reach.
class IpcBoard {
 public:
  /// Marks of one rank. Its threads count those that are enqueued, its GPU those that are passed.
  struct Slot {
    alignas(64) runtime::host::OneWayCounter enqueued{runtime::host::OneWayCounter::Scope::machine};
    alignas(64) std::uint32_t passed = 0;
  };
  /// Windows that one call may have.
  static constexpr std::size_t max_windows = 64;

  static std::size_t bytes(std::size_t ranks) { return Table(ranks).end; }

  /// `makes`: whether this process has made the memory; it writes the empty table.
  IpcBoard(SharedMemory memory, std::size_t ranks, bool makes);
  IpcBoard(const IpcBoard&) = delete;
  IpcBoard& operator=(const IpcBoard&) = delete;
  ~IpcBoard();

  void withdraw() { memory_.withdraw(); }
  std::string ticket() const { return memory_.ticket(); }

  Slot& ready(std::size_t from, std::size_t to) const {
    return at<Slot>(table_.ready, from * ranks_ + to);
  }
  Slot& delivered(std::size_t from, std::size_t to) const {
    return at<Slot>(table_.delivered, from * ranks_ + to);
  }
  IpcPlace& piece(std::size_t from, std::size_t to) const {
    return at<IpcPlace>(table_.pieces, from * ranks_ + to);
  }
  Slot& joined(std::size_t window, std::size_t rank) const {
    return at<Slot>(table_.joined, window * ranks_ + rank);
  }
  IpcPlace& memory(std::size_t window, std::size_t rank) const {
    return at<IpcPlace>(table_.memories, window * ranks_ + rank);
  }
  Slot& arrivals(std::size_t window, std::size_t rank, std::size_t root) const {
    return at<Slot>(table_.arrivals, (window * ranks_ + rank) * ranks_ + root);
  }
  /// One of each rank.
  std::span<ReleaseAgreement::Word> words() const {
    return {&at<ReleaseAgreement::Word>(table_.words, 0), ranks_};
  }
  /// All slots that `rank` writes to.
  template <class Body>
  void for_each_slot_of(std::size_t rank, Body body) const {
    for (std::size_t other = 0; other < ranks_; ++other) {
      body(ready(rank, other));
      body(delivered(other, rank));
    }
    for (std::size_t window = 0; window < max_windows; ++window) {
      body(joined(window, rank));
      for (std::size_t root = 0; root < ranks_; ++root) {
        body(arrivals(window, rank, root));
      }
    }
  }

  /// The address of what a GPU counts, as GPUs of this process have it.
  std::uint32_t* for_gpus(Slot& slot) const {
    const auto offset = reinterpret_cast<std::byte*>(&slot.passed) - memory_.data();
    return reinterpret_cast<std::uint32_t*>(gpu_base_ + offset);
  }

 private:
  /// Where each kind begins.
  struct Table {
    explicit Table(std::size_t ranks);
    std::size_t ready, delivered, joined, arrivals, words, pieces, memories, end;
  };

  template <class Entry>
  Entry& at(std::size_t begin, std::size_t index) const {
    return *reinterpret_cast<Entry*>(memory_.data() + begin + index * sizeof(Entry));
  }

  SharedMemory memory_;
  std::size_t ranks_;
  Table table_;
  std::byte* gpu_base_ = nullptr;
};

}  // namespace shardsolve::comm::cuda
