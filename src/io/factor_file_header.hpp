/// The front of a factor file: what kind of factor it holds, and where its sections lie. Format:
/// factor_file_header.cpp.
#pragma once

#include "io/file_descriptor.hpp"
#include "io/strict_json.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::io {

/// An array in the file: `bytes` bytes, and the zeros that fill them up to the next section.
struct FactorSection {
  std::string name;                 ///< unique in the file: "diagonal", "slab 0"
  std::string dtype;                ///< of its elements: "float64"
  std::vector<std::int64_t> shape;  ///< column-major: the first index runs fastest
  std::int64_t offset = 0;          ///< of the first byte, from the end of the header
  std::int64_t bytes = 0;
  std::uint32_t checksum = 0;  ///< CRC-32 of the bytes and the zeros behind them

  std::int64_t padding() const;
  std::int64_t end() const { return offset + bytes + padding(); }
};

struct FactorHeader {
  std::string kind;                     ///< decides on attributes and sections: "cholesky", "lu"
  std::string version;                  ///< of the library that wrote the file
  Json attributes;                      ///< an object: what the kind says besides its arrays
  std::vector<FactorSection> sections;  ///< in the order of the file

  /// Puts a section, its checksum not yet known, behind those that are there.
  void add_section(std::string name, std::string_view dtype, std::vector<std::int64_t> shape,
                   std::int64_t bytes);
  /// The section of this name; null if there is none.
  const FactorSection* find(std::string_view name) const;
  /// Bytes of all sections with the zeros behind them.
  std::int64_t section_bytes() const { return sections.empty() ? 0 : sections.back().end(); }
};

/// All bytes before the sections. Their number does not depend on the checksums' values.
/// Throws Error(invalid_argument) if the header has too many sections for it.
std::string format_factor_header(const FactorHeader& header);

/// A header that has been checked, and where it ends.
struct FactorFileFront {
  FactorHeader header;
  std::int64_t data_offset = 0;  ///< bytes before the sections
};

/// Reads the header and checks it: the checksum, that the sections lie one behind the other, and
/// that the file ends with the last. Of what the kind decides nothing is looked at. Nothing is
/// allocated whose size the file alone decides, but the header: 1 MiB.
/// Throws Error: io if the file cannot be read, unsupported if its format is another version,
/// invalid_argument if it is something else, damaged, or shorter or longer than it should be.
FactorFileFront read_factor_front(const FileDescriptor& file, const std::string& path);

/// Throws Error(invalid_argument): "the factor file '<path>' is damaged: <what>; ...".
[[noreturn]] void reject_damaged(const std::string& path, const std::string& what);

}  // namespace shardsolve::io
