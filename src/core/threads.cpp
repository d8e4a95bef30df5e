#include "core/threads.hpp"

#include <fmt/format.h>

#include <sys/resource.h>

#include <string>

namespace shardsolve::core {
namespace {

/// What `ulimit` shows.
std::string limit_of(decltype(RLIMIT_NPROC) resource, rlim_t unit) {
  rlimit limits{};
  const bool known = ::getrlimit(resource, &limits) == 0;
  return known && limits.rlim_cur != RLIM_INFINITY ? fmt::format("{}", limits.rlim_cur / unit)
                                                   : "unlimited";
}

}  // namespace

Error no_thread_error(std::string_view purpose, const std::system_error& thrown) {
  return {ErrorKind::device,
          fmt::format("the system starts no further thread ({}), which is needed for {}: use fewer "
                      "devices, end other programs, or raise the limit that is reached, of this "
                      "user (ulimit -u: {}), of the control group (pids.max, docker --pids-limit) "
                      "or of addresses (ulimit -v: {})",
                      thrown.code().message(), purpose, limit_of(RLIMIT_NPROC, 1),
                      limit_of(RLIMIT_AS, 1024))};
}

}  // namespace shardsolve::core
