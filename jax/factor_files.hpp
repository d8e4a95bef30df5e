/// Factors of JAX in files, those that the command line and C++ write and read too.
#pragma once

#include <shardsolve/dtype.hpp>

#include <cstdint>
#include <string>

namespace shardsolve::jax {

/// A factor in host memory, in one piece: what the arrays of a Python Factor hold.
struct WholeFactor {
  Dtype dtype = Dtype::float64;
  std::int64_t n = 0;
  void* slab = nullptr;      ///< n x n, row-major; complex ones already conjugated: a factor of A
  void* diagonal = nullptr;  ///< n reals
  void* log_determinant = nullptr;  ///< one real
  void* record = nullptr;           ///< FactorRecord
};

/// What is needed to allocate one.
struct FactorShape {
  std::int32_t dtype = 0;
  std::int32_t ranks = 0;
  std::int64_t n = 0;
};

// All throw Error.
void save(const WholeFactor& factor, const std::string& path, bool overwrite);
FactorShape shape_in(const std::string& path);
/// Fills what `factor` points to. The slabs in the file must be cut as JAX cuts rows.
void load(const std::string& path, const WholeFactor& factor);

}  // namespace shardsolve::jax
