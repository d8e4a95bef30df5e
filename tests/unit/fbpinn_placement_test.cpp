// Who has which boxes, and what ranks send each other.

#include "fbpinn/pairs.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/fbpinn_placement.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

using testing::expect_error;
using ::testing::HasSubstr;

Boxes many_boxes() { return Boxes::regular({{0, 1}, {0, 1}}, {15, 5}, 2.9); }
std::vector<double> many_points() { return grid({{0, 1}, {0, 1}}, {72, 36}); }

TEST(FbpinnPlacement, SeventyFiveBoxesOnTwoRanks_AreCutStraightOrWithAJog) {
  const std::vector<Placement> all = placements(many_boxes(), many_points(), 2);
  const auto of = [&](const std::string& name) {
    return *std::find_if(all.begin(), all.end(),
                         [&](const Placement& one) { return one.name == name; });
  };
  const Placement straight = of("straight along axis 0");
  EXPECT_EQ(straight.boxes[0] % 5, 0);
  EXPECT_NEAR(straight.load(), 1.07, 0.02);
  const Placement jogged = of("with a jog along axis 0");
  EXPECT_LT(jogged.load(), 1.03);
  EXPECT_GT(*std::max_element(jogged.sent.begin(), jogged.sent.end()),
            *std::max_element(straight.sent.begin(), straight.sent.end()));
  EXPECT_THAT(text_of(all), HasSubstr("<- chosen"));
}

TEST(FbpinnPlacement, SlowLinks_MakeTheStraightCutTheBetterOne) {
  PlacementCosts slow;
  slow.seconds_per_byte = 1e-6;
  EXPECT_EQ(placements(many_boxes(), many_points(), 2, slow).front().name, "straight along axis 0");
  PlacementCosts fast;
  fast.seconds_per_byte = 0;
  EXPECT_EQ(placements(many_boxes(), many_points(), 2, fast).front().name,
            "with a jog along axis 0");
}

TEST(FbpinnPlacement, AnyNumberOfRanks_HasEachBoxOnce) {
  for (const std::int64_t ranks : {1, 2, 3, 4, 6, 8}) {
    for (const Placement& one : placements(many_boxes(), many_points(), ranks)) {
      EXPECT_EQ(std::accumulate(one.boxes.begin(), one.boxes.end(), std::int64_t{0}), 75);
      EXPECT_LT(*std::max_element(one.owner.begin(), one.owner.end()), ranks);
    }
    EXPECT_LT(placements(many_boxes(), many_points(), ranks).front().load(), 1.25) << ranks;
  }
}

TEST(FbpinnPlacement, MoreRanksThanBoxes_LeavesSomeWithout) {
  const Boxes boxes = Boxes::regular({{0, 1}}, {3}, 2.0);
  for (const Placement& one : placements(boxes, grid({{0, 1}}, {30}), 5)) {
    EXPECT_EQ(std::accumulate(one.boxes.begin(), one.boxes.end(), std::int64_t{0}), 3);
    EXPECT_EQ(one.boxes.size(), 5U);
  }
}

TEST(FbpinnExchange, Lists_AreThoseOfBruteForce) {
  const Boxes boxes = many_boxes();
  const std::vector<double> points = many_points();
  const auto count = static_cast<std::int64_t>(points.size() / 2);
  const Pairs pairs = find_pairs(boxes, points.data(), count);
  constexpr std::int64_t ranks = 3;
  std::vector<std::int32_t> owner;
  for (std::int32_t box = 0; box < 75; ++box) {
    owner.push_back(box * 7 % 3);
  }
  const ExchangePlan plan = exchange_plan(boxes, points, owner, ranks);
  for (std::int32_t from = 0; from < ranks; ++from) {
    for (std::int32_t to = 0; to < ranks; ++to) {
      std::vector<std::int32_t> expected;
      for (std::int64_t p = 0; p < count && from != to; ++p) {
        bool is_around = false;
        for (std::int64_t box = 0; box < 75; ++box) {
          const auto of_box = pairs.points_of(box);
          is_around = is_around || (owner[static_cast<std::size_t>(box)] == from &&
                                    std::find(of_box.begin(), of_box.end(), p) != of_box.end());
        }
        if (is_around && plan.owner[static_cast<std::size_t>(p)] == to) {
          expected.push_back(static_cast<std::int32_t>(p));
        }
      }
      EXPECT_EQ(plan.sends[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)], expected);
    }
  }
}

TEST(FbpinnPlacement, WrongOnes_AreRefused) {
  const auto refused = [](const std::function<void()>& act, const std::vector<std::string>& words) {
    expect_error(act, ErrorKind::invalid_argument, words);
  };
  const std::vector<std::int32_t> few{0, 1};
  const std::vector<std::int32_t> far(75, 2);
  refused([] { placements(many_boxes(), many_points(), 0); }, {"0 ranks"});
  refused([&] { exchange_plan(many_boxes(), many_points(), few, 2); }, {"2 boxes given for 75"});
  refused([&] { exchange_plan(many_boxes(), many_points(), far, 2); },
          {"box 0", "rank 2", "0 to 1"});
  refused([] { placements(many_boxes(), std::vector<double>{0.5}, 2); }, {"1 coordinates"});
}

}  // namespace
}  // namespace shardsolve::fbpinn
