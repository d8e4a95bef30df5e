/// How bytes get from one process of a mesh to another. Implemented by libraries of their own.
#pragma once

#include "comm/communicator.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace shardsolve::comm {

/// A message that is being sent or received. Its memory stays in use until it is complete.
class Message {
 public:
  virtual ~Message() = default;

  /// Whether it is complete; never waits. Each look also helps all other messages along.
  /// Throws Error(communication) if it cannot arrive.
  virtual bool test() = 0;
  /// Of a receive: asks for it to be given up. It completes all the same, soon, and `given_up` says
  /// which of the two has happened.
  virtual void give_up() = 0;
  /// Of a complete receive.
  virtual bool given_up() const = 0;
  virtual std::size_t received() const = 0;
};

/// The processes, one rank each. Any thread may call it, also several at once. Messages from one
/// rank to another with the same channel and tag arrive in the order in which they were sent. What
/// it cannot do it throws as Error(communication).
class Transport {
 public:
  enum class Channel : std::uint8_t { data, control };

  virtual ~Transport() = default;

  virtual std::int64_t ranks() const = 0;
  virtual std::int64_t rank() const = 0;
  /// The host of each rank, by any number: processes with the same one share its memory. The same
  /// on all ranks.
  virtual const std::vector<std::int64_t>& hosts() const = 0;
  /// How long ranks wait for each other outside of calls, where no notes say who is there.
  virtual std::optional<std::chrono::duration<double>> patience() const { return std::nullopt; }

  /// Tags are below `tags`.
  static constexpr int tags = 1 << 14;
  virtual std::unique_ptr<Message> send(std::int64_t to, Channel channel, int tag, Bytes data) = 0;
  /// `room` may be larger than the message. Of a message that is larger than `room` nothing is of
  /// use: received() says so, as it is then larger than `room`.
  virtual std::unique_ptr<Message> receive(std::int64_t from, Channel channel, int tag,
                                           Bytes room) = 0;
  /// Bytes of a data message that has arrived and that no receive waits for; -1 if there is none.
  virtual std::int64_t arrived(std::int64_t from, int tag) = 0;
  /// From now on the transport's end waits for no message: some may be on their way that never
  /// complete.
  virtual void abandon() = 0;
};

}  // namespace shardsolve::comm
