/// Networks in boxes for Python: its residuals are functions that are called here, and what is
/// trained lives here until it is freed. Problems and options come by name (by_name.hpp), as
/// python/shardsolve/fbpinn/_call.py makes them.
#pragma once

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/mesh.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

namespace shardsolve::jax {

/// What training has left, and the ranks that evaluate it.
struct TrainedNetworks {
  Mesh mesh;
  fbpinn::Trained trained;

  /// Its figures as JSON.
  std::string figures() const;
};

// All throw Error.
/// As the library has it, its residuals those of the caller, whose functions return 0 if they have
/// failed; Python keeps the exception. They are called from any thread, those of a network of the
/// caller's own until what is trained with it is freed.
fbpinn::Problem problem_of(const nlohmann::json& given);
/// What training will need, as JSON.
std::string plan_networks(const nlohmann::json& problem);
/// Leaves with Error(cancelled) soon after a stop is requested.
std::unique_ptr<TrainedNetworks> train_networks(const nlohmann::json& problem,
                                                const nlohmann::json& options,
                                                std::stop_token cancel);
/// What was trained: `hidden`, Mlp::weights() numbers a box, and `last`, boxes x fields x units
/// + 1.
void weights_of_networks(const TrainedNetworks& networks, double* hidden, double* last);
/// Jets of the networks' sum: points x fields x derivatives, row-major.
void evaluate_networks(TrainedNetworks& networks, std::int64_t derivatives,
                       const std::uint8_t* orders, std::int64_t count, const double* points,
                       std::int64_t chunk, double* jets);

}  // namespace shardsolve::jax
