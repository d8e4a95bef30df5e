// The kind "lu" of factor files (factor_file_header.cpp): P A Q^T = L U, and A itself. Its
// attributes:
//
//   dtype        "float32", "float64", "complex64" or "complex128"
//   n            rows of the matrix
//   boundaries   slab r holds the columns from boundaries[r] to before boundaries[r + 1]
//   tile         columns of a block; with the boundaries it gives the elimination order Q
//   of           "matrix", or "transpose" if what is factored is the transpose of the caller's A:
//                JAX's rows are columns of it
//   one_norm     ||A||_1 as {"fraction": hexadecimal float, "exponent": e}: fraction * 2^e
//   inf_norm     ||A||_inf, likewise
//   growth       max |u| / max |a|, a hexadecimal float
//   sign         of the determinant: real and imaginary part, hexadecimal floats
//   log_modulus  log|det(A)|, a hexadecimal float
//
// and its sections:
//
//   rows         the row of A that came to each place: n whole numbers
//   matrix r     for each rank r, n x width: A
//   slab r       likewise: L, with ones on its diagonal, and U; complex numbers as real and
//                imaginary part

#include "io/lu_factor_header.hpp"

#include <shardsolve/version.hpp>

#include <fmt/format.h>

#include <cmath>

namespace shardsolve::io {
namespace {

bool is_of_transpose(const JsonObject& attributes) {
  const std::string of = attributes.text("of");
  if (of != "matrix" && of != "transpose") {
    attributes.reject("of", "\"matrix\" or \"transpose\"");
  }
  return of == "transpose";
}

double growth_of(const JsonObject& attributes) {
  const double growth = hexadecimal_of(attributes, "growth");
  if (growth < 0.0) {
    attributes.reject("growth", "a hexadecimal number that is not negative");
  }
  return growth;
}

std::complex<double> sign_of(const JsonObject& attributes) {
  const JsonObject sign = attributes.object("sign");
  sign.require_keys({"real", "imaginary"});
  const std::complex<double> value{hexadecimal_of(sign, "real"), hexadecimal_of(sign, "imaginary")};
  constexpr double rounding = 1e-5;  // of floats
  if (!(std::abs(std::abs(value) - 1.0) <= rounding)) {
    attributes.reject("sign", "a number of modulus 1");
  }
  return value;
}

}  // namespace

std::string matrix_name(std::int64_t rank) { return fmt::format("matrix {}", rank); }

FactorHeader to_factor_header(const LuFactorHeader& lu) {
  const FactorCut& cut = lu.cut;
  const std::int64_t n = cut.size();
  FactorHeader header{.kind = std::string(lu_kind),
                      .version = SHARDSOLVE_VERSION_STRING,
                      .attributes = attributes_of(cut),
                      .sections = {}};
  header.attributes["of"] = lu.of_transpose ? "transpose" : "matrix";
  header.attributes["one_norm"] = to_json(lu.one_norm);
  header.attributes["inf_norm"] = to_json(lu.inf_norm);
  header.attributes["growth"] = hexadecimal(lu.growth);
  header.attributes["sign"] = {{"real", hexadecimal(lu.sign.real())},
                               {"imaginary", hexadecimal(lu.sign.imag())}};
  header.attributes["log_modulus"] = hexadecimal(lu.log_modulus);
  header.add_section(std::string(rows_name), "int64", {n},
                     n * static_cast<std::int64_t>(sizeof(std::int64_t)));
  for (const auto& section_name : {matrix_name, slab_name}) {
    for (std::int64_t rank = 0; rank < cut.ranks(); ++rank) {
      header.add_section(section_name(rank), name(cut.dtype), {n, cut.width(rank)},
                         n * cut.width(rank) * element_size(cut.dtype));
    }
  }
  return header;
}

LuFactorHeader to_lu_header(const FactorHeader& header, const std::string& path) {
  require_kind(header, lu_kind, "an LU factor", path);
  try {
    const JsonObject attributes(header.attributes, "its header");
    require_known_attributes(attributes,
                             {"dtype", "n", "boundaries", "tile", "of", "one_norm", "inf_norm",
                              "growth", "sign", "log_modulus"},
                             header, path);
    LuFactorHeader lu{.cut = cut_of(attributes),
                      .of_transpose = is_of_transpose(attributes),
                      .one_norm = scaled_of(attributes.object("one_norm")),
                      .inf_norm = scaled_of(attributes.object("inf_norm")),
                      .growth = growth_of(attributes),
                      .sign = sign_of(attributes),
                      .log_modulus = hexadecimal_of(attributes, "log_modulus")};
    require_sections(to_factor_header(lu).sections, header);
    return lu;
  } catch (const JsonFault& fault) {
    reject_damaged(path, fault.what());
  }
}

}  // namespace shardsolve::io
