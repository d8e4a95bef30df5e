// What processes and users are told of an exception.

#include "comm/failure.hpp"

#include "runtime/pulse.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <new>
#include <stdexcept>

namespace shardsolve::comm {
namespace {

using ::testing::HasSubstr;

std::optional<Failure> described(const auto& exception) {
  return describe(std::make_exception_ptr(exception));
}

TEST(Failure, ErrorKeepsItsKindAndWords) {
  const auto failure = described(Error(ErrorKind::io, "the disk is full"));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, ErrorKind::io);
  EXPECT_EQ(failure->text(), "the disk is full");
}

/// The sentence takes no memory, of which there is none.
TEST(Failure, NoMemory_SaysWhatToLookAt) {
  const auto failure = described(std::bad_alloc());
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, ErrorKind::out_of_memory);
  EXPECT_TRUE(failure->message.empty());
  EXPECT_THAT(failure->text(), HasSubstr("ulimit -v"));
}

TEST(Failure, AnyOtherException_IsInternal) {
  const auto failure = described(std::runtime_error("why"));
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, ErrorKind::internal);
  EXPECT_EQ(failure->text(), "why");
}

TEST(Failure, WhatOnlyFollowsAnotherOne_IsNothing) {
  EXPECT_FALSE(described(runtime::Abandoned()));
}

}  // namespace
}  // namespace shardsolve::comm
