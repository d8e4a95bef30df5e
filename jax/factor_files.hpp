/// Factors of JAX in files, those that C++ writes and reads too.
#pragma once

#include <shardsolve/dtype.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace shardsolve::jax {

/// Which class of Python a factor is of.
enum class FactorKind : std::uint8_t { cholesky, lu };

/// A factor in host memory, in one piece: what the arrays of a Python Factor or LuFactor hold.
struct WholeFactor {
  FactorKind kind = FactorKind::cholesky;
  Dtype dtype = Dtype::float64;
  std::int64_t n = 0;
  /// In the order of the Python class. Factor: slab (n x n, row-major, complex ones already
  /// conjugated: a factor of A), diagonal (n reals), log_determinant (one real), FactorRecord.
  /// LuFactor: slab, matrix (both n x n, row-major), rows (n int32), sign, log_modulus, LuRecord.
  std::array<void*, 6> parts{};
};

/// What is needed to allocate one.
struct FactorShape {
  std::int32_t kind = 0;
  std::int32_t dtype = 0;
  std::int64_t ranks = 0;
  std::int64_t n = 0;
};

// All throw Error.
void save(const WholeFactor& factor, const std::string& path, bool overwrite);
FactorShape shape_in(const std::string& path);
/// Fills what `factor` points to. The slabs in the file must be cut as JAX cuts rows.
void load(const std::string& path, const WholeFactor& factor);

}  // namespace shardsolve::jax
