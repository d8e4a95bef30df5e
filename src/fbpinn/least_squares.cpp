// The public call: Gauss-Newton over linear problems, of which a linear residual needs one.

#include "fbpinn/least_squares.hpp"

#include "core/floating_point.hpp"
#include "fbpinn/box_rows.hpp"
#include "fbpinn/held_out.hpp"
#include "fbpinn/linear_step.hpp"
#include "fbpinn/networks.hpp"
#include "fbpinn/numbers.hpp"
#include "fbpinn/on_ranks.hpp"
#include "fbpinn/pointwise_rows.hpp"
#include "fbpinn/timer.hpp"
#include "fbpinn/trained_checks.hpp"
#include "fbpinn/training_inputs.hpp"
#include "fbpinn/training_reports.hpp"
#include "fbpinn/training_vectors.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/fbpinn.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <future>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {
namespace training {

class Training {
 public:
  Training(Mesh& mesh, const Problem& problem, const LeastSquaresOptions& options,
           const RunOptions& run)
      : problem_(problem),
        options_(options),
        rank_tolerance_(options.rank_tolerance),
        workers_(on_ranks(mesh, run)),
        result_{.problem = problem,
                .hidden_weights = options.hidden_weights,
                .coefficients = problem.coefficients_at_start()} {
    if (result_.hidden_weights.empty()) {
      result_.hidden_weights = problem.mlp().random_weights(
          problem.boxes().axes(), problem.boxes().count(), options.seed, options.hidden_scale);
    }
  }

  Trained run(Checks checks) {
    {
      const Timer timer(result_.outcome.seconds);
      make_geometry();
      if (checks == Checks::all) {
        between_ = points_to_hold_out();
      }
      train();
    }
    result_.warnings = warnings_of(result_, *geometry_, is_limited_, gain_, options_);
    if (checks == Checks::all) {
      const Timer timer(result_.outcome.seconds);
      check_trained(held_out_points_made(), options_.chunk, workers_, result_);
    }
    return std::move(result_);
  }

 private:
  static constexpr double settled_share = 1e-4;

  /// What training changes, and the residual there.
  struct State {
    std::vector<double> last_layer;
    std::vector<double> coefficients;
    Numbers<double> v;  ///< jets of the networks' sum
    PointwiseRows rows;
  };

  void train() {
    require_conditions(problem_, *geometry_, workers_.each);
    State now = first_state();
    now.rows = residual_at(now.v, now.coefficients, true, false);
    require_derivatives(problem_, *geometry_, now.rows, workers_);
    result_.is_linear = is_linear(now);
    result_.zero_loss = now.rows.loss();
    std::optional<State> zero;
    if (begins_elsewhere()) {
      zero = zero_state();
      zero->rows = residual_at(zero->v, zero->coefficients, result_.is_linear, true);
      const double loss = zero->rows.loss();
      result_.zero_loss = std::isfinite(loss) ? loss : result_.zero_loss;
    }
    const bool is_lost = is_below_range(zero ? zero->rows : now.rows);
    if (zero && result_.is_linear) {
      now = std::move(*zero);
    }
    result_.losses.push_back(now.rows.loss());
    result_.outcome.status = Status::not_converged;
    if (result_.is_linear && !solve_once(now)) {
      go_on(now);
    } else if (!result_.is_linear) {
      is_separable_ = is_linear_at_fixed_coefficients(now);
      if (is_separable_) {
        begin_separated(now);
      }
      iterate(now);
    }
    result_.last_layer = std::move(now.last_layer);
    result_.coefficients = std::move(now.coefficients);
    result_.loss = result_.losses.back();
    result_.terms = losses_of_terms(problem_, *geometry_, now.rows.residual);
    if (is_lost) {
      result_.outcome.status = Status::overflow;
    }
  }

  /// Whether there is a residual, and hardly any digit in the sum of its squares.
  static bool is_below_range(const PointwiseRows& rows) {
    using Limits = std::numeric_limits<double>;
    constexpr double least = Limits::min() / Limits::epsilon();
    return rows.loss() < least &&
           std::any_of(
               rows.residual.begin(), rows.residual.end(), [](double r) { return r != 0.0; });
  }

  /// Networks that are 0, and the coefficients that the problem says.
  State zero_state() const {
    return {std::vector<double>(
                static_cast<std::size_t>(problem_.boxes().count() * columns_of_box()), 0.0),
            problem_.coefficients_at_start(),
            zero_jets(jets_count(), workers_.each),
            {}};
  }

  bool begins_elsewhere() const {
    return !options_.last_layer.empty() || !options_.coefficients.empty();
  }

  State first_state() {
    State state = zero_state();
    if (!options_.coefficients.empty()) {
      state.coefficients = options_.coefficients;
    }
    if (!options_.last_layer.empty()) {
      state.last_layer = options_.last_layer;
      state.v = jets_of(state.last_layer);
    }
    return state;
  }

  /// False if the networks do not do what the linear problem says they would: their weights are so
  /// large that the sum is rounding, or the residual is not linear there.
  bool solve_once(State& now) {
    LinearStep step = solve(now);
    if (!step.is_factored) {
      result_.outcome.status = Status::not_positive_definite;
      return true;
    }
    now.last_layer = std::move(step.change);
    add_to(now.coefficients, step.coefficients, 1.0);
    now.v = jets_of(now.last_layer);
    now.rows = residual_at(now.v, now.coefficients, false, true);
    constexpr double much = 1.1;
    constexpr double rounding = 1e-10;
    promised_ = sum_of_squares(step.residual);
    if (!(std::sqrt(now.rows.loss()) <=
          much * std::sqrt(promised_) + rounding * std::sqrt(result_.zero_loss))) {
      return false;
    }
    result_.losses.push_back(now.rows.loss());
    result_.outcome.status = is_limited_ ? Status::not_converged : Status::ok;
    return true;
  }

  /// From there, or from networks that are 0 if that is worse.
  void go_on(State& now) {
    if (!(now.rows.loss() < result_.zero_loss)) {
      now = zero_state();
    }
    now.rows = residual_at(now.v, now.coefficients, true, false);
    result_.is_linear = is_linear(now);
    if (now.rows.loss() < result_.losses.back()) {
      result_.losses.push_back(now.rows.loss());
    }
    iterate(now);
    // Where the start is as good as any networks but for rounding, steps gain nothing.
    constexpr double little = 1e-2;
    if (result_.is_linear && result_.outcome.status == Status::not_converged &&
        promised_ >= little * result_.zero_loss) {
      result_.outcome.status = Status::ok;
    }
  }

  /// Gauss-Newton.
  void iterate(State& now) {
    for (int i = 0; i < options_.max_iterations; ++i) {
      const LinearStep step = solve(now);
      if (!step.is_factored) {
        result_.outcome.status = Status::not_positive_definite;
        break;
      }
      // ||M change||^2
      double moved = 0.0;
      for (std::size_t k = 0; k < now.rows.residual.size(); ++k) {
        moved += std::pow(now.rows.residual[k] + step.residual[k], 2);
      }
      const bool is_last = std::sqrt(moved) <= options_.tolerance * std::sqrt(now.rows.loss());
      const double share = search(step, now, moved);
      // Networks that are solved for anew each time differ by rounding that the loss shows.
      constexpr double little = 1e-2;
      const bool has_little_to_gain =
          anew_ && sum_of_squares(step.residual) >= (1.0 - little) * now.rows.loss();
      const bool is_end = is_last || (share > 0.0 && has_settled()) ||
                          (share == 0.0 && (has_little_to_gain || is_at_rounding()));
      if (share < 1.0 && !is_last && !(is_separable_ && is_end) && raise_rank_tolerance()) {
        if (is_separable_) {
          renew(now);
        }
      } else if (is_end || share == 0.0) {
        result_.outcome.status = is_end ? Status::ok : Status::not_converged;
        break;
      }
      if (i + 1 < options_.max_iterations && !is_separable_) {
        now.rows = residual_at(now.v, now.coefficients, true, false);
      }
    }
  }

  std::int64_t columns_of_box() const { return problem_.fields() * problem_.mlp().features(); }

  std::int64_t jets_count() const { return geometry_->points_count() * geometry_->jet_numbers(); }

  void make_geometry() {
    const Timer timer(result_.times.geometry);
    try {
      geometry_.emplace(problem_.boxes(), problem_.jet_set(), problem_.fields(),
                        all_points(problem_), shapes_of(problem_), workers_);
    } catch (const Error&) {
      refuse_uncovered_terms(problem_);
      throw;
    }
    result_.rows = geometry_->rows;
    result_.columns = problem_.boxes().count() * columns_of_box();
  }

  /// Made meanwhile where GPUs train and threads of the host have little to do, but not by one of
  /// several processes, which do such work together; else when they are asked for.
  std::future<HeldOutPoints> points_to_hold_out() {
    const bool is_host_idle = workers_.devices != nullptr && workers_.processes == 1;
    // Without a thread for it, it is done when it is asked for, too.
    return std::async(
        is_host_idle ? std::launch::async | std::launch::deferred : std::launch::deferred, [this] {
          const core::IeeeArithmetic ieee;
          return held_out_points(problem_, *geometry_, workers_);
        });
  }

  HeldOutPoints held_out_points_made() {
    const Timer timer(result_.times.held_out);
    return between_.get();
  }

  PointwiseRows residual_at(std::span<const double> v, const std::vector<double>& coefficients,
                            bool derivatives, bool accept_nonfinite) {
    const Timer timer(result_.times.residual);
    return pointwise_rows(problem_, problem_.terms(), *geometry_, v, coefficients, derivatives,
                          accept_nonfinite, options_.chunk, workers_);
  }

  /// In the networks and the coefficients together.
  bool is_linear(const State& at) {
    std::vector<double> coefficients = at.coefficients;
    const Numbers<double> shifts =
        other_jets(static_cast<std::int64_t>(coefficients.size()), workers_.each);
    for (std::size_t k = 0; k < coefficients.size(); ++k) {
      coefficients[k] += 0.1 * std::max(std::abs(coefficients[k]), 1.0) * shifts[k];
    }
    const PointwiseRows other =
        residual_at(other_jets(jets_count(), workers_.each), coefficients, true, true);
    require_coefficients_to_matter(problem_, *geometry_, at.rows, other);
    return have_equal_derivatives(at.rows, other, workers_) &&
           are_nearly_equal(at.rows.by_coefficients, other.by_coefficients);
  }

  bool is_linear_at_fixed_coefficients(const State& at) {
    return !at.coefficients.empty() &&
           have_equal_derivatives(
               at.rows,
               residual_at(other_jets(jets_count(), workers_.each), at.coefficients, true, true),
               workers_);
  }

  /// The change of everything; that of the last layers is found as the difference of new ones if
  /// the old ones are full of rounding.
  LinearStep solve(const State& now) {
    std::vector<double> residual = now.rows.residual;
    if (anew_) {
      subtract_linear_part(*geometry_, now.rows, now.v, workers_, residual);
    }
    LinearStep step =
        linear_step(*geometry_, problem_.mlp(), result_.hidden_weights, now.rows.by_jets(),
                    now.rows.by_coefficients, residual, rank_tolerance_, workers_, solver());
    add_times(step);
    result_.costs = told(step.dense, step.band, step.nested_dissection);
    result_.certificate = step.certificate;
    result_.condition = step.condition;
    result_.shift = step.shift;
    result_.refinements = step.refinements;
    result_.cg_steps = step.cg_steps;
    result_.is_by_cg = step.is_by_cg;
    is_limited_ = step.is_limited;
    gain_ = step.gain;
    result_.coefficients_determined = step.coefficients_determined;
    result_.coefficient_deviations = step.coefficient_deviations;
    result_.rank.assign(step.rank.begin(), step.rank.end());
    return step;
  }

  LinearSolver solver() const {
    return {options_.method, options_.cg_tolerance, options_.max_cg_steps};
  }

  void add_times(const LinearStep& step) {
    result_.times.rows += step.rows_seconds;
    result_.times.geometry += step.order_seconds;
    result_.times.factor += step.factor_seconds;
    result_.times.solve += step.solve_seconds;
  }

  Numbers<double> jets_of(const std::vector<double>& last_layer) {
    const Timer timer(result_.times.rows);
    return jets_of_networks(problem_.boxes(), problem_.mlp(), geometry_->set, problem_.fields(),
                            geometry_->at, result_.hidden_weights, last_layer, workers_);
  }

  /// The first state of variable projection (Golub and Pereyra, SIAM J. Numer. Anal. 10, 1973): the
  /// residual is linear in the networks if the coefficients are fixed, so that networks are always
  /// the best ones for them. Steps of both at a time creep along a valley.
  void begin_separated(State& now) {
    if (std::optional<State> best = with_best_networks(now, now.coefficients)) {
      now = std::move(*best);
      anew_ = true;
      result_.losses.push_back(now.rows.loss());
    } else {
      is_separable_ = false;
    }
  }

  /// The networks with the columns that are kept now, if they are no worse.
  void renew(State& now) {
    std::optional<State> renewed = with_best_networks(now, now.coefficients);
    if (renewed && renewed->rows.loss() <= now.rows.loss()) {
      now = std::move(*renewed);
    }
  }

  /// None if there is no finite residual or no factor.
  std::optional<State> with_best_networks(const State& from, std::vector<double> coefficients) {
    State best;
    best.coefficients = std::move(coefficients);
    best.rows = residual_at(from.v, best.coefficients, true, true);
    if (!std::isfinite(best.rows.loss()) || !have_finite_derivatives(best.rows, workers_)) {
      return std::nullopt;
    }
    subtract_linear_part(*geometry_, best.rows, from.v, workers_, best.rows.residual);
    LinearStep step =
        linear_step(*geometry_, problem_.mlp(), result_.hidden_weights, best.rows.by_jets(), {},
                    best.rows.residual, rank_tolerance_, workers_, solver());
    add_times(step);
    if (!step.is_factored) {
      return std::nullopt;
    }
    best.last_layer = std::move(step.change);
    best.v = jets_of(best.last_layer);
    best.rows = residual_at(best.v, best.coefficients, true, true);
    return best;
  }

  /// A step that does not do what the linear problem says it would has weights so large that the
  /// sum of the networks is rounding, as columns were kept that differ from others by hardly more.
  /// Whether fewer are to be kept from now on.
  bool raise_rank_tolerance() {
    constexpr double most = 1e-7;
    if (rank_tolerance_ >= most) {
      return false;
    }
    anew_ = true;
    rank_tolerance_ = std::min(most, 30.0 * std::max(rank_tolerance_, 1e-13));
    return true;
  }

  /// Goes along the change as far as makes the loss smaller: all the way, half of it, ... Returns
  /// how far it has gone; 0 if nowhere. `moved`: ||A change||^2.
  double search(const LinearStep& step, State& now, double moved) {
    std::vector<double> change;
    Numbers<double> along;
    if (!is_separable_) {
      change = step.change;
      along = jets_of(change);
      if (anew_) {
        add_to(along, now.v, -1.0);
        add_to(change, now.last_layer, -1.0);
      }
    }
    const double before = now.rows.loss();
    constexpr int max_halvings = 12;
    double share = 1.0;
    for (int i = 0; i <= max_halvings; ++i, share /= 2) {
      std::vector<double> coefficients = now.coefficients;
      add_to(coefficients, step.coefficients, share);
      std::optional<State> trial;
      if (is_separable_) {
        trial = with_best_networks(now, std::move(coefficients));
      } else {
        trial = State{now.last_layer, std::move(coefficients), now.v, {}};
        add_to(trial->last_layer, change, share);
        add_to(trial->v, along, share);
        trial->rows = residual_at(trial->v, trial->coefficients, false, true);
      }
      // Armijo's condition: the loss falls at the rate 2 ||A change||^2 at first.
      const double loss = trial ? trial->rows.loss() : std::numeric_limits<double>::infinity();
      if (loss <= before - 1e-4 * 2 * share * moved) {
        now = std::move(*trial);
        result_.losses.push_back(loss);
        return share;
      }
    }
    return 0.0;
  }

  /// The last step has hardly made the loss smaller.
  bool has_settled() const {
    const std::vector<double>& losses = result_.losses;
    return losses.back() >= (1.0 - settled_share) * losses[losses.size() - 2];
  }

  /// So little is left of the residual that rounding decides whether a step makes it smaller.
  bool is_at_rounding() const {
    constexpr double share = 1e-8;
    return std::sqrt(result_.losses.back()) <= share * std::sqrt(result_.zero_loss);
  }

  const Problem& problem_;
  const LeastSquaresOptions& options_;
  double rank_tolerance_;
  bool anew_ = false;          // last layers are solved for, not their changes
  bool is_limited_ = false;    // conjugate gradients in the last solve
  double gain_ = 0.0;          // that they left
  double promised_ = 0.0;      // the loss that the linear problem has, without rounding of weights
  bool is_separable_ = false;  // networks are always the best ones for the coefficients
  sparse::Workers workers_;
  Trained result_;
  std::optional<TrainingGeometry> geometry_;
  std::future<HeldOutPoints> between_;  // goes first, when its work has ended
};

Trained least_squares(Mesh& mesh, const Problem& problem, const LeastSquaresOptions& options,
                      const RunOptions& run, Checks checks) {
  require_valid(problem, options);
  return Training(mesh, problem, options, run).run(checks);
}

}  // namespace training

std::int64_t Trained::kept() const {
  return std::accumulate(rank.begin(), rank.end(), std::int64_t{0});
}

Trained least_squares(Mesh& mesh, const Problem& problem, const LeastSquaresOptions& options,
                      const RunOptions& run) {
  const core::IeeeArithmetic ieee;
  return training::least_squares(mesh, problem, options, run, training::Checks::all);
}

}  // namespace shardsolve::fbpinn
