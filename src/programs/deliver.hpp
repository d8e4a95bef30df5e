/// Bytes from each rank to each other one.
#pragma once

#include "comm/communicator.hpp"
#include "mesh/rank.hpp"
#include "programs/gather.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardsolve::programs {

/// What rank r gives for this one, read(r, bytes), for each other r that gives something; in their
/// order. `sent`: for each rank, and nothing for the own one. Waits: not for loops.
template <class Read>
void deliver(mesh::Rank& rank, std::vector<std::vector<std::byte>> sent, const Read& read) {
  std::vector<std::int64_t> sizes;
  for (const std::vector<std::byte>& bytes : sent) {
    sizes.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  const std::vector<std::vector<std::int64_t>> all = gather_from_all(rank, sizes);
  const auto mine = static_cast<std::size_t>(rank.index());
  std::vector<std::int64_t> received;
  for (const std::vector<std::int64_t>& of_rank : all) {
    received.push_back(of_rank[mine]);
  }
  // In memory of the device, which is what communicators move.
  const auto places_for = [&](const std::vector<std::int64_t>& counts) {
    std::int64_t total = 0;
    for (const std::int64_t count : counts) {
      total += count;
    }
    auto* at = rank.workspace<std::byte>(std::max<std::int64_t>(total, 1), 1).data();
    std::vector<comm::Bytes> places;
    for (const std::int64_t count : counts) {
      places.push_back({at, static_cast<std::size_t>(count)});
      at += count;
    }
    return places;
  };
  const std::vector<comm::Bytes> from = places_for(sizes);
  const std::vector<comm::Bytes> to = places_for(received);
  for (std::size_t r = 0; r < sent.size(); ++r) {
    rank.transfer().copy(from[r].data, sent[r].data(), from[r].size);
  }
  rank.transfer().synchronize();  // from here on `sent` may go
  sent.clear();
  rank.leave_if_failed();
  rank.communicator().all_to_all(rank.transfer(), from, to);
  for (std::size_t r = 0; r < to.size(); ++r) {
    if (r != mine && to[r].size > 0) {
      read(static_cast<std::int64_t>(r),
           rank.fetch(rank.transfer(), static_cast<const std::byte*>(to[r].data),
                      static_cast<std::int64_t>(to[r].size)));
    }
  }
  rank.finish(rank.transfer());
}

}  // namespace shardsolve::programs
