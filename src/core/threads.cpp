#include "core/threads.hpp"

#include <fmt/format.h>

#include <sys/resource.h>

#include <string>

namespace shardsolve::core {
namespace {

/// What `ulimit -u` shows.
std::string threads_of_a_user() {
  rlimit limits{};
  const bool known = ::getrlimit(RLIMIT_NPROC, &limits) == 0;
  return known && limits.rlim_cur != RLIM_INFINITY ? fmt::format("{}", limits.rlim_cur)
                                                   : "unlimited";
}

}  // namespace

Error no_thread_error(std::string_view purpose, const std::system_error& thrown) {
  return {ErrorKind::device,
          fmt::format("the system starts no further thread ({}), which is needed for {}: use fewer "
                      "devices, end other programs, or raise the limit that is reached, of this "
                      "user (ulimit -u: {}) or of the control group (pids.max, docker "
                      "--pids-limit)",
                      thrown.code().message(), purpose, threads_of_a_user())};
}

}  // namespace shardsolve::core
