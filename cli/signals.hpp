/// SIGINT and its like become a request to stop.
#pragma once

#include <stop_token>
#include <thread>

namespace shardsolve::cli {

/// While it lives: the first SIGINT, SIGTERM or SIGHUP requests a stop, a second one ends the
/// process at once. Signals that were ignored when the process started (nohup, background jobs)
/// stay ignored. SIGPIPE and SIGXFSZ are ignored from then on, so that the call that met them
/// reports an error. One object at a time.
class Signals {
 public:
  /// Throws Error(device) if the system has no pipe or thread to spare.
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  /// Callbacks run on a thread of this object, not in a signal handler.
  std::stop_token token() const { return source_.get_token(); }
  /// Number of the first signal, 0 if there was none.
  static int received();

 private:
  void watch();

  std::stop_source source_;
  int read_end_ = -1;
  std::thread watcher_;
};

}  // namespace shardsolve::cli
