#include "mesh/plugin.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace shardsolve::mesh {
namespace {

TEST(Plugin, ThatIsNotThere_SaysWhy) {
  const Plugin plugin("of_no_kind");
  EXPECT_THAT(plugin.failure(), ::testing::HasSubstr("libshardsolve_of_no_kind.so"));
  EXPECT_FALSE(plugin.lies_beside());
  EXPECT_EQ(plugin.path(), "");
}

/// No file may have so long a name: the system refuses to look, as in directories of other users.
TEST(Plugin, ThatCannotBeLookedFor_IsNotThere) {
  const Plugin plugin(std::string(300, 'x'));
  EXPECT_NE(plugin.failure(), "");
  EXPECT_FALSE(plugin.lies_beside());
}

TEST(Plugin, OfAnotherBuildOfThisVersion_IsRefused) {
  const Plugin plugin("old");
  EXPECT_TRUE(plugin.lies_beside());
  EXPECT_THAT(plugin.failure(),
              ::testing::MatchesRegex("libshardsolve_old.so is version .* \\(interface 00000000\\) "
                                      "for .*, this is .*\\(interface [0-9a-f]+\\) for .*: install "
                                      "both from one build"));
}

}  // namespace
}  // namespace shardsolve::mesh
