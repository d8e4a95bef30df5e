/// What a factor file of the kind "cholesky" says of its factor. Format:
/// cholesky_factor_header.cpp.
#pragma once

#include "io/factor_file_header.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/scaled.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::io {

struct CholeskyFactorHeader {
  Dtype dtype = Dtype::float64;
  std::vector<std::int64_t> boundaries;  ///< of the slabs; one more than ranks
  std::int64_t tile = 1;
  Scaled norm;  ///< ||A||_1

  std::int64_t size() const { return boundaries.back(); }
  std::int64_t ranks() const { return static_cast<std::int64_t>(boundaries.size()) - 1; }
};

/// The section of A's diagonal.
inline constexpr std::string_view diagonal_name = "diagonal";
/// The section of the slab of a rank: "slab 0".
std::string slab_name(std::int64_t rank);

/// The header of such a factor's file: A's diagonal, then the slabs; checksums are not yet known.
FactorHeader to_factor_header(const CholeskyFactorHeader& cholesky);

/// The other way. Each section that such a factor consists of is in `header`, of the dtype, the
/// shape and the bytes that follow from the result.
/// Throws Error: unsupported if `header` is of another kind or has an attribute that is not known,
/// invalid_argument if a value is impossible or a section missing.
CholeskyFactorHeader to_cholesky_header(const FactorHeader& header, const std::string& path);

}  // namespace shardsolve::io
