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

#include <shardsolve/version.hpp>

namespace shardsolve::io {
namespace {

Dtype real_part_of(Dtype dtype) {
  const bool single = dtype == Dtype::float32 || dtype == Dtype::complex64;
  return single ? Dtype::float32 : Dtype::float64;
}

}  // namespace

FactorHeader to_factor_header(const CholeskyFactorHeader& cholesky) {
  const FactorCut& cut = cholesky.cut;
  const std::int64_t n = cut.size();
  FactorHeader header{.kind = std::string(cholesky_kind),
                      .version = SHARDSOLVE_VERSION_STRING,
                      .attributes = attributes_of(cut),
                      .sections = {}};
  header.attributes["norm"] = to_json(cholesky.norm);
  const Dtype real = real_part_of(cut.dtype);
  header.add_section(std::string(diagonal_name), name(real), {n}, n * element_size(real));
  for (std::int64_t rank = 0; rank < cut.ranks(); ++rank) {
    header.add_section(slab_name(rank), name(cut.dtype), {n, cut.width(rank)},
                       n * cut.width(rank) * element_size(cut.dtype));
  }
  return header;
}

CholeskyFactorHeader to_cholesky_header(const FactorHeader& header, const std::string& path) {
  require_kind(header, cholesky_kind, "a Cholesky factor", path);
  try {
    const JsonObject attributes(header.attributes, "its header");
    require_known_attributes(attributes, {"dtype", "n", "boundaries", "tile", "norm"}, header,
                             path);
    CholeskyFactorHeader cholesky{.cut = cut_of(attributes),
                                  .norm = scaled_of(attributes.object("norm"))};
    require_sections(to_factor_header(cholesky).sections, header);
    return cholesky;
  } catch (const JsonFault& fault) {
    reject_damaged(path, fault.what());
  }
}

}  // namespace shardsolve::io
