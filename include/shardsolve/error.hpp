/// What is thrown: misuse and environment. Numerical results are returned, see outcome.hpp.
#pragma once

#include <shardsolve/export.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace shardsolve {

enum class ErrorKind : std::uint8_t {
  invalid_argument,  ///< the caller gave something that is not accepted
  out_of_memory,     ///< the job does not fit; the message has the figures that are known
  device,            ///< a device failed or is missing
  communication,     ///< a rank failed or stopped answering
  io,                ///< a file or directory could not be read or written
  cancelled,         ///< the caller asked for the job to stop
  unsupported,       ///< a sensible request that this build cannot serve
  internal,          ///< a bug of shardsolve
};

/// "invalid_argument", "out_of_memory", ...
SHARDSOLVE_EXPORT std::string_view name(ErrorKind kind);

/// Misuse, or a failure of the environment. The message says what was given, what is accepted and
/// what to do about it.
class SHARDSOLVE_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message);
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace shardsolve
