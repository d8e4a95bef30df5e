#include "program.hpp"

#include "text.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>

extern char** environ;

namespace shardsolve::cli::doctor {
namespace {

/// What can be read until the end, or until the time has come. Whether it was the end.
bool read_all(int descriptor, std::chrono::steady_clock::time_point deadline, std::string& text) {
  std::array<char, 4096> piece{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd readable{descriptor, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) == 0) {
      return false;
    }
    const ssize_t count = ::read(descriptor, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return true;
    }
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

/// Starts it with its standard output going to `out`. Returns 0 or the error.
int start(const std::vector<std::string>& arguments, int out, pid_t& child) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  const int error = ::posix_spawn(&child, argv.front(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

std::string find_program(const std::string& name, const std::string& path) {
  for (const std::string& directory : split(path, ':')) {
    const std::filesystem::path file =
        (directory.empty() ? std::filesystem::path(".") : std::filesystem::path(directory)) / name;
    std::error_code error;
    if (std::filesystem::is_regular_file(file, error) && ::access(file.c_str(), X_OK) == 0) {
      return file.string();
    }
  }
  return "";
}

ProgramAnswer ask_program(const std::vector<std::string>& arguments, std::chrono::seconds limit) {
  ProgramAnswer answer;
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    answer.failure = std::strerror(errno);
    return answer;
  }
  pid_t child = 0;
  const int error = start(arguments, pipe[1], child);
  ::close(pipe[1]);
  if (error != 0) {
    answer.failure = std::strerror(error);
    ::close(pipe[0]);
    return answer;
  }
  const bool ended = read_all(pipe[0], std::chrono::steady_clock::now() + limit, answer.out);
  ::close(pipe[0]);
  if (!ended) {
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) {
    answer.failure = fmt::format("it gave no answer in {} s", limit.count());
  } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    answer.failure = WIFEXITED(status) ? fmt::format("it ended with {}", WEXITSTATUS(status))
                                       : fmt::format("it ended by signal {}", WTERMSIG(status));
  }
  return answer;
}

}  // namespace shardsolve::cli::doctor
