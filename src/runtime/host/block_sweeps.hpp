/// Solves with factored blocks on the CPU.
#pragma once

#include "runtime/krylov/block_factors.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>

namespace shardsolve::runtime::host {

/// x = block^-1 x, of block.size numbers, with factors in the memory of the host.
template <Scalar T>
void solve_block(const krylov::BlockFactors<T>& factors, const krylov::FactoredBlock& block, T* x);

}  // namespace shardsolve::runtime::host
