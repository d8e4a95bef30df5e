#include "fbpinn/linear_step.hpp"

#include "fbpinn/features.hpp"
#include "fbpinn/timer.hpp"
#include "runtime/host/blas.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace shardsolve::fbpinn {
namespace {

/// Features of each box at its points, as rows, made orthonormal.
void make_blocks(const TrainingGeometry& geometry, const Mlp& mlp,
                 std::span<const double> hidden_weights, std::span<const double> derivatives,
                 double rank_tolerance, const sparse::ForEach& each, BlockSystem& system) {
  const Boxes& boxes = geometry.boxes;
  const std::int64_t columns = geometry.fields * mlp.features();
  const std::int64_t of_level = geometry.points_count() * geometry.set.size();
  each(boxes.count(), [&](std::int64_t box) {
    const BoxFeatures<double> features{boxes.center(box), boxes.half_width(box),
                                       hidden_weights.data() + box * mlp.weights(boxes.axes())};
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
  });
}

}  // namespace

LinearStep linear_step(const TrainingGeometry& geometry, const Mlp& mlp,
                       std::span<const double> hidden_weights, std::span<const double> derivatives,
                       std::span<const double> residual, double rank_tolerance,
                       const sparse::ForEach& each, std::int64_t workers) {
  runtime::host::blas::use_one_thread();
  LinearStep step;
  BlockSystem system(geometry.lists);
  {
    const Timer timer(step.rows_seconds);
    make_blocks(geometry, mlp, hidden_weights, derivatives, rank_tolerance, each, system);
  }
  step.rank = system.ranks();
  sparse::BlockGraph graph;
  sparse::EliminationTree tree;
  {
    const Timer timer(step.order_seconds);
    graph = graph_of(geometry.boxes, geometry.lists, step.rank);
    tree = sparse::nested_dissection(graph);
    step.dense = sparse::dense_cost(graph);
    step.band = sparse::band_cost(graph);
    step.nested_dissection = sparse::cost_of(tree);
  }
  std::vector<double> b(residual.size());
  std::transform(residual.begin(), residual.end(), b.begin(), std::negate<>());
  BlockSystem::Solution solution = system.solve(graph, std::move(tree), b, each, workers);
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
  const std::int64_t of_box = geometry.fields * mlp.features();
  const std::vector<std::int64_t> offsets = graph.offsets();
  step.change.resize(static_cast<std::size_t>(geometry.boxes.count() * of_box));
  for (std::int64_t box = 0; box < geometry.boxes.count(); ++box) {
    system.block(box).weights_of(solution.y.data() + offsets[static_cast<std::size_t>(box)],
                                 step.change.data() + box * of_box);
  }
  return step;
}

}  // namespace shardsolve::fbpinn
