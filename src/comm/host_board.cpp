#include "comm/host_board.hpp"

#include "comm/tell_all.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <new>
#include <utility>
#include <vector>

namespace shardsolve::comm {
namespace {

/// Whether the system promises no more memory than it has. It does not promise what is shared: a
/// signal would say, when that is used, that there is no more.
bool promises_are_kept() {
  std::ifstream file("/proc/sys/vm/overcommit_memory");
  int policy = 0;
  return file >> policy && policy == 2;
}

}  // namespace

HostBoard::Table::Table(std::size_t ranks) {
  std::size_t used = SharedMemory::reserved;
  const auto take = [&](std::size_t count, std::size_t size) {
    return std::exchange(used, used + count * size);
  };
  window_entries = take(max_windows * ranks, sizeof(WindowEntry));
  words = take(ranks, sizeof(ReleaseAgreement::Word));
  workspaces = take(ranks, sizeof(Workspace));
  released = take(max_windows * ranks * ranks, sizeof(Counter));
  end = used;
}

HostBoard::HostBoard(SharedMemory memory, std::size_t ranks, bool makes)
    : memory_(std::move(memory)), ranks_(ranks), table_(ranks) {
  if (!makes) {
    return;
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t window = 0; window < max_windows; ++window) {
      new (&window_entry(window, rank)) WindowEntry;
      for (std::size_t root = 0; root < ranks; ++root) {
        new (&released(window, root, rank)) Counter(Counter::Scope::machine);
      }
    }
    new (&words()[rank]) ReleaseAgreement::Word;
    new (&workspace(rank)) Workspace;
  }
}

std::unique_ptr<HostBoard> make_host_board(Transport& transport) {
  const std::vector<std::int64_t>& hosts = transport.hosts();
  if (hosts.size() < 2 ||
      std::any_of(hosts.begin(), hosts.end(), [&](auto host) { return host != hosts.front(); })) {
    return nullptr;
  }
  const std::size_t bytes = HostBoard::bytes(hosts.size());
  const auto make = [&](auto memory, bool makes) -> std::unique_ptr<HostBoard> {
    try {
      return std::make_unique<HostBoard>(memory(), hosts.size(), makes);
    } catch (const std::exception&) {  // also what is not ours: the others wait
      return nullptr;
    }
  };
  // Rank 0 makes it, the others open it.
  std::unique_ptr<HostBoard> board;
  if (transport.rank() == 0 && !promises_are_kept()) {
    board = make([&] { return SharedMemory(bytes); }, true);
  }
  const std::string ticket = tell_all(transport, board ? board->ticket() : "").front();
  if (transport.rank() != 0) {
    board = make([&] { return SharedMemory(ticket, bytes); }, false);
  }
  if (!first_said(transport, board ? "" : "cannot open it").empty()) {
    return nullptr;
  }
  board->withdraw();
  return board;
}

}  // namespace shardsolve::comm
