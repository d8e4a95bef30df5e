#include "comm/tcp/lobby.hpp"

#include "core/threads.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <utility>

namespace shardsolve::comm::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t greeting_magic = 0x7368617264736f6c;  // "shardsol"
constexpr char accepted = 'y';
/// Of a greeting that only asks whether somebody is there.
constexpr std::uint64_t no_mesh = 0;
constexpr seconds patience_with_guests(10);
/// A connection that nobody asks for: its call has failed before.
constexpr seconds patience_for_ranks(3600);
constexpr std::size_t max_guests = 128;
/// For one of several addresses, of which some may lead nowhere.
constexpr seconds patience_with_addresses(3);

std::string system_text() { return std::generic_category().message(errno); }

[[noreturn]] void fail(const std::string& text) { throw Error(ErrorKind::communication, text); }

int milliseconds_until(std::chrono::steady_clock::time_point when) {
  const auto left =
      std::chrono::ceil<milliseconds>(when - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
}

/// Waits until the socket is ready; false when the time is over.
bool await_ready(const Socket& socket, short what, std::chrono::steady_clock::time_point until) {
  pollfd look{socket.get(), what, 0};
  for (;;) {
    const int left = milliseconds_until(until);
    if (::poll(&look, 1, left) > 0) {
      return true;
    }
    if (left == 0) {
      return false;
    }
  }
}

std::string first_line(const char* path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

std::uint64_t hash(const std::string& text) {
  std::uint64_t value = 14695981039346656037U;  // FNV-1a
  for (const char c : text) {
    value = (value ^ static_cast<unsigned char>(c)) * 1099511628211U;
  }
  return value;
}

/// The same for processes that reach each other by 127.0.0.1, and for no others.
std::array<std::uint32_t, 2> host_number() {
  std::array<char, 64> network{};
  if (::readlink("/proc/self/ns/net", network.data(), network.size() - 1) < 0) {
    network = {};
  }
  const std::uint64_t number = hash(first_line("/proc/sys/kernel/random/boot_id") + network.data());
  return {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32U)};
}

/// Addresses of this host by which others may reach it.
std::array<std::uint32_t, Address::max_hosts> own_addresses() {
  std::array<std::uint32_t, Address::max_hosts> found{};
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return found;
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, ::freeifaddrs);
  std::size_t count = 0;
  for (const ifaddrs* one = all; one != nullptr && count < found.size(); one = one->ifa_next) {
    const bool usable = one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
                        (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (usable) {
      sockaddr_in address{};
      std::memcpy(&address, one->ifa_addr, sizeof(address));
      found[count++] = address.sin_addr.s_addr;
    }
  }
  return found;
}

sockaddr_in socket_address(std::uint32_t ipv4, std::uint32_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ipv4;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

std::string text_of(std::uint32_t ipv4, std::uint32_t port) {
  std::array<char, INET_ADDRSTRLEN> text{};
  const in_addr address{ipv4};
  ::inet_ntop(AF_INET, &address, text.data(), text.size());
  return fmt::format("{}:{}", text.data(), port);
}

void send_at_once(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

Socket new_socket() {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) {
    fail(fmt::format("the system gives no socket: {}", system_text()));
  }
  return socket;
}

/// Throws Error(communication) that says what went wrong.
Socket try_address(std::uint32_t ipv4, std::uint32_t port, const void* greeting, std::size_t size,
                   std::chrono::steady_clock::time_point until) {
  const std::string where = text_of(ipv4, port);
  Socket socket = new_socket();
  const sockaddr_in address = socket_address(ipv4, port);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
      errno != EINPROGRESS) {
    fail(fmt::format("{} by {}", system_text(), where));
  }
  if (!await_ready(socket, POLLOUT, until)) {
    fail(fmt::format("no answer from {}", where));
  }
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    fail(fmt::format("{} by {}", std::generic_category().message(error), where));
  }
  send_at_once(socket);
  // A new connection takes so much at once.
  if (::send(socket.get(), greeting, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
    fail(fmt::format("{} by {}", system_text(), where));
  }
  char answer = 0;
  if (!await_ready(socket, POLLIN, until) || ::recv(socket.get(), &answer, 1, 0) != 1 ||
      answer != accepted) {
    fail(fmt::format("{} does not let us in", where));
  }
  return socket;
}

std::string name_of(std::int64_t rank, const Address& address) {
  return fmt::format(
      "rank {} (process {} at {})", rank, address.process,
      text_of(address.ipv4[0] != 0 ? address.ipv4[0] : htonl(INADDR_LOOPBACK), address.port));
}

}  // namespace

Lobby::Lobby() : listener_(new_socket()) {
  sockaddr_in address = socket_address(htonl(INADDR_ANY), 0);
  socklen_t length = sizeof(address);
  int ends[2] = {-1, -1};
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(listener_.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      ::pipe2(ends, O_CLOEXEC) != 0) {
    fail(fmt::format("other processes cannot reach this one: {}", system_text()));
  }
  wake_ = {Socket(ends[0]), Socket(ends[1])};
  std::random_device random;
  std::generate(address_.token.begin(), address_.token.end(), [&] { return random(); });
  address_.host = host_number();
  address_.ipv4 = own_addresses();
  address_.port = ntohs(address.sin_port);
  address_.process = static_cast<std::uint32_t>(::getpid());
  try {
    thread_ = std::thread([this] { receive_guests(); });
  } catch (const std::system_error& none) {
    throw core::no_thread_error("connecting the processes of a mesh", none);
  }
}

Lobby::~Lobby() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  const char any = 0;
  [[maybe_unused]] const ssize_t written = ::write(wake_[1].get(), &any, 1);
  thread_.join();
}

// ---- those who call

void Lobby::receive_guests() {
  for (;;) {
    // Who comes when there are many waits outside; poll passes over -1.
    const int door = guests_.size() < max_guests ? listener_.get() : -1;
    std::vector<pollfd> looks = {{wake_[0].get(), POLLIN, 0}, {door, POLLIN, 0}};
    for (const Guest& guest : guests_) {
      looks.push_back({guest.socket.get(), POLLIN, 0});
    }
    ::poll(looks.data(), looks.size(), guests_.empty() ? 60'000 : 1000);
    {
      const std::lock_guard lock(mutex_);
      if (closing_) {
        return;
      }
      const auto old = Clock::now() - patience_for_ranks;
      std::erase_if(arrived_, [&](const auto& one) { return one.second.since < old; });
    }
    guests_.remove_if([this](Guest& guest) { return !listen_to(guest); });
    if (looks[1].revents != 0) {
      welcome();
    }
  }
}

void Lobby::welcome() {
  Socket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) {
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      std::this_thread::sleep_for(milliseconds(100));  // no descriptors: the caller still waits
    }
    return;
  }
  send_at_once(socket);
  guests_.push_back({std::move(socket), {}, 0, Clock::now() + patience_with_guests});
}

/// False when it is not a guest any more.
bool Lobby::listen_to(Guest& guest) {
  const ssize_t got =
      ::recv(guest.socket.get(), reinterpret_cast<std::byte*>(&guest.greeting) + guest.read,
             sizeof(Greeting) - guest.read, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return Clock::now() < guest.until;
  }
  if (got <= 0) {
    return false;
  }
  guest.read += static_cast<std::size_t>(got);
  if (guest.read < sizeof(Greeting)) {
    return true;
  }
  if (guest.greeting.magic == greeting_magic && guest.greeting.token == address_.token) {
    take(guest);
  }
  return false;
}

void Lobby::take(Guest& guest) {
  if (::send(guest.socket.get(), &accepted, 1, MSG_NOSIGNAL) != 1 ||
      guest.greeting.mesh == no_mesh) {
    return;
  }
  const std::lock_guard lock(mutex_);
  const ConnectionKey key{guest.greeting.mesh, guest.greeting.from, guest.greeting.to};
  arrived_[key] = {std::move(guest.socket), Clock::now()};
  changed_.notify_all();
}

// ---- meeting

std::string Lobby::trouble_with(std::int64_t rank, const Address& address,
                                std::chrono::duration<double> limit) const {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  try {
    call(address, {greeting_magic, address.token, no_mesh, rank, rank}, name_of(rank, address),
         deadline);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<TcpTransport> Lobby::connect(const std::vector<Address>& members, std::int64_t rank,
                                             std::uint64_t mesh,
                                             std::chrono::duration<double> limit) {
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
  std::vector<Peer> peers(members.size());
  std::vector<std::int64_t> hosts;
  for (std::size_t r = 0; r < members.size(); ++r) {
    const auto other = static_cast<std::int64_t>(r);
    const Address& address = members[r];
    const auto first = std::find_if(members.begin(), members.end(),
                                    [&](const Address& one) { return one.host == address.host; });
    hosts.push_back(first - members.begin());
    peers[r].name = name_of(other, address);
    if (other < rank) {  // the later rank calls
      peers[r].socket = call(address, {greeting_magic, address.token, mesh, rank, other},
                             peers[r].name, deadline);
    }
  }
  for (auto other = rank + 1; other < static_cast<std::int64_t>(members.size()); ++other) {
    Peer& peer = peers[static_cast<std::size_t>(other)];
    peer.socket = await({mesh, other, rank}, peer.name, deadline);
  }
  return std::make_unique<TcpTransport>(rank, std::move(peers), std::move(hosts), limit);
}

Socket Lobby::call(const Address& address, const Greeting& greeting, const std::string& name,
                   Clock::time_point deadline) const {
  std::vector<std::uint32_t> ways;
  if (address.host == address_.host) {
    ways.push_back(htonl(INADDR_LOOPBACK));
  }
  // Also on the same host: copies of one virtual machine have the same number.
  std::copy_if(address.ipv4.begin(), address.ipv4.end(), std::back_inserter(ways),
               [](std::uint32_t ipv4) { return ipv4 != 0; });
  std::string troubles = ways.empty() ? "its host has no IPv4 address" : "";
  for (const std::uint32_t way : ways) {
    const auto until =
        ways.size() == 1 ? deadline : std::min(deadline, Clock::now() + patience_with_addresses);
    try {
      return try_address(way, address.port, &greeting, sizeof(greeting), until);
    } catch (const Error& error) {
      troubles += fmt::format("{}{}", troubles.empty() ? "" : "; ", error.what());
    }
  }
  fail(
      fmt::format("{} cannot be reached ({}): it has ended, or a firewall keeps connections "
                  "between the processes away",
                  name, troubles));
}

Socket Lobby::await(const ConnectionKey& key, const std::string& name, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline, [&] { return arrived_.contains(key); })) {
    fail(
        fmt::format("{} has not connected in time: it has not come to this call, or a firewall "
                    "keeps connections between the processes away",
                    name));
  }
  Socket socket = std::move(arrived_.at(key).socket);
  arrived_.erase(key);
  return socket;
}

}  // namespace shardsolve::comm::tcp
