// All weights at once: steps that are damped until they make the loss smaller.

#include "core/floating_point.hpp"
#include "fbpinn/damped_step.hpp"
#include "fbpinn/features.hpp"
#include "fbpinn/held_out.hpp"
#include "fbpinn/least_squares.hpp"
#include "fbpinn/linear_step.hpp"
#include "fbpinn/networks.hpp"
#include "fbpinn/on_ranks.hpp"
#include "fbpinn/pointwise_rows.hpp"
#include "fbpinn/timer.hpp"
#include "fbpinn/trained_checks.hpp"
#include "fbpinn/training_inputs.hpp"
#include "fbpinn/weight_rows.hpp"
#include "runtime/host/blas.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/fbpinn.hpp>
#include <shardsolve/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {
namespace levenberg {

void require_valid(const Problem& problem, const LevenbergMarquardtOptions& options) {
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorKind::invalid_argument, message);
  };
  const OwnUnits* const own = problem.mlp().own.get();
  if (own != nullptr && (own->parameters == 0 || !own->pull_back)) {
    refuse(
        "units of the caller's own without parameters, or without their derivatives by them: set "
        "OwnUnits::parameters, start and pull_back, or use least_squares, which trains none");
  }
  if (options.max_steps < 1) {
    refuse(fmt::format("max_steps = {} given; at least 1 is accepted", options.max_steps));
  }
  for (const auto& [name, value] : {std::pair("gradient_tolerance", options.gradient_tolerance),
                                    std::pair("step_tolerance", options.step_tolerance)}) {
    if (!(value > 0.0) || value >= 1.0) {
      refuse(fmt::format("{} = {} given; numbers between 0 and 1 are accepted", name, value));
    }
  }
  if (!(options.first_damping > 0.0) || !std::isfinite(options.first_damping)) {
    refuse(fmt::format("first_damping = {} given; a positive number is accepted",
                       options.first_damping));
  }
}

/// Of each box its hidden weights and its last layers, one box after the other; then the
/// coefficients.
struct Parameters {
  std::vector<double> hidden;
  std::vector<double> last;
  std::vector<double> coefficients;
};

double norm_of(std::span<const double> x) {
  double sum = 0.0;
  for (const double value : x) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

class Descent {
 public:
  Descent(Mesh& mesh, const LevenbergMarquardtOptions& options, const RunOptions& run,
          Trained& trained)
      : options_(options),
        trained_(trained),
        problem_(trained.problem),
        workers_(on_ranks(mesh, run)),
        hidden_of_box_(problem_.mlp().weights(problem_.boxes().axes())),
        last_of_box_(problem_.fields() * problem_.mlp().features()),
        geometry_(problem_.boxes(), problem_.jet_set(), problem_.fields(),
                  training::all_points(problem_), training::shapes_of(problem_), workers_),
        steps_(geometry_.lists, graph_of(problem_.boxes(), geometry_.lists, sizes()),
               static_cast<std::int64_t>(trained.coefficients.size())),
        now_{trained.hidden_weights, trained.last_layer, trained.coefficients} {
    runtime::host::blas::use_one_thread();
  }

  void run() {
    rows_ = residual_at(now_);
    DampedDescent& record = trained_.descent;
    record.losses = {rows_.loss()};
    double damping = options_.first_damping;
    double growth = 2.0;
    record.ended = DampedDescent::End::limit;
    std::vector<double> scales;
    const StepSpace space = choose_space();
    const ProcessBoxes boxes = steps_.boxes_for(space, workers_);
    while (record.steps < options_.max_steps) {
      BlockJacobian jacobian = make_jacobian(boxes);
      const std::vector<double> gradient = jacobian.multiply_adjoint(rows_.residual, workers_);
      const std::vector<double> norms = jacobian.norms(workers_);
      record.gradient = largest_cosine(gradient, jacobian);
      if (record.gradient <= options_.gradient_tolerance) {
        record.ended = DampedDescent::End::gradient;
        break;
      }
      grow_scales(norms, scales);
      jacobian.divide_columns(scales);
      if (!descend(space, jacobian, scales, damping, growth)) {
        record.ended = DampedDescent::End::step;
        break;
      }
    }
    record.damping = damping;
    trained_.hidden_weights = std::move(now_.hidden);
    trained_.last_layer = std::move(now_.last);
    trained_.coefficients = std::move(now_.coefficients);
    trained_.loss = record.losses.back();
    trained_.losses.insert(trained_.losses.end(), record.losses.begin() + 1, record.losses.end());
    trained_.is_linear = false;
    // Squares that were lost at the start are lost to the end.
    if (trained_.outcome.status != Status::overflow) {
      trained_.outcome.status = status_of(record);
    }
    trained_.terms = training::losses_of_terms(problem_, geometry_, rows_.residual);
    find_deviations();
  }

  void check(Trained& trained) const {
    const Timer timer(trained.outcome.seconds);
    training::HeldOutPoints between;
    {
      const Timer of_points(trained.times.held_out);
      between = training::held_out_points(problem_, geometry_, workers_);
    }
    training::check_trained(between, options_.start.chunk, workers_, trained);
  }

 private:
  /// Where no step makes the loss smaller the gradient has to be small, or all that is left be
  /// rounding.
  Status status_of(const DampedDescent& record) {
    constexpr double small = 1e-4;
    constexpr double rounding = 1e-16;
    const bool is_stuck = record.ended == DampedDescent::End::step && record.gradient > small &&
                          !(trained_.loss <= rounding * trained_.zero_loss);
    if (is_stuck) {
      trained_.warnings.push_back(
          fmt::format("no step makes the loss smaller, but the gradient is not 0 (cosine {:.1e}): "
                      "the residual may have no derivative there, or none that is finite beside "
                      "it, or a term weighs so much that the others are rounding beside it. Begin "
                      "elsewhere, or use smaller weights",
                      record.gradient));
    }
    return is_stuck || record.ended == DampedDescent::End::limit ? Status::not_converged
                                                                 : Status::ok;
  }

  /// Of the coefficients, hidden weights fixed.
  void find_deviations() {
    if (trained_.coefficients.empty()) {
      return;
    }
    const LinearStep step =
        linear_step(geometry_, problem_.mlp(), trained_.hidden_weights, rows_.derivatives,
                    rows_.by_coefficients, rows_.residual, options_.start.rank_tolerance, workers_,
                    {.method = options_.start.method});
    trained_.coefficient_deviations = step.coefficient_deviations;
    trained_.coefficients_determined = step.coefficients_determined;
  }

  std::vector<std::int64_t> sizes() const {
    return std::vector<std::int64_t>(static_cast<std::size_t>(problem_.boxes().count()),
                                     hidden_of_box_ + last_of_box_);
  }

  PointwiseRows residual_at(const Parameters& at) {
    const Numbers<double> v =
        jets_of_networks(problem_.boxes(), problem_.mlp(), geometry_.set, problem_.fields(),
                         geometry_.at, at.hidden, at.last, workers_);
    return pointwise_rows(problem_, problem_.terms(), geometry_, v, at.coefficients, true, true,
                          options_.start.chunk, workers_, DerivativesAt::host);
  }

  BlockJacobian make_jacobian(const ProcessBoxes& boxes) {
    workers_.enter("Jacobian");
    BlockJacobian jacobian;
    jacobian.lists = &geometry_.lists;
    jacobian.boxes = boxes;
    jacobian.columns = hidden_of_box_ + last_of_box_;
    jacobian.blocks.resize(static_cast<std::size_t>(problem_.boxes().count()));
    const auto block = [&](std::int64_t box) -> std::vector<double>& {
      return jacobian.blocks[static_cast<std::size_t>(box)];
    };
    workers_.share_by(
        boxes.doer, [&](std::int64_t box) { block(box) = block_of(box); },
        [](std::int64_t, sparse::Packet&) {});
    std::vector<std::int64_t> bytes;
    for (std::int64_t box = 0; box < problem_.boxes().count(); ++box) {
      bytes.push_back(static_cast<std::int64_t>(sizeof(double)) * jacobian.columns *
                      static_cast<std::int64_t>(geometry_.lists.rows_of(box).size()));
    }
    bring_boxes(
        boxes, boxes, bytes, workers_,
        [&](const sparse::Delivery& one, sparse::Packet& packet) {
          packet.vector(block(one.piece));
        },
        [](std::int64_t) {});
    jacobian.border = rows_.by_coefficients;
    jacobian.border_columns = static_cast<std::int64_t>(now_.coefficients.size());
    return jacobian;
  }

  std::vector<double> block_of(std::int64_t box) const {
    const Boxes& boxes = problem_.boxes();
    const BoxFeatures<double> features{boxes.center(box), boxes.half_width(box),
                                       now_.hidden.data() + box * hidden_of_box_, box};
    const auto points = geometry_.at.pairs.points_of(box);
    const auto rows = static_cast<std::int64_t>(geometry_.lists.rows_of(box).size());
    std::vector<double> block(static_cast<std::size_t>(rows * (hidden_of_box_ + last_of_box_)));
    std::int64_t row = 0;
    for (const Segment& segment : geometry_.segments) {
      const PointRange range = range_of(segment, points);
      const PointsInBox<double> in_box{
          geometry_.points.data(),
          geometry_.at.inverse_sums.data() +
              boxes.level(box) * geometry_.points_count() * geometry_.set.size(),
          points.data() + range.begin, range.count};
      const double* const a = rows_.derivatives.data() + segment.first_derivative;
      weight_rows(geometry_.set, problem_.mlp(), features, in_box, a, segment.first_point,
                  segment.equations, geometry_.fields, now_.last.data() + box * last_of_box_,
                  block.data() + row, rows);
      feature_rows(geometry_.set, problem_.mlp(), features, in_box, a, segment.first_point,
                   segment.equations, geometry_.fields, block.data() + hidden_of_box_ * rows + row,
                   rows);
      row += segment.equations * range.count;
    }
    return block;
  }

  /// The largest |J_k^T r| beside the root of the sum over the terms of (||J_k|| ||r||)^2: of one
  /// term a cosine. Beside ||J_k|| ||r|| of all rows it would be small everywhere where a condition
  /// of great weight, whose residual is rounding, makes up the columns' norms.
  double largest_cosine(const std::vector<double>& gradient, const BlockJacobian& jacobian) const {
    const double whole = norm_of(rows_.residual);
    if (whole == 0.0) {
      return 0.0;
    }
    std::vector<double> shares(rows_.residual.size());
    for (const Segment& segment : geometry_.segments) {
      const auto rows = std::span(rows_.residual)
                            .subspan(static_cast<std::size_t>(segment.first_row),
                                     static_cast<std::size_t>(segment.points * segment.equations));
      std::fill_n(shares.begin() + segment.first_row, rows.size(), norm_of(rows) / whole);
    }
    const std::vector<double> bounds = jacobian.norms(shares, workers_);
    double largest = 0.0;
    for (std::size_t k = 0; k < gradient.size(); ++k) {
      if (bounds[k] > 0.0) {
        largest = std::max(largest, std::abs(gradient[k]) / bounds[k] / whole);
      }
    }
    return largest;
  }

  /// The largest norms so far (More, Lecture Notes in Mathematics 630, 1978).
  static void grow_scales(const std::vector<double>& norms, std::vector<double>& scales) {
    scales.resize(norms.size(), 0.0);
    for (std::size_t k = 0; k < norms.size(); ++k) {
      scales[k] = std::max(scales[k], norms[k]);
      scales[k] = scales[k] > 0.0 ? scales[k] : 1.0;
    }
  }

  /// Of the process that keeps most of it.
  double jacobian_bytes(const ProcessBoxes& boxes) const {
    std::vector<double> bytes(static_cast<std::size_t>(workers_.processes));
    for (std::int64_t box = 0; box < boxes.boxes(); ++box) {
      for (const std::int64_t process : boxes.keepers[static_cast<std::size_t>(box)]) {
        bytes[static_cast<std::size_t>(process)] +=
            8.0 * static_cast<double>(geometry_.lists.rows_of(box).size()) *
            static_cast<double>(hidden_of_box_ + last_of_box_);
      }
    }
    return *std::max_element(bytes.begin(), bytes.end());
  }

  StepSpace choose_space() const {
    using Equations = LevenbergMarquardtOptions::Equations;
    StepSpace space = steps_.cheaper();
    if (options_.equations != Equations::cheaper) {
      space =
          options_.equations == Equations::of_samples ? StepSpace::samples : StepSpace::parameters;
    }
    const double jacobian = jacobian_bytes(steps_.boxes_for(space, workers_));
    const double needed = jacobian + steps_.bytes(space);
    if (needed > least_of_processes(workers_, static_cast<double>(available_host_memory()))) {
      throw Error(ErrorKind::out_of_memory,
                  fmt::format("a step of Levenberg-Marquardt needs {:.2f} GB for the Jacobian and "
                              "{:.2f} GB for its equations, more than is free: it is for small "
                              "problems; use least_squares, or fewer points or units",
                              jacobian * 1e-9, steps_.bytes(space) * 1e-9));
    }
    trained_.descent.in_samples = space == StepSpace::samples;
    return space;
  }

  /// One step that makes the loss smaller, by more and more damping. False if there is none.
  bool descend(StepSpace space, const BlockJacobian& jacobian, const std::vector<double>& scales,
               double& damping, double& growth) {
    constexpr double max_damping = 1e16;
    const double before = rows_.loss();
    for (; damping < max_damping; damping *= growth, growth *= 2.0) {
      const auto scaled = steps_.step(space, jacobian, damping, rows_.residual, workers_);
      if (!scaled) {
        continue;
      }
      Parameters trial = now_;
      const double size = add_step(*scaled, scales, trial);
      if (size <= options_.step_tolerance) {
        return false;
      }
      PointwiseRows rows = residual_at(trial);
      const double loss = rows.loss();
      // ||J y + r||^2 = before - ||J y||^2 - 2 damping ||y||^2 at the least.
      const double gain = before - loss;
      if (!(gain > 0.0)) {
        continue;
      }
      const double promised = promised_gain(*scaled, jacobian, damping);
      const double ratio = gain / promised;
      // Nielsen, IMM-REP-1999-05.
      damping *= std::max(1.0 / 3.0, 1.0 - std::pow(2.0 * ratio - 1.0, 3.0));
      growth = 2.0;
      now_ = std::move(trial);
      rows_ = std::move(rows);
      trained_.descent.losses.push_back(loss);
      ++trained_.descent.steps;
      return true;
    }
    return false;
  }

  /// ||r||^2 - ||J y + r||^2 = -y^T (J^T r) + damping ||y||^2.
  double promised_gain(const std::vector<double>& y, const BlockJacobian& jacobian,
                       double damping) const {
    const std::vector<double> gradient = jacobian.multiply_adjoint(rows_.residual, workers_);
    double gain = 0.0;
    for (std::size_t k = 0; k < y.size(); ++k) {
      gain += y[k] * (damping * y[k] - gradient[k]);
    }
    return std::max(gain, 1e-300);
  }

  /// Returns the step's size beside that of the parameters, both by the scales.
  double add_step(const std::vector<double>& scaled, const std::vector<double>& scales,
                  Parameters& at) const {
    double step = 0.0;
    double all = 0.0;
    std::size_t k = 0;
    const auto add = [&](std::span<double> numbers) {
      for (double& number : numbers) {
        all += std::pow(scales[k] * number, 2);
        step += scaled[k] * scaled[k];
        number += scaled[k] / scales[k];
        ++k;
      }
    };
    for (std::int64_t box = 0; box < problem_.boxes().count(); ++box) {
      const auto part = [&](std::vector<double>& of, std::int64_t count) {
        return std::span(of).subspan(static_cast<std::size_t>(box * count),
                                     static_cast<std::size_t>(count));
      };
      add(part(at.hidden, hidden_of_box_));
      add(part(at.last, last_of_box_));
    }
    add(at.coefficients);
    return all > 0.0 ? std::sqrt(step / all) : std::sqrt(step);
  }

  const LevenbergMarquardtOptions& options_;
  Trained& trained_;
  const Problem& problem_;
  sparse::Workers workers_;
  std::int64_t hidden_of_box_;
  std::int64_t last_of_box_;
  TrainingGeometry geometry_;
  DampedSteps steps_;
  Parameters now_;
  PointwiseRows rows_;
};

}  // namespace levenberg

Trained levenberg_marquardt(Mesh& mesh, const Problem& problem,
                            const LevenbergMarquardtOptions& options, const RunOptions& run) {
  const core::IeeeArithmetic ieee;
  levenberg::require_valid(problem, options);
  Trained trained =
      training::least_squares(mesh, problem, options.start, run, training::Checks::none);
  const bool was_linear = trained.is_linear;
  levenberg::Descent descent(mesh, options, run, trained);
  {
    const Timer timer(trained.outcome.seconds);
    descent.run();
  }
  if (!was_linear) {
    descent.check(trained);
    return trained;
  }
  // The last layers that are best for these hidden ones.
  LeastSquaresOptions last = options.start;
  last.hidden_weights = trained.hidden_weights;
  Trained polished = training::least_squares(mesh, problem, last, run, training::Checks::none);
  if (polished.outcome.ok() && polished.loss < trained.loss) {
    polished.descent = std::move(trained.descent);
    trained.losses.push_back(polished.loss);
    polished.losses = std::move(trained.losses);
    polished.outcome.status = trained.outcome.status;
    polished.outcome.seconds += trained.outcome.seconds;
    polished.is_linear = false;
    descent.check(polished);
    return polished;
  }
  descent.check(trained);
  return trained;
}

}  // namespace shardsolve::fbpinn
