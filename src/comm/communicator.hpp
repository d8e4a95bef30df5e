/// Data movement between ranks.
#pragma once

#include "comm/window.hpp"
#include "runtime/queue.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::comm {

/// A piece of device memory.
struct Bytes {
  void* data = nullptr;
  std::size_t size = 0;
};

/// Memory of each rank that the devices of all ranks read and write by themselves.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;

  virtual void* of(std::int64_t rank) const = 0;
  /// Called by all ranks, each with a queue of its own. What follows on any of these queues begins
  /// when all of them have come to their fence.
  virtual void fence(runtime::Queue& queue) = 0;
};

/// Moves data between the ranks of a mesh; never computes (sums are gathers that a kernel of ours
/// adds in rank order, so that results do not depend on timing). All ranks enqueue the same
/// operations in the same order, all on one queue of theirs; an operation is complete on a rank
/// when that rank's memory may be used again. Empty pieces are fine.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// The root's `data` on all ranks; the same size everywhere.
  virtual void broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) = 0;
  /// pieces[r] is rank r's contribution: read on rank r, written on the others. Each rank's piece
  /// may have a size of its own, known to all.
  virtual void all_gather(runtime::Queue& queue, std::vector<Bytes> pieces) = 0;
  /// Every rank's `data` into `pieces` on the root (empty elsewhere); the root's own piece is left
  /// alone, its data stays where it is.
  virtual void gather(runtime::Queue& queue, Bytes data, std::vector<Bytes> pieces,
                      std::int64_t root) = 0;
  /// send[r] goes to rank r, receive[r] comes from there; the own piece is left alone.
  virtual void all_to_all(runtime::Queue& queue, std::vector<Bytes> send,
                          std::vector<Bytes> receive) = 0;
  /// A window over this rank's `memory` and that of the others, of the same size everywhere. All
  /// ranks make the same windows in the same order. The host may wait here for the other ranks.
  virtual std::unique_ptr<Window> make_window(Bytes memory) = 0;

  /// Likewise makes memory that the devices of all ranks reach; of a rank that brings none it is
  /// null. Null itself unless reaches_peers().
  virtual std::unique_ptr<PeerMemory> make_peer_memory(Bytes /*memory*/) { return nullptr; }
  /// Whether the devices of all ranks reach each other's memory; the same on all ranks.
  virtual bool reaches_peers() const { return false; }

  /// Workspace of this rank, at least `bytes`, that the other ranks keep mapped from call to call.
  /// Empty if mapping memory anew costs nothing. All ranks call it at the same point of a call, at
  /// most once and before they use workspace: it may wait for the others. Frees an earlier
  /// workspace that is smaller. Throws Error(out_of_memory).
  virtual Bytes make_workspace(std::size_t /*bytes*/) { return {}; }
  /// What make_workspace() has made; empty if there is none.
  virtual Bytes workspace() const { return {}; }

  /// A new call begins; no rank communicates yet. Windows are counted from zero again.
  virtual void begin_call() = 0;
  /// This rank's queues are idle: closes its mappings of other processes' memory, which those free
  /// when all ranks have done so.
  virtual void end_call() {}
  /// The call has failed: nothing that this rank has enqueued may wait for other ranks for ever.
  /// Any thread, also several times.
  virtual void give_up() {}
};

}  // namespace shardsolve::comm
