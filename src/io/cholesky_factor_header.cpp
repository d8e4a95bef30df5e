// The kind "cholesky" of factor files (factor_file_header.cpp): P A P^T = L L^H with what is left
// of A. Its attributes:
//
//   dtype        "float32", "float64", "complex64" or "complex128"
//   n            rows of the matrix
//   boundaries   slab r holds the columns from boundaries[r] to before boundaries[r + 1]
//   tile         columns of a block; with the boundaries it gives the elimination order
//   norm         ||A||_1 as {"fraction": hexadecimal float, "exponent": e}: fraction * 2^e
//
// and its sections:
//
//   diagonal     A's diagonal: n real numbers
//   slab r       for each rank r, n x width: L on and below the diagonal in elimination order, A
//                elsewhere; complex numbers as real and imaginary part

#include "io/cholesky_factor_header.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/slab_layout.hpp>
#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <system_error>

namespace shardsolve::io {
namespace {

constexpr const char* cholesky_kind = "cholesky";

/// Far beyond any norm of finite numbers, and no sum of exponents can overflow.
constexpr std::int64_t largest_exponent = std::int64_t{1} << 16;

Dtype real_part_of(Dtype dtype) {
  const bool single = dtype == Dtype::float32 || dtype == Dtype::complex64;
  return single ? Dtype::float32 : Dtype::float64;
}

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

Scaled scaled_of(const JsonObject& norm) {
  norm.require_keys({"fraction", "exponent"});
  const std::string text = norm.text("fraction");
  Scaled result;
  // from_chars takes no prefix; strtod would, but depends on the locale.
  const bool prefixed = text.starts_with("0x");
  const char* const begin = text.data() + (prefixed ? 2 : 0);
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(begin, end, result.fraction, std::chars_format::hex);
  if (!prefixed || error != std::errc{} || rest != end || !std::isfinite(result.fraction) ||
      std::signbit(result.fraction)) {
    norm.reject("fraction", "a hexadecimal number that is not negative");
  }
  result.exponent = static_cast<int>(norm.integer("exponent", -largest_exponent, largest_exponent));
  return result;
}

void require_kind(const FactorHeader& header, const std::string& path) {
  if (header.kind != cholesky_kind) {
    throw Error(ErrorKind::unsupported,
                fmt::format("the factor file '{}' holds a factor of the kind \"{}\", and this call "
                            "loads the kind \"{}\": load it with the call for its kind, in "
                            "shardsolve {}, which wrote it, or save a Cholesky factor",
                            path, header.kind, cholesky_kind, header.version));
  }
}

/// What is not known may change what the sections mean.
void require_known(const std::optional<std::string>& unknown, const FactorHeader& header,
                   const std::string& path) {
  if (unknown) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("the factor file '{}' has the attribute \"{}\", which this library does "
                    "not know: load it with shardsolve {}, which wrote it, or make and save "
                    "the factor again",
                    path, *unknown, header.version));
  }
}

void require_sections(const CholeskyFactorHeader& cholesky, const FactorHeader& header) {
  for (const FactorSection& expected : to_factor_header(cholesky).sections) {
    const FactorSection* const found = header.find(expected.name);
    if (found == nullptr) {
      throw JsonFault(fmt::format("the section \"{}\" is missing", expected.name));
    }
    if (found->dtype != expected.dtype || found->shape != expected.shape ||
        found->bytes != expected.bytes) {
      throw JsonFault(fmt::format("the section \"{}\" is not of {} in {} bytes", expected.name,
                                  expected.dtype, expected.bytes));
    }
  }
}

}  // namespace

std::string slab_name(std::int64_t rank) { return fmt::format("slab {}", rank); }

FactorHeader to_factor_header(const CholeskyFactorHeader& cholesky) {
  const std::int64_t n = cholesky.size();
  FactorHeader header{.kind = cholesky_kind,
                      .version = SHARDSOLVE_VERSION_STRING,
                      .attributes = {{"dtype", name(cholesky.dtype)},
                                     {"n", n},
                                     {"boundaries", cholesky.boundaries},
                                     {"tile", cholesky.tile},
                                     {"norm",
                                      {{"fraction", fmt::format("{:a}", cholesky.norm.fraction)},
                                       {"exponent", cholesky.norm.exponent}}}},
                      .sections = {}};
  const Dtype real = real_part_of(cholesky.dtype);
  header.add_section(std::string(diagonal_name), name(real), {n}, n * element_size(real));
  for (std::int64_t rank = 0; rank < cholesky.ranks(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const std::int64_t width = cholesky.boundaries[r + 1] - cholesky.boundaries[r];
    header.add_section(slab_name(rank), name(cholesky.dtype), {n, width},
                       n * width * element_size(cholesky.dtype));
  }
  return header;
}

CholeskyFactorHeader to_cholesky_header(const FactorHeader& header, const std::string& path) {
  require_kind(header, path);
  try {
    const JsonObject attributes(header.attributes, "its header");
    require_known(attributes.unknown_key({"dtype", "n", "boundaries", "tile", "norm"}), header,
                  path);
    CholeskyFactorHeader cholesky{.dtype = attributes.dtype("dtype"),
                                  .boundaries = boundaries_of(attributes),
                                  .norm = scaled_of(attributes.object("norm"))};
    cholesky.tile = attributes.integer("tile", 1, widest(cholesky.boundaries));
    require_sections(cholesky, header);
    return cholesky;
  } catch (const JsonFault& fault) {
    reject_damaged(path, fault.what());
  }
}

}  // namespace shardsolve::io
