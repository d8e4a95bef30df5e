/// What processes of a mesh tell each other beside the data.
#pragma once

#include <shardsolve/error.hpp>

#include <array>
#include <cstdint>

namespace shardsolve::comm {

enum class NoteKind : std::uint8_t {
  pulse,     ///< how far the process is
  failure,   ///< it has failed
  end,       ///< its last one of a call: how that has ended for it
  farewell,  ///< after that: it makes no further call
};

/// What travels. Of the text only as much as there is.
struct Note {
  NoteKind kind = NoteKind::pulse;
  bool traced = false;       ///< whether the call is traced in this process
  bool failed = false;       ///< failure, end: this process has failed on its own
  ErrorKind error{};         ///< failure, end
  std::int64_t silent = -1;  ///< the rank that is not waited for any longer
  std::uint64_t beats = 0;   ///< this and the next three as in Pulse
  std::int64_t step = -1;
  std::int64_t waiting_for = -1;
  std::array<char, 48> operation{};
  double flops = 0.0;          ///< end
  std::uint64_t messages = 0;  ///< end: data messages sent to the receiver
  std::uint64_t length = 0;
  std::array<char, 1800> text{};
};

}  // namespace shardsolve::comm
