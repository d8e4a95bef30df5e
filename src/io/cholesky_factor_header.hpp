/// What a factor file of the kind "cholesky" says of its factor. Format:
/// cholesky_factor_header.cpp.
#pragma once

#include "io/factor_header_parts.hpp"

#include <shardsolve/scaled.hpp>

#include <string>
#include <string_view>

namespace shardsolve::io {

inline constexpr std::string_view cholesky_kind = "cholesky";

struct CholeskyFactorHeader {
  FactorCut cut;
  Scaled norm;  ///< ||A||_1
};

/// The section of A's diagonal.
inline constexpr std::string_view diagonal_name = "diagonal";

/// The header of such a factor's file: A's diagonal, then the slabs; checksums are not yet known.
FactorHeader to_factor_header(const CholeskyFactorHeader& cholesky);

/// The other way. Each section that such a factor consists of is in `header`, of the dtype, the
/// shape and the bytes that follow from the result.
/// Throws Error: unsupported if `header` is of another kind or has an attribute that is not known,
/// invalid_argument if a value is impossible or a section missing.
CholeskyFactorHeader to_cholesky_header(const FactorHeader& header, const std::string& path);

}  // namespace shardsolve::io
