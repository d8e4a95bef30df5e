// `shardsolve doctor`: what there is, which of it will be used, and what is wrong with it.

#include "doctor/collect.hpp"
#include "doctor/diagnosis.hpp"
#include "doctor/launch.hpp"
#include "exit_code.hpp"
#include "jobs.hpp"
#include "launch.hpp"
#include "mesh/cuda_loader.hpp"
#include "terminal.hpp"

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
          .mpi = options.mpi};
}

/// Where devices cannot be had, the findings say so.
void measure(const Options& options, Diagnosis& diagnosis) {
  const bool cuda = options.backend == Backend::cuda;
  if (cuda && !doctor::reason_against_cuda(diagnosis.surroundings).empty()) {
    return;
  }
  try {
    Mesh mesh = cuda ? Mesh::cuda(options.gpus) : Mesh::host(options.devices);
    diagnosis.rates = doctor::measure(mesh);
    if (cuda && options.gpus.size() > 1) {
      diagnosis.surroundings.links = {options.gpus, mesh::measure_cuda_topology(options.gpus),
                                      true};
    }
  } catch (const std::exception& error) {
    diagnosis.findings.insert(diagnosis.findings.begin(),
                              {Severity::error, "measure-failed", error.what(),
                               "a solve would fail alike", "see the reason"});
  }
}

}  // namespace

int doctor_job(const Options& options) {
  const std::int64_t launched = launched_processes();
  if (doctor::launch_of(doctor::own_environment(), launched).rank != 0) {
    return exit_ok;  // one of them speaks, also where each is to work on its own
  }
  const std::int64_t processes = options.mpi ? launched : 1;
  Diagnosis diagnosis;
  diagnosis.surroundings = doctor::look_around(job_of(options), processes);
  diagnosis.choice = doctor::choose(diagnosis.surroundings);
  diagnosis.findings = doctor::judge(diagnosis.surroundings);
  if (options.measure) {
    measure(options, diagnosis);
  }
  if (!print(stdout, options.json ? doctor::json_of(diagnosis) : doctor::text_of(diagnosis))) {
    print_error("the report could not be written to standard output");
    return exit_environment;
  }
  return diagnosis.has_errors() ? exit_environment : exit_ok;
}

}  // namespace shardsolve::cli
