/// Options that several commands have: how they are added, and how their values are read.
#pragma once

#include "options.hpp"

#include <CLI/CLI.hpp>

#include <initializer_list>
#include <optional>
#include <string>

namespace shardsolve::cli {

/// How --devices is meant: a number of CPU devices, a list of GPUs, of which each process takes one
/// if there are several, or nothing where each process is a CPU device.
struct DeviceList {
  std::string backend = "cpu";
  std::string text;
  std::string mpi = "auto";
  std::string communicator = "auto";
};

/// Values as they were typed, until Verb::take_options has read them.
struct TypedOptions {
  DeviceList devices;
  std::optional<std::string> assume;
  std::string indices;  ///< of eigh, as the next
  std::string range;
  std::string sizes;  ///< of tune and bench, as the two below
  std::string dtypes;
  std::string job;
};

/// A positional argument that names a file.
void add_input(CLI::App& command, const char* name, std::string& path, const char* what);
void add_output(CLI::App& command, Options& options, const char* what, const char* type = "FILE");
void add_devices(CLI::App& command, const Options& options, DeviceList& devices);
void add_json(CLI::App& command, Options& options);
void add_quiet(CLI::App& command, Options& options);
void add_timeout(CLI::App& command, Options& options);
/// A table of tile sizes that is read.
void add_tile_table(CLI::App& command, Options& options);
/// --tile, and the table that it comes from otherwise.
void add_tile(CLI::App& command, Options& options);
/// What all jobs on files share: devices, trace, timeout, --json and --quiet.
void add_run_options(CLI::App& command, Options& options, TypedOptions& typed);
/// The same, with --assume and the tile.
void add_job_options(CLI::App& command, Options& options, TypedOptions& typed);

/// CPU devices without --devices: the cores that this process may run on, at most 8.
std::int64_t default_devices();

/// Whether the processes that a launcher has started do one job together.
bool wants_mpi(const DeviceList& list);
/// These throw CLI::ValidationError.
void take_devices(const DeviceList& list, Options& options);
/// What add_job_options() has added. `accepted`: what the job can assume of A.
void take_job_options(const TypedOptions& typed, Options& options,
                      std::initializer_list<Assume> accepted);
/// Throws Error(invalid_argument) if --in-place is given where all is in place.
void require_general_in_place(const Options& options);
/// Sizes and dtypes of tune and bench.
void take_lists(const TypedOptions& typed, Options& options);
[[noreturn]] void reject(const char* option, const std::string& text, const std::string& accepted);

}  // namespace shardsolve::cli
