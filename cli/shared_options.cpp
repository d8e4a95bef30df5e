#include "shared_options.hpp"

#include "launch.hpp"
#include "option_values.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

#include <sched.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>

namespace shardsolve::cli {
namespace {

void take_cpu_devices(const std::string& text, Options& options) {
  const auto count = to_whole_number(text, 1, Mesh::max_host_ranks);
  if (!count) {
    reject("--devices", text,
           fmt::format("1 to {} CPU devices are accepted, in digits; more than the machine has "
                       "cores gain no speed",
                       Mesh::max_host_ranks));
  }
  options.devices = *count;
}

void take_gpus(const std::string& text, Options& options) {
  for (const std::string& part : parts_of(text)) {
    const auto number = to_whole_number(part, 0, 1023);
    if (!number) {
      reject("--devices", text,
             "with --backend cuda the numbers of GPUs are accepted: 0 or 0,1,2,3");
    }
    if (std::find(options.gpus.begin(), options.gpus.end(), *number) != options.gpus.end()) {
      reject("--devices", text,
             fmt::format("GPU {} is there twice: each one is one device", *number));
    }
    options.gpus.push_back(static_cast<int>(*number));
  }
  options.devices = static_cast<std::int64_t>(options.gpus.size());
}

void take_processes(const DeviceList& list, Options& options) {
  if (list.backend == "cuda") {
    if (!list.text.empty()) {
      take_gpus(list.text, options);
    }
    options.backend = Backend::cuda;
    return;
  }
  if (!list.text.empty()) {
    reject("--devices", list.text,
           "each of the processes is one device: leave it out; --mpi off makes each process work "
           "on its own");
  }
}

void take_communicator(const DeviceList& list, Options& options) {
  if (list.communicator == "auto") {
    return;
  }
  if (!options.mpi || options.backend != Backend::cuda) {
    reject("--communicator", list.communicator,
           "it is for GPUs of several processes (--backend cuda, mpirun or srun): leave it out");
  }
  options.communicator = list.communicator == "ipc" ? GpuCommunicator::ipc : GpuCommunicator::nccl;
}

Dtype dtype_of_text(const std::string& text) {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128}) {
    if (name(dtype) == text) {
      return dtype;
    }
  }
  reject("--dtype", text, "float32, float64, complex64 and complex128 are accepted");
}

/// What is assumed of A, by its name.
Assume assumption(const std::string& text, std::initializer_list<Assume> accepted) {
  constexpr std::pair<std::string_view, Assume> named[] = {{"pos", Assume::positive_definite},
                                                           {"gen", Assume::general}};
  for (const auto& [name, assume] : named) {
    if (text == name && std::find(accepted.begin(), accepted.end(), assume) != accepted.end()) {
      return assume;
    }
  }
  const bool takes_general =
      std::find(accepted.begin(), accepted.end(), Assume::general) != accepted.end();
  reject("--assume", text,
         takes_general
             ? "pos and gen are accepted: A is Hermitian positive definite, the default, or general"
             : "pos is accepted: A is Hermitian positive definite. That is the default: leave it "
               "out");
}

/// What is told while a job on files runs, and at its end.
void add_telling(CLI::App& command, Options& options) {
  command
      .add_option("--trace", options.trace,
                  "write what every queue did, for ui.perfetto.dev, and print a summary of it")
      ->type_name("FILE")
      ->check(file_name());
  add_timeout(command, options);
  add_json(command, options);
  add_quiet(command, options);
}

template <class Value>
void sort_and_drop_copies(std::vector<Value>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

void reject(const char* option, const std::string& text, const std::string& accepted) {
  throw CLI::ValidationError(option, fmt::format("'{}' given; {}", text, accepted));
}

void add_input(CLI::App& command, const char* name, std::string& path, const char* what) {
  command.add_option(name, path, what)->required()->type_name("FILE");
}

void add_output(CLI::App& command, Options& options, const char* what, const char* type) {
  command.add_option("-o,--output", options.output, what)
      ->required()
      ->type_name(type)
      ->check(file_name());
  command.add_flag("--force", options.force,
                   "replace output files that exist (never an input file)");
}

void add_devices(CLI::App& command, const Options& options, DeviceList& devices) {
  command.add_option("--backend", devices.backend, "what the devices are: cpu (default) or cuda")
      ->type_name("NAME")
      ->check(one_of({"cpu", "cuda"}));
  command
      .add_option(
          "--devices", devices.text,
          fmt::format("CPU devices, 1 to {} (default {}: the cores, at most 8), or GPUs: 0,1 "
                      "(default 0)",
                      Mesh::max_host_ranks, options.devices))
      ->type_name("N")
      ->check(not_empty("a number of CPU devices is accepted, or numbers of GPUs: 0,1"));
  command
      .add_option(
          "--mpi", devices.mpi,
          "each process is one device of the job: on, off or auto (several of mpirun, srun)")
      ->type_name("WHEN")
      ->check(one_of({"auto", "on", "off"}));
  command
      .add_option("--communicator", devices.communicator,
                  "between GPUs of several processes: auto (default), ipc or nccl")
      ->type_name("NAME")
      ->check(one_of({"auto", "ipc", "nccl"}));
}

void add_json(CLI::App& command, Options& options) {
  command.add_flag("--json", options.json, "print one JSON object in place of text");
}

void add_quiet(CLI::App& command, Options& options) {
  command.add_flag("-q,--quiet", options.quiet, "no progress and no report; errors are shown");
}

void add_timeout(CLI::App& command, Options& options) {
  command
      .add_option("--timeout", options.timeout,
                  fmt::format("give up when a device has shown no sign of life for this long "
                              "(default {:g})",
                              options.timeout))
      ->type_name("SECONDS")
      ->check(positive_seconds());
}

void add_tile_table(CLI::App& command, Options& options) {
  command
      .add_option("--tile-table", options.tile_table,
                  "table of 'shardsolve tune' (default: this user's; none: the library's choice)")
      ->type_name("FILE")
      ->check(file_name("the name of a file is accepted, or none"));
}

void add_tile(CLI::App& command, Options& options) {
  constexpr std::int64_t widest = std::int64_t{1} << 40;
  command
      .add_option("--tile", options.tile,
                  "columns eliminated in one step (default: chosen from n and the devices)")
      ->type_name("N")
      ->check(whole_number(1, widest,
                           fmt::format("a number of columns, at least 1 and at most {}, is "
                                       "accepted, in digits; leave it out for a good choice",
                                       widest)));
  add_tile_table(command, options);
}

void add_run_options(CLI::App& command, Options& options, TypedOptions& typed) {
  add_devices(command, options, typed.devices);
  add_telling(command, options);
}

void add_job_options(CLI::App& command, Options& options, TypedOptions& typed) {
  command
      .add_option("--assume", typed.assume,
                  "what A is: pos, Hermitian positive definite (default); gen, any matrix (solve)")
      ->type_name("KIND");
  add_devices(command, options, typed.devices);
  add_tile(command, options);
  add_telling(command, options);
}

std::int64_t default_devices() {
  constexpr std::int64_t most = 8;  // more on one CPU gain little
  // Cores that this process may run on: the standard library counts those of the machine.
  cpu_set_t cores;
  const bool known = ::sched_getaffinity(0, sizeof(cores), &cores) == 0;
  return std::clamp<std::int64_t>(known ? CPU_COUNT(&cores) : std::thread::hardware_concurrency(),
                                  1, most);
}

bool wants_mpi(const DeviceList& list) {
  return list.mpi == "on" || (list.mpi == "auto" && launched_processes() > 1);
}

void take_devices(const DeviceList& list, Options& options) {
  options.mpi = wants_mpi(list);
  options.devices_chosen = !list.text.empty();
  if (options.mpi) {
    take_processes(list, options);
  } else if (list.backend == "cuda") {
    options.backend = Backend::cuda;
    take_gpus(list.text.empty() ? "0" : list.text, options);
  } else if (!list.text.empty()) {
    take_cpu_devices(list.text, options);
  }
  take_communicator(list, options);
}

void take_job_options(const TypedOptions& typed, Options& options,
                      std::initializer_list<Assume> accepted) {
  options.assume = assumption(typed.assume.value_or("pos"), accepted);
  options.assume_chosen = typed.assume.has_value();
  take_devices(typed.devices, options);
}

void require_general_in_place(const Options& options) {
  if (options.in_place && options.assume != Assume::general) {
    throw Error(ErrorKind::invalid_argument,
                "--in-place given without --assume gen: a positive definite matrix is factored in "
                "the place of A as it is; leave it out");
  }
}

void take_lists(const TypedOptions& typed, Options& options) {
  for (const std::string& text : parts_of(typed.dtypes.empty() ? "float64" : typed.dtypes)) {
    options.dtypes.push_back(dtype_of_text(text));
  }
  if (!typed.sizes.empty()) {
    for (const std::string& text : parts_of(typed.sizes)) {
      const auto n = to_whole_number(text, 1, SlabLayout::largest_size);
      if (!n) {
        reject("--n", text,
               fmt::format("numbers of rows from 1 to {} are accepted: 1024 or 1024,2048",
                           SlabLayout::largest_size));
      }
      options.sizes.push_back(*n);
    }
  }
  sort_and_drop_copies(options.sizes);
  sort_and_drop_copies(options.dtypes);
}

}  // namespace shardsolve::cli
