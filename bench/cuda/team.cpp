#include "bench/cuda/team.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace shardsolve::bench {
namespace {

void require(bool success, const char* what) {
  if (!success) {
    throw Error(ErrorKind::communication, fmt::format("{}: {}", what, std::strerror(errno)));
  }
}

void write_all(int file, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t written = write(file, bytes, size);
    require(written > 0, "writing to another process of the team");
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
}

/// False at the end of the file.
bool read_all(int file, char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t got = read(file, bytes, size);
    require(got >= 0, "reading from the leader of the team");
    if (got == 0) {
      return false;
    }
    bytes += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

Team::Team(int size) : size_(size) {
  // A process of the team that has ended shows as an error of write().
  std::signal(SIGPIPE, SIG_IGN);
  for (int rank = 1; rank < size; ++rank) {
    std::array<int, 2> ends{};
    require(pipe(ends.data()) == 0, "making a pipe");
    const pid_t child = fork();
    require(child >= 0, "starting a process");
    if (child > 0) {
      close(ends[0]);
      to_others_.push_back(ends[1]);
      others_.push_back(child);
      continue;
    }
    rank_ = rank;
    from_leader_ = ends[0];
    close(ends[1]);
    for (const int other : to_others_) {
      close(other);
    }
    to_others_.clear();
    others_.clear();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Only the leader answers requests.
    dup2(STDERR_FILENO, STDOUT_FILENO);
    close(STDIN_FILENO);
    return;
  }
}

Team::~Team() {
  dismiss();
  if (from_leader_ >= 0) {
    close(from_leader_);
  }
  for (const pid_t other : others_) {
    waitpid(other, nullptr, 0);
  }
}

void Team::dismiss() {
  for (const int file : to_others_) {
    close(file);
  }
  to_others_.clear();
}

void Team::tell(const std::string& line) {
  for (const int file : to_others_) {
    const std::size_t size = line.size();
    write_all(file, reinterpret_cast<const char*>(&size), sizeof size);
    write_all(file, line.data(), size);
  }
}

bool Team::hear(std::string& line) {
  std::size_t size = 0;
  if (!read_all(from_leader_, reinterpret_cast<char*>(&size), sizeof size)) {
    return false;
  }
  line.resize(size);
  return read_all(from_leader_, line.data(), size);
}

void Team::share(void* bytes, std::size_t size) {
  if (leads()) {
    tell(std::string(static_cast<const char*>(bytes), size));
    return;
  }
  std::string line;
  if (!hear(line) || line.size() != size) {
    throw Error(ErrorKind::communication, "the leader of the team has ended");
  }
  std::memcpy(bytes, line.data(), size);
}

}  // namespace shardsolve::bench
