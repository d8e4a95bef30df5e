#include "jax/networks.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
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

/// Python's function as a residual.
fbpinn::Residual residual_of(const NetworkTerm& term, const fbpinn::JetSet& set) {
  const std::int64_t order = term.order;
  const auto call = [linearise = term.linearise, name = std::string(term.name)](
                        const fbpinn::PointBatch& batch, double* r, double* a, double* b) {
    if (linearise(batch.count, batch.points, batch.jets, batch.coefficients.data(), r, a, b) == 0) {
      throw Error(ErrorKind::cancelled, fmt::format("the function of {} failed", name));
    }
  };
  fbpinn::Residual residual;
  residual.equations = static_cast<int>(term.equations);
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
fbpinn::OwnUnits units_of(const NetworkUnits& given, std::int64_t boxes) {
  constexpr const char* failed = "the function of the network failed";
  fbpinn::OwnUnits units{.count = given.count, .parameters = given.parameters};
  units.start.assign(given.start, given.start + boxes * given.parameters);
  units.jets = [call = given.jets](const fbpinn::JetSet& set, std::int64_t box,
                                   const double* parameters, std::int64_t points, const double* at,
                                   double* to) {
    if (call(set.size(), orders_of(set).data(), box, parameters, points, at, to) == 0) {
      throw Error(ErrorKind::cancelled, failed);
    }
  };
  units.pull_back = [call = given.pull_back](const fbpinn::JetSet& set, std::int64_t box,
                                             const double* parameters, std::int64_t points,
                                             const double* at, std::int64_t sums,
                                             const double* factors, double* to) {
    if (call(set.size(), orders_of(set).data(), box, parameters, points, at, sums, factors, to) ==
        0) {
      throw Error(ErrorKind::cancelled, failed);
    }
  };
  return units;
}

fbpinn::Mlp mlp_of(const NetworkProblem& given, std::int64_t boxes) {
  if (given.own.count > 0) {
    return fbpinn::Mlp::of(units_of(given.own, boxes));
  }
  fbpinn::Mlp mlp;
  mlp.hidden.assign(given.widths, given.widths + given.layers);
  mlp.activation = static_cast<fbpinn::Activation>(given.activation);
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

fbpinn::Problem problem_of(const NetworkProblem& given) {
  const std::int64_t axes = given.axes;
  const double* centers = given.centers;
  const double* half_widths = given.half_widths;
  const auto next_level = [&](std::int64_t boxes) {
    const std::vector<double> middle(centers, centers + boxes * axes);
    const std::vector<double> half(half_widths, half_widths + boxes * axes);
    centers += boxes * axes;
    half_widths += boxes * axes;
    return fbpinn::Boxes::from_arrays(static_cast<int>(axes), middle, half);
  };
  fbpinn::Boxes boxes = next_level(given.boxes[0]);
  for (std::int64_t level = 1; level < given.levels; ++level) {
    boxes.add_level(next_level(given.boxes[level]));
  }
  if (given.domain != nullptr) {
    std::vector<fbpinn::Interval> domain;
    for (std::int64_t axis = 0; axis < axes; ++axis) {
      domain.push_back({given.domain[2 * axis], given.domain[2 * axis + 1]});
    }
    boxes.set_domain(std::move(domain));
  }
  fbpinn::Mlp mlp = mlp_of(given, boxes.count());
  fbpinn::Problem problem(std::move(boxes), std::move(mlp), static_cast<int>(given.fields));
  if (given.is_constrained != 0) {
    problem.set_constrained_by_terms();
  }
  const fbpinn::JetSet set = jet_set(axes, given.derivatives, given.orders);
  for (std::int64_t number = 0; number < given.coefficients; ++number) {
    const NetworkCoefficient& one = given.coefficient[number];
    // Where its nodes are only the functions of Python know.
    problem.add_coefficient(one.name, fbpinn::Interval{}, one.numbers,
                            {one.start, one.start + one.numbers});
  }
  for (std::int64_t number = 0; number < given.terms; ++number) {
    const NetworkTerm& term = given.term[number];
    const std::int64_t targets = term.targets == nullptr ? 0 : term.count * term.equations;
    problem.add_term({.name = term.name,
                      .points = {term.points, term.points + term.count * axes},
                      .residual = residual_of(term, set),
                      .weight = term.weight,
                      .targets = {term.targets, term.targets + targets}});
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

std::string plan_networks(const NetworkProblem& problem) {
  const fbpinn::TrainingPlan plan = fbpinn::plan_least_squares(problem_of(problem));
  return nlohmann::json{{"boxes", plan.boxes},           {"points", plan.points},
                        {"pairs", plan.pairs},           {"rows", plan.rows},
                        {"columns", plan.columns},       {"bytes", plan.bytes()},
                        {"costs", costs_of(plan.costs)}, {"gpu_bytes", plan.gpu_bytes},
                        {"text", plan.text()},           {"is_by_cg", plan.is_by_cg}}
      .dump();
}

std::unique_ptr<TrainedNetworks> train_networks(const NetworkProblem& given,
                                                const NetworkOptions& options,
                                                std::stop_token cancel) {
  const fbpinn::Problem problem = problem_of(given);
  const RunOptions run{.cancel = std::move(cancel)};
  const std::vector<int> gpus(options.gpus, options.gpus + options.gpu_count);
  Mesh mesh = gpus.empty() ? Mesh::host(options.ranks) : Mesh::cuda(gpus);
  fbpinn::LeastSquaresOptions least;
  least.seed = options.seed;
  least.hidden_scale = options.hidden_scale;
  least.rank_tolerance = options.rank_tolerance;
  least.max_iterations = static_cast<int>(options.max_iterations);
  least.tolerance = options.tolerance;
  least.method = static_cast<fbpinn::LinearMethod>(options.method);
  least.cg_tolerance = options.linear_tolerance;
  least.max_cg_steps = static_cast<int>(options.max_linear_steps);
  least.chunk = options.chunk;
  const auto begin_with = [](std::vector<double>& numbers, const double* from, std::int64_t count) {
    if (from != nullptr) {
      numbers.assign(from, from + count);
    }
  };
  const std::int64_t boxes = problem.boxes().count();
  begin_with(least.hidden_weights, options.hidden,
             boxes * problem.mlp().weights(problem.boxes().axes()));
  begin_with(least.last_layer, options.last, boxes * problem.fields() * problem.mlp().features());
  begin_with(least.coefficients, options.coefficients,
             static_cast<std::int64_t>(problem.coefficients_at_start().size()));
  fbpinn::Trained trained =
      options.max_steps == 0
          ? fbpinn::least_squares(mesh, problem, least, run)
          : fbpinn::levenberg_marquardt(
                mesh, problem,
                {.start = least,
                 .max_steps = static_cast<int>(options.max_steps),
                 .gradient_tolerance = options.gradient_tolerance,
                 .step_tolerance = options.step_tolerance,
                 .first_damping = options.first_damping,
                 .equations =
                     static_cast<fbpinn::LevenbergMarquardtOptions::Equations>(options.equations)},
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
