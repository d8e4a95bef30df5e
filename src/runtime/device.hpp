/// One rank's share of the hardware: its memory, its queues and its kernels.
#pragma once

#include "runtime/kernel_set.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/mesh.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace shardsolve::runtime {

/// Device memory, aligned for any element type and for whole cache lines; not initialised. Released
/// with the last copy.
class Buffer {
 public:
  Buffer(std::shared_ptr<void> memory, std::size_t bytes)
      : memory_(std::move(memory)), bytes_(bytes) {}

  void* data() const { return memory_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t bytes_;
};

/// Which of a device's queues goes first where they compete for it.
enum class Priority : std::uint8_t {
  bulk,           ///< most of the work
  critical_path,  ///< what others wait for: does not queue up behind the bulk
};

class Device : public KernelSource {
 public:
  virtual std::unique_ptr<Queue> make_queue(const std::string& name, Priority priority) = 0;
  virtual std::unique_ptr<Event> make_event() = 0;
  /// Throws Error(out_of_memory).
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Host memory that queues may write to while the host goes on. Throws Error(out_of_memory).
  virtual Buffer allocate_host(std::size_t bytes) = 0;

  /// What a thread does before it is the first time to enqueue work for this device.
  virtual void adopt_thread() = 0;
  /// Throws Error(invalid_argument) if `memory`, which is `what` and by the caller of that `kind`,
  /// is none that this device computes on.
  virtual void require_device_memory(const void* memory, Memory kind, const char* what) const = 0;
};

}  // namespace shardsolve::runtime
