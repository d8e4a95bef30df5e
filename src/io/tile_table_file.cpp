#include "io/tile_table_file.hpp"

#include "io/strict_json.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace shardsolve::io {
namespace {

constexpr const char* format = "shardsolve tile table";
constexpr std::int64_t table_version = 1;

[[noreturn]] void reject(const std::string& path, const std::string& what) {
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("'{}' is no table of tile sizes that can be used: {}. Move it away and run "
                  "'shardsolve tune' again, name another (--tile-table, "
                  "SHARDSOLVE_TILE_TABLE), or 'none' for no table",
                  path, what));
}

TileEntry entry_of(const Json& value, std::size_t index) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const JsonObject entry(value, fmt::format("entry {}", index));
  entry.require_keys({"device", "dtype", "ranks", "n", "tile", "measured"});
  const JsonObject measured = entry.object("measured");
  measured.require_keys(
      {"n", "seconds", "shipped_tile", "shipped_seconds", "noise", "date", "version"});
  const Json& range = entry.list("n");
  if (range.size() != 2) {
    entry.reject("n", "two whole numbers");
  }
  return {.device = entry.text("device"),
          .dtype = entry.dtype("dtype"),
          .ranks = entry.integer("ranks", 0, most),
          .from_n = whole_number(range[0], entry.name_of("n"), 0, most),
          .to_n = whole_number(range[1], entry.name_of("n"), 0, most),
          .tile = entry.integer("tile", 0, most),
          .measured = {.n = measured.integer("n", 0, most),
                       .seconds = measured.number("seconds"),
                       .shipped_tile = measured.integer("shipped_tile", 0, most),
                       .shipped_seconds = measured.number("shipped_seconds"),
                       .noise = measured.number("noise"),
                       .date = measured.text("date"),
                       .version = measured.text("version")}};
}

Json object_of(const TileEntry& entry) {
  const TileMeasurement& measured = entry.measured;
  return {{"device", entry.device},
          {"dtype", name(entry.dtype)},
          {"ranks", entry.ranks},
          {"n", {entry.from_n, entry.to_n}},
          {"tile", entry.tile},
          {"measured",
           {{"n", measured.n},
            {"seconds", measured.seconds},
            {"shipped_tile", measured.shipped_tile},
            {"shipped_seconds", measured.shipped_seconds},
            {"noise", measured.noise},
            {"date", measured.date},
            {"version", measured.version}}}};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The directory of this user's settings, as the XDG base directory specification has it; empty if
/// there is none.
std::filesystem::path config_directory() {
  std::filesystem::path given = variable("XDG_CONFIG_HOME");
  if (given.is_absolute()) {  // others are to be ignored
    return given;
  }
  const std::string home = variable("HOME");
  return home.empty() ? std::filesystem::path() : std::filesystem::path(home) / ".config";
}

std::string contents_of(const std::string& path) {
  constexpr std::uintmax_t most = std::uintmax_t{1} << 24U;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw Error(ErrorKind::io, fmt::format("'{}' is no regular file: a table of tile sizes is one "
                                           "(--tile-table, SHARDSOLVE_TILE_TABLE)",
                                           path));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ErrorKind::io,
                fmt::format("the table of tile sizes '{}' cannot be read: {}. 'shardsolve tune' "
                            "writes one; 'none' in place of a name is for no table",
                            path, std::strerror(errno)));
  }
  if (std::filesystem::file_size(path, error) > most && !error) {
    reject(path, "it is larger than 16 MB");
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

TilePath named(const std::string& path, const char* by) {
  return {path == "none" ? "" : path, true, by};
}

}  // namespace

TilePath tile_table_path(const std::string& option) {
  if (!option.empty()) {
    return named(option, "--tile-table");
  }
  const std::string set = variable("SHARDSOLVE_TILE_TABLE");
  if (!set.empty()) {
    return named(set, "SHARDSOLVE_TILE_TABLE");
  }
  const std::filesystem::path directory = config_directory();
  return {directory.empty() ? "" : (directory / "shardsolve" / "tiles.json").string(), false, ""};
}

TileTable read_tile_table(const TilePath& place) {
  std::error_code error;
  if (place.path.empty() || (!place.required && !std::filesystem::exists(place.path, error))) {
    return {};
  }
  return TileTable::load(place.path);
}

std::string to_json(const std::vector<TileEntry>& entries) {
  Json list = Json::array();
  for (const TileEntry& entry : entries) {
    list.push_back(object_of(entry));
  }
  constexpr int indent = 2;
  return Json{{"format", format}, {"version", table_version}, {"entries", list}}.dump(
             indent, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

std::vector<TileEntry> tile_entries(std::string_view text, const std::string& path) {
  const Json table = Json::parse(text, nullptr, false);
  if (!table.is_object() || !table.contains("format") || table["format"] != format) {
    reject(path, fmt::format("it is not JSON with \"format\": \"{}\"", format));
  }
  if (table.contains("version") && table["version"].is_number_integer() &&
      table["version"] != table_version) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("'{}' is a table of tile sizes of version {}, and this shardsolve knows "
                    "version {}: use the shardsolve that has written it, or another table "
                    "(--tile-table, SHARDSOLVE_TILE_TABLE; 'none' for none)",
                    path, table["version"].dump(), table_version));
  }
  try {
    const JsonObject fields(table, "it");
    fields.require_keys({"format", "version", "entries"});
    fields.integer("version", table_version, table_version);
    std::vector<TileEntry> entries;
    for (const Json& value : fields.list("entries")) {
      entries.push_back(entry_of(value, entries.size() + 1));
    }
    return TileTable(std::move(entries)).entries();
  } catch (const JsonFault& fault) {
    reject(path, fault.what());
  } catch (const Error& error) {
    reject(path, error.what());
  }
}

}  // namespace shardsolve::io

namespace shardsolve {

TileTable TileTable::load(const std::string& path) {
  TileTable table(io::tile_entries(io::contents_of(path), path));
  table.path_ = path;
  return table;
}

TileTable TileTable::find() { return io::read_tile_table(io::tile_table_path("")); }

}  // namespace shardsolve
