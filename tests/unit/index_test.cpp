#include <shardsolve/index.hpp>

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace shardsolve {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };
template <class A, class B>
concept Subtractable = requires(A a, B b) { a - b; };
template <class A, class B>
concept Comparable = requires(A a, B b) { a < b; } || requires(A a, B b) { a == b; };

// A position plus a count is a position, two positions differ by a count.
static_assert(Addable<GlobalIndex, std::int64_t>);
static_assert(std::same_as<decltype(GlobalIndex() + std::int64_t{1}), GlobalIndex>);
static_assert(std::same_as<decltype(GlobalIndex() - GlobalIndex()), std::int64_t>);
static_assert(!Addable<GlobalIndex, GlobalIndex>);

// Positions of different kinds do not meet.
static_assert(!Addable<GlobalIndex, LocalIndex>);
static_assert(!Subtractable<GlobalIndex, LocalIndex>);
static_assert(!Subtractable<Position, GlobalIndex>);
static_assert(!Comparable<GlobalIndex, LocalIndex>);
static_assert(!Comparable<Step, Position>);
static_assert(!std::is_constructible_v<GlobalIndex, LocalIndex>);
static_assert(!std::is_assignable_v<GlobalIndex&, LocalIndex>);
static_assert(!std::is_constructible_v<GlobalRange, LocalRange>);

// A plain integer becomes a position, or a position an integer, only where somebody wrote so.
static_assert(std::is_constructible_v<GlobalIndex, std::int64_t>);
static_assert(!std::is_convertible_v<std::int64_t, GlobalIndex>);
static_assert(!std::is_convertible_v<int, GlobalIndex>);
static_assert(!std::is_convertible_v<GlobalIndex, std::int64_t>);
static_assert(!Comparable<GlobalIndex, int>);

TEST(Index, Default_IsZero) { EXPECT_EQ(GlobalIndex().value(), 0); }

TEST(Index, Arithmetic_MovesByCounts) {
  GlobalIndex index(5);
  EXPECT_EQ(index + 3, GlobalIndex(8));
  EXPECT_EQ(index - 3, GlobalIndex(2));
  EXPECT_EQ(GlobalIndex(8) - index, 3);
  EXPECT_EQ(++index, GlobalIndex(6));
  EXPECT_LT(GlobalIndex(5), index);
}

TEST(Index, Value_HoldsMoreThan32Bits) {
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_EQ((LocalIndex(large) + large).value(), 2 * large);
}

TEST(Range, SizeAndEmpty_FollowItsEnds) {
  const LocalRange some{LocalIndex(2), LocalIndex(5)};
  const LocalRange none{LocalIndex(2), LocalIndex(2)};
  EXPECT_EQ(some.size(), 3);
  EXPECT_FALSE(some.empty());
  EXPECT_EQ(none.size(), 0);
  EXPECT_TRUE(none.empty());
  EXPECT_NE(some, none);
}

}  // namespace
}  // namespace shardsolve
