#include "io/factor_header_parts.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/slab_layout.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

namespace shardsolve::io {
namespace {

/// Far beyond any norm of finite numbers, and no sum of exponents can overflow.
constexpr std::int64_t largest_exponent = std::int64_t{1} << 16;

std::vector<std::int64_t> boundaries_of(const JsonObject& attributes) {
  const std::int64_t n = attributes.integer("n", 0, SlabLayout::largest_size);
  std::vector<std::int64_t> boundaries;
  for (const Json& value : attributes.list("boundaries")) {
    const std::int64_t least = boundaries.empty() ? 0 : boundaries.back();
    const std::int64_t most = boundaries.empty() ? 0 : n;
    boundaries.push_back(whole_number(value, attributes.name_of("boundaries"), least, most));
  }
  if (boundaries.size() < 2 || boundaries.back() != n) {
    attributes.reject("boundaries", "a list from 0 to n");
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

}  // namespace

std::int64_t FactorCut::width(std::int64_t rank) const {
  const auto r = static_cast<std::size_t>(rank);
  return boundaries[r + 1] - boundaries[r];
}

std::string slab_name(std::int64_t rank) { return fmt::format("slab {}", rank); }

Json attributes_of(const FactorCut& cut) {
  return {{"dtype", name(cut.dtype)},
          {"n", cut.size()},
          {"boundaries", cut.boundaries},
          {"tile", cut.tile}};
}

FactorCut cut_of(const JsonObject& attributes) {
  FactorCut cut{.dtype = attributes.dtype("dtype"), .boundaries = boundaries_of(attributes)};
  cut.tile = attributes.integer("tile", 1, widest(cut.boundaries));
  return cut;
}

Json to_json(const Scaled& norm) {
  return {{"fraction", hexadecimal(norm.fraction)}, {"exponent", norm.exponent}};
}

Scaled scaled_of(const JsonObject& norm) {
  norm.require_keys({"fraction", "exponent"});
  Scaled result;
  result.fraction = hexadecimal_of(norm, "fraction");
  if (std::signbit(result.fraction)) {
    norm.reject("fraction", "a hexadecimal number that is not negative");
  }
  result.exponent = static_cast<int>(norm.integer("exponent", -largest_exponent, largest_exponent));
  return result;
}

std::string hexadecimal(double number) { return fmt::format("{:a}", number); }

double hexadecimal_of(const JsonObject& attributes, std::string_view key) {
  const std::string text = attributes.text(key);
  // from_chars takes no prefix; strtod would, but depends on the locale.
  const bool negative = text.starts_with('-');
  const std::string_view digits = std::string_view(text).substr(negative ? 1 : 0);
  const bool prefixed = digits.starts_with("0x");
  const char* const begin = digits.data() + (prefixed ? 2 : 0);
  const char* const end = digits.data() + digits.size();
  double number = 0.0;
  const auto [rest, error] = std::from_chars(begin, end, number, std::chars_format::hex);
  if (!prefixed || error != std::errc{} || rest != end || !std::isfinite(number) ||
      std::signbit(number)) {
    attributes.reject(key, "a hexadecimal number");
  }
  return negative ? -number : number;
}

void require_kind(const FactorHeader& header, std::string_view kind, std::string_view wanted,
                  const std::string& path) {
  if (header.kind != kind) {
    throw Error(ErrorKind::unsupported,
                fmt::format("the factor file '{}' holds a factor of the kind \"{}\", and this call "
                            "loads the kind \"{}\": load it with the call for its kind, in "
                            "shardsolve {}, which wrote it, or save {}",
                            path, header.kind, kind, header.version, wanted));
  }
}

void require_known_attributes(const JsonObject& attributes,
                              std::initializer_list<std::string_view> known,
                              const FactorHeader& header, const std::string& path) {
  if (const std::optional<std::string> unknown = attributes.unknown_key(known)) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("the factor file '{}' has the attribute \"{}\", which this library does "
                    "not know: load it with shardsolve {}, which wrote it, or make and save "
                    "the factor again",
                    path, *unknown, header.version));
  }
}

void require_sections(const std::vector<FactorSection>& expected, const FactorHeader& header) {
  for (const FactorSection& one : expected) {
    const FactorSection* const found = header.find(one.name);
    if (found == nullptr) {
      throw JsonFault(fmt::format("the section \"{}\" is missing", one.name));
    }
    if (found->dtype != one.dtype || found->shape != one.shape || found->bytes != one.bytes) {
      throw JsonFault(fmt::format("the section \"{}\" is not of {} in {} bytes", one.name,
                                  one.dtype, one.bytes));
    }
  }
}

}  // namespace shardsolve::io
