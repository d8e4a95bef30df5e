// The emulator that kernels run in where there is no GPU.

#include "kernels/emulation/emulator.hpp"

#include "kernels/orders.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <vector>

namespace shardsolve::testing {
namespace {

TEST(Emulator, ThreadsThatWaitForOthersThatDoNotCome_AreAnError) {
  EXPECT_THROW(emulation::run(1, dim3(64), 0,
                              [] {
                                if (threadIdx.x < 32) {
                                  emulation::wait_for_block();
                                } else {
                                  threadIdx.x % 2 == 0 ? emulation::wait_for_warp()
                                                       : emulation::wait_for_block();
                                }
                              }),
               std::runtime_error);
}

/// In which orders each of two warps' threads finds what the thread `step` further on has written.
std::vector<bool> orders_that_find(int step, bool has_barrier) {
  constexpr int threads = 64;
  std::vector<bool> found;
  in_each_order([&] {
    std::vector<int> written(threads, 0);
    int right = 0;
    emulation::run(1, dim3(threads), 0, [&] {
      const auto me = static_cast<int>(threadIdx.x);
      written[static_cast<std::size_t>(me)] = 1;
      if (has_barrier) {
        emulation::wait_for_block();
      }
      right += written[static_cast<std::size_t>(std::clamp(me + step, 0, threads - 1))];
    });
    found.push_back(right == threads);
  });
  return found;
}

TEST(Emulator, BlocksThatGiveWay_TakeTurns) {
  in_each_order([] {
    for (const int writer : {0, 1}) {
      int flag = 0;
      int seen = 0;
      emulation::run(2, dim3(64), 0, [&] {
        if (static_cast<int>(blockIdx.x) == writer) {
          flag = 1;
        } else if (threadIdx.x == 0) {
          while (flag == 0) {
            emulation::give_way(true);
          }
          seen = flag;
        }
        emulation::wait_for_block();
      });
      EXPECT_EQ(seen, 1);
    }
  });
}

TEST(Emulator, BlocksThatWaitForWhatNobodyWrites_AreAnError) {
  const int flag = 0;
  EXPECT_THROW(emulation::run(3, dim3(32), 0,
                              [&] {
                                while (flag == 0) {
                                  emulation::give_way(true);
                                }
                              }),
               std::runtime_error);
}

TEST(Emulator, MissingBarrier_IsSeenInSomeOrder) {
  EXPECT_EQ(orders_that_find(-1, true), std::vector<bool>(4, true));
  EXPECT_EQ(orders_that_find(1, true), std::vector<bool>(4, true));
  EXPECT_EQ(orders_that_find(-1, false), (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(orders_that_find(1, false), (std::vector<bool>{false, true, false, false}));
}

TEST(Emulator, AsynchronousCopy_ComesAtOnceOrWhenItIsWaitedFor) {
  std::vector<int> at_once;
  in_each_order([&] {
    const int source = 7;
    int target = 0;
    emulation::run(1, dim3(1), 0, [&] {
      emulation::copy_later(&target, &source, sizeof(source), 0);
      emulation::commit_copies();
      at_once.push_back(target);
      emulation::wait_for_copies(0);
    });
    EXPECT_EQ(target, 7);
  });
  EXPECT_EQ(at_once, (std::vector<int>{0, 7, 0, 0}));
}

}  // namespace
}  // namespace shardsolve::testing
