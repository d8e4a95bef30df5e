// A process of a mesh that is killed or stopped in the middle of a call. No launcher is involved,
// which would end the others too: the processes are started here (rank/main.cpp).

#include "support/backend.hpp"
#include "support/files.hpp"
#include "support/tcp_transports.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using ::testing::HasSubstr;

struct Death {
  std::string kind;  // see rank/main.cpp
  std::int64_t ranks;
  std::int64_t victim;
  int signal;
};

std::string name(const Death& death) {
  return fmt::format("{}_{}_ranks_{}_{}", death.kind, death.ranks, death.victim,
                     death.signal == SIGKILL ? "killed" : "stopped");
}

void PrintTo(const Death& death, std::ostream* out) { *out << name(death); }

/// Lies beside the program of this test.
std::string program() {
  return std::filesystem::canonical("/proc/self/exe").replace_filename("shardsolve_test_rank");
}

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

/// The processes of a mesh, each connected to each.
class ProcessDeath : public ::testing::TestWithParam<Death> {
 protected:
  void SetUp() override {
    const std::string kind = GetParam().kind;
    const bool on_gpus = kind == "ipc" || kind == "nccl";
    if (on_gpus && test_gpus().empty()) {
      GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
    }
    if (kind == "nccl" && GetParam().ranks > std::ssize(test_gpus())) {
      GTEST_SKIP() << "NCCL wants a GPU for each process";
    }
    for (std::int64_t rank = 0; on_gpus && rank < GetParam().ranks; ++rank) {
      gpus_.push_back(test_gpus()[static_cast<std::size_t>(rank) % test_gpus().size()]);
    }
    start();
  }

  void start() {
    const auto ranks = static_cast<std::size_t>(GetParam().ranks);
    std::vector<std::vector<comm::tcp::Socket>> ends(ranks);  // closed here when all have started
    for (std::size_t a = 0; a < ranks; ++a) {
      for (std::size_t b = a + 1; b < ranks; ++b) {
        int pair[2] = {-1, -1};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        ends[a].emplace_back(pair[0]);
        ends[b].emplace_back(pair[1]);
      }
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::vector<int> sockets;
      std::vector<std::string> words = {
          program(),
          std::to_string(rank),
          GetParam().kind,
          gpus_.empty() ? "-" : fmt::format("{}", fmt::join(gpus_, ",")),
          std::to_string(GetParam().victim),
          std::to_string(GetParam().signal)};
      for (const comm::tcp::Socket& socket : ends[rank]) {
        sockets.push_back(socket.get());
        words.push_back(std::to_string(socket.get()));
      }
      processes_.push_back(std::make_unique<RankProcess>(words, sockets, output_of(rank)));
    }
  }

  std::string output_of(std::size_t rank) const { return files_ / std::to_string(rank); }

  TemporaryDirectory files_;
  std::vector<int> gpus_;
  std::vector<std::unique_ptr<RankProcess>> processes_;
};

TEST_P(ProcessDeath, InTheMiddleOfACall_IsReportedByTheOthersWhoCanGoOnAlone) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  const std::string victim = fmt::format("rank {}", GetParam().victim);
  for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
    if (static_cast<std::int64_t>(rank) == GetParam().victim) {
      continue;
    }
    EXPECT_EQ(processes_[rank]->finish(deadline), 0) << "rank " << rank;
    const std::string said = read_file(output_of(rank));
    EXPECT_THAT(said, HasSubstr(victim + (GetParam().signal == SIGKILL ? " was closed"
                                                                       : " has been silent")));
    EXPECT_THAT(said, HasSubstr("in time"));
    EXPECT_THAT(said, HasSubstr("next: a rank of this mesh was lost in an earlier call"));
    EXPECT_THAT(said, HasSubstr("alone: solved"));
  }
  if (GetParam().signal == SIGKILL) {
    EXPECT_EQ(processes_[static_cast<std::size_t>(GetParam().victim)]->finish(deadline), -SIGKILL);
  }
}

std::vector<Death> deaths() {
  std::vector<Death> all;
  for (const int signal : {SIGKILL, SIGSTOP}) {
    for (const std::int64_t victim : {0, 2}) {
      for (const char* kind : {"messages", "workspace", "join", "window"}) {
        all.push_back({kind, 3, victim, signal});
      }
    }
    for (const std::int64_t victim : {0, 1}) {
      all.push_back({"ipc", 2, victim, signal});
      all.push_back({"nccl", 2, victim, signal});
    }
    // Somewhere in a call of each family, or between two of them.
    for (const char* kind : {"cpu_solve", "cpu_eigh", "cpu_sparse", "cpu_krylov"}) {
      all.push_back({kind, 2, 1, signal});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Of, ProcessDeath, ::testing::ValuesIn(deaths()),
                         [](const auto& tested) { return name(tested.param); });

}  // namespace
}  // namespace shardsolve::testing
