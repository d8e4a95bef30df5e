#include "io/tile_table_file.hpp"

#include "core/tile_key.hpp"
#include "io/strict_json.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

namespace shardsolve::io {
namespace {

constexpr const char* format = "shardsolve tile table";
constexpr std::int64_t table_version = 2;

[[noreturn]] void reject(const std::string& path, const std::string& what) {
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("'{}' is no table of tile sizes that can be used: {}. Move it away and run "
                  "'shardsolve tune' again, name another (--tile-table, "
                  "SHARDSOLVE_TILE_TABLE), or 'none' for no table",
                  path, what));
}

TileEntry entry_of(const JsonObject& entry, Routine routine) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  entry.require_keys({"routine", "device", "dtype", "ranks", "n", "tile", "kept", "measured"});
  const JsonObject measured = entry.object("measured");
  measured.require_keys({"seconds", "shipped_tile", "shipped_seconds", "noise", "date", "version"});
  return {.routine = routine,
          .device = entry.text("device"),
          .dtype = entry.dtype("dtype"),
          .ranks = entry.integer("ranks", 1, most),
          .n = entry.integer("n", 1, most),
          .tile = entry.integer("tile", 1, most),
          .kept = entry.boolean("kept"),
          .measured = {.seconds = measured.number("seconds"),
                       .shipped_tile = measured.integer("shipped_tile", 0, most),
                       .shipped_seconds = measured.number("shipped_seconds"),
                       .noise = measured.number("noise"),
                       .date = measured.text("date"),
                       .version = measured.text("version")}};
}

Json object_of(const TileEntry& entry) {
  const TileMeasurement& measured = entry.measured;
  return {{"routine", name(entry.routine)},
          {"device", entry.device},
          {"dtype", name(entry.dtype)},
          {"ranks", entry.ranks},
          {"n", entry.n},
          {"tile", entry.tile},
          {"kept", entry.kept},
          {"measured",
           {{"seconds", measured.seconds},
            {"shipped_tile", measured.shipped_tile},
            {"shipped_seconds", measured.shipped_seconds},
            {"noise", measured.noise},
            {"date", measured.date},
            {"version", measured.version}}}};
}

std::optional<Routine> routine_named(const std::string& text) {
  for (const Routine routine : {Routine::cholesky, Routine::lu}) {
    if (text == name(routine)) {
      return routine;
    }
  }
  return std::nullopt;
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

/// Whether there is a table to be read, or has to be one.
bool lies_there(const TilePath& place) {
  std::error_code error;
  return !place.path.empty() && (place.required || std::filesystem::exists(place.path, error));
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

void TileFile::put(TileEntry entry) {
  std::erase_if(entries,
                [&](const TileEntry& one) { return core::tile_key(one) == core::tile_key(entry); });
  entries.push_back(std::move(entry));
  std::sort(entries.begin(), entries.end(), [](const TileEntry& a, const TileEntry& b) {
    return core::tile_key(a) < core::tile_key(b);
  });
}

TileFile read_tile_file(const TilePath& place) {
  return lies_there(place) ? parse_tile_file(contents_of(place.path), place.path) : TileFile{};
}

TileTable read_tile_table(const TilePath& place) {
  return lies_there(place) ? TileTable::load(place.path) : TileTable{};
}

std::string to_json(const TileFile& file) {
  Json list = Json::array();
  for (const TileEntry& entry : file.entries) {
    list.push_back(object_of(entry));
  }
  for (const Json& other : file.others) {
    list.push_back(other);
  }
  constexpr int indent = 2;
  return Json{{"format", format}, {"version", table_version}, {"entries", list}}.dump(
             indent, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

TileFile parse_tile_file(std::string_view text, const std::string& path) {
  const Json table = Json::parse(text, nullptr, false);
  if (!table.is_object() || !table.contains("format") || table["format"] != format) {
    reject(path, fmt::format("it is not JSON with \"format\": \"{}\"", format));
  }
  if (table.contains("version") && table["version"].is_number_integer() &&
      table["version"] != table_version) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("'{}' is a table of tile sizes of version {}, and this shardsolve knows "
                    "version {}: use the shardsolve that has written it, move it away and run "
                    "'shardsolve tune' again, or name another (--tile-table, "
                    "SHARDSOLVE_TILE_TABLE; 'none' for none)",
                    path, table["version"].dump(), table_version));
  }
  try {
    const JsonObject fields(table, "it");
    fields.require_keys({"format", "version", "entries"});
    fields.integer("version", table_version, table_version);
    TileFile file;
    for (const Json& value : fields.list("entries")) {
      const std::size_t number = file.entries.size() + file.others.size() + 1;
      const JsonObject entry(value, fmt::format("entry {}", number));
      if (const auto routine = routine_named(entry.text("routine"))) {
        file.entries.push_back(entry_of(entry, *routine));
      } else {
        file.others.push_back(value);
      }
    }
    // Refuses entries that make no sense.
    [[maybe_unused]] const TileTable table(file.entries);
    return file;
  } catch (const JsonFault& fault) {
    reject(path, fault.what());
  } catch (const Error& error) {
    reject(path, error.what());
  }
}

}  // namespace shardsolve::io

namespace shardsolve {

TileTable TileTable::load(const std::string& path) {
  TileTable table(io::parse_tile_file(io::contents_of(path), path).entries);
  table.path_ = path;
  return table;
}

TileTable TileTable::find() { return io::read_tile_table(io::tile_table_path("")); }

}  // namespace shardsolve
