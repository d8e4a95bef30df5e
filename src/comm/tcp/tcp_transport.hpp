/// Messages by stream sockets.
#pragma once

#include "comm/tcp/socket.hpp"
#include "comm/transport.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::comm::tcp {

/// The other end of a connection. `name` is for messages: "rank 2 (process 4711 on node7)".
struct Peer {
  Socket socket;
  std::string name;
};

/// One connection to each other rank. Data moves while messages are tested, in either direction: a
/// message goes straight to the room of the receive that waits for it, and is kept aside if none
/// does. A message that is sent is complete when the system has taken it over.
class TcpTransport final : public Transport {
 public:
  /// `peers`: of all ranks, with connected stream sockets; without one at the place of `rank`. The
  /// same `hosts` on all ranks, see Transport.
  TcpTransport(std::int64_t rank, std::vector<Peer> peers, std::vector<std::int64_t> hosts,
               std::optional<std::chrono::duration<double>> patience = std::nullopt);
  TcpTransport(const TcpTransport&) = delete;
  TcpTransport& operator=(const TcpTransport&) = delete;
  /// Its messages are gone before it is. Closes the connections.
  ~TcpTransport() override;

  std::int64_t ranks() const override { return static_cast<std::int64_t>(lines_.size()); }
  std::int64_t rank() const override { return rank_; }
  const std::vector<std::int64_t>& hosts() const override { return hosts_; }
  std::optional<std::chrono::duration<double>> patience() const override { return patience_; }

  std::unique_ptr<Message> send(std::int64_t to, Channel channel, int tag, Bytes data) override;
  std::unique_ptr<Message> receive(std::int64_t from, Channel channel, int tag,
                                   Bytes room) override;
  std::int64_t arrived(std::int64_t from, int tag) override;
  /// Tells the others that nothing more will come.
  void abandon() override;

 private:
  friend class SendMessage;
  friend class ReceiveMessage;

  /// Goes in front of each message.
  struct Header {
    std::uint64_t size = 0;
    std::int32_t tag = 0;
    std::uint32_t channel = 0;

    bool same_line(const Header& other) const {
      return tag == other.tag && channel == other.channel;
    }
  };
  struct Outgoing {
    Header header;
    Bytes data;
    std::size_t written = 0;      // of both
    std::vector<std::byte> kept;  // what is left to write of a message that nobody waits for
    bool complete = false;
  };
  struct Incoming {
    Header wanted;
    Bytes room;
    bool complete = false;
    bool given_up = false;
    std::size_t received = 0;
  };
  /// A message that is here and that no receive waited for.
  struct Kept {
    Header header;
    std::vector<std::byte> data;
  };
  /// One connection. The message that is being read goes to `into`, or to `aside`.
  struct Line {
    Peer peer;
    std::string failure;  // not empty: nothing moves any more
    std::deque<std::shared_ptr<Outgoing>> outgoing;
    std::deque<std::shared_ptr<Incoming>> waiting;
    std::deque<Kept> kept;

    Header header;
    std::size_t header_read = 0;
    std::size_t body_read = 0;
    std::shared_ptr<Incoming> into;
    std::vector<std::byte> aside;
    bool unwanted = false;  // who waited for what is being read has gone
  };

  Line& line(std::int64_t rank) { return lines_[static_cast<std::size_t>(rank)]; }
  void progress();
  void write_some(Line& line);
  void read_some(Line& line);
  std::size_t read_more(Line& line);
  void begin_body(Line& line);
  void end_body(Line& line);
  static void lose(Line& line, int error);
  static void require_whole(const Line& line);
  static void deliver(Kept& message, Incoming& to);

  std::int64_t rank_;
  std::vector<std::int64_t> hosts_;
  std::optional<std::chrono::duration<double>> patience_;
  std::mutex mutex_;  // guards what follows
  std::vector<Line> lines_;
};

}  // namespace shardsolve::comm::tcp
