#include "fbpinn/lists.hpp"

#include <bit>

namespace shardsolve::fbpinn {

InverseLists inverse_of(std::span<const std::int64_t> begin, std::span<const std::int32_t> values,
                        std::int64_t count, const sparse::ForEach& each) {
  // Each piece has some of the values, and looks up where lists have them. So nobody writes where
  // another one does, and what is written lies close together.
  constexpr std::int64_t most_pieces = 16;
  constexpr std::int64_t fewest_values = 1024;
  const std::int64_t pieces = std::clamp<std::int64_t>(count / fewest_values, 1, most_pieces);
  const auto first_of = [&](std::int64_t piece) { return count * piece / pieces; };
  const auto lists = static_cast<std::int64_t>(begin.size()) - 1;
  /// Calls use(value, place) for the values of a piece, list by list.
  const auto each_of_piece = [&](std::int64_t piece, const auto& use) {
    const std::int64_t first = first_of(piece);
    const std::int64_t last = first_of(piece + 1);
    for (std::int64_t list = 0; list < lists; ++list) {
      const auto* const at = values.data() + begin[static_cast<std::size_t>(list)];
      const auto* const end = values.data() + begin[static_cast<std::size_t>(list) + 1];
      if (at == end || *at >= last || *(end - 1) < first) {
        continue;
      }
      for (const auto* one = std::lower_bound(at, end, first); one != end && *one < last; ++one) {
        use(static_cast<std::int64_t>(*one), one - values.data());
      }
    }
  };
  InverseLists result;
  result.begin.resize(static_cast<std::size_t>(count) + 1);
  result.place.resize(values.size());
  each(pieces, [&](std::int64_t piece) {
    each_of_piece(piece, [&](std::int64_t value, std::int64_t) {
      ++result.begin[static_cast<std::size_t>(value) + 1];
    });
  });
  for (std::size_t value = 0; value < static_cast<std::size_t>(count); ++value) {
    result.begin[value + 1] += result.begin[value];
  }
  each(pieces, [&](std::int64_t piece) {
    const std::int64_t first = first_of(piece);
    std::vector<std::int64_t> next(result.begin.begin() + first,
                                   result.begin.begin() + first_of(piece + 1));
    each_of_piece(piece, [&](std::int64_t value, std::int64_t place) {
      result.place[static_cast<std::size_t>(next[static_cast<std::size_t>(value - first)]++)] =
          static_cast<std::int32_t>(place);
    });
  });
  return result;
}

void AscendingSorter::sort(std::span<std::int32_t> numbers) {
  if (numbers.empty()) {
    return;
  }
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  const std::int32_t low = *least;
  constexpr std::size_t bits = 64;
  const std::size_t words = static_cast<std::size_t>(*most - low) / bits + 1;
  if (words > 4 * numbers.size()) {  // to look at all of them takes longer
    std::sort(numbers.begin(), numbers.end());
    return;
  }
  if (marks_.size() < words) {
    marks_.resize(words);
  }
  for (const std::int32_t number : numbers) {
    const auto bit = static_cast<std::size_t>(number - low);
    marks_[bit / bits] |= std::uint64_t{1} << (bit % bits);
  }
  auto to = numbers.begin();
  for (std::size_t word = 0; word < words; ++word) {
    for (std::uint64_t& left = marks_[word]; left != 0; left &= left - 1) {
      *to++ = low + static_cast<std::int32_t>(word * bits +
                                              static_cast<std::size_t>(std::countr_zero(left)));
    }
  }
}

}  // namespace shardsolve::fbpinn
