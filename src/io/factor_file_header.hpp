/// The front of a factor file: what the factor is, and where its sections lie. Format:
/// factor_file.cpp.
#pragma once

#include "io/file_descriptor.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/scaled.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::io {

struct FactorHeader {
  Dtype dtype = Dtype::float64;
  std::vector<std::int64_t> boundaries;  ///< of the slabs; one more than ranks
  std::int64_t tile = 1;
  Scaled norm;                           ///< ||A||_1
  std::string version;                   ///< of the library that wrote the file
  std::vector<std::uint32_t> checksums;  ///< of the sections, in their order

  std::int64_t size() const { return boundaries.back(); }
  std::int64_t ranks() const { return static_cast<std::int64_t>(boundaries.size()) - 1; }
};

/// One section of the file: `bytes` bytes and the zeros that fill them up to the next one.
struct FactorSection {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::int64_t padding = 0;

  std::int64_t end() const { return offset + bytes + padding; }
};

/// A's diagonal, then the slab of each rank; the last one ends where the file ends.
std::vector<FactorSection> factor_sections(const FactorHeader& header, std::int64_t data_offset);

/// All bytes before the sections. Their number does not depend on the checksums' values.
/// Throws Error(invalid_argument) if the layout has too many ranks for it.
std::string format_factor_header(const FactorHeader& header);

/// A header that has been checked, and what follows from it.
struct FactorFileFront {
  FactorHeader header;
  std::vector<FactorSection> sections;
};

/// Reads the header and checks it: the checksum, every value, and that the file is exactly as long
/// as its sections. Nothing is allocated whose size the file alone decides, but the header: 64 KiB.
/// Throws Error: io if the file cannot be read, unsupported if its format is another version,
/// invalid_argument if it is something else, damaged, or shorter or longer than it should be.
FactorFileFront read_factor_front(const FileDescriptor& file, const std::string& path);

/// Throws Error(invalid_argument): "the factor file '<path>' is damaged: <what>; ...".
[[noreturn]] void reject_damaged(const std::string& path, const std::string& what);

}  // namespace shardsolve::io
