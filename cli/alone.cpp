#include "alone.hpp"

#include "doctor/collect.hpp"
#include "doctor/launch.hpp"
#include "exit_code.hpp"
#include "launch.hpp"
#include "report.hpp"
#include "terminal.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <exception>
#include <new>
#include <string>

namespace shardsolve::cli {
namespace {

int tell_error(const Options& options, ErrorKind kind, const std::string& message) {
  if (options.json) {
    print(stdout, json_failure(options, name(kind), message));
  }
  print_error(message);
  return exit_code(kind, 0);
}

}  // namespace

int run_alone(const Options& options, const std::function<int()>& work) {
  if (doctor::launch_of(doctor::own_environment(), launched_processes()).rank != 0) {
    return exit_ok;
  }
  try {
    return work();
  } catch (const Error& error) {
    return tell_error(options, error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    return tell_error(options, ErrorKind::out_of_memory,
                      "the system has no memory left for it; use a machine with more");
  } catch (const std::exception& error) {
    return tell_error(
        options, ErrorKind::internal,
        fmt::format("{}: this is a bug of shardsolve, please report it", error.what()));
  }
}

}  // namespace shardsolve::cli
