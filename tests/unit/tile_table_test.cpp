// Tables of tile sizes: which entry is for a matrix, how results become entries, what a file is.

#include "core/tile_merge.hpp"
#include "core/tile_rules.hpp"
#include "io/tile_table_file.hpp"
#include "tests/support/files.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/tile_table.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve {
namespace {

using ::testing::HasSubstr;

TileEntry entry(std::int64_t from_n, std::int64_t to_n, std::int64_t tile, std::int64_t n,
                const std::string& device = "a CPU") {
  return {.device = device,
          .dtype = Dtype::float64,
          .ranks = 2,
          .from_n = from_n,
          .to_n = to_n,
          .tile = tile,
          .measured = {.n = n,
                       .seconds = 0.1 / 3.0,
                       .shipped_tile = 384,
                       .shipped_seconds = 0.0625,
                       .noise = 0.01,
                       .date = "2026-11-22",
                       .version = "0.1.0"}};
}

core::TuneResult result(std::int64_t n, std::int64_t tile, bool kept = true) {
  return {.entry = entry(0, 0, tile, n), .kept = kept};
}

/// "from-to:tile" of each.
std::vector<std::string> short_form(const std::vector<TileEntry>& entries) {
  std::vector<std::string> texts;
  for (const TileEntry& one : entries) {
    texts.push_back(std::to_string(one.from_n) + "-" + std::to_string(one.to_n) + ":" +
                    std::to_string(one.tile));
  }
  return texts;
}

std::vector<std::string> merged(const std::vector<TileEntry>& old,
                                std::vector<core::TuneResult> results) {
  core::divide_sizes(results, old);
  const TileTable table(core::merge(old, results));  // refuses what overlaps
  return short_form(table.entries());
}

/// What an Error says; fails if none is thrown.
template <class Call>
std::string refusal(Call call, ErrorKind kind = ErrorKind::invalid_argument) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(TileRules, ShippedTiles_AreWhatTheyWere) {
  EXPECT_EQ(core::cpu_tile(4096, 4), 352);
  EXPECT_EQ(core::cpu_tile(8192, 4), 352);
  EXPECT_EQ(core::cpu_tile(100, 4), 64);
  EXPECT_EQ(default_tile(4096, 4, Dtype::float64), 352);
  EXPECT_EQ(core::gpu_tile(65536, 4), 1024);
  EXPECT_EQ(core::gpu_tile(16384, 4), 1024);
  EXPECT_EQ(core::gpu_tile(8192, 4), 512);
  EXPECT_EQ(core::gpu_tile(4096, 1), 512);
  EXPECT_EQ(core::gpu_tile(100, 1), 128);
}

TEST(TileTable, EntryFor_AsksDeviceDtypeRanksAndSize) {
  const TileTable table({entry(100, 200, 32, 150), entry(201, 400, 64, 300)});
  EXPECT_EQ(table.entry_for("a CPU", Dtype::float64, 2, 100)->tile, 32);
  EXPECT_EQ(table.entry_for("a CPU", Dtype::float64, 2, 200)->tile, 32);
  EXPECT_EQ(table.entry_for("a CPU", Dtype::float64, 2, 201)->tile, 64);
  EXPECT_EQ(table.entry_for("a CPU", Dtype::float64, 2, 99), nullptr);
  EXPECT_EQ(table.entry_for("a CPU", Dtype::float64, 2, 401), nullptr);
  EXPECT_EQ(table.entry_for("a CPU", Dtype::float64, 3, 150), nullptr);
  EXPECT_EQ(table.entry_for("a CPU", Dtype::float32, 2, 150), nullptr);
  EXPECT_EQ(table.entry_for("another CPU", Dtype::float64, 2, 150), nullptr);
}

TEST(TileTable, EntriesForTheSameMatrix_AreRefused) {
  EXPECT_THAT(refusal([] { TileTable({entry(100, 200, 32, 150), entry(200, 400, 64, 300)}); }),
              HasSubstr("a matrix has one tile"));
  EXPECT_NO_THROW(TileTable({entry(1, 9, 32, 5), entry(1, 9, 64, 5, "another CPU")}));
}

TEST(TileTable, EntriesThatMakeNoSense_AreRefused) {
  EXPECT_THAT(refusal([] { TileTable({entry(100, 200, 0, 150)}); }), HasSubstr("a tile of"));
  EXPECT_THAT(refusal([] { TileTable({entry(200, 100, 8, 150)}); }), HasSubstr("range"));
  EXPECT_THAT(refusal([] { TileTable({entry(100, 200, 8, 99)}); }), HasSubstr("range"));
  EXPECT_THAT(refusal([] { TileTable({entry(0, 200, 8, 99)}); }), HasSubstr("range"));
}

TEST(TileTable, Merge_NewSizeReachesToTheGeometricMean) {
  EXPECT_EQ(merged({}, {result(1000, 96)}), (std::vector<std::string>{"708-1414:96"}));
  EXPECT_EQ(merged({}, {result(1000, 96), result(1210, 128)}),
            (std::vector<std::string>{"708-1100:96", "1101-1711:128"}));
}

TEST(TileTable, Merge_NewSizeTakesFromOldOnes) {
  const std::vector<TileEntry> old = {entry(708, 1414, 32, 1000), entry(1415, 2828, 64, 2000)};
  EXPECT_EQ(merged(old, {result(1500, 96)}),
            (std::vector<std::string>{"708-1224:32", "1225-1732:96", "1733-2828:64"}));
}

TEST(TileTable, Merge_SizeMeasuredAgainReplacesOrGoes) {
  const std::vector<TileEntry> old = {entry(708, 1414, 32, 1000), entry(1415, 2828, 64, 2000)};
  EXPECT_EQ(merged(old, {result(1000, 96)}),
            (std::vector<std::string>{"708-1414:96", "1415-2828:64"}));
  EXPECT_EQ(merged(old, {result(1000, 96, false)}), (std::vector<std::string>{"1415-2828:64"}));
}

TEST(TileTable, Merge_OtherDevicesStay) {
  const TileEntry other = entry(708, 1414, 32, 1000, "another CPU");
  EXPECT_EQ(merged({other}, {result(1000, 96)}),
            (std::vector<std::string>{"708-1414:96", "708-1414:32"}));
}

TEST(TileTableFile, WrittenAndRead_IsTheSame) {
  const std::vector<TileEntry> entries = {entry(100, 200, 32, 150), entry(201, 400, 64, 300)};
  const std::string text = io::to_json(entries);
  const std::vector<TileEntry> read = io::tile_entries(text, "t.json");
  EXPECT_EQ(io::to_json(read), text);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].measured.seconds, entries[0].measured.seconds);
  EXPECT_EQ(read[1].measured.date, "2026-11-22");
}

TEST(TileTableFile, DamagedText_IsRefusedAndSaysWhatToDo) {
  const std::string good = io::to_json({entry(100, 200, 32, 150)});
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "JSON"},
      {"[]", "JSON"},
      {good.substr(0, good.size() / 2), "JSON"},
      {changed("shardsolve tile table", "something else"), "JSON"},
      {changed("\"version\": 1", "\"version\": \"one\""), "version"},
      {changed("\"tile\": 32", "\"tile\": -32"), "\"tile\""},
      {changed("\"tile\": 32", "\"tile\": 3.5"), "\"tile\""},
      {changed("\"tile\": 32", "\"tile\": 18446744073709551615"), "\"tile\""},
      {changed("\"tile\": 32", "\"tile\": null"), "\"tile\""},
      {changed("\"tile\"", "\"title\""), "\"tile\""},
      {changed("\"tile\": 32", "\"tile\": 32, \"gemm\": 1"), "\"gemm\""},
      {changed("float64", "float16"), "float16"},
      {changed("[\n        100,", "[\n        300,"), "range"},
      {changed("\"noise\": 0.01", "\"noise\": \"little\""), "\"noise\""},
      {changed("\"entries\": [", "\"entries\": [7, "), "entry 1"},
  };
  for (const auto& [text, word] : cases) {
    const std::string message = refusal([&text = text] { io::tile_entries(text, "t.json"); });
    EXPECT_THAT(message, HasSubstr(word)) << text;
    EXPECT_THAT(message, HasSubstr("'t.json'"));
    EXPECT_THAT(message, HasSubstr("SHARDSOLVE_TILE_TABLE"));
  }
}

TEST(TileTableFile, LaterVersion_IsNotTouched) {
  const std::string message = refusal(
      [] {
        io::tile_entries(R"({"format": "shardsolve tile table", "version": 2, "rows": []})", "t");
      },
      ErrorKind::unsupported);
  EXPECT_THAT(message, HasSubstr("version 2"));
}

TEST(TileTableFile, MissingFile_IsAnErrorOnlyIfSomebodyNamedIt) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.path() / "tiles.json";
  EXPECT_TRUE(io::read_tile_table({.path = path}).entries().empty());
  EXPECT_THAT(
      refusal([&] { io::read_tile_table({.path = path, .required = true}); }, ErrorKind::io),
      HasSubstr("shardsolve tune"));
  EXPECT_TRUE(io::read_tile_table(io::tile_table_path("none")).entries().empty());
}

TEST(TileTableFile, OptionGoesBeforeTheVariable_AndThatBeforeTheUsualPlace) {
  ::setenv("XDG_CONFIG_HOME", "/somewhere", 1);
  ::unsetenv("SHARDSOLVE_TILE_TABLE");
  EXPECT_EQ(io::tile_table_path("").path, "/somewhere/shardsolve/tiles.json");
  EXPECT_FALSE(io::tile_table_path("").required);
  ::setenv("SHARDSOLVE_TILE_TABLE", "/by/variable", 1);
  EXPECT_EQ(io::tile_table_path("").path, "/by/variable");
  EXPECT_EQ(io::tile_table_path("/by/option").path, "/by/option");
  ::unsetenv("SHARDSOLVE_TILE_TABLE");
  ::setenv("XDG_CONFIG_HOME", "relative", 1);  // to be ignored
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(io::tile_table_path("").path, "/home/me/.config/shardsolve/tiles.json");
  ::unsetenv("XDG_CONFIG_HOME");
}

TEST(TileTableFile, Load_KeepsThePath) {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.path() / "tiles.json";
  std::ofstream(path) << io::to_json({entry(100, 200, 32, 150)});
  const TileTable table = TileTable::load(path);
  EXPECT_EQ(table.path(), path);
  EXPECT_EQ(table.entries().size(), 1U);
}

TEST(Mesh, TileTable_GoesBeforeTheShippedRule) {
  Mesh mesh = Mesh::host(2);
  EXPECT_EQ(mesh.default_tile(150, Dtype::float64), 64);
  TileEntry own = entry(100, 200, 32, 150, mesh.device_kind());
  mesh.use_tile_table(TileTable({own}));
  EXPECT_EQ(mesh.default_tile(150, Dtype::float64), 32);
  EXPECT_EQ(mesh.tile_entry(150, Dtype::float64)->measured.n, 150);
  EXPECT_EQ(mesh.default_tile(150, Dtype::float32), 64);
  EXPECT_EQ(mesh.tile_entry(201, Dtype::float64), nullptr);
  mesh.use_tile_table({});
  EXPECT_EQ(mesh.default_tile(150, Dtype::float64), 64);
}

}  // namespace
}  // namespace shardsolve
