/// Why a call has failed, as processes tell each other.
#pragma once

#include <shardsolve/error.hpp>

#include <exception>
#include <optional>
#include <string>

namespace shardsolve::comm {

/// Why a call has failed.
struct Failure {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
};

/// What other processes are told of an exception; nothing if it only follows another one.
std::optional<Failure> describe(const std::exception_ptr& reason);

}  // namespace shardsolve::comm
