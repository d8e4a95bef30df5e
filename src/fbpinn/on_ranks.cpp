#include "fbpinn/on_ranks.hpp"

#include "mesh/mesh_state.hpp"
#include "runtime/host/host_queue.hpp"

#include <shardsolve/error.hpp>

#include <atomic>
#include <memory>

namespace shardsolve::fbpinn {
namespace {

void require_host_ranks(const Mesh& mesh) {
  bool is_here = mesh.memory() == Memory::host;
  for (std::int64_t rank = 0; rank < mesh.ranks(); ++rank) {
    is_here = is_here && mesh.is_here(rank);
  }
  if (!is_here) {
    throw Error(ErrorKind::unsupported,
                "networks in boxes are trained by CPU devices of one process: use a mesh made by "
                "Mesh::host or Mesh::serial");
  }
}

}  // namespace

sparse::ForEach on_ranks(Mesh& mesh, const RunOptions& run, const char* name) {
  require_host_ranks(mesh);
  return [&mesh, &run, name](std::int64_t count, const std::function<void(std::int64_t)>& work) {
    std::atomic<std::int64_t> next = 0;
    mesh.state().run(run, [&](mesh::Rank& rank) {
      static_cast<runtime::host::HostQueue&>(rank.update()).launch({name}, [&] {
        for (std::int64_t i = next++; i < count && !run.cancel.stop_requested(); i = next++) {
          rank.beat(name);
          try {
            work(i);
          } catch (...) {
            next = count;  // nobody begins another piece
            throw;
          }
        }
      });
      rank.finish(rank.update());
      if (rank.stop_requested()) {
        throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
      }
    });
  };
}

}  // namespace shardsolve::fbpinn
