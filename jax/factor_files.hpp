/// Factors of JAX in files, those that C++ writes and reads too.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace shardsolve::jax {

// A factor in host memory, in one piece, comes by name (by_name.hpp): `kind` as in the file,
// `dtype` as its number, `n`, and the arrays that a Python Factor or LuFactor holds. Factor: slab
// (n x n, row-major, complex ones already conjugated: a factor of A), diagonal (n reals),
// log_determinant (one real), record (FactorRecord). LuFactor: slab, matrix (both n x n,
// row-major), rows (n int32), sign, log_modulus, record (LuRecord).
//
// All throw Error.
void save(const nlohmann::json& factor, const std::string& path, bool overwrite);
/// What is needed to allocate one: `kind` and `dtype` as words, `ranks`, `n`.
std::string shape_in(const std::string& path);
/// Fills the arrays of `factor`. The slabs in the file must be cut as JAX cuts rows.
void load(const std::string& path, const nlohmann::json& factor);

}  // namespace shardsolve::jax
