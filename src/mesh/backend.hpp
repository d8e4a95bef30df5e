/// The kinds of devices a mesh can be made of.
#pragma once

#include "comm/communicator.hpp"
#include "comm/process_group.hpp"
#include "comm/pulses.hpp"
#include "runtime/device.hpp"
#include "runtime/pulse.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/routine.hpp>
#include <shardsolve/sharded.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace shardsolve::mesh {

/// Makes what the ranks of one mesh consist of: a device each, and how they reach each other.
/// Devices and communicators are asked for only for ranks of this process.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::int64_t ranks() const = 0;
  /// The processes that the ranks are, one each; null if all ranks are in this process.
  virtual comm::ProcessGroup* processes() { return nullptr; }
  virtual Memory memory() const = 0;
  /// Whether the thread that makes a call runs the program of the rank, which is alone.
  virtual bool runs_in_caller() const { return false; }
  virtual std::unique_ptr<runtime::Device> make_device(std::int64_t rank,
                                                       runtime::Pulse& pulse) = 0;
  virtual std::unique_ptr<comm::Communicator> make_communicator(const comm::Pulses& pulses,
                                                                std::int64_t rank) = 0;
  /// Held for the length of a call: keeps away the calls of other meshes that cannot run beside it.
  virtual std::vector<std::unique_lock<std::mutex>> keep_others_away() { return {}; }
  /// Bytes that every rank can still take at the same time.
  virtual std::int64_t available_memory() const = 0;
  /// Where no table says another: core/tile_rules.hpp.
  virtual std::int64_t default_tile(std::int64_t n, Dtype dtype, Routine routine) const = 0;
  /// What tables of tile sizes know such devices by: the same on every machine that has them.
  virtual std::string device_kind() const = 0;
  /// The widest block of columns that can be eliminated in one step.
  virtual std::int64_t largest_tile() const = 0;
};

}  // namespace shardsolve::mesh
