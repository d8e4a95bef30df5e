/// What the processes of one host write down for each other about memory that they share.
#pragma once

#include "comm/release_agreement.hpp"
#include "comm/shared_memory.hpp"
#include "comm/transport.hpp"
#include "runtime/host/one_way_counter.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace shardsolve::comm {

/// A table in memory that all processes share. One rank writes each entry. Fields that are no
/// counters may be read after waiting for the counter that publishes them: the rank raises it when
/// it has written them.
class HostBoard {
 public:
  using Counter = runtime::host::OneWayCounter;
  /// Most windows that one call can have in the table.
  static constexpr std::size_t max_windows = 16;

  /// What one rank says of itself in one window.
  struct WindowEntry {
    alignas(64) Counter joined{Counter::Scope::machine};  // publishes the next two
    bool within_reach = false;  // whether the rank's buffer lies in its workspace
    std::size_t offset = 0;     // and where
    alignas(64) Counter opened{Counter::Scope::machine};  // publishes the next one
    bool reaches_all = false;  // whether the rank has opened the workspaces of all others
    alignas(64) Counter published{Counter::Scope::machine};  // parts of the window
  };
  /// A rank's workspace: what the others need to open it. `joined` publishes it, too.
  struct Workspace {
    std::size_t bytes = 0;
    std::array<char, 64> ticket{};
  };

  static std::size_t bytes(std::size_t ranks) { return Table(ranks).end; }

  /// `makes`: whether this process has made the memory; it writes the empty table.
  HostBoard(SharedMemory memory, std::size_t ranks, bool makes);

  std::string ticket() const { return memory_.ticket(); }
  void withdraw() { memory_.withdraw(); }
  std::size_t ranks() const { return ranks_; }

  WindowEntry& window_entry(std::size_t window, std::size_t rank) const {
    return at<WindowEntry>(table_.window_entries, window * ranks_ + rank);
  }
  /// How many of the parts of `root` rank `reader` has released.
  Counter& released(std::size_t window, std::size_t root, std::size_t reader) const {
    return at<Counter>(table_.released, (reader * max_windows + window) * ranks_ + root);
  }
  Workspace& workspace(std::size_t rank) const { return at<Workspace>(table_.workspaces, rank); }
  /// One of each rank.
  std::span<ReleaseAgreement::Word> words() const {
    return {&at<ReleaseAgreement::Word>(table_.words, 0), ranks_};
  }
  /// All counters of windows that `rank` raises.
  template <class Body>
  void for_each_counter_of(std::size_t rank, Body body) const {
    for (std::size_t window = 0; window < max_windows; ++window) {
      body(window_entry(window, rank).joined);
      body(window_entry(window, rank).opened);
      body(window_entry(window, rank).published);
      for (std::size_t root = 0; root < ranks_; ++root) {
        body(released(window, root, rank));
      }
    }
  }

 private:
  /// Where each kind begins.
  struct Table {
    explicit Table(std::size_t ranks);
    std::size_t window_entries, words, workspaces, released, end;
  };

  template <class Entry>
  Entry& at(std::size_t begin, std::size_t index) const {
    return *reinterpret_cast<Entry*>(memory_.data() + begin + index * sizeof(Entry));
  }

  SharedMemory memory_;
  std::size_t ranks_;
  Table table_;
};

/// All processes call it together. Null, in all of them, if there is only one, if they are on
/// several hosts, if one cannot open what rank 0 has made (containers of their own, different
/// users), or under strict overcommit. Throws as tell_all().
std::unique_ptr<HostBoard> make_host_board(Transport& transport);

}  // namespace shardsolve::comm
