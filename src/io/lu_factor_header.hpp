/// What a factor file of the kind "lu" says of its factor. Format: lu_factor_header.cpp.
#pragma once

#include "io/factor_header_parts.hpp"

#include <shardsolve/scaled.hpp>

#include <complex>
#include <string>
#include <string_view>

namespace shardsolve::io {

inline constexpr std::string_view lu_kind = "lu";

struct LuFactorHeader {
  FactorCut cut;
  bool of_transpose = false;  ///< what is factored is A^T
  Scaled one_norm;            ///< of what is factored
  Scaled inf_norm;
  double growth = 1.0;
  std::complex<double> sign = 1.0;  ///< det = sign * exp(log_modulus)
  double log_modulus = 0.0;
};

/// The section of the row that came to each place.
inline constexpr std::string_view rows_name = "rows";
/// The section of a rank's columns of the matrix itself: "matrix 0".
std::string matrix_name(std::int64_t rank);

/// The header of such a factor's file: rows, matrix, then the slabs; checksums are not yet known.
FactorHeader to_factor_header(const LuFactorHeader& lu);

/// The other way; as to_cholesky_header.
LuFactorHeader to_lu_header(const FactorHeader& header, const std::string& path);

}  // namespace shardsolve::io
