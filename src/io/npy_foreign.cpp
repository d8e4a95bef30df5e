#include "io/npy_foreign.hpp"

#include "io/npy_literal.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace shardsolve::io {
namespace {

[[noreturn]] void reject_dtype(std::string_view what, std::string_view instead,
                               std::string_view descr, const std::string& path) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format("'{}' holds {} (dtype {}); float32, float64, complex64 and complex128 in "
                          "little-endian order are accepted: save {}",
                          path, what, printable(descr), instead));
}

/// A family of dtypes that is refused: its letter and what it is to be saved as.
struct Family {
  char letter;
  std::string_view what;
  std::string_view instead;
};

constexpr std::array<Family, 13> families = {{
    {'b', "booleans", "A.astype(\"<f8\")"},
    {'?', "booleans", "A.astype(\"<f8\")"},
    {'i', "integers", "A.astype(\"<f8\")"},
    {'u', "unsigned integers", "A.astype(\"<f8\")"},
    {'f', "extended-precision floats", "A.astype(\"<f8\")"},
    {'c', "extended-precision complex numbers", "A.astype(\"<c16\")"},
    {'O', "Python objects, which are never unpickled", "A.astype(\"<f8\") if they are numbers"},
    {'S', "byte strings", "A.astype(\"<f8\") if they spell numbers"},
    {'U', "text", "A.astype(\"<f8\") if it spells numbers"},
    {'V', "raw bytes, which is how bfloat16 is stored", "A.astype(\"<f4\") before numpy.save"},
    {'M', "dates", "numbers"},
    {'m', "time differences", "numbers, e.g. A / numpy.timedelta64(1, \"s\")"},
    {'a', "byte strings", "A.astype(\"<f8\") if they spell numbers"},
}};

struct Signature {
  std::string_view begins;
  std::string_view what;
};

using namespace std::string_view_literals;

constexpr std::array<Signature, 9> signatures = {{
    {"PK\x03\x04"sv, "a zip archive, perhaps an .npz: save one array of it with numpy.save"sv},
    {"PK\x05\x06"sv, "an empty zip archive"sv},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file: read the matrix with h5py and use numpy.save"sv},
    {"\x1f\x8b"sv, "a gzip file: unpack it first"sv},
    {"%%MatrixMarket"sv, "a Matrix Market file: read it with scipy.io.mmread, use numpy.save"sv},
    {"MATLAB 5.0 MAT-file"sv, "a MATLAB file: read it with scipy.io.loadmat, use numpy.save"sv},
    {"\x80\x02"sv, "a Python pickle, which is never opened: use numpy.save"sv},
    {"\x80\x04"sv, "a Python pickle, which is never opened: use numpy.save"sv},
    {"\x80\x05"sv, "a Python pickle, which is never opened: use numpy.save"sv},
}};

bool is_text(std::string_view head) {
  return std::ranges::all_of(
      head, [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\r' || c == '\t'; });
}

std::string_view looks_like(std::string_view head) {
  if (head.empty()) {
    return "an empty file: write it again with numpy.save";
  }
  for (const Signature& signature : signatures) {
    if (head.starts_with(signature.begins)) {
      return signature.what;
    }
  }
  return is_text(head) ? "a text file: read it with numpy.loadtxt and use numpy.save"
                       : "an unknown binary file: use numpy.save";
}

}  // namespace

std::string_view descr_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return "<f4";
    case Dtype::float64:
      return "<f8";
    case Dtype::complex64:
      return "<c8";
    case Dtype::complex128:
      return "<c16";
  }
  return "unknown";
}

Dtype dtype_of_descr(std::string_view descr, const std::string& path) {
  const bool structured = descr.starts_with('[') || descr.starts_with('(');
  if (structured) {
    reject_dtype("records with named fields", "one field, e.g. A[\"x\"].astype(\"<f8\")", descr,
                 path);
  }
  const char order = descr.empty() ? '\0' : descr.front();
  const bool has_order =
      order == '<' || order == '=' || order == '>' || order == '!' || order == '|';
  const std::string_view type = has_order ? descr.substr(1) : descr;
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128}) {
    if (type != descr_of(dtype).substr(1)) {
      continue;
    }
    // '=' is the order of the machine that reads; '|' and none say that there is no order.
    if (order == '<' || order == '=') {
      return dtype;
    }
    const bool big_endian = order == '>' || order == '!';
    reject_dtype(big_endian ? "big-endian numbers" : "numbers of unknown byte order",
                 fmt::format("A.astype(\"{}\")", descr_of(dtype)), descr, path);
  }
  if (type == "f2") {
    reject_dtype("half-precision floats", "A.astype(\"<f4\")", descr, path);
  }
  const auto family =
      std::ranges::find(families, type.empty() ? '\0' : type.front(), &Family::letter);
  if (family != families.end()) {
    reject_dtype(family->what, family->instead, descr, path);
  }
  reject_dtype("an unknown dtype", "A.astype(\"<f8\")", descr, path);
}

void reject_foreign_file(std::string_view head, const std::string& path) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format("'{}' is not an .npy file but looks like {}", path, looks_like(head)));
}

}  // namespace shardsolve::io
