/// Networks in boxes whose loss JAX computes on several devices: who has which boxes, what they
/// tell each other, and networks of weights that were found there.
#pragma once

#include "fbpinn/exchange_tables.hpp"
#include "jax/networks.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardsolve::jax {

struct PlacedNetworks {
  fbpinn::ExchangeTables tables;
  std::vector<std::int32_t> sent;
  std::vector<double> hidden;

  /// What was looked at and where the numbers are, by name: `owner` of each box (a device);
  /// `begin`, of each box its first pair (boxes + 1); `point` of each pair; `point_owner` of each
  /// point; `sent`, messages x 3: from, to, point; `windows`, pairs x derivatives; `hidden`, boxes
  /// x Mlp::weights().
  std::string figures() const;
};

// All throw Error.
/// `wishes`: devices, and the owners of all boxes, or null for what the costs say is best.
std::unique_ptr<PlacedNetworks> place_networks(const nlohmann::json& problem,
                                               const nlohmann::json& wishes);
/// Networks of these weights, evaluated by so many threads (`ranks`). `hidden`, `last`: as
/// weights_of_networks() gives them; `coefficients`: their numbers.
std::unique_ptr<TrainedNetworks> networks_of_weights(const nlohmann::json& problem,
                                                     const nlohmann::json& weights);

}  // namespace shardsolve::jax
