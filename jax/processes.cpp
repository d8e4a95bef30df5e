#include "jax/processes.hpp"

#include "comm/patience.hpp"
#include "comm/tcp/lobby.hpp"
#include "jax/gang.hpp"
#include "jax/session.hpp"
#include "mesh/cuda_loader.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/process_backend.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/trace.hpp>

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace shardsolve::jax {
namespace {

using Clock = std::chrono::steady_clock;
using comm::Transport;
using comm::tcp::Address;

/// Of rank 0's announcements, beside the notes of a call (tag 0).
constexpr int announcement_tag = 1;

std::atomic<std::uint32_t> meshes_lost{0};
std::atomic<std::uint32_t> tickets_drawn{0};

/// Never destroyed: its thread outlives the end of main.
comm::tcp::Lobby& lobby() {
  static auto& only = *new comm::tcp::Lobby;
  return only;
}

[[noreturn]] void throw_lost() {
  throw Error(ErrorKind::communication,
              "a rank of this mesh was lost in an earlier call: calls that begin now use new "
              "connections");
}

std::vector<Address> addresses_of(const Invitations& all) {
  std::vector<Address> addresses;
  for (const Invitation& one : all) {
    addresses.push_back(one.address);
  }
  return addresses;
}

/// Equal for equal ranks, one by one: the process, and which GPU of it.
using Members = std::vector<std::uint32_t>;
/// How many meshes each rank's process had lost: a new mesh wherever one has lost any.
using Epochs = std::vector<std::uint32_t>;

Members members_of(const Invitations& all) {
  Members members;
  for (const Invitation& one : all) {
    members.insert(members.end(), one.address.token.begin(), one.address.token.end());
    members.push_back(static_cast<std::uint32_t>(one.gpu));
  }
  return members;
}

Epochs epochs_of(const Invitations& all) {
  Epochs epochs;
  for (const Invitation& one : all) {
    epochs.push_back(one.epoch);
  }
  return epochs;
}

std::uint64_t mesh_number(const Members& members, const Epochs& epochs) {
  std::uint64_t value = 14695981039346656037U;  // FNV-1a
  for (const auto* words : {&members, &epochs}) {
    for (const std::uint32_t word : *words) {
      value = (value ^ word) * 1099511628211U;
    }
  }
  return value;
}

/// Of the device that this rank is.
std::unique_ptr<mesh::Backend> make_backend(std::unique_ptr<Transport> transport,
                                            std::int32_t gpu) {
  if (gpu == Invitation::cpu) {
    return std::make_unique<mesh::ProcessBackend>(std::move(transport));
  }
  return mesh::make_cuda_process_backend(std::move(transport), {.delays = {}, .device = gpu});
}

}  // namespace

/// One rank of a mesh that other processes have ranks of, and whose turn it is there.
class ProcessRank {
 public:
  ProcessRank(const Invitations& all, std::int64_t rank)
      : ProcessRank(lobby().connect(addresses_of(all), rank,
                                    mesh_number(members_of(all), epochs_of(all)), time_limit()),
                    all[static_cast<std::size_t>(rank)].gpu) {}

  Mesh& mesh() { return mesh_; }
  std::int64_t rank() const { return transport_.rank(); }

  /// Until it is this call's turn.
  void begin(std::uint32_t ticket) {
    std::unique_lock lock(mutex_);
    try {
      rank() == 0 ? announce(lock, ticket) : await(lock, ticket);
    } catch (const Error&) {
      lose();
      throw;
    }
    busy_ = true;
    next_.reset();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    if (mesh_.state().broken()) {
      lose();
    }
    changed_.notify_all();
  }
  bool lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }

 private:
  ProcessRank(std::unique_ptr<Transport> transport, std::int32_t gpu)
      : transport_(*transport),
        mesh_(mesh::MeshState::start(make_backend(std::move(transport), gpu))) {}

  void announce(std::unique_lock<std::mutex>& lock, std::uint32_t ticket) {
    changed_.wait(lock, [this] { return lost_ || !busy_; });
    require_whole();
    announced_ = ticket;
    std::vector<std::unique_ptr<comm::Message>> messages;
    for (std::int64_t to = 1; to < transport_.ranks(); ++to) {
      messages.push_back(transport_.send(to, Transport::Channel::control, announcement_tag,
                                         {&announced_, sizeof(announced_)}));
    }
    const Clock::time_point deadline = deadline_from_now();
    for (const auto& message : messages) {
      if (!wait_for(*message, deadline)) {
        throw Error(ErrorKind::communication, "another process of this call takes no messages");
      }
    }
  }

  void await(std::unique_lock<std::mutex>& lock, std::uint32_t ticket) {
    for (;;) {
      require_whole();
      if (!busy_ && next_ == ticket) {
        return;
      }
      if (!busy_ && !next_ && !listening_) {
        listening_ = true;
        lock.unlock();
        std::exception_ptr failure;
        std::optional<std::uint32_t> heard;
        try {
          heard = listen();
        } catch (...) {
          failure = std::current_exception();
        }
        lock.lock();
        listening_ = false;
        next_ = heard;
        changed_.notify_all();
        if (failure) {
          std::rethrow_exception(failure);
        }
        continue;
      }
      // What runs is watched by itself. What was announced has to come.
      const auto before = next_;
      if (changed_.wait_for(lock, time_limit()) == std::cv_status::timeout && !busy_ &&
          !listening_ && next_ == before) {
        throw Error(ErrorKind::communication,
                    fmt::format("rank 0 has begun a call that has not come to rank {} in time: "
                                "every process has to run the same program",
                                rank()));
      }
    }
  }

  /// The next ticket that rank 0 announces.
  std::uint32_t listen() {
    std::uint32_t ticket = 0;
    const auto message = transport_.receive(0, Transport::Channel::control, announcement_tag,
                                            {&ticket, sizeof(ticket)});
    if (!wait_for(*message, deadline_from_now())) {
      throw Error(ErrorKind::communication,
                  fmt::format("rank 0 has not begun this call in time; rank {} waits for it. Every "
                              "process has to run the same program; see shardsolve.set_timeout for "
                              "the limit",
                              rank()));
    }
    return ticket;
  }

  static Clock::time_point deadline_from_now() {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(time_limit());
  }
  static bool wait_for(comm::Message& message, Clock::time_point deadline) {
    for (comm::Patience patience; !message.test(); patience.pause()) {
      if (Clock::now() > deadline) {
        return false;
      }
    }
    return true;
  }

  void require_whole() const {
    if (lost_) {
      throw_lost();
    }
  }
  /// With the lock held.
  void lose() {
    if (!std::exchange(lost_, true)) {
      ++meshes_lost;
      transport_.abandon();
      changed_.notify_all();
    }
  }

  Transport& transport_;  // of the mesh
  Mesh mesh_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool busy_ = false;                  // a call has its turn
  bool listening_ = false;             // a call listens for all of them
  std::optional<std::uint32_t> next_;  // announced, and not begun yet
  std::uint32_t announced_ = 0;
  bool lost_ = false;
};

namespace {

/// The ranks of this process on all of its meshes.
class ProcessRanks {
 public:
  std::shared_ptr<ProcessRank> of(const Invitations& all, std::int64_t rank) {
    const std::shared_ptr<RankSlot> slot = slot_of(all, rank);
    const std::lock_guard lock(slot->mutex);
    if (slot->rank && slot->rank->lost()) {
      leave(*slot);
    }
    if (slot->left) {
      throw_lost();
    }
    if (!slot->rank) {
      try {
        slot->rank = std::make_shared<ProcessRank>(all, rank);
      } catch (...) {
        ++meshes_lost;
        leave(*slot);
        throw;
      }
    }
    return slot->rank;
  }

 private:
  struct RankSlot {
    std::mutex mutex;
    std::shared_ptr<ProcessRank> rank;  // null: not made yet, or left
    bool left = false;                  // for good
  };

  static void leave(RankSlot& slot) {
    slot.left = true;
    slot.rank.reset();
  }

  std::shared_ptr<RankSlot> slot_of(const Invitations& all, std::int64_t rank) {
    const std::lock_guard lock(mutex_);
    auto& slots = slots_[{members_of(all), rank}];
    std::shared_ptr<RankSlot>& slot = slots[epochs_of(all)];
    if (!slot) {
      // Nobody will come to the earlier ones again.
      for (auto& [epochs, earlier] : slots) {
        if (earlier && earlier->mutex.try_lock()) {
          leave(*earlier);
          earlier->mutex.unlock();
        }
      }
      slot = std::make_shared<RankSlot>();
    }
    return slot;
  }

  std::mutex mutex_;  // guards the map
  std::map<std::pair<Members, std::int64_t>, std::map<Epochs, std::shared_ptr<RankSlot>>> slots_;
};

}  // namespace

std::string trouble_with(std::int64_t rank, const Address& address) {
  return lobby().trouble_with(rank, address, time_limit());
}

Invitation invite(const Job& job) {
  Invitation own{.version = version_number(),
                 .address = lobby().address(),
                 .epoch = meshes_lost,
                 .ticket = tickets_drawn++};
  own.set(job);
  return own;
}

Turn::Turn(std::shared_ptr<ProcessRank> rank, std::uint32_t ticket, bool watched)
    : rank_(std::move(rank)) {
  rank_->begin(ticket);
  run.silence_limit = time_limit();
  if (!watched) {
    return;
  }
  Watching watching = [this] {
    try {
      return watch_call(rank_->rank() == 0);
    } catch (...) {
      rank_->end();
      throw;
    }
  }();
  run = std::move(watching.run);
  own_trace_ = std::move(watching.own_trace);
  tracing_ = std::move(watching.tracing);
}
Turn::Turn(Turn&&) noexcept = default;
Turn::~Turn() {
  if (rank_) {
    rank_->end();
  }
}

Mesh& Turn::mesh() const { return rank_->mesh(); }

Turn take_turn(const Invitations& all, std::int64_t rank, bool watched) {
  if (const std::string text = difference(all); !text.empty()) {
    throw Error(ErrorKind::invalid_argument, text);
  }
  static auto& ranks = *new ProcessRanks;
  return {ranks.of(all, rank), all.front().ticket, watched};
}

}  // namespace shardsolve::jax
