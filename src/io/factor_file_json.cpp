#include "io/factor_file_json.hpp"

#include "io/strict_json.hpp"

#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace shardsolve::io {
namespace {

/// Far beyond any norm of finite numbers, and no sum of exponents can overflow.
constexpr std::int64_t largest_exponent = std::int64_t{1} << 16;

std::vector<std::int64_t> boundaries_of(const JsonObject& header) {
  const std::int64_t n = header.integer("n", 0, SlabLayout::largest_size);
  std::vector<std::int64_t> boundaries;
  for (const Json& value : header.list("boundaries")) {
    const std::int64_t least = boundaries.empty() ? 0 : boundaries.back();
    const std::int64_t most = boundaries.empty() ? 0 : n;
    boundaries.push_back(whole_number(value, header.name_of("boundaries"), least, most));
  }
  if (boundaries.size() < 2 || boundaries.back() != n) {
    header.reject("boundaries", "a list from 0 to n");
  }
  return boundaries;
}

std::int64_t widest(const std::vector<std::int64_t>& boundaries) {
  std::int64_t widest = 1;
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    widest = std::max(widest, boundaries[i] - boundaries[i - 1]);
  }
  return widest;
}

Scaled scaled(const JsonObject& norm) {
  norm.require_keys({"fraction", "exponent"});
  const std::string text = norm.text("fraction");
  Scaled result;
  // from_chars takes no prefix; strtod would, but depends on the locale.
  const bool prefixed = text.starts_with("0x");
  const char* const begin = text.data() + (prefixed ? 2 : 0);
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(begin, end, result.fraction, std::chars_format::hex);
  if (!prefixed || error != std::errc{} || rest != end || !std::isfinite(result.fraction) ||
      std::signbit(result.fraction)) {
    norm.reject("fraction", "a hexadecimal number that is not negative");
  }
  result.exponent = static_cast<int>(norm.integer("exponent", -largest_exponent, largest_exponent));
  return result;
}

std::vector<std::uint32_t> checksums_of(const JsonObject& header) {
  std::vector<std::uint32_t> checksums;
  for (const Json& value : header.list("crc32")) {
    const std::string text = value.is_string() ? value.get<std::string>() : "";
    const char* const end = text.data() + text.size();
    std::uint32_t checksum = 0;
    const auto [rest, error] = std::from_chars(text.data(), end, checksum, 16);
    if (text.size() != 8 || error != std::errc{} || rest != end) {
      header.reject("crc32", "a list of 8 hexadecimal digits each");
    }
    checksums.push_back(checksum);
  }
  return checksums;
}

FactorHeader header_of(const JsonObject& fields) {
  fields.require_keys({"kind", "dtype", "n", "boundaries", "tile", "norm", "version", "crc32"});
  if (fields.text("kind") != "cholesky") {
    fields.reject("kind", "cholesky");
  }
  FactorHeader header;
  header.dtype = fields.dtype("dtype");
  header.boundaries = boundaries_of(fields);
  header.tile = fields.integer("tile", 1, widest(header.boundaries));
  header.norm = scaled(fields.object("norm"));
  header.version = fields.text("version");
  header.checksums = checksums_of(fields);
  if (std::ssize(header.checksums) != header.ranks() + 1) {
    throw JsonFault(fmt::format("it has {} checksums for {} slabs and the diagonal",
                                header.checksums.size(), header.ranks()));
  }
  return header;
}

}  // namespace

FactorHeader parse_factor_json(std::string_view text, const std::string& path) {
  try {
    const Json json = Json::parse(text, nullptr, false);
    return header_of(JsonObject(json, "its header"));
  } catch (const JsonFault& fault) {
    reject_damaged(path, fault.what());
  }
}

std::string format_factor_json(const FactorHeader& header) {
  Json checksums = Json::array();
  for (const std::uint32_t checksum : header.checksums) {
    checksums.push_back(fmt::format("{:08x}", checksum));
  }
  const Json fields = {
      {"kind", "cholesky"},
      {"dtype", name(header.dtype)},
      {"n", header.size()},
      {"boundaries", header.boundaries},
      {"tile", header.tile},
      {"norm",
       {{"fraction", fmt::format("{:a}", header.norm.fraction)},
        {"exponent", header.norm.exponent}}},
      {"version", header.version},
      {"crc32", checksums},
  };
  return fields.dump();
}

}  // namespace shardsolve::io
