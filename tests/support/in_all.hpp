/// What processes do together before they are a mesh, each a thread of the test.
#pragma once

#include "tests/support/memory_transport.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::testing {

/// What call(transport) returns in the process of each rank.
template <class Call>
auto in_all(std::int64_t ranks, Call call) {
  constexpr std::size_t eager = 64;
  const auto post = std::make_shared<MemoryPost>(ranks, eager);
  std::vector<decltype(call(std::declval<comm::Transport&>()))> results(
      static_cast<std::size_t>(ranks));
  std::vector<std::thread> processes;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    processes.emplace_back([&, rank] {
      MemoryTransport transport(post, rank);
      results[static_cast<std::size_t>(rank)] = call(transport);
    });
  }
  for (std::thread& process : processes) {
    process.join();
  }
  EXPECT_TRUE(post->in_good_order());
  return results;
}

}  // namespace shardsolve::testing
