#include "comm/tcp/tcp_transport.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace shardsolve::comm::tcp {
namespace {

/// At most so much is read from a connection before the others have their turn.
constexpr std::size_t max_at_a_time = std::size_t{4} << 20U;

bool would_wait(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

std::string text_of(int error) { return std::generic_category().message(error); }

template <class T>
void remove(std::deque<std::shared_ptr<T>>& from, const std::shared_ptr<T>& what) {
  from.erase(std::remove(from.begin(), from.end(), what), from.end());
}

std::byte* at(Bytes bytes, std::size_t offset) {
  return static_cast<std::byte*>(bytes.data) + offset;
}

}  // namespace

class SendMessage final : public Message {
 public:
  SendMessage(TcpTransport& transport, std::int64_t to,
              std::shared_ptr<TcpTransport::Outgoing> message)
      : transport_(transport), to_(to), message_(std::move(message)) {}
  SendMessage(const SendMessage&) = delete;
  SendMessage& operator=(const SendMessage&) = delete;
  /// Its memory may go now: what has begun to travel is finished from a copy.
  ~SendMessage() override {
    const std::lock_guard lock(transport_.mutex_);
    auto& line = transport_.line(to_);
    if (message_->complete || !line.failure.empty()) {
      return;
    }
    if (message_->written == 0) {
      remove(line.outgoing, message_);
      return;
    }
    const auto* data = static_cast<const std::byte*>(message_->data.data);
    message_->kept.assign(data, data + message_->data.size);
    message_->data.data = message_->kept.data();
  }

  bool test() override {
    const std::lock_guard lock(transport_.mutex_);
    if (!message_->complete) {
      transport_.progress();
    }
    if (!message_->complete) {
      TcpTransport::require_whole(transport_.line(to_));
    }
    return message_->complete;
  }
  void give_up() override {}  // of receives only
  bool given_up() const override { return false; }
  std::size_t received() const override { return 0; }

 private:
  TcpTransport& transport_;
  std::int64_t to_;
  std::shared_ptr<TcpTransport::Outgoing> message_;
};

class ReceiveMessage final : public Message {
 public:
  ReceiveMessage(TcpTransport& transport, std::int64_t from,
                 std::shared_ptr<TcpTransport::Incoming> message)
      : transport_(transport), from_(from), message_(std::move(message)) {}
  ReceiveMessage(const ReceiveMessage&) = delete;
  ReceiveMessage& operator=(const ReceiveMessage&) = delete;
  /// Its memory may go now.
  ~ReceiveMessage() override {
    const std::lock_guard lock(transport_.mutex_);
    auto& line = transport_.line(from_);
    remove(line.waiting, message_);
    if (line.into == message_) {
      line.into.reset();
      line.aside.resize(line.header.size);
      line.unwanted = true;
    }
  }

  bool test() override {
    const std::lock_guard lock(transport_.mutex_);
    if (!message_->complete) {
      transport_.progress();
    }
    if (!message_->complete) {
      TcpTransport::require_whole(transport_.line(from_));
    }
    return message_->complete;
  }
  /// One that has begun to arrive does arrive.
  void give_up() override {
    const std::lock_guard lock(transport_.mutex_);
    auto& waiting = transport_.line(from_).waiting;
    if (std::find(waiting.begin(), waiting.end(), message_) != waiting.end()) {
      remove(waiting, message_);
      message_->complete = true;
      message_->given_up = true;
    }
  }
  bool given_up() const override { return message_->given_up; }
  std::size_t received() const override { return message_->received; }

 private:
  TcpTransport& transport_;
  std::int64_t from_;
  std::shared_ptr<TcpTransport::Incoming> message_;
};

TcpTransport::TcpTransport(std::int64_t rank, std::vector<Peer> peers,
                           std::vector<std::int64_t> hosts,
                           std::optional<std::chrono::duration<double>> patience)
    : rank_(rank), hosts_(std::move(hosts)), patience_(patience), lines_(peers.size()) {
  for (std::size_t r = 0; r < peers.size(); ++r) {
    lines_[r].peer = std::move(peers[r]);
  }
}

TcpTransport::~TcpTransport() = default;

std::unique_ptr<Message> TcpTransport::send(std::int64_t to, Channel channel, int tag, Bytes data) {
  const std::lock_guard lock(mutex_);
  Line& line = this->line(to);
  require_whole(line);
  auto message = std::make_shared<Outgoing>();
  message->header = {data.size, tag, static_cast<std::uint32_t>(channel)};
  message->data = data;
  line.outgoing.push_back(message);
  write_some(line);
  return std::make_unique<SendMessage>(*this, to, std::move(message));
}

std::unique_ptr<Message> TcpTransport::receive(std::int64_t from, Channel channel, int tag,
                                               Bytes room) {
  const std::lock_guard lock(mutex_);
  Line& line = this->line(from);
  auto message = std::make_shared<Incoming>();
  message->wanted = {0, tag, static_cast<std::uint32_t>(channel)};
  message->room = room;
  const auto kept = std::find_if(line.kept.begin(), line.kept.end(), [&](const Kept& one) {
    return one.header.same_line(message->wanted);
  });
  if (kept != line.kept.end()) {
    deliver(*kept, *message);
    line.kept.erase(kept);
  } else {
    line.waiting.push_back(message);
  }
  return std::make_unique<ReceiveMessage>(*this, from, std::move(message));
}

std::int64_t TcpTransport::arrived(std::int64_t from, int tag) {
  const std::lock_guard lock(mutex_);
  progress();
  const Line& line = this->line(from);
  const Header wanted{0, tag, static_cast<std::uint32_t>(Channel::data)};
  for (const Kept& one : line.kept) {
    if (one.header.same_line(wanted)) {
      return static_cast<std::int64_t>(one.header.size);
    }
  }
  require_whole(line);
  return -1;
}

void TcpTransport::abandon() {
  const std::lock_guard lock(mutex_);
  for (Line& line : lines_) {
    if (line.peer.socket) {
      ::shutdown(line.peer.socket.get(), SHUT_WR);
    }
  }
}

void TcpTransport::require_whole(const Line& line) {
  if (!line.failure.empty()) {
    throw Error(ErrorKind::communication, line.failure);
  }
}

/// A process that ends closes its connections; those with data that it has not read are reset.
void TcpTransport::lose(Line& line, int error) {
  if (line.failure.empty()) {
    const bool closed = error == ECONNRESET || error == EPIPE;
    line.failure =
        fmt::format("the connection to {} {}", line.peer.name,
                    closed ? "was closed: it has ended, or has given up this mesh after a failure"
                           : fmt::format("is broken: {}", text_of(error)));
  }
}

// ---- moving data; all of this with the lock held

void TcpTransport::progress() {
  std::vector<pollfd> looks;
  std::vector<Line*> looked_at;
  for (Line& line : lines_) {
    if (line.peer.socket && line.failure.empty()) {
      const short out = line.outgoing.empty() ? 0 : POLLOUT;
      looks.push_back({line.peer.socket.get(), static_cast<short>(POLLIN | out), 0});
      looked_at.push_back(&line);
    }
  }
  if (::poll(looks.data(), looks.size(), 0) <= 0) {
    return;
  }
  for (std::size_t i = 0; i < looks.size(); ++i) {
    // What has arrived is read before an error is seen.
    if ((looks[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0) {
      read_some(*looked_at[i]);
    }
    if ((looks[i].revents & POLLOUT) != 0 && looked_at[i]->failure.empty()) {
      write_some(*looked_at[i]);
    }
  }
}

void TcpTransport::write_some(Line& line) {
  while (!line.outgoing.empty()) {
    Outgoing& message = *line.outgoing.front();
    const std::size_t of_header = std::min(message.written, sizeof(Header));
    const std::size_t of_data = message.written - of_header;
    std::array<iovec, 2> parts = {iovec{reinterpret_cast<std::byte*>(&message.header) + of_header,
                                        sizeof(Header) - of_header},
                                  iovec{at(message.data, of_data), message.data.size - of_data}};
    msghdr call{};
    call.msg_iov = parts.data();
    call.msg_iovlen = parts.size();
    const ssize_t written = ::sendmsg(line.peer.socket.get(), &call, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (written < 0) {
      const int error = errno;
      if (!would_wait(error)) {
        read_some(line);  // its last words
        lose(line, error);
      }
      return;
    }
    message.written += static_cast<std::size_t>(written);
    if (message.written < sizeof(Header) + message.data.size) {
      continue;  // until the system takes no more
    }
    message.complete = true;
    line.outgoing.pop_front();
  }
}

void TcpTransport::read_some(Line& line) {
  std::size_t all = 0;
  while (line.failure.empty() && all < max_at_a_time) {
    const std::size_t more = read_more(line);
    if (more == 0) {
      return;
    }
    all += more;
  }
}

/// How many bytes; none if there are no more now.
std::size_t TcpTransport::read_more(Line& line) {
  const bool in_header = line.header_read < sizeof(Header);
  std::byte* to = nullptr;
  std::size_t wanted = 0;
  if (in_header) {
    to = reinterpret_cast<std::byte*>(&line.header) + line.header_read;
    wanted = sizeof(Header) - line.header_read;
  } else {
    to = (line.into ? static_cast<std::byte*>(line.into->room.data) : line.aside.data()) +
         line.body_read;
    wanted = std::min(line.header.size - line.body_read, max_at_a_time);
  }
  const ssize_t got = ::recv(line.peer.socket.get(), to, wanted, MSG_DONTWAIT);
  if (got == 0) {
    lose(line, ECONNRESET);
    return 0;
  }
  if (got < 0) {
    const int error = errno;
    if (!would_wait(error)) {
      lose(line, error);
    }
    return 0;
  }
  if (in_header) {
    line.header_read += static_cast<std::size_t>(got);
    if (line.header_read == sizeof(Header)) {
      begin_body(line);
    }
  } else {
    line.body_read += static_cast<std::size_t>(got);
    if (line.body_read == line.header.size) {
      end_body(line);
    }
  }
  return static_cast<std::size_t>(got);
}

void TcpTransport::begin_body(Line& line) {
  line.body_read = 0;
  const auto found = std::find_if(line.waiting.begin(), line.waiting.end(), [&](const auto& one) {
    return one->wanted.same_line(line.header);
  });
  // What does not fit is of no use; it waits for its receive at the end all the same.
  if (found != line.waiting.end() && line.header.size <= (*found)->room.size) {
    line.into = *found;
    line.waiting.erase(found);
  } else {
    line.aside.resize(line.header.size);
  }
  if (line.header.size == 0) {
    end_body(line);
  }
}

void TcpTransport::end_body(Line& line) {
  line.header_read = 0;
  line.body_read = 0;
  if (line.into) {
    line.into->received = line.header.size;
    line.into->complete = true;
    line.into.reset();
    return;
  }
  Kept message{line.header, std::exchange(line.aside, {})};
  if (std::exchange(line.unwanted, false)) {
    return;
  }
  const auto found = std::find_if(line.waiting.begin(), line.waiting.end(), [&](const auto& one) {
    return one->wanted.same_line(message.header);
  });
  if (found != line.waiting.end()) {
    deliver(message, **found);
    line.waiting.erase(found);
  } else {
    line.kept.push_back(std::move(message));
  }
}

void TcpTransport::deliver(Kept& message, Incoming& to) {
  to.received = message.header.size;
  if (to.received > 0 && to.received <= to.room.size) {
    std::memcpy(to.room.data, message.data.data(), to.received);
  }
  to.complete = true;
}

}  // namespace shardsolve::comm::tcp
