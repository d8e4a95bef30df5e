/// The ways to cut a matrix into slabs that every algorithm has to cope with.
#pragma once

#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::testing {

struct Cut {
  std::string name;
  SlabLayout layout;
};

/// 0, 1, nb - 1, nb, nb + 1 rows and several tiles + 3, on 1 to 6 ranks; then uneven and empty
/// slabs.
inline std::vector<Cut> cuts() {
  constexpr std::int64_t tile = 8;
  std::vector<Cut> all;
  for (const std::int64_t ranks : {1, 2, 3, 4, 6}) {
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, tile - 1, tile, tile + 1,
                                 5 * tile + 3, 12 * tile + 3}) {
      all.push_back({fmt::format("n{}_ranks{}", n, ranks), SlabLayout::even(n, ranks, tile)});
    }
  }
  all.push_back({"padded_like_jax", SlabLayout({0, 30, 60, 90, 90}, tile)});
  all.push_back({"nothing_in_the_middle", SlabLayout({0, 40, 40, 70, 71}, tile)});
  all.push_back({"nothing_at_first", SlabLayout({0, 0, 0, 50}, tile)});
  all.push_back({"all_on_the_first", SlabLayout({0, 50, 50, 50}, tile)});
  all.push_back({"tile_of_one", SlabLayout::even(23, 3, 1)});
  all.push_back({"tile_wider_than_slabs", SlabLayout::even(50, 4, 64)});
  all.push_back({"more_ranks_than_rows", SlabLayout::even(3, 8, tile)});
  return all;
}

}  // namespace shardsolve::testing
