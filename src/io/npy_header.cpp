#include "io/npy_header.hpp"

#include "io/npy_foreign.hpp"
#include "io/npy_literal.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string_view>

namespace shardsolve::io {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the .npy reader and writer pass little-endian numbers through unchanged");

constexpr std::string_view npy_magic = "\x93NUMPY";
constexpr std::int64_t version_1_prefix = 10;      // magic, two of version, two of length
constexpr std::int64_t later_version_prefix = 12;  // magic, two of version, four of length
constexpr std::int64_t longest_literal = std::int64_t{64} << 10;
constexpr std::int64_t data_alignment = 64;

[[noreturn]] void reject_header(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

/// Unsigned and little-endian.
std::int64_t decode_integer(std::string_view bytes) {
  std::int64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

struct LiteralPlace {
  std::int64_t begin;
  std::int64_t length;
};

/// Reads what stands before the dictionary, in `head`, the first bytes of the file.
LiteralPlace read_npy_prefix(std::string_view head, std::int64_t bytes, const std::string& path) {
  if (!head.starts_with(npy_magic)) {
    reject_foreign_file(head, path);
  }
  const auto size = static_cast<std::int64_t>(head.size());
  const int version = size > 6 ? static_cast<unsigned char>(head[6]) : 0;
  const std::int64_t prefix = version == 1 ? version_1_prefix : later_version_prefix;
  if (size < prefix) {
    reject_header(
        fmt::format("'{}' is cut off inside its .npy header, after {} bytes; copy or write it "
                    "again",
                    path, bytes));
  }
  if (version < 1 || version > 3 || head[7] != 0) {
    reject_header(
        fmt::format("'{}' is an .npy file of version {}.{}; versions 1.0, 2.0 and 3.0 are "
                    "accepted: write it with numpy.save",
                    path, version, static_cast<unsigned char>(head[7])));
  }
  const std::int64_t length = decode_integer(head.substr(8, static_cast<std::size_t>(prefix - 8)));
  if (length > longest_literal) {
    reject_header(
        fmt::format("the .npy header of '{}' claims {} bytes; at most {} are accepted, and a "
                    "plain array needs about a hundred: write it again with numpy.save",
                    path, length, longest_literal));
  }
  if (prefix + length > bytes) {
    reject_header(
        fmt::format("'{}' is cut off inside its .npy header: {} bytes of {}; copy or write it "
                    "again",
                    path, bytes, prefix + length));
  }
  return {prefix, length};
}

/// Bytes of the whole file, header included; nothing if that does not fit 64 bits.
std::optional<std::int64_t> bytes_of(const NpyHeader& header) {
  // A size of 0 makes the array empty however large the others are.
  if (std::ranges::find(header.shape, 0) != header.shape.end()) {
    return header.data_offset;
  }
  std::int64_t bytes = element_size(header.dtype);
  for (const std::int64_t size : header.shape) {
    if (bytes > std::numeric_limits<std::int64_t>::max() / size) {
      return std::nullopt;
    }
    bytes *= size;
  }
  if (bytes > std::numeric_limits<std::int64_t>::max() - header.data_offset) {
    return std::nullopt;
  }
  return bytes + header.data_offset;
}

void check_file_size(const NpyHeader& header, std::int64_t bytes, const std::string& path) {
  const std::optional<std::int64_t> expected = bytes_of(header);
  if (!expected) {
    reject_header(fmt::format("{}, more bytes than 64 bits can count: the header is damaged",
                              describe(header, path)));
  }
  if (bytes < *expected) {
    reject_header(
        fmt::format("{}, {} bytes with the header, but the file has only {}: it is truncated; "
                    "copy or write it again",
                    describe(header, path), *expected, bytes));
  }
  if (bytes > *expected) {
    reject_header(
        fmt::format("{}, {} bytes with the header, but the file has {}: something else follows "
                    "the array; one array a file is accepted, as numpy.save writes it",
                    describe(header, path), *expected, bytes));
  }
}

}  // namespace

NpyHeader read_npy_header(const std::string& path) {
  return read_npy_header(open_for_reading(path), path);
}

NpyHeader read_npy_header(const FileDescriptor& file, const std::string& path) {
  const std::int64_t bytes = file_size(file, path);
  std::array<char, 64> head{};
  const auto head_bytes = std::min<std::int64_t>(bytes, head.size());
  read_exactly(file, head.data(), head_bytes, 0, path);
  const LiteralPlace place =
      read_npy_prefix({head.data(), static_cast<std::size_t>(head_bytes)}, bytes, path);

  std::string literal(static_cast<std::size_t>(place.length), '\0');
  read_exactly(file, literal.data(), place.length, place.begin, path);
  NpyFields fields = parse_npy_literal(literal, path);

  NpyHeader header{dtype_of_descr(fields.descr, path), fields.fortran_order,
                   std::move(fields.shape), place.begin + place.length};
  check_file_size(header, bytes, path);
  return header;
}

NpyText parse_npy_bytes(std::string_view bytes, const std::string& path) {
  const LiteralPlace place =
      read_npy_prefix(bytes.substr(0, 64), static_cast<std::int64_t>(bytes.size()), path);
  return {parse_npy_literal(bytes.substr(static_cast<std::size_t>(place.begin),
                                         static_cast<std::size_t>(place.length)),
                            path),
          place.begin + place.length};
}

std::string format_npy_header(const NpyHeader& header) {
  return format_npy_header(descr_of(header.dtype), header.fortran_order, header.shape);
}

std::string format_npy_header(std::string_view descr, bool fortran_order,
                              const std::vector<std::int64_t>& shape) {
  std::string literal = format_npy_literal({std::string(descr), fortran_order, shape});
  const auto used = version_1_prefix + static_cast<std::int64_t>(literal.size()) + 1;
  const std::int64_t padding = (data_alignment - used % data_alignment) % data_alignment;
  literal.append(static_cast<std::size_t>(padding), ' ').push_back('\n');
  // Two bytes of length are enough for over 3000 dimensions; NumPy stops at 64.
  if (literal.size() > std::numeric_limits<std::uint16_t>::max()) {
    reject_header(fmt::format("an array of {} dimensions cannot be written", shape.size()));
  }
  std::string out(npy_magic);
  out += '\x01';
  out += '\x00';
  out += static_cast<char>(literal.size() & 0xff);
  out += static_cast<char>(literal.size() >> 8);
  return out + literal;
}

std::string describe(const NpyHeader& header, const std::string& path) {
  return fmt::format("'{}' holds a {} array of shape {}", path, name(header.dtype),
                     printable(format_shape(header.shape)));
}

std::int64_t require_square_matrix(const NpyHeader& header, const std::string& path) {
  const auto& shape = header.shape;
  if (shape.size() == 2 && shape[0] == shape[1]) {
    return shape[0];
  }
  const char* advice =
      "it has to be square; for the x with the least residual of another one there is lstsq";
  if (shape.size() < 2) {
    advice = "is the right-hand side given in place of the matrix?";
  } else if (shape.size() > 2) {
    advice = "save one matrix of the stack, e.g. A[0]";
  }
  reject_header(
      fmt::format("{}; a matrix of shape (n, n) is needed: {}", describe(header, path), advice));
}

std::pair<std::int64_t, std::int64_t> require_matrix(const NpyHeader& header,
                                                     const std::string& path) {
  const auto& shape = header.shape;
  if (shape.size() == 2 && shape[0] > 0 && shape[1] > 0) {
    return {shape[0], shape[1]};
  }
  reject_header(fmt::format("{}; a matrix of shape (m, n) with rows and columns is needed{}",
                            describe(header, path),
                            shape.size() == 1 ? ": of one column save A[:, None]" : ""));
}

std::int64_t require_right_hand_sides(const NpyHeader& header, std::int64_t n,
                                      const std::string& path) {
  const auto& shape = header.shape;
  if (shape.size() == 1 && shape[0] == n) {
    return 1;
  }
  if (shape.size() == 2 && shape[0] == n) {
    return shape[1];
  }
  const bool transposed = shape.size() == 2 && shape[1] == n;
  reject_header(fmt::format(
      "{}; for this matrix right-hand sides have the shape ({},) or ({}, k), one a "
      "column: {}",
      describe(header, path), n, n,
      transposed ? "transpose them, e.g. save b.T" : "save as many rows as the matrix has"));
}

NpyLines npy_lines(const NpyHeader& header, const std::string& path) {
  const auto& shape = header.shape;
  if (shape.size() != 1 && shape.size() != 2) {
    reject_header(fmt::format("{}; a vector or a matrix is needed", describe(header, path)));
  }
  const std::int64_t rows = shape[0];
  const std::int64_t columns = shape.size() == 2 ? shape[1] : 1;
  const bool are_columns = header.fortran_order || columns == 1;
  return {are_columns, are_columns ? rows : columns, are_columns ? columns : rows,
          element_size(header.dtype), header.data_offset};
}

}  // namespace shardsolve::io
