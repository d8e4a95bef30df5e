/// Threads of somebody else's, such as XLA's, that may do a part of a call's work.
#pragma once

#include <cstdint>
#include <functional>

namespace shardsolve::runtime::host {

class SpareThreads {
 public:
  virtual ~SpareThreads() = default;
  /// How many may run at a time beside the caller.
  virtual std::int64_t count() const = 0;
  /// Runs `task` in one of them, now or later.
  virtual void start(std::function<void()> task) = 0;
};

/// do_piece(i) once for each i < pieces, in IEEE arithmetic, by the caller and by threads that come
/// before all is taken. The caller waits for pieces that are under way, never for a thread to come:
/// all may be busy, or be callers themselves. Throws what a piece throws.
void in_pieces(SpareThreads* spare, std::int64_t pieces,
               const std::function<void(std::int64_t)>& do_piece);

}  // namespace shardsolve::runtime::host
