/// What the calls of this process share: the meshes, the time limit, a trace, a progress display.
#pragma once

#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace shardsolve::jax {

/// A mesh to use, and how; nobody else has its trace while this lives.
struct Use {
  std::shared_ptr<Mesh> mesh;
  RunOptions run;
  std::unique_lock<std::mutex> tracing;
};
Use use_mesh(std::int64_t ranks);
/// Forgets a mesh that has failed: the next use makes another.
void abandon_mesh(const Use& use, std::int64_t ranks);

/// Calls body(mesh, options) on the process's mesh of so many CPU devices.
template <class Body>
auto with_mesh(std::int64_t ranks, Body body) {
  Use use = use_mesh(ranks);
  try {
    return body(*use.mesh, use.run);
  } catch (...) {
    abandon_mesh(use, ranks);
    throw;
  }
}

/// From now on calls record what they do; one record for all of them.
void begin_trace();
/// Ends the recording; the record as Chrome/Perfetto JSON, empty if there is none.
std::string end_trace();
/// Called with (phase, fraction, seconds remaining), from any thread; null ends it.
using ProgressCallback = void (*)(const char* phase, double fraction, double remaining);
void set_progress(ProgressCallback callback);

}  // namespace shardsolve::jax
