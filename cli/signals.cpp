#include "signals.hpp"

#include "core/threads.hpp"
#include "exit_code.hpp"

#include <shardsolve/error.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace shardsolve::cli {
namespace {

constexpr std::array stopping = {SIGINT, SIGTERM, SIGHUP};

// What the handler sees. A handler and a pipe rather than sigwait: threads that the BLAS started
// before main do not block these signals.
std::atomic<int> first_signal{0};
std::atomic<int> write_end{-1};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void take_signal(int signal) {
  if (first_signal.exchange(signal) != 0) {
    ::_exit(exit_signal + signal);
  }
  const int error = errno;
  const char wake = 's';
  [[maybe_unused]] const ::ssize_t written = ::write(write_end.load(), &wake, 1);
  errno = error;
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

Signals::Signals() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorKind::device, "the system has no pipe to spare: too many files are open");
  }
  read_end_ = ends[0];
  write_end.store(ends[1]);
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error& none) {
    ::close(write_end.exchange(-1));
    ::close(read_end_);
    throw core::no_thread_error("noticing signals", none);
  }
  for (const int signal : stopping) {
    if (!is_ignored(signal)) {
      handle(signal, take_signal);
    }
  }
  handle(SIGPIPE, SIG_IGN);
  handle(SIGXFSZ, SIG_IGN);
}

Signals::~Signals() {
  for (const int signal : stopping) {
    if (!is_ignored(signal)) {
      handle(signal, SIG_DFL);
    }
  }
  ::close(write_end.exchange(-1));  // the watcher reads the end of the pipe
  watcher_.join();
  ::close(read_end_);
}

int Signals::received() { return first_signal.load(); }

void Signals::watch() {
  char wake = 0;
  ::ssize_t count = 0;
  do {
    count = ::read(read_end_, &wake, 1);
  } while (count < 0 && errno == EINTR);
  if (count == 1) {
    source_.request_stop();
  }
}

}  // namespace shardsolve::cli
