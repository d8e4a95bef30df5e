/// Which call or allocation of which rank goes wrong, and how.
#pragma once

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::testing {

/// What may happen to a call of a communicator.
enum class Fault : std::uint8_t {
  refused,  ///< it throws when it is enqueued
  failed,   ///< it throws when its turn on the queue comes
  delayed,  ///< it comes later
  silent,   ///< it comes so late that others have given the rank up
};

inline std::string_view name(Fault fault) {
  switch (fault) {
    case Fault::refused:
      return "refused";
    case Fault::failed:
      return "failed";
    case Fault::delayed:
      return "delayed";
    case Fault::silent:
      return "silent";
  }
  return "unknown";
}

/// Counts the calls of the communicators and the allocations of the devices of a mesh, and picks
/// the one that goes wrong. Each rank has counts of its own that only its enqueuing thread touches:
/// nothing here orders two ranks. Everything else is for the time between two calls of the mesh.
class Faults {
 public:
  explicit Faults(std::int64_t ranks) : counts_(static_cast<std::size_t>(ranks)) {}

  /// Counts from zero; nothing goes wrong.
  void clear() {
    counts_.assign(counts_.size(), {});
    rank_ = -1;
  }
  /// Counts from zero; `call` of `rank` goes wrong.
  void strike_call(std::int64_t rank, std::int64_t call, Fault fault,
                   std::chrono::milliseconds late = {}) {
    clear();
    rank_ = rank;
    call_ = call;
    allocation_ = -1;
    fault_ = fault;
    late_ = late;
  }
  /// Counts from zero; there is no memory for `allocation` of `rank`.
  void strike_allocation(std::int64_t rank, std::int64_t allocation) {
    clear();
    rank_ = rank;
    call_ = -1;
    allocation_ = allocation;
  }
  std::int64_t calls(std::int64_t rank) const { return at(rank).calls; }
  std::int64_t allocations(std::int64_t rank) const { return at(rank).allocations; }
  std::chrono::milliseconds late() const { return late_; }

  /// The error of the call or allocation that was struck, the same text wherever it is caught.
  Error planted() const {
    return call_ >= 0 ? Error(ErrorKind::communication,
                              fmt::format("planted: call {} of rank {}", call_, rank_))
                      : Error(ErrorKind::out_of_memory,
                              fmt::format("planted: allocation {} of rank {}", allocation_, rank_));
  }

  // For the decorators.
  std::optional<Fault> next_call(std::int64_t rank) {
    const std::int64_t call = at(rank).calls++;
    return rank == rank_ && call == call_ ? std::optional(fault_) : std::nullopt;
  }
  /// Throws Error(out_of_memory) if it is the one.
  void next_allocation(std::int64_t rank) {
    const std::int64_t allocation = at(rank).allocations++;
    if (rank == rank_ && allocation == allocation_) {
      throw planted();
    }
  }

 private:
  struct alignas(64) Counts {
    std::int64_t calls = 0;
    std::int64_t allocations = 0;
  };
  Counts& at(std::int64_t rank) { return counts_[static_cast<std::size_t>(rank)]; }
  const Counts& at(std::int64_t rank) const { return counts_[static_cast<std::size_t>(rank)]; }

  std::vector<Counts> counts_;
  std::int64_t rank_ = -1;
  std::int64_t call_ = -1;
  std::int64_t allocation_ = -1;
  Fault fault_ = Fault::failed;
  std::chrono::milliseconds late_{};
};

}  // namespace shardsolve::testing
