/// A mesh of "processes" in one process: each is a thread of the test with a mesh of its own.
#pragma once

#include "mesh/mesh_state.hpp"
#include "mesh/process_backend.hpp"
#include "tests/support/faults.hpp"
#include "tests/support/faulty_backend.hpp"
#include "tests/support/faulty_transport.hpp"
#include "tests/support/memory_transport.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::testing {

class ProcessMeshes {
 public:
  static constexpr std::size_t usual_eager = 4096;
  /// Makes one process's devices.
  using MakeBackend =
      std::function<std::unique_ptr<mesh::Backend>(std::unique_ptr<comm::Transport>)>;
  static std::unique_ptr<mesh::Backend> of_cpus(std::unique_ptr<comm::Transport> transport) {
    return std::make_unique<mesh::ProcessBackend>(std::move(transport));
  }

  explicit ProcessMeshes(std::int64_t ranks, std::size_t eager = usual_eager,
                         Hosts hosts = Hosts::one_each, const MakeBackend& make = of_cpus)
      : ProcessMeshes(std::make_shared<MemoryPost>(ranks, eager, hosts), make) {}
  /// Over other transports: of all ranks, in their order.
  explicit ProcessMeshes(std::vector<std::unique_ptr<comm::Transport>> transports,
                         const MakeBackend& make = of_cpus) {
    std::vector<std::future<std::unique_ptr<mesh::Backend>>> backends;  // they make them together
    for (auto& transport : transports) {
      messages_.push_back(std::make_shared<MessageFaults>());
      backends.push_back(
          std::async(std::launch::async, [&transport, &make, faults = messages_.back()] {
            return make(std::make_unique<FaultyTransport>(std::move(transport), faults));
          }));
    }
    for (auto& backend : backends) {
      faults_.push_back(std::make_shared<Faults>(static_cast<std::int64_t>(transports.size())));
      meshes_.emplace_back(
          mesh::MeshState::start(std::make_unique<FaultyBackend>(backend.get(), faults_.back())));
    }
  }

  std::int64_t ranks() const { return static_cast<std::int64_t>(meshes_.size()); }
  /// What goes wrong in the process of a rank.
  Faults& faults(std::int64_t rank) { return *faults_[static_cast<std::size_t>(rank)]; }
  MessageFaults& messages(std::int64_t rank) { return *messages_[static_cast<std::size_t>(rank)]; }
  void clear_faults() {
    for (std::int64_t rank = 0; rank < ranks(); ++rank) {
      faults(rank).clear();
      messages(rank).clear();
    }
  }

  /// Whether the last call has left no message behind, as far as that can be seen.
  bool in_good_order() const { return !post_ || post_->in_good_order(); }

  /// call(mesh, rank) in all processes at once; the Error that came out of each, if one did.
  template <class Call>
  std::vector<std::optional<Error>> together(Call call) {
    std::vector<std::optional<Error>> errors(meshes_.size());
    std::vector<std::thread> processes;
    for (std::size_t rank = 0; rank < meshes_.size(); ++rank) {
      processes.emplace_back([&, rank] {
        try {
          call(meshes_[rank], static_cast<std::int64_t>(rank));
        } catch (const Error& error) {
          errors[rank] = error;
        }
      });
    }
    for (std::thread& process : processes) {
      process.join();
    }
    return errors;
  }

 private:
  ProcessMeshes(std::shared_ptr<MemoryPost> post, const MakeBackend& make)
      : ProcessMeshes(transports(post), make) {
    post_ = std::move(post);
  }
  static std::vector<std::unique_ptr<comm::Transport>> transports(
      const std::shared_ptr<MemoryPost>& post) {
    std::vector<std::unique_ptr<comm::Transport>> all;
    for (std::int64_t rank = 0; rank < post->ranks(); ++rank) {
      all.push_back(std::make_unique<MemoryTransport>(post, rank));
    }
    return all;
  }

  std::shared_ptr<MemoryPost> post_;  // none over other transports
  std::vector<std::shared_ptr<Faults>> faults_;
  std::vector<std::shared_ptr<MessageFaults>> messages_;
  std::vector<Mesh> meshes_;
};

}  // namespace shardsolve::testing
