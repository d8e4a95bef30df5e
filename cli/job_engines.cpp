// `shardsolve bench cholesky --engines`: the comparison is a program of the source tree's, as it
// starts others, among them ScaLAPACK's.

#include "exit_code.hpp"
#include "jobs.hpp"
#include "terminal.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace shardsolve::cli {

int engines_job(const Options& options) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    print_error(
        fmt::format("--engines: this program does not find itself (/proc/self/exe: {}): run "
                    "'make bench-engines' in the source tree",
                    error.message()));
    return exit_environment;
  }
  std::vector<std::string> words = {(self.parent_path() / "bench" / "engines").string()};
  if (!options.sizes.empty()) {
    words.emplace_back("--n");
    for (const std::int64_t n : options.sizes) {
      words.push_back(std::to_string(n));
    }
  }
  if (options.devices_chosen) {
    words.insert(words.end(), {"--ranks", std::to_string(options.devices)});
  }
  words.insert(words.end(), {"--runs", std::to_string(options.runs)});
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  ::execv(arguments.front(), arguments.data());
  print_error(
      fmt::format("--engines: '{}' does not start: {}. It is part of a build with benchmarks "
                  "(cmake -DSHARDSOLVE_BUILD_BENCH=ON) and not installed: run 'make "
                  "bench-engines' in the source tree",
                  words.front(), std::strerror(errno)));
  return exit_environment;
}

}  // namespace shardsolve::cli
