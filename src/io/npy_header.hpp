/// The header of an .npy file: what the array is and where its numbers start.
///
/// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include "io/file_descriptor.hpp"
#include "io/npy_literal.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsolve::io {

struct NpyHeader {
  Dtype dtype = Dtype::float64;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  ///< () for a single number
  std::int64_t data_offset = 0;     ///< bytes before the first element
};

/// Reads the header of an .npy file of version 1, 2 or 3, of any shape, and checks that the file is
/// exactly as long as the header says. Accepted are float32, float64, complex64 and complex128 in
/// little-endian order, and headers of at most 64 KiB (NumPy's own limit is 10000 characters). The
/// file is only ever read as numbers: nothing in it is evaluated or unpickled.
///
/// Throws Error(io) if the file cannot be read, and Error(invalid_argument) if it is something
/// else, of another dtype, damaged, or shorter or longer than its header says.
NpyHeader read_npy_header(const std::string& path);

/// The same for a file that is open already.
NpyHeader read_npy_header(const FileDescriptor& file, const std::string& path);

/// The dictionary of a header, and where the data begins.
struct NpyText {
  NpyFields fields;
  std::int64_t data_offset = 0;
};

/// Reads the header of an .npy file in memory, of any dtype, with the limits of read_npy_header.
/// What follows it is not looked at. Throws Error(invalid_argument), naming `path`, if there is
/// none.
NpyText parse_npy_bytes(std::string_view bytes, const std::string& path);

/// The bytes before the data, as NumPy writes them: version 1, little-endian, the data aligned to
/// 64 bytes. `header.data_offset` is not used: the size of the result is the offset.
std::string format_npy_header(const NpyHeader& header);
/// The same for any dtype, by NumPy's name of it: "<i8".
std::string format_npy_header(std::string_view descr, bool fortran_order,
                              const std::vector<std::int64_t>& shape);

/// "'A.npy' holds a float64 array of shape (3, 4)", as the beginning of a message.
std::string describe(const NpyHeader& header, const std::string& path);

/// n, for an array of shape (n, n). Throws Error(invalid_argument) for any other shape.
std::int64_t require_square_matrix(const NpyHeader& header, const std::string& path);

/// (m, n), for an array of that shape with rows and columns. Throws likewise.
std::pair<std::int64_t, std::int64_t> require_matrix(const NpyHeader& header,
                                                     const std::string& path);

/// The number of right-hand sides for an n x n matrix: 1 for an array of shape (n,), k for (n, k).
/// Throws Error(invalid_argument) for any other shape.
std::int64_t require_right_hand_sides(const NpyHeader& header, std::int64_t n,
                                      const std::string& path);

/// How a one- or two-dimensional array lies in its file: `count` lines of `length` consecutive
/// elements. Lines are rows in C order and columns in Fortran order; a single column is always one
/// line. A one-dimensional array is a single column.
struct NpyLines {
  bool are_columns = false;
  std::int64_t length = 0;
  std::int64_t count = 0;
  std::int64_t element_bytes = 0;
  std::int64_t data_offset = 0;

  std::int64_t rows() const { return are_columns ? length : count; }
  std::int64_t columns() const { return are_columns ? count : length; }
  /// Place in the file of one element of one line, in bytes.
  std::int64_t offset(std::int64_t line, std::int64_t element) const {
    return data_offset + (line * length + element) * element_bytes;
  }
  std::int64_t file_bytes() const { return offset(count, 0); }
};

/// Throws Error(invalid_argument) unless the array has one or two dimensions.
NpyLines npy_lines(const NpyHeader& header, const std::string& path);

}  // namespace shardsolve::io
