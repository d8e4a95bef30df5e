#include "mesh/gpu_seats.hpp"

#include "tests/support/in_all.hpp"
#include "tests/support/thrown.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace shardsolve::testing {
namespace {

using mesh::choose_gpu;
using mesh::GpuSeat;
using ::testing::HasSubstr;

struct Choice {
  std::vector<int> devices;
  std::int64_t place, processes, visible;
  int gpu;
};

TEST(ChooseGpu, PlaceAmongTheProcessesOfAHost_Decides) {
  for (const Choice& c : {Choice{{}, 0, 4, 4, 0}, Choice{{}, 3, 4, 8, 3},
                          Choice{{2, 5}, 1, 2, 8, 5}, Choice{{7, 1, 0}, 0, 2, 8, 7}}) {
    EXPECT_EQ(choose_gpu(c.devices, c.place, c.processes, c.visible), c.gpu);
  }
}

TEST(ChooseGpu, WhereOneIsSeen_TakesThat) { EXPECT_EQ(choose_gpu({}, 3, 4, 1), 0); }

TEST(ChooseGpu, MoreProcessesThanGpus_AreRefusedWithFigures) {
  auto error = thrown_by([] { choose_gpu({}, 2, 3, 2); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::device);
  EXPECT_THAT(error->what(), HasSubstr("3 processes of the mesh and 2 GPUs"));
  error = thrown_by([] { choose_gpu({4, 6}, 2, 3, 8); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
  EXPECT_THAT(error->what(), HasSubstr("2 GPUs listed, and this host has 3 processes"));
}

/// Of a process of its own.
GpuSeat seat(const std::string& gpu, const std::vector<std::string>& visible) {
  static std::uint64_t processes = 0;
  GpuSeat one;
  one.gpu = gpu;
  one.visible = visible;
  one.process = ++processes;
  return one;
}

TEST(GpuSeat, Text_BringsEverything) {
  GpuSeat one = seat("GPU-1", {"GPU-0", "GPU-1"});
  one.error = ErrorKind::device;
  one.failure = "two\nlines";
  one.communicator = GpuCommunicator::nccl;
  const GpuSeat back = GpuSeat::of_text(one.text());
  EXPECT_EQ(back.error, one.error);
  EXPECT_EQ(back.failure, "two lines");
  EXPECT_EQ(back.gpu, one.gpu);
  EXPECT_EQ(back.communicator, one.communicator);
  EXPECT_EQ(back.process, one.process);
  EXPECT_EQ(back.visible, one.visible);
  EXPECT_EQ(GpuSeat::of_text(GpuSeat().text()).text(), GpuSeat().text());
}

TEST(GpuSeats, OfAProcessWithoutGpu_AreRefusedInItsWords) {
  std::vector<GpuSeat> seats = {seat("a", {"a"}), GpuSeat(), GpuSeat()};
  seats[1].error = ErrorKind::device;
  seats[1].failure = "no driver";
  seats[2].error = ErrorKind::invalid_argument;
  seats[2].failure = "something else";
  const auto error = thrown_by([&] { mesh::require_seats(seats, false); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::device);
  EXPECT_EQ(std::string(error->what()), "rank 1: no driver");
}

TEST(GpuSeats, WhatFailsInSomeProcesses_FailsInAllLikeInTheLowest) {
  const auto errors = in_all(4, [](comm::Transport& transport) {
    return thrown_by([&] {
      mesh::in_all_or_none(transport, [&]() -> int {
        switch (transport.rank()) {
          case 1:
            throw Error(ErrorKind::device, "no such GPU");
          case 2:
            throw std::runtime_error("something else");
          default:
            return 0;
        }
      });
    });
  });
  for (const std::optional<Error>& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::device);
    EXPECT_EQ(std::string(error->what()), "rank 1: no such GPU");
  }
}

TEST(GpuSeats, WhatFailsInNoProcess_GivesEachItsOwn) {
  const auto found = in_all(3, [](comm::Transport& transport) {
    return *mesh::in_all_or_none(transport,
                                 [&] { return std::make_unique<std::int64_t>(transport.rank()); });
  });
  EXPECT_EQ(found, (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(GpuSeats, OnOneGpu_AreRefusedUnlessTheyMayShare) {
  const std::vector<GpuSeat> seats = {seat("a", {"a"}), seat("b", {"b"}), seat("a", {"a"})};
  const auto error = thrown_by([&] { mesh::require_seats(seats, false); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("ranks 0 and 2 have the same GPU (a)"));
  mesh::require_seats(seats, true);
}

TEST(GpuSeats, ThatAskForDifferentCommunicators_AreRefused) {
  std::vector<GpuSeat> seats = {seat("a", {"a"}), seat("b", {"b"})};
  seats[1].communicator = GpuCommunicator::nccl;
  const auto error = thrown_by([&] { mesh::require_seats(seats, false); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
  EXPECT_THAT(error->what(), HasSubstr("automatic, rank 1 for nccl"));
}

TEST(GpuSeats, ThatReachEachOtherOnOneHost_MayHaveIpc) {
  const std::vector<GpuSeat> seats = {seat("a", {"a", "b"}), seat("b", {"b", "a"})};
  comm::Topology topology(2);
  EXPECT_EQ(mesh::without_ipc(seats, {0, 0}, topology), "");
  EXPECT_THAT(mesh::without_ipc({seats[0], seat("b", {"b"})}, {0, 0}, topology),
              HasSubstr("rank 1 does not see the GPU of rank 0"));
  topology.set_link(1, 0, comm::nominal_link(comm::LinkKind::host));
  EXPECT_THAT(mesh::without_ipc(seats, {0, 0}, topology),
              HasSubstr("GPUs of ranks 1 and 0 have no peer access"));
}

/// Where no process sees the others' GPUs, and no setting would change that.
TEST(GpuSeats, OnDifferentHosts_HaveNoIpcForThatReason) {
  EXPECT_THAT(mesh::without_ipc({seat("a", {"a"}), seat("b", {"b"})}, {0, 1},
                                comm::topology_of_processes({0, 1})),
              HasSubstr("different hosts"));
}

TEST(ChooseCommunicator, IpcWhereNothingIsAgainstIt_ElseNccl) {
  using mesh::choose_communicator;
  EXPECT_EQ(choose_communicator(GpuCommunicator::automatic, ""), GpuCommunicator::ipc);
  EXPECT_EQ(choose_communicator(GpuCommunicator::automatic, "a reason"), GpuCommunicator::nccl);
  EXPECT_EQ(choose_communicator(GpuCommunicator::nccl, ""), GpuCommunicator::nccl);
  EXPECT_EQ(choose_communicator(GpuCommunicator::ipc, ""), GpuCommunicator::ipc);
  const auto error = thrown_by([] { choose_communicator(GpuCommunicator::ipc, "a reason"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::device);
  EXPECT_THAT(error->what(), HasSubstr("a reason"));
}

TEST(GpuSeats, OfOneProcess_AreRefused) {
  std::vector<GpuSeat> seats = {seat("a", {"a", "b", "c"}), seat("b", {"a", "b", "c"}),
                                seat("c", {"a", "b", "c"})};
  EXPECT_NO_THROW(mesh::require_seats(seats, false));
  seats[2].process = seats[1].process;
  for (const bool may_share : {false, true}) {
    const auto error = thrown_by([&] { mesh::require_seats(seats, may_share); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::unsupported);
    EXPECT_THAT(error->what(), HasSubstr("ranks 1 and 2 are GPUs of the same process"));
  }
}

}  // namespace
}  // namespace shardsolve::testing
