/// Loops around the timed runs, spread over the cores.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace shardsolve::bench {

/// Calls body(begin, end) for consecutive pieces of [0, count), one a core, all at once.
template <class Body>
void parallel_pieces(std::int64_t count, Body body) {
  const auto pieces = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  std::vector<std::jthread> threads;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    threads.emplace_back(body, piece * count / pieces, (piece + 1) * count / pieces);
  }
}

}  // namespace shardsolve::bench
