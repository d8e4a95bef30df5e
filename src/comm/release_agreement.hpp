/// When a process may free memory that other processes have open.
#pragma once

#include "runtime/host/one_way_counter.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace shardsolve::comm {

/// One rank's end of an agreement. Each rank has memory that the others keep open from call to
/// call. It may free it when nobody has it open: the ranks agree on that at the beginning of a
/// call, and once more when all have left. What they tell each other lies in memory that all their
/// processes have mapped.
class ReleaseAgreement {
 public:
  /// What one rank tells the others.
  struct Word {
    using Counter = runtime::host::OneWayCounter;
    alignas(64) Counter said{Counter::Scope::machine};    // whether it frees
    alignas(64) Counter closed{Counter::Scope::machine};  // what it had open of others
    alignas(64) Counter left{Counter::Scope::machine};    // for good
    bool frees = false;                                   // published by `said`
  };
  /// Waits until a counter of rank `peer` has reached the target. Throws if that is in vain.
  using Wait = std::function<void(const runtime::host::OneWayCounter& counter, std::uint32_t target,
                                  std::int64_t peer)>;

  /// `words`: one of each rank.
  ReleaseAgreement(std::span<Word> words, std::int64_t rank) : words_(words), rank_(rank) {}

  /// All ranks have left the last call. The counts of this call begin at `first`, the same number
  /// on all ranks and ahead of all counts of earlier calls.
  void begin_call(std::uint32_t first);
  /// Called by all ranks, at most once a call. `frees`: whether this rank wants to free its memory:
  /// it may when this returns, as nobody has it open then. `close` closes what this rank has open
  /// of others; it is called if any rank frees. If `wait` throws, nothing may be freed; the ranks
  /// can meet again in the next call.
  void meet(bool frees, const Wait& wait, const std::function<void()>& close);

  /// This rank has nothing open any longer and comes to no further call.
  void leave() { own().left.store(1); }
  /// Whether all others have left; waits for them, but no longer than `patience`.
  bool all_have_left(std::chrono::milliseconds patience) const;

 private:
  Word& own() const { return words_[static_cast<std::size_t>(rank_)]; }
  template <class Body>
  void for_each_peer(Body body) const;

  std::span<Word> words_;
  std::int64_t rank_;
  std::uint32_t first_ = 0;
};

}  // namespace shardsolve::comm
