/// The devices of one call: their mesh, and the way to the buffers of its seats.
#pragma once

#include "jax/seat.hpp"
#include "jax/session.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::jax {

/// On the CPU buffers are memory like any other. On GPUs the mesh works in memory of XLA's pool,
/// and what is written to a buffer is written on XLA's stream: it is there for what XLA enqueues
/// next.
class Devices {
 public:
  /// One rank a seat. Throws Error(device) where GPUs cannot be used at all.
  explicit Devices(const std::vector<Seat>& seats);
  ~Devices();
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  Memory memory() const { return key_.gpus.empty() ? Memory::host : Memory::device; }
  /// What Mesh::default_tile() says with the user's table of tile sizes (TileTable::find()), which
  /// each mesh reads once. Throws as that does.
  std::int64_t default_tile(std::int64_t n, Dtype dtype);

  /// Calls body(mesh, options); if it throws, the next call gets another mesh.
  template <class Body>
  auto with_mesh(Body body) {
    if (!use_) {
      use_ = use_mesh(key_);
    }
    try {
      return body(use_->mesh(), use_->run);
    } catch (...) {
      abandon_mesh(*use_, key_);
      throw;
    }
  }

  /// `count` values from a buffer of one rank.
  template <class V>
  void read(std::size_t rank, const void* buffer, V* values, std::int64_t count) const {
    copy(rank, values, buffer, static_cast<std::size_t>(count) * sizeof(V));
    finish(rank);
  }
  /// Likewise to a buffer.
  template <class V>
  void write(std::size_t rank, void* buffer, const V* values, std::int64_t count) const {
    copy(rank, buffer, values, static_cast<std::size_t>(count) * sizeof(V));
  }
  /// `value` in all of a buffer of one rank.
  template <Scalar T>
  void fill(std::size_t rank, void* buffer, T value, std::int64_t count) const;
  /// XLA puts a result where its operand was if it may; otherwise the operand is copied there, of
  /// all ranks: `bytes` of it. On the CPU the handler has done that.
  void bring(std::size_t operand, std::size_t result, std::size_t bytes) const;

 private:
  void copy(std::size_t rank, void* target, const void* source, std::size_t bytes) const;
  /// What was copied is there.
  void finish(std::size_t rank) const;

  const std::vector<Seat>& seats_;
  MeshKey key_;
  std::optional<Use> use_;
};

}  // namespace shardsolve::jax
