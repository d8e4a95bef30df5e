/// Errors as values.
#pragma once

#include <shardsolve/error.hpp>

#include <gtest/gtest.h>

#include <optional>

namespace shardsolve::testing {

/// The Error that `call` throws; nothing else may come out of it.
template <class Call>
std::optional<Error> thrown_by(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return std::nullopt;
}

/// Whether `call` throws an Error of this kind.
template <class Call>
::testing::AssertionResult throws(ErrorKind kind, Call call) {
  try {
    call();
  } catch (const Error& error) {
    if (error.kind() == kind) {
      return ::testing::AssertionSuccess() << error.what();
    }
    return ::testing::AssertionFailure() << name(error.kind()) << " was thrown: " << error.what();
  }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace shardsolve::testing
