#include "comm/cuda/ipc_peers.hpp"

#include "runtime/cuda/driver.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardsolve::comm::cuda {
namespace {

/// For those who end their meshes a little later.
constexpr std::chrono::milliseconds patience_at_the_end(1000);

cudaStream_t stream_of(runtime::Queue& queue) { return runtime::cuda::as_cuda(queue).stream(); }

std::size_t at(std::int64_t rank) { return static_cast<std::size_t>(rank); }

}  // namespace

class IpcPeers::IpcMarks final : public Marks {
 public:
  IpcMarks(const IpcPeers& group, IpcBoard::Slot& slot)
      : group_(group), slot_(slot), passed_(group.board_->for_gpus(slot)) {}

  const runtime::host::OneWayCounter& enqueued() const override { return slot_.enqueued; }
  void record(runtime::Queue& queue, std::uint32_t number) override {
    if (number - group_.first() >= numbers_of_a_call - 1) {
      throw Error(ErrorKind::unsupported,
                  fmt::format("a call with more than {} messages from one rank to another: use "
                              "larger tiles",
                              numbers_of_a_call - 1));
    }
    runtime::cuda::write_value(stream_of(queue), passed_, number + 1);
    slot_.enqueued.store(number + 1);
  }
  void wait(runtime::Queue& queue, std::uint32_t number, const runtime::WaitSite& site) override {
    if (!runtime::skipped(site)) {
      runtime::cuda::wait_for_value(stream_of(queue), passed_, number + 1);
    }
  }

 private:
  const IpcPeers& group_;
  IpcBoard::Slot& slot_;
  std::uint32_t* passed_;
};

class IpcPeers::IpcWindow final : public PeerGroup::Window {
 public:
  IpcWindow(IpcPeers& group, std::size_t index)
      : group_(group), index_(index), bases_(group.ranks(), nullptr) {
    arrivals_.resize(group.ranks());
    for (std::size_t rank = 0; rank < group.ranks(); ++rank) {
      for (std::size_t root = 0; root < group.ranks(); ++root) {
        arrivals_[rank].push_back(
            std::make_unique<IpcMarks>(group, group.board_->arrivals(index, rank, root)));
      }
    }
  }

  void join(std::int64_t rank, Bytes memory) override {
    const IpcBoard& board = *group_.board_;
    board.memory(index_, at(rank)) = memory.size > 0 ? group_.place_of(memory) : IpcPlace{};
    board.joined(index_, at(rank)).enqueued.store(group_.first() + 1);
    for (std::size_t r = 0; r < bases_.size(); ++r) {
      const auto peer = static_cast<std::int64_t>(r);
      group_.meet(board.joined(index_, r).enqueued, group_.first() + 1, rank, peer, "make_window");
      const IpcPlace& place = board.memory(index_, r);
      if (place.size == 0) {
        bases_[r] = nullptr;
      } else {
        bases_[r] =
            static_cast<std::byte*>(peer == rank ? memory.data : group_.imports_.open(place).data);
      }
    }
  }
  std::byte* base(std::int64_t rank) const override { return bases_[at(rank)]; }

 private:
  IpcPeers& group_;
  std::size_t index_;
  std::vector<std::byte*> bases_;
};

IpcPeers::IpcPeers(ProcessGroup& processes, const Pulses& pulses, const Topology& topology,
                   Ring ring, std::unique_ptr<IpcBoard> board, runtime::Allocate allocate)
    : PeerGroup(pulses, topology, std::move(ring)),
      processes_(processes),
      board_(std::move(board)),
      allocate_(std::move(allocate)),
      release_(board_->words(), processes.rank()) {
  make_channels([this](std::int64_t from, std::int64_t to, bool delivered) {
    return std::make_unique<IpcMarks>(
        *this, delivered ? board_->delivered(at(from), at(to)) : board_->ready(at(from), at(to)));
  });
}

IpcPeers::~IpcPeers() {
  imports_.close();
  release_.leave();
  if (workspace_ && !release_.all_have_left(patience_at_the_end)) {
    // Somebody has it open, and nobody is there to be told when that ends: it is never freed.
    new runtime::Buffer(*std::move(workspace_));
  }
}

IpcPlace IpcPeers::place_of(Bytes piece) const {
  const Bytes whole = workspace();
  const auto begin = reinterpret_cast<std::uintptr_t>(whole.data);
  const auto address = reinterpret_cast<std::uintptr_t>(piece.data);
  if (address < begin || address >= begin + whole.size) {
    return export_memory(piece);
  }
  IpcPlace place = place_;
  place.offset += address - begin;
  place.size = piece.size;
  return place;
}

void IpcPeers::offer(std::int64_t from, std::int64_t to, Bytes piece) {
  board_->piece(at(from), at(to)) = place_of(piece);
}

Bytes IpcPeers::offered(std::int64_t from, std::int64_t to) {
  return imports_.open(board_->piece(at(from), at(to)));
}

std::unique_ptr<PeerGroup::Window> IpcPeers::make_window(std::size_t index) {
  if (index >= IpcBoard::max_windows) {
    throw Error(ErrorKind::internal,
                fmt::format("a call with more than {} windows: this is a bug of shardsolve, please "
                            "report it",
                            IpcBoard::max_windows));
  }
  return std::make_unique<IpcWindow>(*this, index);
}

Bytes IpcPeers::workspace() const {
  return workspace_ ? Bytes{workspace_->data(), workspace_->bytes()} : Bytes{};
}

Bytes IpcPeers::make_workspace(std::int64_t rank, std::size_t bytes) {
  const bool renews = workspace().size < bytes;
  release_.meet(
      renews && workspace_,
      [this, rank](const runtime::host::OneWayCounter& counter, std::uint32_t target,
                   std::int64_t peer) { meet(counter, target, rank, peer, "make_workspace"); },
      [this] { imports_.close(); });
  if (renews) {
    workspace_.reset();
    runtime::Buffer memory = allocate_(bytes);
    place_ = export_memory({memory.data(), bytes});
    place_.stays = true;
    workspace_ = std::move(memory);
  }
  return workspace();
}

/// This rank's queues are idle, and those of others do not wait for its marks any longer: it sets
/// its own counts, and finds those of others there or behind.
void IpcPeers::begin_call(std::int64_t rank) {
  first_ += numbers_of_a_call;
  board_->for_each_slot_of(at(rank), [this](IpcBoard::Slot& slot) {
    std::atomic_ref(slot.passed).store(first_, std::memory_order_relaxed);
    slot.enqueued.reset(first_);
  });
  release_.begin_call(first_);
  for_each_channel([this](Channel& channel) {
    channel.sent = first_;
    channel.received = first_;
  });
}

void IpcPeers::end_call() {
  imports_.close_passing();
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    if (lost(rank)) {
      imports_.close();  // there is no further call
    }
  }
}

/// A process that is gone passes no marks any longer. The call has failed everywhere: what is
/// copied too early is not looked at.
void IpcPeers::give_up() {
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    if (lost(rank)) {
      board_->for_each_slot_of(rank, [this](IpcBoard::Slot& slot) {
        std::atomic_ref(slot.passed).store(first_ + numbers_of_a_call - 1);
      });
    }
  }
}

void IpcPeers::wait(const runtime::host::OneWayCounter& counter, std::uint32_t target, std::int64_t,
                    std::int64_t peer, const char* operation) const {
  processes_.wait(pulses(), counter, target, peer, operation);
}

}  // namespace shardsolve::comm::cuda
