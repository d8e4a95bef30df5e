#include "jax/network_loss.hpp"

#include "fbpinn/training_inputs.hpp"

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
  return nlohmann::json{{"text", fbpinn::text_of(tables.placements)},
                        {"pairs", chosen.pairs},
                        {"load", chosen.load()},
                        {"messages", sent.size() / 3}}
      .dump();
}

PlacedArrays PlacedNetworks::arrays() const {
  return {tables.placements.front().owner.data(),
          tables.pairs.box_begin.data(),
          tables.pairs.point.data(),
          tables.plan.owner.data(),
          sent.data(),
          tables.windows.data(),
          hidden.data()};
}

std::unique_ptr<PlacedNetworks> place_networks(const NetworkProblem& given,
                                               const PlacementWishes& wishes) {
  const fbpinn::Problem problem = problem_of(given);
  const auto boxes = static_cast<std::size_t>(problem.boxes().count());
  const std::span<const std::int32_t> owner(wishes.owner, wishes.owner == nullptr ? 0 : boxes);
  auto placed = std::make_unique<PlacedNetworks>();
  placed->tables = fbpinn::exchange_tables(geometry_of(problem), wishes.devices, owner,
                                           {.seconds_per_pair = wishes.seconds_per_pair,
                                            .bytes_per_point = wishes.bytes_per_point,
                                            .latency = wishes.latency,
                                            .seconds_per_byte = wishes.seconds_per_byte});
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
                                                wishes.seed, wishes.hidden_scale);
  return placed;
}

std::unique_ptr<TrainedNetworks> networks_of_weights(const NetworkProblem& given,
                                                     std::int64_t ranks, const double* hidden,
                                                     const double* last,
                                                     const double* coefficients) {
  fbpinn::Trained trained{.problem = problem_of(given)};
  const fbpinn::Problem& problem = trained.problem;
  const fbpinn::Mlp& mlp = problem.mlp();
  const std::int64_t boxes = problem.boxes().count();
  trained.hidden_weights.assign(hidden, hidden + boxes * mlp.weights(problem.boxes().axes()));
  trained.last_layer.assign(last, last + boxes * problem.fields() * mlp.features());
  trained.coefficients.assign(coefficients, coefficients + problem.coefficients_at_start().size());
  return std::make_unique<TrainedNetworks>(Mesh::host(ranks), std::move(trained));
}

}  // namespace shardsolve::jax
