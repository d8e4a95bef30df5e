#include "fbpinn/linear_step.hpp"

#include "fbpinn/features.hpp"
#include "fbpinn/timer.hpp"
#include "runtime/host/blas.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace shardsolve::fbpinn {
namespace {

/// Features of each box at its points, as rows, made orthonormal.
void make_blocks(const TrainingGeometry& geometry, const Mlp& mlp,
                 std::span<const double> hidden_weights, std::span<const double> derivatives,
                 double rank_tolerance, const sparse::Workers& workers, BlockSystem& system) {
  workers.enter("features");
  const Boxes& boxes = geometry.boxes;
  const std::int64_t columns = geometry.fields * mlp.features();
  const std::int64_t of_level = geometry.points_count() * geometry.set.size();
  const auto work = [&](std::int64_t box) {
    const BoxFeatures<double> features{boxes.center(box), boxes.half_width(box),
                                       hidden_weights.data() + box * mlp.weights(boxes.axes()),
                                       box};
    const auto points = geometry.at.pairs.points_of(box);
    const auto rows = static_cast<std::int64_t>(geometry.lists.rows_of(box).size());
    std::vector<double> memory(static_cast<std::size_t>(rows * columns));
    std::int64_t row = 0;
    for (const Segment& segment : geometry.segments) {
      const PointRange range = range_of(segment, points);
      const PointsInBox<double> in_box{
          geometry.points.data(), geometry.at.inverse_sums.data() + boxes.level(box) * of_level,
          points.data() + range.begin, range.count};
      feature_rows(geometry.set, mlp, features, in_box,
                   derivatives.data() + segment.first_derivative, segment.first_point,
                   segment.equations, geometry.fields, memory.data() + row, rows);
      row += segment.equations * range.count;
    }
    system.block(box) =
        orthonormalised(MatrixView<double>(memory.data(), rows, columns), rank_tolerance);
  };
  workers.share(boxes.count(), work, [&](std::int64_t box, sparse::Packet& packet) {
    OrthonormalBlock& block = system.block(box);
    packet.value(block.rows);
    packet.value(block.columns);
    packet.value(block.rank);
    packet.vector(block.adjoint);
    packet.vector(block.r);
    packet.vector(block.kept_columns);
  });
}

/// The columns of each box, and the order in which they are eliminated.
struct Elimination {
  sparse::BlockGraph graph;
  sparse::EliminationTree tree;
};
Elimination elimination_of(const TrainingGeometry& geometry, std::vector<std::int64_t> columns) {
  Elimination result;
  result.graph = graph_of(geometry.boxes, geometry.lists, std::move(columns));
  result.tree = sparse::nested_dissection(result.graph);
  return result;
}

/// Whether conjugate gradients are taken. Throws if there is not the memory for what is asked for.
bool choose_gradients(const TrainingGeometry& geometry, std::int64_t columns_of_box,
                      const sparse::EliminationTree& tree, LinearMethod method) {
  const double features = 8.0 * static_cast<double>(geometry.lists.slots() * columns_of_box);
  const double factor = sparse::cost_of(tree).peak_bytes;
  const auto available = static_cast<double>(available_host_memory());
  const bool fits = features + factor <= available;
  if (features > available || (!fits && method == LinearMethod::factor)) {
    throw Error(
        ErrorKind::out_of_memory,
        fmt::format("least squares needs {:.2f} GB for the features of {} boxes and "
                    "{:.2f} GB for the factor; {:.2f} GB are free. Use fewer points, "
                    "smaller networks or boxes that overlap less",
                    features * 1e-9, geometry.boxes.count(), factor * 1e-9, available * 1e-9));
  }
  return method == LinearMethod::gradients || !fits;
}

}  // namespace

LinearStep linear_step(const TrainingGeometry& geometry, const Mlp& mlp,
                       std::span<const double> hidden_weights, std::span<const double> derivatives,
                       std::span<const double> by_coefficients, std::span<const double> residual,
                       double rank_tolerance, const sparse::Workers& workers,
                       const LinearSolver& solver) {
  runtime::host::blas::use_one_thread();
  LinearStep step;
  const std::int64_t columns_of_box = geometry.fields * mlp.features();
  const std::vector<std::int64_t> all_columns(static_cast<std::size_t>(geometry.boxes.count()),
                                              columns_of_box);
  Elimination elimination;
  {
    const Timer timer(step.order_seconds);
    elimination = elimination_of(geometry, all_columns);
    step.is_by_gradients =
        choose_gradients(geometry, columns_of_box, elimination.tree, solver.method);
  }
  BlockSystem system(geometry.lists);
  {
    const Timer timer(step.rows_seconds);
    make_blocks(geometry, mlp, hidden_weights, derivatives, rank_tolerance, workers, system);
  }
  step.rank = system.ranks();
  const sparse::BlockGraph& graph = elimination.graph;
  {
    const Timer timer(step.order_seconds);
    if (step.rank != all_columns) {
      elimination = elimination_of(geometry, step.rank);
    }
    step.dense = sparse::dense_cost(graph);
    step.band = sparse::band_cost(graph);
    step.nested_dissection = sparse::cost_of(elimination.tree);
  }
  std::vector<double> b(residual.size());
  std::transform(residual.begin(), residual.end(), b.begin(), std::negate<>());
  // What projections leave of a column in the range of the others is about 1e-14.
  constexpr double least_own_share = 1e-10;
  const MatrixView<const double> border(
      by_coefficients.data(), geometry.rows,
      static_cast<std::int64_t>(by_coefficients.size()) / geometry.rows);
  const double border_tolerance = std::max(rank_tolerance, least_own_share);
  BlockSystem::Solution solution =
      step.is_by_gradients
          ? system.solve_by_gradients(graph, b, border, border_tolerance, solver.tolerance,
                                      solver.most_steps, workers)
          : system.solve(graph, std::move(elimination.tree), b, border, border_tolerance, workers);
  step.gradient_steps = solution.gradient_steps;
  step.is_limited = solution.is_limited;
  step.certificate = solution.certificate;
  step.condition = solution.condition;
  step.shift = solution.shift;
  step.refinements = solution.refinements;
  step.factor_seconds = solution.factor_seconds;
  step.solve_seconds = solution.solve_seconds;
  step.is_factored = !solution.failure;
  if (!step.is_factored) {
    return step;
  }
  step.residual = std::move(solution.residual);
  step.coefficients = std::move(solution.z);
  step.coefficients_determined = solution.border_rank;
  const std::vector<std::int64_t> offsets = graph.offsets();
  step.change.resize(static_cast<std::size_t>(geometry.boxes.count() * columns_of_box));
  for (std::int64_t box = 0; box < geometry.boxes.count(); ++box) {
    system.block(box).weights_of(solution.y.data() + offsets[static_cast<std::size_t>(box)],
                                 step.change.data() + box * columns_of_box);
  }
  return step;
}

}  // namespace shardsolve::fbpinn
