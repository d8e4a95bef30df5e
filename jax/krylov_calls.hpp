/// The local calls of Krylov solves: krylov/local_call.hpp.
#pragma once

#include "jax/call_table.hpp"

#include <shardsolve/krylov.hpp>

#include <array>
#include <vector>

namespace shardsolve::jax {

inline constexpr std::array krylov_methods{krylov::Method::cg, krylov::Method::minres,
                                           krylov::Method::bicgstab, krylov::Method::fgmres};

std::vector<CallRow> krylov_calls();

}  // namespace shardsolve::jax
