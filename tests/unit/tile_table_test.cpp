// Tables of tile sizes: which entry is for a matrix, how results become entries, what a file is.

#include "core/tile_rules.hpp"
#include "io/tile_table_file.hpp"
#include "tests/support/files.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/routine.hpp>
#include <shardsolve/tile_table.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve {
namespace {

using ::testing::HasSubstr;

TileEntry entry(std::int64_t n, std::int64_t tile, bool kept = true,
                const std::string& device = "a CPU") {
  return {.device = device,
          .dtype = Dtype::float64,
          .ranks = 2,
          .n = n,
          .tile = tile,
          .kept = kept,
          .measured = {.seconds = 0.1 / 3.0,
                       .shipped_tile = 384,
                       .shipped_seconds = 0.0625,
                       .noise = 0.01,
                       .date = "2026-11-22",
                       .version = "0.1.0"}};
}

/// The tile of the entry for n rows; 0 if there is none.
std::int64_t tile_for(const TileTable& table, std::int64_t n) {
  const TileEntry* found = table.entry_for("a CPU", Dtype::float64, 2, n);
  return found == nullptr ? 0 : found->tile;
}

/// "n:tile" of each.
std::vector<std::string> short_form(const io::TileFile& file) {
  std::vector<std::string> texts;
  for (const TileEntry& one : file.entries) {
    texts.push_back(std::to_string(one.n) + ":" + std::to_string(one.tile));
  }
  return texts;
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

TEST(TileTable, EntryFor_AsksRoutineDeviceDtypeAndRanks) {
  const TileTable table({entry(150, 32)});
  EXPECT_EQ(table.entry_for("a CPU", Dtype::float64, 2, 150)->tile, 32);
  EXPECT_EQ(table.entry_for("a CPU", Dtype::float64, 2, 150, Routine::cholesky)->tile, 32);
  EXPECT_EQ(table.entry_for("a CPU", Dtype::float64, 3, 150), nullptr);
  EXPECT_EQ(table.entry_for("a CPU", Dtype::float32, 2, 150), nullptr);
  EXPECT_EQ(table.entry_for("another CPU", Dtype::float64, 2, 150), nullptr);
}

TEST(TileTable, EntryFor_ReachesByAFactorOfTheSquareRootOfTwo) {
  const TileTable table({entry(1000, 96)});
  EXPECT_EQ(tile_for(table, 707), 0);
  EXPECT_EQ(tile_for(table, 708), 96);
  EXPECT_EQ(tile_for(table, 1414), 96);
  EXPECT_EQ(tile_for(table, 1415), 0);
  EXPECT_EQ(tile_for(table, 0), 0);
}

TEST(TileTable, EntryFor_BetweenTwoSizesIsTheNearerByRatio) {
  const TileTable table({entry(1210, 128), entry(1000, 96)});  // in any order
  EXPECT_EQ(tile_for(table, 1100), 96);                        // as near to one as to the other
  EXPECT_EQ(tile_for(table, 1101), 128);
}

/// What was measured and lost is not overruled by a neighbour.
TEST(TileTable, EntryFor_SizeWhoseTileWasNotKeptIsTheLibrarys) {
  const TileTable table({entry(1000, 96), entry(1210, 128, false)});
  EXPECT_EQ(tile_for(table, 1100), 96);
  EXPECT_EQ(tile_for(table, 1101), 0);
  EXPECT_EQ(tile_for(table, 1210), 0);
}

TEST(TileTable, EntriesForTheSameSize_AreRefused) {
  EXPECT_THAT(refusal([] { TileTable({entry(100, 32), entry(200, 32), entry(100, 64)}); }),
              HasSubstr("a size has one tile"));
  EXPECT_NO_THROW(TileTable({entry(100, 32), entry(100, 64, true, "another CPU")}));
}

TEST(TileTable, EntriesThatMakeNoSense_AreRefused) {
  EXPECT_THAT(refusal([] { TileTable({entry(100, 0)}); }), HasSubstr("a tile of"));
  EXPECT_THAT(refusal([] { TileTable({entry(0, 8)}); }), HasSubstr("one row"));
  EXPECT_THAT(refusal([] { TileTable({entry(100, 8, true, "")}); }), HasSubstr("a device"));
  TileEntry endless = entry(100, 8);
  endless.measured.seconds = HUGE_VAL;
  EXPECT_THAT(refusal([&] { TileTable({endless}); }), HasSubstr("finite"));
}

TEST(TileFile, Put_KeepsAllThatIsNotForTheSameSize) {
  io::TileFile file{.entries = {entry(1000, 32), entry(2000, 64)}, .others = {}};
  file.put(entry(1500, 96));
  EXPECT_EQ(short_form(file), (std::vector<std::string>{"1000:32", "1500:96", "2000:64"}));
  file.put(entry(1000, 128));
  EXPECT_EQ(short_form(file), (std::vector<std::string>{"1000:128", "1500:96", "2000:64"}));
  file.put(entry(1000, 160, true, "Another CPU"));
  EXPECT_EQ(short_form(file),
            (std::vector<std::string>{"1000:160", "1000:128", "1500:96", "2000:64"}));
}

TEST(TileTableFile, WrittenAndRead_IsTheSame) {
  const io::TileFile file{.entries = {entry(150, 32), entry(300, 64, false)}, .others = {}};
  const std::string text = io::to_json(file);
  const io::TileFile read = io::parse_tile_file(text, "t.json");
  EXPECT_EQ(io::to_json(read), text);
  ASSERT_EQ(read.entries.size(), 2U);
  EXPECT_EQ(read.entries[0].routine, Routine::cholesky);
  EXPECT_EQ(read.entries[0].measured.seconds, file.entries[0].measured.seconds);
  EXPECT_TRUE(read.entries[0].kept);
  EXPECT_FALSE(read.entries[1].kept);
  EXPECT_EQ(read.entries[1].measured.date, "2026-11-22");
}

/// Whatever it holds: another library, which knows the routine, has use for it.
TEST(TileTableFile, EntryOfAnUnknownRoutine_IsLeftOutAndWrittenAgain) {
  const std::string text = R"({
    "format": "shardsolve tile table",
    "version": 2,
    "entries": [{"routine": "eigh", "band": [64, 0.1], "deep": {"z": null, "a": "x"}}]
  })";
  io::TileFile file = io::parse_tile_file(text, "t.json");
  EXPECT_TRUE(file.entries.empty());
  file.put(entry(150, 32));
  const io::TileFile read = io::parse_tile_file(io::to_json(file), "t.json");
  EXPECT_EQ(short_form(read), std::vector<std::string>{"150:32"});
  ASSERT_EQ(read.others.size(), 1U);
  EXPECT_EQ(read.others[0].dump(),
            R"({"routine":"eigh","band":[64,0.1],"deep":{"z":null,"a":"x"}})");
}

TEST(TileTableFile, DamagedText_IsRefusedAndSaysWhatToDo) {
  const std::string good = io::to_json({.entries = {entry(150, 32)}, .others = {}});
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
      {changed("\"version\": 2", "\"version\": \"two\""), "version"},
      {changed("\"tile\": 32", "\"tile\": -32"), "\"tile\""},
      {changed("\"tile\": 32", "\"tile\": 3.5"), "\"tile\""},
      {changed("\"tile\": 32", "\"tile\": 18446744073709551615"), "\"tile\""},
      {changed("\"tile\": 32", "\"tile\": null"), "\"tile\""},
      {changed("\"tile\"", "\"title\""), "\"tile\""},
      {changed("\"tile\": 32", "\"tile\": 32, \"gemm\": 1"), "\"gemm\""},
      {changed("float64", "float16"), "float16"},
      {changed("\"n\": 150", "\"n\": [100, 200]"), "\"n\""},
      {changed("\"kept\": true", "\"kept\": 1"), "\"kept\""},
      {changed("\"routine\": \"cholesky\"", "\"routine\": 1"), "\"routine\""},
      {changed("\"routine\": \"cholesky\",", ""), "\"routine\""},
      {changed("\"noise\": 0.01", "\"noise\": \"little\""), "\"noise\""},
      {changed("\"entries\": [", "\"entries\": [7, "), "entry 1"},
  };
  for (const auto& [text, word] : cases) {
    const std::string message = refusal([&text = text] { io::parse_tile_file(text, "t.json"); });
    EXPECT_THAT(message, HasSubstr(word)) << text;
    EXPECT_THAT(message, HasSubstr("'t.json'"));
    EXPECT_THAT(message, HasSubstr("SHARDSOLVE_TILE_TABLE"));
  }
}

TEST(TileTableFile, AnotherVersion_IsNotTouched) {
  for (const std::string version : {"1", "3"}) {
    const std::string message = refusal(
        [&] {
          io::parse_tile_file(
              R"({"format": "shardsolve tile table", "version": )" + version + R"(, "rows": []})",
              "t");
        },
        ErrorKind::unsupported);
    EXPECT_THAT(message, HasSubstr("of version " + version));
    EXPECT_THAT(message, HasSubstr("'shardsolve tune'"));
  }
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
  std::ofstream(path) << io::to_json({.entries = {entry(150, 32)}, .others = {}});
  const TileTable table = TileTable::load(path);
  EXPECT_EQ(table.path(), path);
  EXPECT_EQ(table.entries().size(), 1U);
}

TEST(Mesh, TileTable_GoesBeforeTheShippedRule) {
  Mesh mesh = Mesh::host(2);
  EXPECT_EQ(mesh.default_tile(150, Dtype::float64), 64);
  const TileEntry own = entry(150, 32, true, mesh.device_kind());
  mesh.use_tile_table(TileTable({own}));
  EXPECT_EQ(mesh.default_tile(150, Dtype::float64), 32);
  EXPECT_EQ(mesh.tile_entry(150, Dtype::float64)->n, 150);
  EXPECT_EQ(mesh.default_tile(150, Dtype::float32), 64);
  EXPECT_EQ(mesh.default_tile(150, Dtype::float64, Routine::cholesky), 32);
  EXPECT_EQ(mesh.tile_entry(250, Dtype::float64), nullptr);
  mesh.use_tile_table({});
  EXPECT_EQ(mesh.default_tile(150, Dtype::float64), 64);
}

}  // namespace
}  // namespace shardsolve
