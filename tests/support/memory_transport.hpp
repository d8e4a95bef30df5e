/// A transport between "processes" that are threads of one: what is made of processes can then be
/// tested where no MPI is, and under sanitizers.
#pragma once

#include "comm/transport.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <tuple>
#include <vector>

namespace shardsolve::testing {

/// Where ranks say that they are: those of one host share memory.
enum class Hosts : std::uint8_t { one, one_each };

/// The host of each rank, as a transport has it.
inline std::vector<std::int64_t> numbers(Hosts hosts, std::int64_t ranks) {
  std::vector<std::int64_t> of_rank(static_cast<std::size_t>(ranks), 0);
  if (hosts == Hosts::one_each) {
    std::iota(of_rank.begin(), of_rank.end(), 0);
  }
  return of_rank;
}

/// Where the messages of all ranks lie until they are taken.
class MemoryPost {
 public:
  /// A message of up to `eager` bytes is complete for its sender at once, a larger one when it is
  /// taken: MPI's eager and rendezvous protocols.
  MemoryPost(std::int64_t ranks, std::size_t eager, Hosts hosts = Hosts::one_each)
      : ranks_(ranks), eager_(eager), hosts_(hosts) {}

  std::int64_t ranks() const { return ranks_; }
  std::vector<std::int64_t> hosts() const { return numbers(hosts_, ranks_); }
  /// Whether nothing is on its way or awaited, and no message ever went away before it was
  /// complete: MPI would go on using its memory.
  bool in_good_order() const {
    const std::lock_guard lock(mutex_);
    return waiting_.empty() && !dropped_;
  }

 private:
  friend class MemoryMessage;
  friend class MemoryTransport;

  /// From, to, channel, tag.
  using Line = std::tuple<std::int64_t, std::int64_t, comm::Transport::Channel, int>;
  /// One end of a message.
  struct End {
    comm::Bytes memory;
    std::vector<std::byte> copy;  // of an eager message
    bool complete = false;
    bool given_up = false;
    std::size_t received = 0;
  };
  /// Ends that wait for their other one; only one of the two is not empty.
  struct Waiting {
    std::deque<std::shared_ptr<End>> sends;
    std::deque<std::shared_ptr<End>> receives;
  };

  static void deliver(End& send, End& receive);
  void forget_if_empty(const Line& line);
  /// Takes an end out that waits.
  void withdraw(const Line& line, const std::shared_ptr<End>& end);

  std::int64_t ranks_;
  std::size_t eager_;
  Hosts hosts_;
  mutable std::mutex mutex_;
  std::map<Line, Waiting> waiting_;
  bool dropped_ = false;
};

/// One rank's end.
class MemoryTransport final : public comm::Transport {
 public:
  MemoryTransport(std::shared_ptr<MemoryPost> post, std::int64_t rank)
      : post_(std::move(post)), rank_(rank), hosts_(post_->hosts()) {}

  std::int64_t ranks() const override { return post_->ranks(); }
  std::int64_t rank() const override { return rank_; }
  const std::vector<std::int64_t>& hosts() const override { return hosts_; }

  std::unique_ptr<comm::Message> send(std::int64_t to, Channel channel, int tag,
                                      comm::Bytes data) override;
  std::unique_ptr<comm::Message> receive(std::int64_t from, Channel channel, int tag,
                                         comm::Bytes room) override;
  std::int64_t arrived(std::int64_t from, int tag) override;
  void abandon() override {}

 private:
  std::shared_ptr<MemoryPost> post_;
  std::int64_t rank_;
  std::vector<std::int64_t> hosts_;
};

}  // namespace shardsolve::testing
