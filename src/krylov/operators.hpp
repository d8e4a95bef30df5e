/// Operators that solves make for themselves.
#pragma once

#include "krylov/linear_operator.hpp"

#include <cstdint>
#include <memory>

namespace shardsolve::krylov {

/// Throws Error(unsupported) on a rank that is no CPU; `what` needs one.
void require_host(mesh::Rank& rank, const char* what);

/// y = x on a rank with `rows` rows.
template <Scalar T>
std::unique_ptr<LinearOperator<T>> make_identity(std::int64_t rows);

}  // namespace shardsolve::krylov
