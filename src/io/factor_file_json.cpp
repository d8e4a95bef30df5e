#include "io/factor_file_json.hpp"

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <system_error>
#include <utility>

namespace shardsolve::io {
namespace {

/// Of offsets and sizes: beyond any disk, and the sum of a few does not overflow.
constexpr std::int64_t max_bytes = std::int64_t{1} << 60;

std::vector<std::int64_t> shape_of(const JsonObject& fields) {
  std::vector<std::int64_t> shape;
  for (const Json& extent : fields.list("shape")) {
    shape.push_back(whole_number(extent, fields.name_of("shape"), 0, max_bytes));
  }
  return shape;
}

std::uint32_t checksum_of(const JsonObject& fields) {
  const std::string text = fields.text("crc32");
  const char* const end = text.data() + text.size();
  std::uint32_t checksum = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, checksum, 16);
  if (text.size() != 8 || error != std::errc{} || rest != end) {
    fields.reject("crc32", "8 hexadecimal digits");
  }
  return checksum;
}

FactorSection section_of(const JsonObject& fields) {
  fields.require_keys({"name", "dtype", "shape", "offset", "bytes", "crc32"});
  return {.name = fields.text("name"),
          .dtype = fields.text("dtype"),
          .shape = shape_of(fields),
          .offset = fields.integer("offset", 0, max_bytes),
          .bytes = fields.integer("bytes", 0, max_bytes),
          .checksum = checksum_of(fields)};
}

std::vector<FactorSection> sections_of(const JsonObject& header) {
  std::vector<FactorSection> sections;
  std::set<std::string> names;
  std::int64_t end = 0;
  for (const Json& value : header.list("sections")) {
    FactorSection section =
        section_of(JsonObject(value, fmt::format("section {}", sections.size())));
    if (!names.insert(section.name).second) {
      throw JsonFault(fmt::format("it has two sections \"{}\"", section.name));
    }
    if (section.offset != end) {
      throw JsonFault(fmt::format("its section \"{}\" begins at {} instead of {}", section.name,
                                  section.offset, end));
    }
    end = section.end();
    sections.push_back(std::move(section));
  }
  return sections;
}

FactorHeader header_of(const JsonObject& fields) {
  fields.require_keys({"kind", "version", "attributes", "sections"});
  return {.kind = fields.text("kind"),
          .version = fields.text("version"),
          .attributes = fields["attributes"],
          .sections = sections_of(fields)};
}

Json object_of(const FactorSection& section) {
  return {{"name", section.name},   {"dtype", section.dtype},
          {"shape", section.shape}, {"offset", section.offset},
          {"bytes", section.bytes}, {"crc32", fmt::format("{:08x}", section.checksum)}};
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
  Json sections = Json::array();
  for (const FactorSection& section : header.sections) {
    sections.push_back(object_of(section));
  }
  const Json fields = {{"kind", header.kind},
                       {"version", header.version},
                       {"attributes", header.attributes},
                       {"sections", std::move(sections)}};
  return fields.dump();
}

}  // namespace shardsolve::io
