/// What the calls of this process share: the meshes, the time limit, a trace, a progress display.
#pragma once

#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/trace.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace shardsolve::jax {

/// Which devices a mesh is made of: GPUs by CUDA's numbers, or so many CPU devices, or one that
/// computes in the caller's thread.
struct MeshKey {
  std::int64_t ranks = 0;
  bool serial = false;
  std::vector<int> gpus;

  friend auto operator<=>(const MeshKey&, const MeshKey&) = default;
};

/// A mesh of the process, made at its first use.
struct SharedMesh {
  explicit SharedMesh(const MeshKey& key);

  Mesh mesh;
  std::mutex in_use;
  bool has_tiles = false;  ///< whether the mesh was given the user's table of tile sizes
};

/// A mesh to use, and how; nobody else has it, or its trace, while this lives.
struct Use {
  std::shared_ptr<SharedMesh> shared;
  std::unique_lock<std::mutex> alone;
  RunOptions run;
  std::unique_lock<std::mutex> tracing;

  Mesh& mesh() const { return shared->mesh; }
};
Use use_mesh(const MeshKey& key);
/// Forgets a mesh that has failed: the next use makes another.
void abandon_mesh(const Use& use, const MeshKey& key);

/// How a call is watched: what the user has asked for.
struct Watching {
  RunOptions run;
  std::unique_ptr<Trace> own_trace;  ///< where the record is another's: one for the call alone
  std::unique_lock<std::mutex> tracing;
};
/// `reports`: whether it is the one of its call that shows progress and has the record.
Watching watch_call(bool reports);

/// Whether there is a record or a progress display, which calls without a mesh are not seen in.
bool is_watched();

/// From now on calls record what they do; one record for all of them.
void begin_trace();
/// Ends the recording; the record as Chrome/Perfetto JSON, empty if there is none.
std::string end_trace();
/// Called with (phase, fraction, seconds remaining), from any thread; null ends it.
using ProgressCallback = void (*)(const char* phase, double fraction, double remaining);
void set_progress(ProgressCallback callback);

}  // namespace shardsolve::jax
