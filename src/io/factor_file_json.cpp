#include "io/factor_file_json.hpp"

#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace shardsolve::io {
namespace {

using Json = nlohmann::ordered_json;

/// Far beyond any norm of finite numbers, and no sum of exponents can overflow.
constexpr std::int64_t largest_exponent = std::int64_t{1} << 16;

/// Reads the values one by one; each has to be there, of its type and in its range.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& path) : path_(path) {
    fields_ = Json::parse(text, nullptr, false);
    if (!fields_.is_object()) {
      reject_damaged(path_, "its header is not a JSON object");
    }
  }

  FactorHeader read() const {
    constexpr std::size_t keys = 8;
    if (fields_.size() != keys || string(fields_, "kind") != "cholesky") {
      reject_damaged(path_, "its header is not that of a Cholesky factor");
    }
    FactorHeader header;
    header.dtype = dtype();
    header.boundaries = boundaries();
    header.tile = integer(value(fields_, "tile"), "tile", 1, widest(header.boundaries));
    header.norm = norm();
    header.version = string(fields_, "version");
    header.checksums = checksums();
    if (std::ssize(header.checksums) != header.ranks() + 1) {
      reject_damaged(path_, fmt::format("it has {} checksums for {} slabs and the diagonal",
                                        header.checksums.size(), header.ranks()));
    }
    return header;
  }

 private:
  const Json& value(const Json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key)) {
      reject_damaged(path_, fmt::format("\"{}\" is missing in its header", key));
    }
    return object[key];
  }

  [[noreturn]] void reject_value(std::string_view key) const {
    reject_damaged(path_, fmt::format("\"{}\" in its header is not what is expected there", key));
  }

  std::int64_t integer(const Json& number, std::string_view key, std::int64_t least,
                       std::int64_t most) const {
    if (!number.is_number_integer()) {
      reject_value(key);
    }
    const auto given = number.get<std::int64_t>();
    // The library keeps what is not negative as unsigned: beyond int64_t it has wrapped around.
    const bool wrapped = number.is_number_unsigned() && given < 0;
    if (wrapped || given < least || given > most) {
      reject_value(key);
    }
    return given;
  }

  std::string string(const Json& object, const char* key) const {
    const Json& text = value(object, key);
    if (!text.is_string()) {
      reject_value(key);
    }
    return text.get<std::string>();
  }

  const Json& array(const char* key) const {
    const Json& list = value(fields_, key);
    if (!list.is_array()) {
      reject_value(key);
    }
    return list;
  }

  Dtype dtype() const {
    const std::string text = string(fields_, "dtype");
    for (const Dtype dtype :
         {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128}) {
      if (text == name(dtype)) {
        return dtype;
      }
    }
    reject_value("dtype");
  }

  std::vector<std::int64_t> boundaries() const {
    const std::int64_t n = integer(value(fields_, "n"), "n", 0, SlabLayout::largest_size);
    std::vector<std::int64_t> boundaries;
    for (const Json& boundary : array("boundaries")) {
      const std::int64_t least = boundaries.empty() ? 0 : boundaries.back();
      const std::int64_t most = boundaries.empty() ? 0 : n;
      boundaries.push_back(integer(boundary, "boundaries", least, most));
    }
    if (boundaries.size() < 2 || boundaries.back() != n) {
      reject_value("boundaries");
    }
    return boundaries;
  }

  static std::int64_t widest(const std::vector<std::int64_t>& boundaries) {
    std::int64_t widest = 1;
    for (std::size_t i = 1; i < boundaries.size(); ++i) {
      widest = std::max(widest, boundaries[i] - boundaries[i - 1]);
    }
    return widest;
  }

  Scaled norm() const {
    const Json& norm = value(fields_, "norm");
    const std::string text = string(norm, "fraction");
    if (norm.size() != 2) {
      reject_value("norm");
    }
    Scaled result;
    // from_chars takes no prefix; strtod would, but depends on the locale.
    const bool prefixed = text.starts_with("0x");
    const char* const begin = text.data() + (prefixed ? 2 : 0);
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(begin, end, result.fraction, std::chars_format::hex);
    if (!prefixed || error != std::errc{} || rest != end || !std::isfinite(result.fraction) ||
        std::signbit(result.fraction)) {
      reject_value("norm");
    }
    result.exponent = static_cast<int>(
        integer(value(norm, "exponent"), "norm", -largest_exponent, largest_exponent));
    return result;
  }

  std::vector<std::uint32_t> checksums() const {
    std::vector<std::uint32_t> checksums;
    for (const Json& entry : array("crc32")) {
      const std::string text = entry.is_string() ? entry.get<std::string>() : "";
      const char* const end = text.data() + text.size();
      std::uint32_t checksum = 0;
      const auto [rest, error] = std::from_chars(text.data(), end, checksum, 16);
      if (text.size() != 8 || error != std::errc{} || rest != end) {
        reject_value("crc32");
      }
      checksums.push_back(checksum);
    }
    return checksums;
  }

  const std::string& path_;
  Json fields_;
};

}  // namespace

FactorHeader parse_factor_json(std::string_view text, const std::string& path) {
  return HeaderReader(text, path).read();
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
