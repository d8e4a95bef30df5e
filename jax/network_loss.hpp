/// Networks in boxes whose loss JAX computes on several devices: who has which boxes, what they
/// tell each other, and networks of weights that were found there.
#pragma once

#include "fbpinn/exchange_tables.hpp"
#include "jax/networks.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardsolve::jax {

/// Who is to have which boxes, as ctypes has it.
struct PlacementWishes {
  std::int64_t devices = 1;
  const std::int32_t* owner = nullptr;  ///< a device for each box; null: what costs say is best
  double seconds_per_pair = 0.0;
  double bytes_per_point = 0.0;
  double latency = 0.0;
  double seconds_per_byte = 0.0;
  std::uint64_t seed = 0;  ///< of hidden weights to begin with
  double hidden_scale = 1.0;
};

/// Where the numbers are, as ctypes has it.
struct PlacedArrays {
  const std::int32_t* owner = nullptr;        ///< of each box
  const std::int64_t* box_begin = nullptr;    ///< of each box its first pair; boxes + 1
  const std::int32_t* point = nullptr;        ///< of each pair
  const std::int32_t* point_owner = nullptr;  ///< of each point
  const std::int32_t* sent = nullptr;         ///< messages: from, to, point
  const double* windows = nullptr;            ///< pairs x derivatives
  const double* hidden = nullptr;             ///< boxes x Mlp::weights()
};

struct PlacedNetworks {
  fbpinn::ExchangeTables tables;
  std::vector<std::int32_t> sent;
  std::vector<double> hidden;

  /// How much there is of what, as JSON.
  std::string figures() const;
  PlacedArrays arrays() const;
};

// All throw Error.
std::unique_ptr<PlacedNetworks> place_networks(const NetworkProblem& problem,
                                               const PlacementWishes& wishes);
/// Networks of these weights, evaluated by so many threads. `hidden`, `last`: as
/// weights_of_networks() gives them; `coefficients`: their numbers.
std::unique_ptr<TrainedNetworks> networks_of_weights(const NetworkProblem& problem,
                                                     std::int64_t ranks, const double* hidden,
                                                     const double* last,
                                                     const double* coefficients);

}  // namespace shardsolve::jax
