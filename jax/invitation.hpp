/// What the ranks of a call tell each other through XLA before it begins, where they may be in
/// several processes.
///
/// Each rank's device writes an invitation, XLA gathers them, and every rank gets all of them with
/// its operands. That is how ranks find each other, and how they know which of several calls under
/// way is the same one: XLA has matched it.
#pragma once

#include "comm/tcp/lobby.hpp"
#include "jax/calls.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::jax {

/// Travels as an array of 32-bit words: nothing but such fields, no gaps.
struct Invitation {
  std::uint32_t version = 0;  ///< of this library
  comm::tcp::Address address;
  std::uint32_t epoch = 0;   ///< how many meshes this process has lost
  std::uint32_t ticket = 0;  ///< a new one each time
  std::int32_t call = 0;     ///< its number in the table
  std::int32_t dtype = 0;
  std::int32_t n = 0;
  std::int32_t ranks = 0;
  std::int32_t columns = 0;
  std::array<std::int32_t, 2 * max_options> options{};  ///< the bits of each
  std::int32_t gpu = cpu;                               ///< CUDA's number of its GPU in its process

  static constexpr std::int32_t cpu = -1;

  /// What all ranks have to agree on.
  void set(const Job& job);
};
constexpr std::int64_t invitation_words = sizeof(Invitation) / sizeof(std::int32_t);
static_assert(invitation_words == 47 && alignof(Invitation) == alignof(std::int32_t));

using Invitations = std::vector<Invitation>;

/// Another one for another version of this library.
std::uint32_t version_number();
/// For this call, from this process.
Invitation invite(const Job& job);
/// Whether there is none: the call has no factor to work with, and no rank waits for another.
inline bool is_missing(const Invitation& one) { return one.version == 0; }
/// Whether all ranks are in this process.
bool all_here(const Invitations& all);
/// What is not the same in all processes, in one sentence; empty if they make the same call.
std::string difference(const Invitations& all);

}  // namespace shardsolve::jax
