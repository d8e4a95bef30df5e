#include "jax/network_loss.hpp"

#include "fbpinn/training_inputs.hpp"
#include "jax/by_name.hpp"

#include <shardsolve/error.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <span>
#include <utility>

namespace shardsolve::jax {
namespace {

fbpinn::TrainingGeometry geometry_of(const fbpinn::Problem& problem) {
  try {
    return fbpinn::TrainingGeometry(problem.boxes(), problem.jet_set(), problem.fields(),
                                    fbpinn::training::points_as_given(problem),
                                    fbpinn::training::shapes_of(problem), sparse::Workers{});
  } catch (const Error&) {
    fbpinn::training::refuse_uncovered_terms(problem);
    throw;
  }
}

}  // namespace

std::string PlacedNetworks::figures() const {
  const fbpinn::Placement& chosen = tables.placements.front();
  return nlohmann::json{
      {"text", fbpinn::text_of(tables.placements)}, {"owner", array_of(chosen.owner)},
      {"begin", array_of(tables.pairs.box_begin)},  {"point", array_of(tables.pairs.point)},
      {"point_owner", array_of(tables.plan.owner)}, {"sent", array_of(sent)},
      {"windows", array_of(tables.windows)},        {"hidden", array_of(hidden)}}
      .dump();
}

std::unique_ptr<PlacedNetworks> place_networks(const nlohmann::json& given,
                                               const nlohmann::json& wishes) {
  const fbpinn::Problem problem = problem_of(given);
  auto placed = std::make_unique<PlacedNetworks>();
  placed->tables = fbpinn::exchange_tables(geometry_of(problem), wishes.at("devices"),
                                           array_in<const std::int32_t>(wishes, "owner"),
                                           {.seconds_per_pair = wishes.at("seconds_per_pair"),
                                            .bytes_per_point = wishes.at("bytes_per_point"),
                                            .latency = wishes.at("latency"),
                                            .seconds_per_byte = wishes.at("seconds_per_byte")});
  const auto& sends = placed->tables.plan.sends;
  for (std::size_t from = 0; from < sends.size(); ++from) {
    for (std::size_t to = 0; to < sends.size(); ++to) {
      for (const std::int32_t point : sends[from][to]) {
        placed->sent.insert(placed->sent.end(), {static_cast<std::int32_t>(from),
                                                 static_cast<std::int32_t>(to), point});
      }
    }
  }
  placed->hidden = problem.mlp().random_weights(problem.boxes().axes(), problem.boxes().count(),
                                                wishes.at("seed"), wishes.at("hidden_scale"));
  return placed;
}

std::unique_ptr<TrainedNetworks> networks_of_weights(const nlohmann::json& given,
                                                     const nlohmann::json& weights) {
  fbpinn::Trained trained{.problem = problem_of(given)};
  trained.hidden_weights = doubles_in(weights, "hidden");
  trained.last_layer = doubles_in(weights, "last");
  trained.coefficients = doubles_in(weights, "coefficients");
  return std::make_unique<TrainedNetworks>(Mesh::host(weights.at("ranks")), std::move(trained));
}

}  // namespace shardsolve::jax
