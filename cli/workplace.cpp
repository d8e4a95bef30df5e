#include "workplace.hpp"

#include "mesh/mesh_state.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace shardsolve::cli {
namespace {

Mesh make_mesh(const Options& options) {
  const std::int64_t devices = options.devices;
  try {
    return options.backend == Backend::cuda ? Mesh::cuda(options.gpus) : Mesh::host(devices);
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::device,
                fmt::format("the threads of {} CPU devices could not be started: {}; use fewer "
                            "devices or raise the limit (ulimit -u)",
                            devices, error.code().message()));
  }
}

}  // namespace

Workplace::Workplace(const Context& context) : mesh_(make_mesh(context.options)) {
  run_options_.cancel = context.stop;
  run_options_.silence_limit = std::chrono::duration<double>(context.options.timeout);
  run_options_.progress = [display = context.progress](const Progress& progress) {
    display->show(progress);
  };
  if (!context.options.trace.empty()) {
    run_options_.trace = &trace_;
  }
}

double Workplace::run(std::function<void(mesh::Rank&)> program) {
  const auto begin = std::chrono::steady_clock::now();
  mesh_.state().run(run_options_, std::move(program));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

SlabLayout Workplace::layout_for(const Options& options, std::int64_t n, Dtype dtype) const {
  const std::int64_t tile = options.tile ? *options.tile : mesh_.default_tile(n, dtype);
  return SlabLayout::even(n, mesh_.ranks(), tile);
}

void Workplace::require_memory(std::initializer_list<Plan> plans, std::string_view job) const {
  Plan all = *plans.begin();
  for (const Plan& plan : plans) {
    all.right_hand_side_bytes = std::max(all.right_hand_side_bytes, plan.right_hand_side_bytes);
    all.workspace_bytes = std::max(all.workspace_bytes, plan.workspace_bytes);
  }
  all.require(all.bytes(), mesh_.available_memory(), job);
}

void leave_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) {
    throw Error(ErrorKind::cancelled, "interrupted");
  }
}

}  // namespace shardsolve::cli
