/// The options of the commands that measure: tune and bench.
#pragma once

#include "options.hpp"

#include <CLI/CLI.hpp>

#include <string>

namespace shardsolve::cli {

inline constexpr const char* tune_usage = "shardsolve tune [options]";
inline constexpr const char* bench_usage = "shardsolve bench cholesky [options]";

/// Lists as they were typed, until take_measured() has read them.
struct MeasuredLists {
  std::string sizes;
  std::string dtypes;
  std::string job;
};

/// Only what is theirs alone; devices, --tile and so on are added like those of other commands.
CLI::App* add_tune(CLI::App& app, Options& options, MeasuredLists& lists);
CLI::App* add_bench(CLI::App& app, Options& options, MeasuredLists& lists);

/// Throws CLI::ValidationError.
void take_measured(const MeasuredLists& lists, Options& options);

}  // namespace shardsolve::cli
