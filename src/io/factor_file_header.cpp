// A factor file, all numbers little-endian:
//
//   offset  bytes
//        0      8  magic: 0x9c "SHARDF" 0x0a
//        8      4  version of this format: 2
//       12      4  H, the length of the header, at most 1 MiB
//       16      4  CRC-32 of the 16 bytes before and of the header
//       20      H  the header, JSON in ASCII, filled up with spaces and a line feed so that 20 + H
//                  is a multiple of 64
//   20 + H         the sections, one behind the other
//
// The first 20 bytes mean the same in every version. The header has exactly these keys:
//
//   kind         what the file holds, which decides on attributes and sections: "cholesky"
//                (cholesky_factor_header.cpp) or "lu" (lu_factor_header.cpp)
//   version      of the library that wrote the file, for the reader's information
//   attributes   an object: what the kind says besides its arrays
//   sections     a list of objects in the order of the file, each with exactly these keys:
//     name         unique in the file
//     dtype        of its elements, as NumPy names it: "float64"
//     shape        a list; the array is column-major, its first index runs fastest
//     offset       of its first byte, counted from 20 + H
//     bytes        without the zeros behind it
//     crc32        CRC-32 of it and of the zeros behind it, as 8 hexadecimal digits
//
// Each section is filled up with zeros to a multiple of 64 bytes. There the next one begins, and
// the file ends with the last. So every bit of the file is covered by a checksum. They are made
// while the bytes pass by, and the header is written last.
//
// The format grows without another version. Readers find sections by their names and leave out
// those that they do not know, so a kind may get more of them. What changes the meaning of a
// section that was there before comes with a new attribute or a new kind: readers refuse those they
// do not know.

#include "io/factor_file_header.hpp"

#include "io/checksum.hpp"
#include "io/factor_file_json.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace shardsolve::io {
namespace {

// The first byte is not ASCII and the last one a line feed, so that a transfer as text is noticed.
constexpr std::string_view magic = "\x9cSHARDF\n";
constexpr std::uint32_t format_version = 2;
constexpr std::int64_t version_place = 8;
constexpr std::int64_t length_place = 12;
constexpr std::int64_t checksum_place = 16;
constexpr std::int64_t text_place = 20;
constexpr std::int64_t longest_text = std::int64_t{1} << 20;
constexpr std::int64_t alignment = 64;

std::int64_t padding_after(std::int64_t bytes) {
  return (alignment - bytes % alignment) % alignment;
}

std::string encode(std::uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) {
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  }
  return bytes;
}

std::uint32_t decode(std::string_view front, std::int64_t place) {
  std::uint32_t value = 0;
  for (std::int64_t i = 4; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(front[static_cast<std::size_t>(place + i)]);
  }
  return value;
}

/// Of all that stands before the sections, but for the checksum itself.
std::uint32_t checksum_of_front(std::string_view before, std::string_view text) {
  Crc32 checksum;
  checksum.update(before.data(), checksum_place);
  checksum.update(text.data(), std::ssize(text));
  return checksum.value();
}

[[noreturn]] void reject_foreign(std::string_view head, const std::string& path) {
  const bool is_array = head.starts_with("\x93NUMPY");
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("'{}' is not a factor file{}; a file that save_factor has written is "
                  "needed",
                  path, is_array ? " but an .npy array: factor it and save the factor" : ""));
}

[[noreturn]] void reject_truncated(const std::string& path, std::int64_t bytes,
                                   std::int64_t expected) {
  reject_damaged(path, fmt::format("it is cut off after {} bytes of {}", bytes, expected));
}

void require_version(std::string_view head, const std::string& path) {
  const std::uint32_t version = decode(head, version_place);
  if (version != format_version) {
    throw Error(ErrorKind::unsupported,
                fmt::format("the factor file '{}' has the format version {} and this library reads "
                            "version {}: load it with the shardsolve that wrote it, or make and "
                            "save the factor again",
                            path, version, format_version));
  }
}

/// Checks the first bytes and returns the length of the text that follows them.
std::int64_t read_prefix(std::string_view head, std::int64_t bytes, const std::string& path) {
  if (!head.starts_with(magic) && !magic.starts_with(head)) {
    reject_foreign(head, path);
  }
  if (std::ssize(head) < text_place) {
    reject_damaged(path, fmt::format("it is cut off inside its header, after {} bytes", bytes));
  }
  const std::int64_t length = decode(head, length_place);
  if (length > longest_text || padding_after(text_place + length) != 0) {
    reject_damaged(path, fmt::format("its header claims {} bytes", length));
  }
  if (text_place + length > bytes) {
    reject_truncated(path, bytes, text_place + length);
  }
  return length;
}

}  // namespace

std::int64_t FactorSection::padding() const { return padding_after(bytes); }

void FactorHeader::add_section(std::string name, std::string_view dtype,
                               std::vector<std::int64_t> shape, std::int64_t bytes) {
  sections.push_back({.name = std::move(name),
                      .dtype = std::string(dtype),
                      .shape = std::move(shape),
                      .offset = section_bytes(),
                      .bytes = bytes});
}

const FactorSection* FactorHeader::find(std::string_view name) const {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [&](const FactorSection& one) { return one.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

std::string format_factor_header(const FactorHeader& header) {
  std::string text = format_factor_json(header);
  const std::int64_t used = text_place + std::ssize(text) + 1;
  text.append(static_cast<std::size_t>(padding_after(used)), ' ').push_back('\n');
  if (std::ssize(text) > longest_text) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("this factor lies on too many ranks for a file: the header of its {} "
                            "sections would take {} bytes, and {} are accepted; use fewer ranks",
                            header.sections.size(), text.size(), longest_text));
  }
  std::string front(magic);
  front += encode(format_version);
  front += encode(static_cast<std::uint32_t>(text.size()));
  front += encode(checksum_of_front(front, text));
  return front + text;
}

FactorFileFront read_factor_front(const FileDescriptor& file, const std::string& path) {
  const std::int64_t bytes = file_size(file, path);
  std::array<char, text_place> buffer{};
  const std::string_view head(buffer.data(), static_cast<std::size_t>(std::min(bytes, text_place)));
  read_exactly(file, buffer.data(), std::ssize(head), 0, path);
  const std::int64_t length = read_prefix(head, bytes, path);

  std::string text(static_cast<std::size_t>(length), '\0');
  read_exactly(file, text.data(), length, text_place, path);
  if (checksum_of_front(head, text) != decode(head, checksum_place)) {
    reject_damaged(path, "the checksum of its header is wrong");
  }
  require_version(head, path);

  FactorFileFront front{parse_factor_json(text, path), text_place + length};
  const std::int64_t expected = front.data_offset + front.header.section_bytes();
  if (bytes < expected) {
    reject_truncated(path, bytes, expected);
  }
  if (bytes > expected) {
    reject_damaged(path, fmt::format("it has {} bytes and should have {}: something else follows "
                                     "the factor",
                                     bytes, expected));
  }
  return front;
}

void reject_damaged(const std::string& path, const std::string& what) {
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("the factor file '{}' is damaged: {}; copy it again, or make and save the "
                  "factor again",
                  path, what));
}

}  // namespace shardsolve::io
