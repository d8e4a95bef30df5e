/// Why a call has failed, as processes tell each other.
#pragma once

#include <shardsolve/error.hpp>

#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace shardsolve::comm {

/// Why a call has failed.
struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string message;  // empty where there was no memory for one

  /// What users read: where the message is empty, that the memory was used up.
  [[nodiscard]] std::string_view text() const;
};

/// What is said where the system has no memory, also none for a message.
inline constexpr const char* no_memory_text =
    "the system has no memory left, or a limit on addresses (ulimit -v) is reached";

/// What other processes are told of an exception; nothing if it only follows another one. Does not
/// throw.
std::optional<Failure> describe(const std::exception_ptr& reason);

}  // namespace shardsolve::comm
