/// Training by least squares, as a part of others.
#pragma once

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

#include <cstdint>

namespace shardsolve::fbpinn::training {

/// Whether check_trained() is called at the end, or left to the caller, who goes on.
enum class Checks : std::uint8_t { all, none };

/// As the public one.
Trained least_squares(Mesh& mesh, const Problem& problem, const LeastSquaresOptions& options,
                      const RunOptions& run, Checks checks);

}  // namespace shardsolve::fbpinn::training
