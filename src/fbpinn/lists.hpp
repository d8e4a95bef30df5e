/// Lists of numbers, and the lists the other way round, by several threads.
#pragma once

#include "fbpinn/numbers.hpp"
#include "sparse/workers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// Places of each value in lists that lie one behind the other.
struct InverseLists {
  std::vector<std::int64_t> begin;  ///< of each value; values + 1
  Numbers<std::int32_t> place;      ///< by value and then place
};

/// `begin`: of each list; lists + 1. `values`: ascending in each list, from 0 to less than `count`.
/// The same numbers whoever does the pieces.
InverseLists inverse_of(std::span<const std::int64_t> begin, std::span<const std::int32_t> values,
                        std::int64_t count, const sparse::ForEach& each);

/// Calls work(first, last) for pieces of 0 <= i < count, so that some 64 pieces are all.
template <class Work>
void each_range(std::int64_t count, const sparse::ForEach& each, const Work& work) {
  constexpr std::int64_t pieces = 64;
  const std::int64_t size = std::max<std::int64_t>((count + pieces - 1) / pieces, 1);
  each((count + size - 1) / size,
       [&](std::int64_t i) { work(i * size, std::min(count, (i + 1) * size)); });
}

/// The least i of 0 <= i < count with is_bad(i); -1 if there is none.
template <class IsBad>
std::int64_t find_first(std::int64_t count, const sparse::ForEach& each, const IsBad& is_bad) {
  std::vector<std::int64_t> found(static_cast<std::size_t>(count / 1024 + 1), -1);
  each(static_cast<std::int64_t>(found.size()), [&](std::int64_t piece) {
    for (std::int64_t i = piece * 1024; i < std::min(count, (piece + 1) * 1024); ++i) {
      if (is_bad(i)) {
        found[static_cast<std::size_t>(piece)] = i;
        return;
      }
    }
  });
  const auto first =
      std::find_if(found.begin(), found.end(), [](std::int64_t i) { return i >= 0; });
  return first == found.end() ? -1 : *first;
}

/// Sorts different numbers that are not negative.
class AscendingSorter {
 public:
  void sort(std::span<std::int32_t> numbers);

 private:
  std::vector<std::uint64_t> marks_;  // a bit for each number, all 0 between calls
};

}  // namespace shardsolve::fbpinn
