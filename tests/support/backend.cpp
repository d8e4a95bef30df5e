#include "tests/support/backend.hpp"

#include "mesh/cuda_loader.hpp"
#include "mesh/mesh_state.hpp"

#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

namespace shardsolve::testing {

const std::vector<int>& test_gpus() {
  static const std::vector<int> gpus = [] {
    std::vector<int> listed;
    if (const char* text = std::getenv("SHARDSOLVE_TEST_GPUS")) {
      std::istringstream stream(text);
      for (std::string number; std::getline(stream, number, ',');) {
        listed.push_back(std::stoi(number));
      }
    }
    return listed;
  }();
  return gpus;
}

std::unique_ptr<mesh::Backend> make_gpus(std::int64_t ranks, std::optional<std::uint64_t> delays) {
  const std::vector<int>& gpus = test_gpus();
  mesh::CudaOptions options{.devices = {}, .delays = delays};
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    options.devices.push_back(gpus[static_cast<std::size_t>(rank) % gpus.size()]);
  }
  return mesh::make_cuda_backend(options);
}

Mesh make_mesh(std::int64_t ranks, std::optional<std::uint64_t> delays) {
  return test_gpus().empty() ? Mesh::host(ranks)
                             : Mesh(mesh::MeshState::start(make_gpus(ranks, delays)));
}

Mesh& transfer_mesh(std::int64_t ranks) {
  // Never destroyed: CUDA may be gone by the end of main.
  static auto& meshes = *new std::map<std::int64_t, Mesh>;
  static std::mutex adding;
  const std::lock_guard lock(adding);
  const auto found = meshes.find(ranks);
  return found != meshes.end() ? found->second
                               : meshes.emplace(ranks, make_mesh(ranks)).first->second;
}

}  // namespace shardsolve::testing
