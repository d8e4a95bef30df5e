// `shardsolve doctor`: what there is, which of it will be used, and what is wrong with it.

#include "doctor/collect.hpp"
#include "doctor/diagnosis.hpp"
#include "doctor/launch.hpp"
#include "exit_code.hpp"
#include "launch.hpp"
#include "mesh/cuda_loader.hpp"
#include "shared_options.hpp"
#include "terminal.hpp"
#include "verb.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>

#include <exception>

namespace shardsolve::cli {
namespace {

using doctor::Diagnosis;
using doctor::Severity;

doctor::Job job_of(const Options& options) {
  return {.cuda = options.backend == Backend::cuda,
          .devices = options.devices,
          .gpus = options.gpus,
          .tile_table = options.tile_table,
          .chosen = options.devices_chosen,
          .mpi = options.mpi,
          .communicator = options.communicator};
}

/// What went wrong, if anything did. Where devices cannot be had, the other findings say so.
doctor::Findings measure(const Options& options, Diagnosis& diagnosis) {
  const bool cuda = options.backend == Backend::cuda;
  if (cuda && !doctor::reason_against_cuda(diagnosis.surroundings).empty()) {
    return {};
  }
  try {
    Mesh mesh = cuda ? Mesh::cuda(options.gpus) : Mesh::host(options.devices);
    diagnosis.rates = doctor::measure(mesh);
    auto& links = diagnosis.surroundings.links;
    if (links && links->gpus == options.gpus) {
      links->measured = mesh::measure_cuda_topology(options.gpus);
    }
  } catch (const std::exception& error) {
    return {{Severity::error, "measure-failed", error.what(), "a solve would fail alike",
             "see the reason"}};
  }
  return {};
}

int doctor_job(const Options& options) {
  const std::int64_t launched = launched_processes();
  if (doctor::launch_of(doctor::own_environment(), launched).rank != 0) {
    return exit_ok;  // one of them speaks, also where each is to work on its own
  }
  const std::int64_t processes = options.mpi ? launched : 1;
  Diagnosis diagnosis;
  diagnosis.surroundings = doctor::look_around(job_of(options), processes);
  diagnosis.choice = doctor::choose(diagnosis.surroundings);
  if (options.measure) {
    diagnosis.findings = measure(options, diagnosis);
  }
  const doctor::Findings judged = doctor::judge(diagnosis.surroundings);
  diagnosis.findings.insert(diagnosis.findings.end(), judged.begin(), judged.end());
  if (!print(stdout, options.json ? doctor::json_of(diagnosis) : doctor::text_of(diagnosis))) {
    print_error("the report could not be written to standard output");
    return exit_environment;
  }
  return diagnosis.has_errors() ? exit_environment : exit_ok;
}

void add_doctor_options(CLI::App& command, TypedOptions& typed, Options& options) {
  add_devices(command, options, typed.devices);
  command.add_flag("--measure", options.measure,
                   "measure rates of the devices now: copy, gemm, broadcast");
  add_tile_table(command, options);
  add_json(command, options);
}

void take_doctor_options(const TypedOptions& typed, Options& options) {
  if (options.measure && wants_mpi(typed.devices)) {
    throw CLI::ValidationError(
        "--measure",
        "rates are measured by one process: leave out mpirun or srun; --mpi off makes each "
        "process work on its own");
  }
  take_devices(typed.devices, options);
}

constexpr std::string_view doctor_notes =
    R"(Devices, libraries and their versions, what 'shardsolve solve' would use with the same
--backend and --devices and why, and the usual misconfigurations: each with why it matters and
what to do. JAX is that of the python3 on PATH; it is not imported.

Exit codes: 0 no errors among the findings; 3 errors; 2 misuse.)";

}  // namespace

constinit const Verb doctor_verb =
    complete({.name = "doctor",
              .about = "show what there is to compute with, and what is wrong with it",
              .usage = "shardsolve doctor [options]",
              .notes = doctor_notes,
              .examples = R"(shardsolve doctor
shardsolve doctor --backend cuda --devices 0,1
shardsolve doctor --measure --json)",
              .add_options = &add_doctor_options,
              .take_options = &take_doctor_options,
              .run = &doctor_job});

}  // namespace shardsolve::cli
