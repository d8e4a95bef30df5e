// What Python calls for networks in boxes. What is trained is to be given to
// shardsolve_free_networks, what is placed to shardsolve_free_placed_networks, a stop
// to shardsolve_free_stop, text to shardsolve_free.

#include "jax/network_loss.hpp"
#include "jax/networks.hpp"
#include "jax/python_calls.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <stop_token>

namespace jax = shardsolve::jax;
using nlohmann::json;

SHARDSOLVE_API void shardsolve_plan_networks(const char* problem, char** text,
                                             std::int32_t* verdict) {
  jax::report(verdict, [&] { *text = strdup(jax::plan_networks(json::parse(problem)).c_str()); });
}
SHARDSOLVE_API std::stop_source* shardsolve_make_stop() { return new std::stop_source; }
/// From any thread; what was given this stop leaves with Error(cancelled) soon.
SHARDSOLVE_API void shardsolve_request_stop(std::stop_source* stop) { stop->request_stop(); }
SHARDSOLVE_API void shardsolve_free_stop(std::stop_source* stop) { delete stop; }
SHARDSOLVE_API void shardsolve_train_networks(const char* problem, const char* options,
                                              jax::TrainedNetworks** networks,
                                              const std::stop_source* stop, char** figures,
                                              std::int32_t* verdict) {
  jax::report(verdict, [&] {
    auto trained =
        jax::train_networks(json::parse(problem), json::parse(options), stop->get_token());
    *figures = strdup(trained->figures().c_str());
    *networks = trained.release();
  });
}
SHARDSOLVE_API void shardsolve_evaluate_networks(jax::TrainedNetworks* networks,
                                                 std::int64_t derivatives,
                                                 const std::uint8_t* orders, std::int64_t count,
                                                 const double* points, std::int64_t chunk,
                                                 double* jets, std::int32_t* verdict) {
  jax::report(verdict, [&] {
    jax::evaluate_networks(*networks, derivatives, orders, count, points, chunk, jets);
  });
}
SHARDSOLVE_API void shardsolve_weights_of_networks(const jax::TrainedNetworks* networks,
                                                   double* hidden, double* last) {
  jax::weights_of_networks(*networks, hidden, last);
}
SHARDSOLVE_API void shardsolve_free_networks(jax::TrainedNetworks* networks) { delete networks; }
SHARDSOLVE_API void shardsolve_place_networks(const char* problem, const char* wishes,
                                              jax::PlacedNetworks** placed, char** figures,
                                              std::int32_t* verdict) {
  jax::report(verdict, [&] {
    auto made = jax::place_networks(json::parse(problem), json::parse(wishes));
    *figures = strdup(made->figures().c_str());
    *placed = made.release();
  });
}
SHARDSOLVE_API void shardsolve_free_placed_networks(jax::PlacedNetworks* placed) { delete placed; }
SHARDSOLVE_API void shardsolve_make_networks(const char* problem, const char* weights,
                                             jax::TrainedNetworks** networks,
                                             std::int32_t* verdict) {
  jax::report(verdict, [&] {
    *networks = jax::networks_of_weights(json::parse(problem), json::parse(weights)).release();
  });
}
