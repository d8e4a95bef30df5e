/// krylov::diagnose for Python: on one CPU rank, as JSON.
#pragma once

#include <shardsolve/dtype.hpp>

#include <cstdint>
#include <string>

namespace shardsolve::jax {

/// An n x n sparse matrix in the memory of the caller.
struct GivenMatrix {
  Dtype dtype = Dtype::float64;
  std::int64_t n = 0;
  const std::int64_t* pointers = nullptr;
  const std::int32_t* columns = nullptr;
  const void* values = nullptr;
};
/// y = A x of vectors of n numbers; not 0 if it failed.
using GivenProduct = std::int32_t (*)(const void* x, void* y);

/// Throws Error as krylov::diagnose does.
std::string diagnose(const GivenMatrix& matrix, double rtol);
/// Throws Error(invalid_argument) if the product fails; the caller knows why.
std::string diagnose(Dtype dtype, std::int64_t n, GivenProduct product, double rtol);

}  // namespace shardsolve::jax
