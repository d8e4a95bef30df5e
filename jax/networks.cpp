#include "jax/networks.hpp"

#include "jax/by_name.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace shardsolve::jax {
namespace {

fbpinn::JetSet jet_set(std::int64_t axes, std::int64_t derivatives, const std::uint8_t* orders) {
  std::vector<fbpinn::MultiIndex> wanted(static_cast<std::size_t>(derivatives));
  for (fbpinn::MultiIndex& index : wanted) {
    std::copy_n(orders, axes, index.begin());
    orders += axes;
  }
  fbpinn::JetSet set(static_cast<int>(axes), wanted);
  if (!std::equal(wanted.begin(), wanted.end(), set.indices().begin(), set.indices().end())) {
    throw Error(ErrorKind::internal, "the derivatives are not in the order of a JetSet");
  }
  return set;
}

/// Python's function on a GPU.
decltype(fbpinn::Residual::on_device) on_device_of(const nlohmann::json& term) {
  // Addresses of r, a and b in the memory of the GPU of that rank, if the result is 1. 0: the
  // function failed; 2: JAX cannot call it there.
  using OnDevice =
      int(std::int64_t rank, std::int64_t count, const double* points, const double* jets,
          const double* coefficients, std::int32_t derivatives, const double** results);
  return
      [call = function_in<OnDevice>(term, "on_device"), name = term.at("name").get<std::string>()](
          std::int64_t rank, const fbpinn::PointBatch& batch,
          bool derivatives) -> std::optional<fbpinn::ResidualInDeviceMemory> {
        std::array<const double*, 3> results{};
        switch (call(rank, batch.count, batch.points, batch.jets, batch.coefficients.data(),
                     derivatives ? 1 : 0, results.data())) {
          case 0:
            throw Error(ErrorKind::cancelled, fmt::format("the function of {} failed", name));
          case 1:
            return fbpinn::ResidualInDeviceMemory{results[0], results[1], results[2]};
          default:
            return std::nullopt;
        }
      };
}

/// Python's function as a residual.
fbpinn::Residual residual_of(const nlohmann::json& term, const fbpinn::JetSet& set) {
  // The residual and its derivatives by the jets and by the numbers of the coefficients at `count`
  // points: r (count x equations), a (count x equations x fields x derivatives), b (count x
  // equations x numbers), all row-major. `a` and `b` are null where only r is asked for.
  using Linearise = int(std::int64_t count, const double* points, const double* jets,
                        const double* coefficients, double* r, double* a, double* b);
  const auto order = term.at("order").get<int>();
  const auto call = [linearise = function_in<Linearise>(term, "linearise"),
                     name = term.at("name").get<std::string>()](const fbpinn::PointBatch& batch,
                                                                double* r, double* a, double* b) {
    if (linearise(batch.count, batch.points, batch.jets, batch.coefficients.data(), r, a, b) == 0) {
      throw Error(ErrorKind::cancelled, fmt::format("the function of {} failed", name));
    }
  };
  fbpinn::Residual residual;
  residual.equations = term.at("equations").get<int>();
  residual.record = [set, order](const double* /*point*/, int /*fields*/,
                                 std::span<const double> coefficients, fbpinn::JetReads& reads) {
    // Python has recorded before: all terms together read the whole set.
    for (const fbpinn::MultiIndex& index : set.indices()) {
      if (std::accumulate(index.begin(), index.end(), 0) <= order) {
        for (std::vector<fbpinn::MultiIndex>& of_field : reads.of_field) {
          of_field.push_back(index);
        }
      }
    }
    if (!coefficients.empty()) {
      reads.coefficients = {0};
    }
  };
  residual.evaluate = [call](const fbpinn::PointBatch& batch, double* r) {
    call(batch, r, nullptr, nullptr);
  };
  residual.linearise = call;
  if (!term.at("on_device").is_null()) {
    residual.on_device = on_device_of(term);
  }
  return residual;
}

std::vector<std::uint8_t> orders_of(const fbpinn::JetSet& set) {
  std::vector<std::uint8_t> orders;
  for (const fbpinn::MultiIndex& index : set.indices()) {
    orders.insert(orders.end(), index.begin(), index.begin() + set.axes());
  }
  return orders;
}

/// Python's functions as units.
fbpinn::OwnUnits units_of(const nlohmann::json& given) {
  // fbpinn::OwnUnits::jets: (points x units x derivatives).
  using Jets = int(std::int64_t derivatives, const std::uint8_t* orders, std::int64_t box,
                   const double* parameters, std::int64_t points, const double* at, double* jets);
  // fbpinn::OwnUnits::pull_back: (points x sums x parameters).
  using PullBack = int(std::int64_t derivatives, const std::uint8_t* orders, std::int64_t box,
                       const double* parameters, std::int64_t points, const double* at,
                       std::int64_t sums, const double* factors, double* by_parameters);
  constexpr const char* failed = "the function of the network failed";
  fbpinn::OwnUnits units{.count = given.at("count"),
                         .parameters = given.at("parameters"),
                         .start = doubles_in(given, "start")};
  units.jets = [call = function_in<Jets>(given, "jets")](
                   const fbpinn::JetSet& set, std::int64_t box, const double* parameters,
                   std::int64_t points, const double* at, double* to) {
    if (call(set.size(), orders_of(set).data(), box, parameters, points, at, to) == 0) {
      throw Error(ErrorKind::cancelled, failed);
    }
  };
  units.pull_back = [call = function_in<PullBack>(given, "pull_back")](
                        const fbpinn::JetSet& set, std::int64_t box, const double* parameters,
                        std::int64_t points, const double* at, std::int64_t sums,
                        const double* factors, double* to) {
    if (call(set.size(), orders_of(set).data(), box, parameters, points, at, sums, factors, to) ==
        0) {
      throw Error(ErrorKind::cancelled, failed);
    }
  };
  return units;
}

fbpinn::Mlp mlp_of(const nlohmann::json& given) {
  if (!given.at("own").is_null()) {
    return fbpinn::Mlp::of(units_of(given.at("own")));
  }
  fbpinn::Mlp mlp;
  mlp.hidden = given.at("widths").get<std::vector<std::int64_t>>();
  mlp.activation = static_cast<fbpinn::Activation>(given.at("activation").get<int>());
  return mlp;
}

nlohmann::json cost(const fbpinn::FactorCosts::Cost& cost) {
  return {{"flops", cost.flops}, {"bytes", cost.bytes}, {"largest", cost.largest}};
}

nlohmann::json costs_of(const fbpinn::FactorCosts& costs) {
  return {{"dense", cost(costs.dense)},
          {"band", cost(costs.band)},
          {"nested_dissection", cost(costs.nested_dissection)}};
}

nlohmann::json terms_of(const std::vector<fbpinn::TermLoss>& terms) {
  nlohmann::json all = nlohmann::json::array();
  for (const fbpinn::TermLoss& term : terms) {
    all.push_back({{"name", term.name},
                   {"loss", term.loss},
                   {"held_out", term.held_out},
                   {"held_out_points", term.held_out_points}});
  }
  return all;
}

/// JSON has no infinity.
nlohmann::json finite_or_null(const std::vector<double>& values) {
  nlohmann::json all = nlohmann::json::array();
  for (const double value : values) {
    all.push_back(std::isfinite(value) ? nlohmann::json(value) : nlohmann::json());
  }
  return all;
}

}  // namespace

fbpinn::Problem problem_of(const nlohmann::json& given) {
  const auto axes = given.at("axes").get<int>();
  const auto level_of = [&](const nlohmann::json& level) {
    return fbpinn::Boxes::from_arrays(axes, doubles_in(level, "centers"),
                                      doubles_in(level, "half_widths"));
  };
  const nlohmann::json& levels = given.at("levels");
  fbpinn::Boxes boxes = level_of(levels.at(0));
  for (std::size_t level = 1; level < levels.size(); ++level) {
    boxes.add_level(level_of(levels.at(level)));
  }
  if (!given.at("domain").is_null()) {
    std::vector<fbpinn::Interval> domain;
    for (const nlohmann::json& interval : given.at("domain")) {
      domain.push_back({interval.at(0), interval.at(1)});
    }
    boxes.set_domain(std::move(domain));
  }
  fbpinn::Problem problem(std::move(boxes), mlp_of(given), given.at("fields").get<int>());
  if (given.at("is_constrained").get<bool>()) {
    problem.set_constrained_by_terms();
  }
  const auto orders = array_in<const std::uint8_t>(given, "orders");
  const fbpinn::JetSet set =
      jet_set(axes, static_cast<std::int64_t>(orders.size()) / axes, orders.data());
  for (const nlohmann::json& one : given.at("coefficients")) {
    std::vector<double> start = doubles_in(one, "start");
    const auto numbers = static_cast<std::int64_t>(start.size());
    // Where its nodes are only the functions of Python know.
    problem.add_coefficient(one.at("name"), fbpinn::Interval{}, numbers, std::move(start));
  }
  for (const nlohmann::json& term : given.at("terms")) {
    problem.add_term({.name = term.at("name"),
                      .points = doubles_in(term, "points"),
                      .residual = residual_of(term, set),
                      .weight = term.at("weight"),
                      .targets = doubles_in(term, "targets")});
  }
  return problem;
}

std::string TrainedNetworks::figures() const {
  constexpr std::array<const char*, 4> ends{"none", "gradient", "step", "limit"};
  const fbpinn::DampedDescent& descent = trained.descent;
  const fbpinn::TrainingTimes& times = trained.times;
  return nlohmann::json{{"status", name(trained.outcome.status)},
                        {"loss", trained.loss},
                        {"losses", trained.losses},
                        {"loss_left", trained.loss_left()},
                        {"held_out_loss", trained.held_out_loss},
                        {"terms", terms_of(trained.terms)},
                        {"is_linear", trained.is_linear},
                        {"rows", trained.rows},
                        {"columns", trained.columns},
                        {"coefficients", trained.coefficients},
                        {"coefficients_determined", trained.coefficients_determined},
                        {"coefficient_deviations", finite_or_null(trained.coefficient_deviations)},
                        {"ranks", trained.rank},
                        {"certificate", trained.certificate},
                        {"condition", trained.condition},
                        {"refinements", trained.refinements},
                        {"cg_steps", trained.cg_steps},
                        {"is_by_cg", trained.is_by_cg},
                        {"shift", trained.shift},
                        {"costs", costs_of(trained.costs)},
                        {"seconds",
                         {{"geometry", times.geometry},
                          {"residual", times.residual},
                          {"rows", times.rows},
                          {"factor", times.factor},
                          {"solve", times.solve},
                          {"held_out", times.held_out}}},
                        {"descent",
                         {{"steps", descent.steps},
                          {"ended", ends.at(static_cast<std::size_t>(descent.ended))},
                          {"gradient", descent.gradient},
                          {"damping", descent.damping},
                          {"in_samples", descent.in_samples},
                          {"losses", descent.losses}}},
                        {"warnings", trained.warnings}}
      .dump();
}

std::string plan_networks(const nlohmann::json& problem) {
  const fbpinn::TrainingPlan plan = fbpinn::plan_least_squares(problem_of(problem));
  return nlohmann::json{{"boxes", plan.boxes},
                        {"points", plan.points},
                        {"pairs", plan.pairs},
                        {"rows", plan.rows},
                        {"columns", plan.columns},
                        {"bytes", plan.bytes()},
                        {"costs", costs_of(plan.costs)},
                        {"gpu_bytes", plan.gpu_bytes},
                        {"process_bytes", plan.process_bytes},
                        {"text", plan.text()},
                        {"is_by_cg", plan.is_by_cg}}
      .dump();
}

std::unique_ptr<TrainedNetworks> train_networks(const nlohmann::json& given,
                                                const nlohmann::json& options,
                                                std::stop_token cancel) {
  const fbpinn::Problem problem = problem_of(given);
  const RunOptions run{.cancel = std::move(cancel)};
  const auto gpus = options.at("gpus").get<std::vector<int>>();
  Mesh mesh = gpus.empty() ? Mesh::host(options.at("ranks")) : Mesh::cuda(gpus);
  fbpinn::LeastSquaresOptions least;
  least.seed = options.at("seed");
  least.hidden_scale = options.at("hidden_scale");
  least.rank_tolerance = options.at("rank_tolerance");
  least.max_iterations = options.at("max_iterations");
  least.tolerance = options.at("tolerance");
  least.method = static_cast<fbpinn::LinearMethod>(options.at("method").get<int>());
  least.cg_tolerance = options.at("cg_tolerance");
  least.max_cg_steps = options.at("max_cg_steps");
  least.chunk = options.at("chunk");
  least.hidden_weights = doubles_in(options, "hidden");
  least.last_layer = doubles_in(options, "last");
  least.coefficients = doubles_in(options, "coefficients");
  const nlohmann::json& descent = options.at("descent");
  fbpinn::Trained trained =
      descent.is_null()
          ? fbpinn::least_squares(mesh, problem, least, run)
          : fbpinn::levenberg_marquardt(
                mesh, problem,
                {.start = least,
                 .max_steps = descent.at("max_steps"),
                 .gradient_tolerance = descent.at("gradient_tolerance"),
                 .step_tolerance = descent.at("step_tolerance"),
                 .first_damping = descent.at("damping"),
                 .equations = static_cast<fbpinn::LevenbergMarquardtOptions::Equations>(
                     descent.at("equations").get<int>())},
                run);
  return std::make_unique<TrainedNetworks>(std::move(mesh), std::move(trained));
}

void weights_of_networks(const TrainedNetworks& networks, double* hidden, double* last) {
  const fbpinn::Trained& trained = networks.trained;
  std::copy(trained.hidden_weights.begin(), trained.hidden_weights.end(), hidden);
  std::copy(trained.last_layer.begin(), trained.last_layer.end(), last);
}

void evaluate_networks(TrainedNetworks& networks, std::int64_t derivatives,
                       const std::uint8_t* orders, std::int64_t count, const double* points,
                       std::int64_t chunk, double* jets) {
  const std::int64_t axes = networks.trained.problem.boxes().axes();
  const std::vector<double> found =
      networks.trained.evaluate_jets(networks.mesh, jet_set(axes, derivatives, orders),
                                     {points, static_cast<std::size_t>(count * axes)}, chunk);
  std::copy(found.begin(), found.end(), jets);
}

}  // namespace shardsolve::jax
