/// Errors as values.
#pragma once

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

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

/// Expects `act` to throw an Error of this kind that says all these words.
inline void expect_error(const std::function<void()>& act, ErrorKind kind,
                         const std::vector<std::string>& words) {
  try {
    act();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const std::string& word : words) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(word));
    }
  }
}

}  // namespace shardsolve::testing
