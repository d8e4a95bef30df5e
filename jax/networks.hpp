/// Networks in boxes for Python: its residuals are functions that are called here, and what is
/// trained lives here until it is freed.
#pragma once

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/mesh.hpp>

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

namespace shardsolve::jax {

/// A term of the loss, as ctypes has it.
struct NetworkTerm {
  /// The residual and its derivatives by the jets and by the numbers of the coefficients at `count`
  /// points: r (count x equations), a (count x equations x fields x derivatives), b (count x
  /// equations x numbers), all row-major. `a` and `b` are null where only r is asked for. Returns 0
  /// if it has failed; Python keeps the exception. Called from any thread.
  using Linearise = int (*)(std::int64_t count, const double* points, const double* jets,
                            const double* coefficients, double* r, double* a, double* b);

  const char* name = nullptr;
  const double* points = nullptr;   ///< count x axes
  const double* targets = nullptr;  ///< count x equations; null where nothing was measured
  std::int64_t count = 0;
  std::int64_t equations = 1;
  double weight = 1.0;
  Linearise linearise = nullptr;
  std::int64_t order = 0;  ///< of the highest derivative that it reads; -1: coefficients alone
};

/// An unknown coefficient, as ctypes has it.
struct NetworkCoefficient {
  const char* name = nullptr;
  const double* start = nullptr;
  std::int64_t numbers = 1;  ///< 1 of a scalar
};

/// A network of the caller's own, as ctypes has it. Its functions return 0 if they have failed, and
/// are to be called until what is trained with it is freed.
struct NetworkUnits {
  /// fbpinn::OwnUnits::jets: (points x units x derivatives).
  using Jets = int (*)(std::int64_t derivatives, const std::uint8_t* orders, std::int64_t box,
                       const double* parameters, std::int64_t points, const double* at,
                       double* jets);
  /// fbpinn::OwnUnits::pull_back: (points x sums x parameters).
  using PullBack = int (*)(std::int64_t derivatives, const std::uint8_t* orders, std::int64_t box,
                           const double* parameters, std::int64_t points, const double* at,
                           std::int64_t sums, const double* factors, double* by_parameters);

  std::int64_t count = 0;  ///< 0: there is none, but an Mlp
  Jets jets = nullptr;
  PullBack pull_back = nullptr;
  std::int64_t parameters = 0;    ///< of a box
  const double* start = nullptr;  ///< boxes x parameters
};

/// A problem, as ctypes has it.
struct NetworkProblem {
  std::int64_t axes = 1;
  std::int64_t fields = 1;
  std::int64_t levels = 1;
  const std::int64_t* boxes = nullptr;  ///< of each level
  const double* centers = nullptr;      ///< level after level, axes numbers for each box
  const double* half_widths = nullptr;  ///< likewise
  std::int64_t layers = 1;
  const std::int64_t* widths = nullptr;  ///< of each hidden layer
  std::int64_t activation = 0;           ///< number of a fbpinn::Activation
  std::int64_t derivatives = 1;
  const std::uint8_t* orders = nullptr;  ///< derivatives x axes, as a fbpinn::JetSet has them
  std::int64_t terms = 0;
  const NetworkTerm* term = nullptr;
  std::int64_t coefficients = 0;
  const NetworkCoefficient* coefficient = nullptr;
  NetworkUnits own;
  const double* domain = nullptr;   ///< axes x 2, low and high; null if there is none but the boxes
  std::int64_t is_constrained = 0;  ///< whether the terms apply a hard condition
};

/// As fbpinn::LeastSquaresOptions; and as fbpinn::LevenbergMarquardtOptions if there are steps.
struct NetworkOptions {
  std::int64_t ranks = 1;
  std::uint64_t seed = 0;
  double hidden_scale = 1.0;
  double rank_tolerance = 0.0;
  std::int64_t max_iterations = 0;
  double tolerance = 0.0;
  std::int64_t gpu_count = 0;          ///< of those that train; 0: CPU devices do
  const std::int64_t* gpus = nullptr;  ///< CUDA's numbers of them
  std::int64_t method = 0;             ///< number of a fbpinn::LinearMethod
  double linear_tolerance = 0.0;
  std::int64_t max_linear_steps = 0;
  std::int64_t max_steps = 0;  ///< 0: least squares alone
  double gradient_tolerance = 0.0;
  double step_tolerance = 0.0;
  double first_damping = 0.0;
  std::int64_t equations = 0;  ///< number of a LevenbergMarquardtOptions::Equations
  std::int64_t chunk = 0;
  const double* hidden = nullptr;        ///< what training begins with, or null
  const double* last = nullptr;          ///< likewise
  const double* coefficients = nullptr;  ///< likewise
};

/// What training has left, and the ranks that evaluate it.
struct TrainedNetworks {
  Mesh mesh;
  fbpinn::Trained trained;

  /// Its figures as JSON.
  std::string figures() const;
};

// All throw Error.
/// As the library has it, its residuals those of the caller.
fbpinn::Problem problem_of(const NetworkProblem& given);
/// What training will need, as JSON.
std::string plan_networks(const NetworkProblem& problem);
/// Leaves with Error(cancelled) soon after a stop is requested.
std::unique_ptr<TrainedNetworks> train_networks(const NetworkProblem& problem,
                                                const NetworkOptions& options,
                                                std::stop_token cancel);
/// What was trained: `hidden`, Mlp::weights() numbers a box, and `last`, boxes x fields x units
/// + 1.
void weights_of_networks(const TrainedNetworks& networks, double* hidden, double* last);
/// Jets of the networks' sum: points x fields x derivatives, row-major.
void evaluate_networks(TrainedNetworks& networks, std::int64_t derivatives,
                       const std::uint8_t* orders, std::int64_t count, const double* points,
                       std::int64_t chunk, double* jets);

}  // namespace shardsolve::jax
