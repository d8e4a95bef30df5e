#include "runtime/workspace.hpp"

#include <shardsolve/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace shardsolve::runtime {
namespace {

/// Counts the bytes that are out; has no queues and no kernels.
class CountingDevice final : public Device {
 public:
  std::unique_ptr<Queue> make_queue(const std::string& /*name*/, Priority /*priority*/) override {
    return nullptr;
  }
  std::unique_ptr<Event> make_event() override { return nullptr; }
  Buffer allocate(std::size_t bytes) override {
    if (out_ + bytes > limit_) {
      throw Error(ErrorKind::out_of_memory, "full");
    }
    ++allocations_;
    out_ += bytes;
    most_ = std::max(most_, out_);
    return {std::shared_ptr<void>(new char[bytes + 1],
                                  [this, bytes](void* data) {
                                    out_ -= bytes;
                                    delete[] static_cast<char*>(data);
                                  }),
            bytes};
  }
  Buffer allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void adopt_thread() override {}
  void require_device_memory(const void*, Memory, const char*) const override {}
  const void* find_kernels(KernelSet, Dtype) const override { return nullptr; }

  std::size_t out_ = 0;
  std::size_t most_ = 0;
  std::size_t limit_ = 1000;
  int allocations_ = 0;
};

Allocate from(Device& device) {
  return [&device](std::size_t bytes) { return device.allocate(bytes); };
}

TEST(Workspace, SameCallAgain_AllocatesNothing) {
  CountingDevice device;
  Workspace workspace(from(device));
  for (int call = 0; call < 3; ++call) {
    void* const first = workspace.take(100);
    void* const second = workspace.take(100);
    EXPECT_NE(first, second);
    workspace.take(40);
    workspace.give_back();
  }
  EXPECT_EQ(device.allocations_, 3);
  EXPECT_EQ(device.out_, 240U);
}

TEST(Workspace, OtherCalls_NeverHoldMoreThanTheLargestUses) {
  CountingDevice device;
  Workspace workspace(from(device));
  for (const auto& call : {std::vector<std::size_t>{300, 200}, {50, 60}, {500}, {250, 250}, {10}}) {
    for (const std::size_t bytes : call) {
      workspace.take(bytes);
    }
    workspace.give_back();
  }
  EXPECT_EQ(device.most_, 500U);
}

TEST(Workspace, SmallCallBetween_LeavesTheLargeOnesMemory) {
  CountingDevice device;
  Workspace workspace(from(device));
  workspace.take(400);
  workspace.take(100);
  workspace.give_back();
  workspace.take(100);
  workspace.give_back();
  workspace.take(400);
  EXPECT_EQ(device.allocations_, 2);
}

TEST(Workspace, FullDevice_GivesUpIdleMemoryFirst) {
  CountingDevice device;
  Workspace workspace(from(device));
  workspace.take(600);
  workspace.give_back();
  workspace.take(900);
  EXPECT_EQ(device.out_, 900U);
}

TEST(Workspace, Held_IsWhatTheDeviceHasGiven) {
  CountingDevice device;
  Workspace workspace(from(device));
  workspace.take(100);
  EXPECT_EQ(workspace.held(), 100U);
  workspace.give_back();
  EXPECT_EQ(workspace.held(), 100U);
  workspace.take(300);
  EXPECT_EQ(workspace.held(), device.out_);
}

constexpr std::size_t line = 512;  // pieces of a room begin at multiples

TEST(Workspace, InARoom_TakesPiecesOfItAndAllocatesNothing) {
  CountingDevice device;
  Workspace workspace(from(device));
  workspace.take(100);
  workspace.give_back();
  std::vector<std::byte> room(5 * line);
  workspace.use(room);
  EXPECT_EQ(device.out_, 0U);
  for (int call = 0; call < 3; ++call) {
    EXPECT_EQ(workspace.take(100), room.data());
    EXPECT_EQ(workspace.take(line + 1), room.data() + line);
    EXPECT_EQ(workspace.take(0), room.data() + 3 * line);
    EXPECT_EQ(workspace.take(line), room.data() + 4 * line);
    EXPECT_EQ(workspace.held(), room.size());
    workspace.give_back();
  }
  EXPECT_EQ(device.allocations_, 1);
}

TEST(Workspace, RoomOfSomebodyElse_TakesThePlaceOfItsOwn) {
  CountingDevice device;
  std::vector<std::byte> room(2 * line);
  for (const std::span<std::byte> other : {std::span(room), std::span<std::byte>()}) {
    Workspace workspace(from(device));
    workspace.make_room(400);
    EXPECT_GT(device.out_, 0U);
    workspace.use(other);
    EXPECT_EQ(device.out_, 0U);
    EXPECT_EQ(workspace.held(), other.size());
  }
}

TEST(Workspace, WhatDoesNotFitARoom_GoesAfterTheCallAndIsAskedForNext) {
  CountingDevice device;
  Workspace workspace(from(device));
  std::vector<std::byte> room(2 * line);
  workspace.use(room);
  workspace.take(2 * line - 1);
  workspace.take(900);
  EXPECT_EQ(device.out_, 900U);
  EXPECT_EQ(workspace.held(), room.size() + 900);
  workspace.give_back();
  EXPECT_EQ(device.out_, 0U);
  EXPECT_EQ(workspace.held(), room.size());

  constexpr std::size_t million = 1'000'000;
  EXPECT_GE(workspace.room_for(million), million);
  workspace.use({});
  EXPECT_EQ(workspace.held(), 0U);
}

TEST(Workspace, CallThatTakesMoreThanItSaid_HasRoomForThatNextTime) {
  constexpr std::size_t large = std::size_t{16} << 20U;
  CountingDevice device;
  device.limit_ = 4 * large;
  Workspace workspace(from(device));
  const auto call = [&](std::size_t said, std::size_t taken) {
    workspace.make_room(workspace.room_for(said));
    const std::size_t room = workspace.held();
    workspace.take(taken);
    workspace.give_back();
    return room;
  };
  EXPECT_LT(call(100, large), large);
  EXPECT_LT(call(50, 50), large) << "another call, which has room";
  EXPECT_GE(call(100, large), large);
  EXPECT_EQ(device.allocations_, 3) << "two rooms, and what did not fit into the first";
  EXPECT_EQ(call(large / 2, 10), workspace.held()) << "a room that is large enough stays";
  EXPECT_EQ(device.allocations_, 3);
}

TEST(Workspace, CallThatSaysNothing_ChangesNoRoom) {
  constexpr std::size_t large = std::size_t{16} << 20U;
  CountingDevice device;
  device.limit_ = 2 * large;
  Workspace workspace(from(device));
  workspace.make_room(workspace.room_for(100));
  workspace.take(50);
  workspace.give_back();
  workspace.take(large);
  workspace.give_back();
  EXPECT_EQ(workspace.room_for(100), workspace.held());
  EXPECT_LT(workspace.held(), large);
}

TEST(Workspace, CallsOfSeveralKindsInARoomOfItsOwn_AllocateOnce) {
  CountingDevice device;
  device.limit_ = std::size_t{1} << 30U;
  Workspace workspace(from(device));
  for (int call = 0; call < 3; ++call) {
    for (const std::vector<std::size_t>& pieces : {std::vector<std::size_t>{700, 20}, {2000}}) {
      workspace.make_room(workspace.room_for(2000));
      for (const std::size_t bytes : pieces) {
        workspace.take(bytes);
      }
      workspace.give_back();
    }
  }
  EXPECT_EQ(device.allocations_, 1);
  EXPECT_EQ(workspace.held(), device.out_);
}

TEST(Workspace, LargerRoom_ComesWhenTheSmallerOneHasGone) {
  CountingDevice device;
  Workspace workspace(from(device));
  workspace.make_room(400);
  workspace.make_room(300);
  EXPECT_EQ(device.allocations_, 1);
  workspace.make_room(900);
  EXPECT_EQ(device.out_, 900U);
  EXPECT_EQ(device.most_, 900U);
}

TEST(Workspace, RoomThatIsNotToBeHad_LeavesNothingBehind) {
  CountingDevice device;
  Workspace workspace(from(device));
  workspace.take(600);  // of a call that has said nothing
  workspace.give_back();
  EXPECT_THROW(workspace.make_room(2000), Error);
  EXPECT_EQ(device.out_, 0U);
  EXPECT_EQ(workspace.held(), 0U);
  workspace.make_room(950);
  EXPECT_EQ(device.most_, 950U);
}

TEST(Workspace, MemoryThatItMayHoldBesides_StaysForCallsOfSeveralKinds) {
  CountingDevice device;
  Workspace workspace(from(device), 500);
  for (int call = 0; call < 3; ++call) {
    for (const std::size_t bytes : {400U, 100U, 300U}) {
      workspace.take(bytes);
      workspace.give_back();
    }
  }
  EXPECT_EQ(device.allocations_, 3);
}

TEST(Workspace, Destroyed_ReleasesEverything) {
  CountingDevice device;
  {
    Workspace workspace(from(device));
    workspace.take(100);
    workspace.give_back();
    workspace.take(50);
  }
  EXPECT_EQ(device.out_, 0U);
}

}  // namespace
}  // namespace shardsolve::runtime
