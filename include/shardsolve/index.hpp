/// Tagged 64-bit indices: a row of the whole matrix, a column of one slab and a step of the
/// elimination are different types, so that mixing them does not compile.
#pragma once

#include <compare>
#include <cstdint>

namespace shardsolve {

/// An integer position of one kind. Adding a plain count moves it; the difference of two positions
/// of the same kind is a plain count.
template <class Tag>
class Index {
 public:
  constexpr Index() = default;
  explicit constexpr Index(std::int64_t value) : value_(value) {}

  constexpr std::int64_t value() const { return value_; }

  friend constexpr auto operator<=>(Index, Index) = default;
  friend constexpr Index operator+(Index index, std::int64_t count) {
    return Index(index.value_ + count);
  }
  friend constexpr Index operator-(Index index, std::int64_t count) {
    return Index(index.value_ - count);
  }
  friend constexpr std::int64_t operator-(Index a, Index b) { return a.value_ - b.value_; }
  constexpr Index& operator++() {
    ++value_;
    return *this;
  }

 private:
  std::int64_t value_ = 0;
};

/// Row or column of the whole matrix, 0-based, in the caller's order.
using GlobalIndex = Index<struct GlobalIndexTag>;
/// Column of one rank's slab, 0-based.
using LocalIndex = Index<struct LocalIndexTag>;
/// Step of the elimination: one local block of one rank.
using Step = Index<struct StepTag>;
/// Place of a row in the elimination order: 0 is eliminated first.
using Position = Index<struct PositionTag>;

/// A half-open run of positions of one kind.
template <class I>
struct Range {
  I begin;
  I end;

  constexpr std::int64_t size() const { return end - begin; }
  constexpr bool empty() const { return begin == end; }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

using GlobalRange = Range<GlobalIndex>;
using LocalRange = Range<LocalIndex>;

}  // namespace shardsolve
