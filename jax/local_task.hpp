/// A call that one device makes by itself: no other device is asked, and the host waits for
/// nothing.
///
/// It is done in the order of XLA's program, on the CPU when the function returns, on a GPU when
/// XLA's stream comes to what the function has enqueued there. So it costs no more than its work
/// and the way to it, and may stand in loops, where gathering what all devices have is XLA's
/// business.
#pragma once

#include "jax/call_table.hpp"
#include "jax/seat.hpp"
#include "mesh/cuda_loader.hpp"
#include "runtime/host/in_caller.hpp"
#include "runtime/host/spare_threads.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/local_kernels.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace shardsolve::jax {

/// What there is to do, for the function that does it: `batch` of everything, one after the other.
class LocalTask {
 public:
  const CallRow* row = nullptr;
  Dtype dtype = Dtype::float64;
  std::int64_t batch = 1;
  Options options{};
  std::optional<mesh::CudaStream> stream;        ///< none on the CPU
  runtime::host::SpareThreads* spare = nullptr;  ///< XLA's, on the CPU
  struct Buffer {
    void* data = nullptr;     ///< batch x length, in the device's memory
    std::int64_t length = 0;  ///< elements
    /// Which of its own items belongs to each of the batch; empty: every one its own.
    std::vector<std::int64_t> items = {};
  };
  std::array<Buffer, Seat::max_buffers> buffers{};

  const Buffer& at(BufferIndex buffer) const {
    return buffers.at(static_cast<std::size_t>(buffer));
  }
  /// Item `item` of a buffer, whose elements have so many bytes.
  void* item(BufferIndex buffer, std::int64_t item, std::size_t element) const {
    const Buffer& from = at(buffer);
    const std::int64_t own = from.items.empty() ? item : from.items[static_cast<std::size_t>(item)];
    return static_cast<char*>(from.data) + own * from.length * static_cast<std::int64_t>(element);
  }
  /// enqueue(device, queue, begin, end) for items of the batch. On a GPU the queue is XLA's stream,
  /// and has all items, and `scratch`. On the CPU it works in this thread and has threads to spare;
  /// these take items too, at least so many `together`.
  template <class Enqueue>
  void enqueue(std::int64_t together, const Enqueue& enqueue,
               const mesh::CudaScratch& scratch = {}) const {
    if (stream) {
      stream->adopt([&](const runtime::KernelSource& gpu,
                        runtime::Queue& queue) { enqueue(gpu, queue, std::int64_t{0}, batch); },
                    scratch);
    } else {
      runtime::host::in_caller(spare, batch, together, enqueue);
    }
  }
  /// enqueue(device, queue, item) for each item, on the CPU one after the other.
  template <class Enqueue>
  void enqueue_each(const Enqueue& enqueue) const {
    this->enqueue(std::max<std::int64_t>(batch, 1),
                  [&](const runtime::KernelSource& device, runtime::Queue& queue,
                      std::int64_t begin, std::int64_t end) {
                    for (std::int64_t item = begin; item < end; ++item) {
                      enqueue(device, queue, item);
                    }
                  });
  }
  /// Only on a GPU: enqueue(kernels, queue) with those that CPUs do not have.
  template <class Enqueue>
  void enqueue_on_gpu(const Enqueue& enqueue) const {
    stream->adopt([&](const runtime::KernelSource& gpu, runtime::Queue& queue) {
      enqueue(gpu.kernels<runtime::LocalKernels>(), queue);
    });
  }
  /// As Job has it.
  template <class Value>
  Value option(std::string_view name) const {
    return std::get<Value>(options.at(row->option(name)));
  }
  /// Throws Error(internal) unless a buffer has this length, which its name is told with.
  void require_length(BufferIndex buffer, std::int64_t length) const;
};

}  // namespace shardsolve::jax
