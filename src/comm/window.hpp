/// Memory that every rank fills in part and all read.
#pragma once

#include "runtime/queue.hpp"

#include <cstddef>
#include <cstdint>

namespace shardsolve::comm {

/// A part of a window: what `root` wrote at `offset`.
struct WindowPart {
  std::int64_t root = 0;
  std::size_t offset = 0;
  std::size_t size = 0;
};

/// One buffer of the same size on every rank. A rank writes to its own; after `publish` all ranks
/// read it, in place where they reach it and in a copy at the same offset of their own buffer where
/// not. Parts of different ranks that are in use together therefore do not overlap.
///
/// The life of a part: its root writes it (before: reclaim), all ranks publish it, all ranks read
/// it, each rank releases it. All operations are enqueued, by all ranks in the same order, on the
/// queue that the rank's communicator is used on.
class Window {
 public:
  virtual ~Window() = default;

  /// Where this rank finds what `root` wrote at the beginning of its buffer.
  virtual std::byte* base(std::int64_t root) const = 0;
  /// Afterwards this rank may read the part. Its root has finished writing before.
  virtual void publish(runtime::Queue& queue, const WindowPart& part) = 0;
  /// This rank no longer needs what was published up to here.
  virtual void release(runtime::Queue& queue) = 0;
  /// Afterwards this rank may write to its buffer: all others have released what it published.
  virtual void reclaim(runtime::Queue& queue) = 0;
};

}  // namespace shardsolve::comm
