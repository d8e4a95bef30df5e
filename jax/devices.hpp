/// The devices of one call: their mesh, and the way to the buffers of its seats.
#pragma once

#include "jax/processes.hpp"
#include "jax/seat.hpp"
#include "jax/session.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/routine.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::jax {

/// On the CPU buffers are memory like any other. On GPUs the mesh of one process works in memory of
/// XLA's pool, and what is written to a buffer is written on XLA's stream: it is there for what XLA
/// enqueues next. A mesh with ranks in other processes is taken when it is needed: a call without a
/// factor to work with does not need it.
class Devices {
 public:
  /// One rank a seat, of all ranks or of the one that is in reach. Throws Error(device) where GPUs
  /// cannot be used at all.
  /// `serial`: on the CPU one rank computes in this thread.
  Devices(const std::vector<Seat>& seats, bool serial);
  ~Devices();
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  Memory memory() const { return key_.gpus.empty() ? Memory::host : Memory::device; }
  /// What Mesh::default_tile() says with the user's table of tile sizes (TileTable::find()), which
  /// each mesh reads once. Throws as that does.
  std::int64_t default_tile(std::int64_t n, Dtype dtype, Routine routine);

  /// Calls body(mesh, options); if it throws, the next call gets another mesh, unless all ranks
  /// have agreed on it.
  template <class Body>
  auto with_mesh(Body body) {
    if (seats_.front().others) {
      try {
        Turn& own = turn();
        return body(own.mesh(), own.run);
      } catch (const Error& error) {
        if (turn_) {
          await_ranks(turn_->mesh());
        }
        throw with_advice(error);
      } catch (...) {
        if (turn_) {
          await_ranks(turn_->mesh());
        }
        throw;
      }
    }
    if (!use_) {
      use_ = use_mesh(key_);
    }
    try {
      return body(use_->mesh(), use_->run);
    } catch (...) {
      abandon_mesh(*use_, key_);
      await_ranks(use_->mesh());
      throw;
    }
  }

  /// `count` values from a buffer of one seat.
  template <class V>
  void read(std::size_t seat, const void* buffer, V* values, std::int64_t count) const {
    copy(seat, values, buffer, static_cast<std::size_t>(count) * sizeof(V));
    finish(seat);
  }
  /// Likewise to a buffer.
  template <class V>
  void write(std::size_t seat, void* buffer, const V* values, std::int64_t count) const {
    copy(seat, buffer, values, static_cast<std::size_t>(count) * sizeof(V));
  }
  /// `value` in all of a buffer of one seat.
  template <Scalar T>
  void fill(std::size_t seat, void* buffer, T value, std::int64_t count) const;
  /// On every seat: copies `bytes` of the operand to the result, unless XLA has given the result
  /// the operand's memory. On the CPU the handler has done that.
  void bring(BufferIndex operand, BufferIndex result, std::size_t bytes) const;

 private:
  /// Waits until no rank works in XLA's memory: a rank that was given up may go on for a while.
  static void await_ranks(Mesh& mesh);
  /// This call's turn on a mesh with ranks in other processes.
  Turn& turn();
  Error with_advice(const Error& error) const;
  void copy(std::size_t seat, void* target, const void* source, std::size_t bytes) const;
  /// Waits until all copies of the seat have been made.
  void finish(std::size_t seat) const;

  const std::vector<Seat>& seats_;
  MeshKey key_;
  std::optional<Use> use_;
  std::optional<Turn> turn_;  // in place of it, with other processes
};

}  // namespace shardsolve::jax
