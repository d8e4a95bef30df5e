/// Tables of tile sizes, damaged at random: they are refused by an Error that names the file, or
/// read so that nothing is lost when they are written again.
#include "io/tile_table_file.hpp"
#include "tests/support/fuzz.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace shardsolve::io {
namespace {

using ::testing::HasSubstr;
using testing::Random;

/// What tables are made of, right and wrong.
constexpr std::string_view table_words[] = {
    "{",           "}",       "[",          "]",           ",",        ":",
    "\"",          "\\u0000", " ",          "-",           "1",        "2",
    "0",           ".5",      "e9",         "e999",        "null",     "true",
    "false",       "\"n\"",   "\"tile\"",   "\"kept\"",    "\"eigh\"", "\"cholesky\"",
    "\"routine\"", "float32", "\"device\"", "\"entries\"", "1100",     "18446744073709551615",
    "[[[[[[[[",    "\xff"};

std::string valid_table(Random& random) {
  TileFile file;
  for (std::int64_t entries = random.below(4); entries > 0; --entries) {
    file.put({.device = random.one_in(2) ? "a CPU" : "another \"CPU\"",
              .dtype = static_cast<Dtype>(random.below(4)),
              .ranks = 1 + random.below(3),
              .n = 1000 + 100 * random.below(3),
              .tile = 1 + random.below(512),
              .kept = random.one_in(2),
              .measured = {.seconds = 0.1 / static_cast<double>(1 + random.below(9)),
                           .shipped_tile = 384,
                           .shipped_seconds = 0.125,
                           .noise = 0.01,
                           .date = "2026-11-22",
                           .version = "0.1.0"}});
  }
  if (random.one_in(2)) {
    file.others.push_back({{"routine", "eigh"}, {"band", {64, 0.1, nullptr}}});
  }
  return to_json(file);
}

void damage_table(std::string& text, Random& random) {
  const auto place = static_cast<std::size_t>(random.below(std::ssize(text) + 1));
  switch (random.below(4)) {
    case 0:
      text.resize(place);
      break;
    case 1:
      text.erase(place, static_cast<std::size_t>(random.below(8)));
      break;
    case 2:
      text.insert(place, random.one_of(table_words));
      break;
    default: {  // one word for another, wherever it comes next
      const std::string_view from = random.one_of(table_words);
      const std::size_t found = text.find(from, place);
      if (found != std::string::npos) {
        text.replace(found, from.size(), random.one_of(table_words));
      }
      break;
    }
  }
}

/// What the text holds; nothing if it is refused, which is said as it has to be.
std::optional<TileFile> parsed(const std::string& text) {
  try {
    return parse_tile_file(text, "t.json");
  } catch (const Error& error) {
    const bool other_version = error.kind() == ErrorKind::unsupported;
    EXPECT_TRUE(other_version || error.kind() == ErrorKind::invalid_argument) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("'t.json'"));
    return std::nullopt;
  }
}

TEST(TileTableFuzz, DamagedTable_IsRefusedOrReadWithoutLoss) {
  std::int64_t read = 0;
  std::int64_t refused = 0;
  testing::fuzz(20000, [&](Random& random) {
    std::string text = valid_table(random);
    for (std::int64_t damages = random.below(4); damages > 0; --damages) {
      damage_table(text, random);
    }
    const std::optional<TileFile> file = parsed(text);
    ++(file ? read : refused);
    if (file) {
      const std::optional<TileFile> again = parsed(to_json(*file));
      ASSERT_TRUE(again) << text;
      EXPECT_EQ(again->entries.size(), file->entries.size());
      EXPECT_EQ(again->others, file->others);
      EXPECT_EQ(to_json(*again), to_json(*file));
    }
  });
  // Neither side of the property is empty.
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace shardsolve::io
