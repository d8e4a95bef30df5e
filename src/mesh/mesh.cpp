#include "mesh/cuda_loader.hpp"
#include "mesh/host_backend.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/mpi_loader.hpp"
#include "mesh/process_backend.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <set>
#include <utility>

namespace shardsolve {

Mesh Mesh::host(std::int64_t ranks) {
  if (ranks < 1 || ranks > max_host_ranks) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} CPU devices asked for; 1 to {} are possible, and more than the "
                            "machine has cores gain no speed",
                            ranks, max_host_ranks));
  }
  return Mesh(mesh::MeshState::start(std::make_unique<mesh::HostBackend>(ranks)));
}

Mesh Mesh::serial() {
  return Mesh(mesh::MeshState::start(std::make_unique<mesh::SerialBackend>()));
}

Mesh Mesh::cuda(const std::vector<int>& devices) {
  if (devices.empty()) {
    throw Error(ErrorKind::invalid_argument, "no GPUs listed; at least one is needed");
  }
  const std::set<int> different(devices.begin(), devices.end());
  if (different.size() != devices.size()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("GPUs {} listed; each may appear once", fmt::join(devices, ", ")));
  }
  return Mesh(mesh::MeshState::start(mesh::make_cuda_backend({.devices = devices, .delays = {}})));
}

Mesh Mesh::mpi(std::optional<int> communicator) {
  return Mesh(mesh::MeshState::start(
      std::make_unique<mesh::ProcessBackend>(mesh::make_mpi_transport(communicator))));
}

Mesh Mesh::mpi_cuda(const GpuProcesses& processes) {
  return Mesh(mesh::MeshState::start(mesh::make_cuda_process_backend(
      mesh::make_mpi_transport(processes.communicator),
      {.devices = processes.devices, .communicator = processes.path, .delays = {}})));
}

Mesh::Mesh(std::shared_ptr<mesh::MeshState> state) : state_(std::move(state)) {}
Mesh::Mesh(Mesh&&) noexcept = default;
Mesh& Mesh::operator=(Mesh&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Mesh::~Mesh() {
  if (state_) {
    state_->shut_down();
  }
}

mesh::MeshState& Mesh::state() const {
  if (!state_) {
    throw Error(ErrorKind::invalid_argument,
                "this Mesh has been moved from and has no ranks: use the one that it was moved to");
  }
  return *state_;
}

std::int64_t Mesh::ranks() const { return state().ranks(); }

bool Mesh::is_here(std::int64_t rank) const { return state().is_here(rank); }

Memory Mesh::memory() const { return state().backend().memory(); }

std::int64_t Mesh::default_tile(std::int64_t n, Dtype dtype, Routine routine) const {
  const TileEntry* entry = tile_entry(n, dtype, routine);
  return entry != nullptr ? entry->tile : state().backend().default_tile(n, dtype, routine);
}

void Mesh::use_tile_table(TileTable table) { state().tiles = std::move(table); }

const TileTable& Mesh::tile_table() const { return state().tiles; }

const TileEntry* Mesh::tile_entry(std::int64_t n, Dtype dtype, Routine routine) const {
  return state().tiles.entries().empty()
             ? nullptr
             : state().tiles.entry_for(device_kind(), dtype, ranks(), n, routine);
}

std::string Mesh::device_kind() const { return state().backend().device_kind(); }

std::int64_t Mesh::available_memory() const {
  return state().available_memory(std::numeric_limits<std::int64_t>::max());
}

}  // namespace shardsolve
