/// The Python dictionary inside the header of an .npy file, as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::io {

struct NpyFields {
  /// The dtype as it stands there: "<f8", or for a structured dtype the whole list "[('x', ...)]".
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;  ///< no entry is negative
};

/// Parses "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }" and the padding behind it:
/// the three keys in any order, each once, either kind of quotes. Nothing is evaluated.
/// Throws Error(invalid_argument), naming the file `path`, on anything else.
NpyFields parse_npy_literal(std::string_view text, const std::string& path);

/// The literal that NumPy would write, without padding.
std::string format_npy_literal(const NpyFields& fields);

/// "(3, 4)", "(5,)" or "()", as Python prints it.
std::string format_shape(const std::vector<std::int64_t>& shape);

/// Text from a file made safe to print: at most 60 bytes, none of them able to move a terminal's
/// cursor.
std::string printable(std::string_view text);

}  // namespace shardsolve::io
