/// The calls for matrices of any shape: QR and least squares.
#pragma once

#include "jax/call_table.hpp"

#include <vector>

namespace shardsolve::jax {

/// In no particular order.
std::vector<CallRow> qr_calls();

}  // namespace shardsolve::jax
