/// How ranks that have never met get a connection to each other.
#pragma once

#include "comm/tcp/socket.hpp"
#include "comm/tcp/tcp_transport.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace shardsolve::comm::tcp {

/// Where a process can be reached. Who knows its token was told by somebody who may know it.
struct Address {
  static constexpr std::size_t max_hosts = 4;

  std::array<std::uint32_t, 4> token{};
  std::array<std::uint32_t, 2> host{};          ///< the same where 127.0.0.1 is
  std::array<std::uint32_t, max_hosts> ipv4{};  ///< in the order of networks; 0: no more
  std::uint32_t port = 0;
  std::uint32_t process = 0;  ///< its number on its host, for messages

  friend bool operator==(const Address&, const Address&) = default;
};

/// Listens for the other processes of the meshes that this process is part of. Each connection
/// begins with a greeting that names the mesh and both ranks and holds the token of who is called;
/// whoever does not know that is sent away.
class Lobby {
 public:
  /// On all IPv4 addresses of this host, at a port that the system chooses. Throws
  /// Error(communication) if it cannot, Error(device) if the system has no thread to spare.
  Lobby();
  Lobby(const Lobby&) = delete;
  Lobby& operator=(const Lobby&) = delete;
  ~Lobby();

  const Address& address() const { return address_; }

  /// A transport for `rank` among the members of a mesh, each at the address of its process; all of
  /// them call this. `mesh`: a number that no other mesh of these processes has. Throws
  /// Error(communication) that names who has not come within `limit`, which is also the patience of
  /// the transport.
  std::unique_ptr<TcpTransport> connect(const std::vector<Address>& members, std::int64_t rank,
                                        std::uint64_t mesh, std::chrono::duration<double> limit);

  /// Asks the process at `address`, that of a rank, whether it is there. Empty if it answers within
  /// `limit`; else what is wrong, in a sentence that names the rank. Its answer does not depend on
  /// what it is doing: it comes from the thread of its own lobby.
  std::string trouble_with(std::int64_t rank, const Address& address,
                           std::chrono::duration<double> limit) const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Greeting {
    std::uint64_t magic = 0;
    std::array<std::uint32_t, 4> token{};
    std::uint64_t mesh = 0;
    std::int64_t from = 0;
    std::int64_t to = 0;
  };
  /// Somebody who has not greeted yet.
  struct Guest {
    Socket socket;
    Greeting greeting;
    std::size_t read = 0;
    Clock::time_point until;
  };
  /// Mesh, rank that called, rank that is called.
  using ConnectionKey = std::tuple<std::uint64_t, std::int64_t, std::int64_t>;
  struct Arrived {
    Socket socket;
    Clock::time_point since;
  };

  void receive_guests();
  void welcome();
  bool listen_to(Guest& guest);
  void take(Guest& guest);
  Socket call(const Address& address, const Greeting& greeting, const std::string& name,
              Clock::time_point deadline) const;
  Socket await(const ConnectionKey& key, const std::string& name, Clock::time_point deadline);

  Address address_;
  Socket listener_;
  std::array<Socket, 2> wake_;
  std::list<Guest> guests_;  // of the thread alone

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<ConnectionKey, Arrived> arrived_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace shardsolve::comm::tcp
