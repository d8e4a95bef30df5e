// Processes of one host read each other's windows in place, and where they cannot they copy. The
// jobs of ProcessMesh run both ways; here is what is special to shared memory.

#include "comm/host_peers.hpp"

#include "comm/host_board.hpp"
#include "support/process_jobs.hpp"
#include "support/rank_program.hpp"
#include "support/thrown.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::int64_t ranks = 3;
constexpr std::int64_t some = std::int64_t{1} << 20;

ProcessMeshes on_one_host() { return ProcessMeshes(ranks, ProcessMeshes::usual_eager, Hosts::one); }

/// Of all ranks together, in all their calls so far.
std::int64_t data_messages(ProcessMeshes& on) {
  std::int64_t sum = 0;
  for (std::int64_t rank = 0; rank < on.ranks(); ++rank) {
    sum += on.messages(rank).data_messages();
  }
  return sum;
}

void run_in_all(ProcessMeshes& on, const mesh::RankProgram& program,
                const RunOptions& options = {}) {
  const Errors errors =
      on.together([&](Mesh& mesh, std::int64_t) { run_on(mesh, program, options); });
  for (const auto& error : errors) {
    EXPECT_FALSE(error) << error->what();
  }
}

/// Each rank in turn publishes numbers of its own in a new window, which all others read. Whether
/// they have found them where their root wrote them, or in a copy.
void publish_and_read(mesh::Rank& rank, std::int64_t bytes, bool in_place) {
  comm::Window& window = rank.window(bytes);
  for (std::int64_t root = 0; root < rank.count(); ++root) {
    const auto offset = static_cast<std::size_t>(64 * root);
    const std::int64_t number = 1000 + root;
    if (rank.index() == root) {
      rank.transfer().copy(window.base(root) + offset, &number, sizeof number);
      rank.transfer().synchronize();
    }
    window.publish(rank.transfer(), {root, offset, sizeof number});
    rank.transfer().synchronize();
    std::int64_t found = -1;
    std::memcpy(&found, window.base(root) + offset, sizeof found);
    EXPECT_EQ(found, number);
    EXPECT_EQ(window.base(root) != window.base(rank.index()), in_place && root != rank.index());
    window.release(rank.transfer());
    window.reclaim(rank.transfer());
  }
  rank.transfer().synchronize();
}

/// Mappings of shared memory in this process.
std::int64_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::int64_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find("memfd:shardsolve") != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(HostPeers, Windows_AreReadWhereTheirRootWroteThem) {
  ProcessMeshes on = on_one_host();
  on.clear_faults();  // forgets the messages that made the mesh
  run_in_all(on, [](mesh::Rank& rank) {
    rank.expect_workspace(some);
    publish_and_read(rank, 1024, true);
  });
  EXPECT_EQ(data_messages(on), 0);
}

/// A rank whose plan said too little has its buffer elsewhere.
TEST(HostPeers, BufferOfOneRankThatIsNotInItsWorkspace_IsCopiedByAll) {
  ProcessMeshes on = on_one_host();
  for (std::int64_t other = 0; other < ranks; ++other) {
    SCOPED_TRACE(other);
    run_in_all(on, [other](mesh::Rank& rank) {
      rank.expect_workspace(some);
      if (rank.index() == other) {
        rank.workspace<std::byte>(8 * some, 1);
      } else {
        rank.workspace<std::byte>(1024, 1);
      }
      publish_and_read(rank, 4 * some, false);
      publish_and_read(rank, 1024, true);
    });
    on = on_one_host();
  }
}

TEST(HostPeers, MoreWindowsThanThereIsRoomFor_AreCopied) {
  ProcessMeshes on = on_one_host();
  run_in_all(on, [](mesh::Rank& rank) {
    rank.expect_workspace(some);
    for (std::size_t index = 0; index < comm::HostBoard::max_windows + 3; ++index) {
      publish_and_read(rank, 1024, index < comm::HostBoard::max_windows);
    }
  });
}

/// One end of each rank without a mesh, for a workspace that others cannot open. In each call the
/// first bytes of all are read where that is to be.
TEST(HostPeers, WorkspaceThatCannotBeOpened_IsCopiedByAllUntilItCan) {
  const auto post = std::make_shared<MemoryPost>(ranks, ProcessMeshes::usual_eager, Hosts::one);
  comm::Pulses pulses(ranks);
  pulses.set_silence_limit(std::chrono::seconds(20));
  struct Call {
    std::int64_t size;
    char ticket;  // how that of the last rank begins
    bool in_place;
  };
  std::barrier<> all(ranks);
  const auto run = [&](std::int64_t rank) {
    MemoryTransport transport(post, rank);
    comm::ProcessGroup group(std::make_unique<MemoryTransport>(post, rank));
    auto board = comm::make_host_board(transport);
    ASSERT_TRUE(board);
    char& ticket = board->workspace(ranks - 1).ticket.front();
    comm::HostPeers peers(group, pulses, std::move(board));
    char right = 0;
    for (const Call& call : {Call{some, 0, true}, Call{2 * some, 'x', false},
                             Call{2 * some, 0, true}, Call{some, 0, true}}) {
      peers.begin_call();
      const comm::Bytes memory = peers.make_workspace(static_cast<std::size_t>(call.size));
      *static_cast<char*>(memory.data) = static_cast<char>('a' + rank);
      if (rank == ranks - 1) {
        right = call.ticket == 'x' || right == 0 ? ticket : right;
        ticket = call.ticket == 'x' ? 'x' : right;
      }
      const auto window = peers.make_window({memory.data, 64});
      EXPECT_EQ(window != nullptr, call.in_place);
      for (std::int64_t other = 0; window && other < ranks; ++other) {
        EXPECT_EQ(static_cast<char>(*window->base(other)), static_cast<char>('a' + other));
      }
      all.arrive_and_wait();
    }
  };
  std::vector<std::future<void>> ends;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    ends.push_back(std::async(std::launch::async, [&run, &all, rank] {
      try {
        run(rank);
      } catch (const std::exception& error) {
        all.arrive_and_drop();
        ADD_FAILURE() << error.what();
      }
    }));
  }
}

TEST(HostPeers, CallsOfDifferentSizes_GiveTheBitsOfOneProcessAndKeepTheLargest) {
  ProcessMeshes on = on_one_host();
  const std::int64_t without = mappings();
  for (const std::int64_t n : {100, 700, 40, 900, 100}) {
    SCOPED_TRACE(n);
    const Job job{"solve", [n](Mesh& mesh, const RunOptions& options) {
                    return run_solve<double>(mesh, options, n, 16);
                  }};
    ASSERT_TRUE(agrees(on, job, in_one_process(job, ranks)));
    // Each rank's workspace, in its own process and in those of all others.
    EXPECT_EQ(mappings() - without, ranks * ranks);
  }
}

TEST(HostPeers, WorkspaceThatIsNotToBeHad_FailsTheCallAndTheNextWorks) {
  const Job job = jobs().front();
  const Answer expected = in_one_process(job, ranks);
  ProcessMeshes on = on_one_host();
  for (std::int64_t greedy = 0; greedy < ranks; ++greedy) {
    ASSERT_TRUE(agrees(on, job, expected));
    const Errors errors = on.together([&](Mesh& mesh, std::int64_t) {
      run_on(mesh, [greedy](mesh::Rank& rank) {
        rank.expect_workspace(rank.index() == greedy ? std::int64_t{1} << 50 : some);
        publish_and_read(rank, 1024, true);
      });
    });
    for (const auto& error : errors) {
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind(), ErrorKind::out_of_memory);
      EXPECT_THAT(error->what(), HasSubstr("bytes of host memory: "));
    }
  }
  EXPECT_TRUE(agrees(on, job, expected));
}

/// A limit for files is one for shared memory, too.
TEST(HostPeers, WhereTheSystemSharesNoMoreMemory_LargerCallsAreCopied) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ProcessMeshes on = on_one_host();
  const auto call = [&on](std::int64_t bytes, bool in_place) {
    run_in_all(on, [=](mesh::Rank& rank) {
      rank.expect_workspace(bytes);
      publish_and_read(rank, 1024, in_place);
    });
  };
  call(some, true);
  const rlimit low{.rlim_cur = 4 * some, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  call(some, true);
  run_in_all(on, [](mesh::Rank& rank) {  // all copy, though only one has none
    rank.expect_workspace(rank.index() == 1 ? 16 * some : some);
    publish_and_read(rank, 1024, false);
  });
  call(some, false);
  call(16 * some, false);
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  call(some, false);
}

TEST(HostPeers, RankThatPublishesNothing_IsNamedByTheOthers) {
  constexpr milliseconds limit(250);
  ProcessMeshes on = on_one_host();
  const std::int64_t without = mappings();
  const Errors errors = on.together([&](Mesh& mesh, std::int64_t) {
    run_on(mesh,
           [&](mesh::Rank& rank) {
             rank.expect_workspace(some);
             comm::Window& window = rank.window(1024);
             rank.set_step(5);
             if (rank.index() == 1) {
               std::this_thread::sleep_for(6 * limit);
             }
             window.publish(rank.transfer(), {1, 0, 8});
             rank.transfer().synchronize();
           },
           {.silence_limit = limit});
  });
  for (const std::size_t other : {0, 2}) {
    ASSERT_TRUE(errors[other]);
    EXPECT_EQ(errors[other]->kind(), ErrorKind::communication);
    EXPECT_THAT(errors[other]->what(), HasSubstr("rank 1 has been silent"));
    EXPECT_THAT(errors[other]->what(), HasSubstr("waited at step 5 in 'publish'"));
  }
  // The others no longer keep its memory, which would go with it.
  EXPECT_EQ(mappings() - without, ranks * ranks - 2);
}

TEST(HostPeers, MeshesThatHaveEnded_LeaveNoMemoryBehind) {
  const std::int64_t before = mappings();
  {
    ProcessMeshes on = on_one_host();
    ASSERT_TRUE(agrees(on, jobs().front(), in_one_process(jobs().front(), ranks)));
    EXPECT_GT(mappings(), before);
  }
  EXPECT_EQ(mappings(), before);
}

/// Of rank 0: another rank is told of memory that is not there, as where processes see each other
/// by other numbers.
class MisleadingTransport final : public comm::Transport {
 public:
  MisleadingTransport(std::unique_ptr<comm::Transport> inner, std::int64_t misled)
      : inner_(std::move(inner)), misled_(misled) {}

  std::int64_t ranks() const override { return inner_->ranks(); }
  std::int64_t rank() const override { return inner_->rank(); }
  const std::vector<std::int64_t>& hosts() const override { return inner_->hosts(); }
  std::unique_ptr<comm::Message> send(std::int64_t to, Channel channel, int tag,
                                      comm::Bytes data) override {
    // The first text, behind its length, is what memory is opened by: process, file and token.
    if (to == misled_ && ticket_.empty() && data.size > sizeof(std::uint64_t)) {
      ticket_.assign(static_cast<const char*>(data.data), data.size);
      ticket_.back() = ticket_.back() == '0' ? '1' : '0';
      data.data = ticket_.data();
    }
    return inner_->send(to, channel, tag, data);
  }
  std::unique_ptr<comm::Message> receive(std::int64_t from, Channel channel, int tag,
                                         comm::Bytes room) override {
    return inner_->receive(from, channel, tag, room);
  }
  std::int64_t arrived(std::int64_t from, int tag) override { return inner_->arrived(from, tag); }
  void abandon() override { inner_->abandon(); }

 private:
  std::unique_ptr<comm::Transport> inner_;
  std::int64_t misled_;
  std::string ticket_;
};

TEST(HostPeers, ProcessThatCannotOpenTheMemoryOfAnother_HasAllCopy) {
  for (std::int64_t misled = 1; misled < ranks; ++misled) {
    SCOPED_TRACE(misled);
    const auto post = std::make_shared<MemoryPost>(ranks, ProcessMeshes::usual_eager, Hosts::one);
    std::vector<std::unique_ptr<comm::Transport>> transports;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      transports.push_back(std::make_unique<MemoryTransport>(post, rank));
    }
    transports[0] = std::make_unique<MisleadingTransport>(std::move(transports[0]), misled);
    ProcessMeshes on(std::move(transports));
    run_in_all(on, [](mesh::Rank& rank) {
      rank.expect_workspace(some);
      publish_and_read(rank, 1024, false);
    });
    EXPECT_TRUE(agrees(on, jobs().front(), in_one_process(jobs().front(), ranks)));
  }
}

}  // namespace
}  // namespace shardsolve::testing
