/// Processes of a mesh, started by a test: rank/main.cpp says what they can do.
#pragma once

#include "tests/support/backend.hpp"
#include "tests/support/files.hpp"
#include "tests/support/tcp_transports.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::testing {

/// One process of the mesh; ended at the latest with this.
class RankProcess {
 public:
  /// `sockets`: to each other rank, which the process inherits.
  RankProcess(const std::vector<std::string>& words, const std::vector<int>& sockets,
              const std::string& output) {
    std::vector<std::string> copies = words;
    std::vector<char*> arguments;
    for (std::string& word : copies) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions{};
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT,
                                       0600);
    for (const int socket : sockets) {
      ::posix_spawn_file_actions_adddup2(&actions, socket, socket);  // no longer closed by exec
    }
    const int failed =
        ::posix_spawn(&pid_, words.front().c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
      throw std::runtime_error("no process for " + words.front());
    }
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    if (!ended_) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  /// Exit code, or minus the signal that ended it; -1000 if it goes on beyond the deadline.
  int finish(std::chrono::steady_clock::time_point deadline) {
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) {
        return -1000;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
};

/// The GPUs that so many ranks take in turn, with commas.
inline std::string gpus_in_turn(std::int64_t ranks) {
  std::string all;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::size_t turn = static_cast<std::size_t>(rank) % test_gpus().size();
    all += (rank == 0 ? "" : ",") + std::to_string(test_gpus()[turn]);
  }
  return all;
}

/// Each connected to each.
class RankProcesses {
 public:
  /// `words`: the program's arguments between the rank and the sockets.
  RankProcesses(std::int64_t ranks, const std::vector<std::string>& words) {
    const auto count = static_cast<std::size_t>(ranks);
    std::vector<std::vector<comm::tcp::Socket>> ends(count);  // closed here when all have started
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = a + 1; b < count; ++b) {
        int pair[2] = {-1, -1};
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
          throw std::runtime_error("no pair of sockets");
        }
        ends[a].emplace_back(pair[0]);
        ends[b].emplace_back(pair[1]);
      }
    }
    // Lies beside the program of this test.
    const std::string program =
        std::filesystem::canonical("/proc/self/exe").replace_filename("shardsolve_test_rank");
    for (std::size_t rank = 0; rank < count; ++rank) {
      std::vector<std::string> of_rank = {program, std::to_string(rank)};
      of_rank.insert(of_rank.end(), words.begin(), words.end());
      std::vector<int> sockets;
      for (const comm::tcp::Socket& socket : ends[rank]) {
        sockets.push_back(socket.get());
        of_rank.push_back(std::to_string(socket.get()));
      }
      processes_.push_back(std::make_unique<RankProcess>(of_rank, sockets, file_of(rank)));
    }
  }

  /// Exit code, or minus the signal that ended it; -1000 if it goes on beyond the deadline.
  int finish(std::int64_t rank, std::chrono::steady_clock::time_point deadline) {
    return processes_[static_cast<std::size_t>(rank)]->finish(deadline);
  }
  /// What it has said.
  std::string output(std::int64_t rank) const {
    return read_file(file_of(static_cast<std::size_t>(rank)));
  }

 private:
  std::string file_of(std::size_t rank) const { return files_ / std::to_string(rank); }

  TemporaryDirectory files_;
  std::vector<std::unique_ptr<RankProcess>> processes_;
};

}  // namespace shardsolve::testing
