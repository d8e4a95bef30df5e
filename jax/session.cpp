#include "jax/session.hpp"

#include "jax/gang.hpp"
#include "mesh/cuda_loader.hpp"
#include "mesh/mesh_state.hpp"

#include <atomic>
#include <map>
#include <utility>

namespace shardsolve::jax {
namespace {

struct Session {
  std::mutex mutex;  // guards the meshes
  std::map<MeshKey, std::shared_ptr<SharedMesh>> meshes;

  std::mutex tracing;  // held by a call that is recorded: a record is of one call at a time
  std::unique_ptr<Trace> trace;
  std::atomic<bool> traced = false;

  std::atomic<ProgressCallback> progress = nullptr;
};

/// Never destroyed: calls may be under way at the end of main.
Session& session() {
  static auto& all = *new Session;
  return all;
}

}  // namespace

namespace {

Mesh make_mesh(const MeshKey& key) {
  if (key.serial) {
    return Mesh::serial();
  }
  if (key.gpus.size() == 1) {  // XLA has a thread for each GPU, which waits for us anyway
    return Mesh(mesh::MeshState::start(
        mesh::make_cuda_backend({.devices = key.gpus, .delays = {}, .in_caller = true})));
  }
  return key.gpus.empty() ? Mesh::host(key.ranks) : Mesh::cuda(key.gpus);
}

}  // namespace

SharedMesh::SharedMesh(const MeshKey& key) : mesh(make_mesh(key)) {}

Use use_mesh(const MeshKey& key) {
  Session& all = session();
  Use use;
  {
    const std::lock_guard lock(all.mutex);
    std::shared_ptr<SharedMesh>& mesh = all.meshes[key];
    if (!mesh) {
      mesh = std::make_shared<SharedMesh>(key);
    }
    use.shared = mesh;
  }
  use.alone = std::unique_lock(use.shared->in_use);
  Watching watching = watch_call(true);
  use.run = std::move(watching.run);
  use.tracing = std::move(watching.tracing);
  return use;
}

Watching watch_call(bool reports) {
  Session& all = session();
  Watching watching;
  watching.run.silence_limit = time_limit();
  if (all.traced && reports) {
    watching.tracing = std::unique_lock(all.tracing);
    watching.run.trace = all.trace.get();
  } else if (all.traced) {
    watching.own_trace = std::make_unique<Trace>();
    watching.run.trace = watching.own_trace.get();
  }
  const ProgressCallback callback = all.progress;
  if (callback != nullptr && reports) {
    watching.run.progress = [callback](const Progress& progress) {
      callback(std::string(progress.phase).c_str(), progress.fraction, progress.remaining);
    };
  }
  return watching;
}

bool is_watched() {
  const Session& all = session();
  return all.traced || all.progress != nullptr;
}

void abandon_mesh(const Use& use, const MeshKey& key) {
  Session& all = session();
  const std::lock_guard lock(all.mutex);
  const auto found = all.meshes.find(key);
  if (found != all.meshes.end() && found->second == use.shared) {
    all.meshes.erase(found);
  }
}

void begin_trace() {
  Session& all = session();
  const std::lock_guard lock(all.tracing);
  all.trace = std::make_unique<Trace>();
  all.traced = true;
}

std::string end_trace() {
  Session& all = session();
  const std::lock_guard lock(all.tracing);
  all.traced = false;
  const std::unique_ptr<Trace> trace = std::move(all.trace);
  return trace ? trace->to_json() : "";
}

void set_progress(ProgressCallback callback) { session().progress = callback; }

}  // namespace shardsolve::jax
