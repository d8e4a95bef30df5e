#include "fbpinn/linear_step.hpp"

#include "fbpinn/blocks_on_device.hpp"
#include "fbpinn/box_rows.hpp"
#include "fbpinn/field_scales.hpp"
#include "fbpinn/on_device.hpp"
#include "fbpinn/on_ranks.hpp"
#include "fbpinn/process_boxes.hpp"
#include "fbpinn/process_memory.hpp"
#include "fbpinn/timer.hpp"
#include "mesh/mesh_state.hpp"
#include "runtime/host/blas.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace shardsolve::fbpinn {
namespace {

/// Features of each box at its points, as rows, made orthonormal.
void make_blocks(const TrainingGeometry& geometry, const Mlp& mlp,
                 std::span<const double> hidden_weights, std::span<const double> derivatives,
                 double rank_tolerance, const sparse::Workers& workers, BlocksOnHost& system) {
  workers.enter("features");
  constexpr std::int64_t nonfinite_rank = -1;  // told in place of the rank
  const std::int64_t columns = geometry.fields * mlp.features();
  system.make(
      [&](std::int64_t box) {
        const auto rows = static_cast<std::int64_t>(geometry.lists.rows_of(box).size());
        std::vector<double> memory(static_cast<std::size_t>(rows * columns));
        box_rows(geometry, mlp, hidden_weights, derivatives, box, memory.data());
        OrthonormalBlock nonfinite;
        nonfinite.rank = nonfinite_rank;
        return are_finite(memory)
                   ? orthonormalised(MatrixView<double>(memory.data(), rows, columns),
                                     rank_tolerance)
                   : nonfinite;
      },
      workers);
  const std::vector<std::int64_t> ranks = system.ranks();
  const auto bad = std::find(ranks.begin(), ranks.end(), nonfinite_rank);
  if (bad != ranks.end()) {
    refuse_nonfinite_units(geometry, mlp, hidden_weights, derivatives, bad - ranks.begin());
  }
}

/// The columns of each box, and the order in which they are eliminated.
struct Elimination {
  sparse::BlockGraph graph;
  sparse::EliminationTree tree;
};
Elimination elimination_of(const TrainingGeometry& geometry, std::vector<std::int64_t> columns,
                           const sparse::ForEach& each) {
  Elimination result;
  result.graph = graph_of(geometry.boxes, geometry.lists, std::move(columns), each);
  result.tree = sparse::nested_dissection(result.graph);
  return result;
}

/// Who makes which boxes' columns, with the sizes of the graph, and keeps them. Without a factor
/// nobody needs another's.
ProcessBoxes host_boxes(const RowLists& lists, const Elimination& elimination, bool is_by_cg,
                        const sparse::Workers& workers) {
  if (is_by_cg || workers.processes == 1) {
    return boxes_in_turn(lists.boxes(), workers.processes);
  }
  std::vector<std::int64_t> work;
  for (std::int64_t box = 0; box < lists.boxes(); ++box) {
    work.push_back(static_cast<std::int64_t>(lists.rows_of(box).size()) *
                   elimination.graph.size(box));
  }
  return boxes_of_fronts(elimination.tree, work, workers);
}

/// What a linear step takes of the host's memory, of the process that needs most.
LinearStepMemory host_memory(const TrainingGeometry& geometry, std::int64_t columns_of_box,
                             const sparse::EliminationTree& tree, const sparse::Workers& workers) {
  LinearStepMemory memory = most_of(memory_of_processes(geometry.lists, columns_of_box, tree,
                                                        workers.processes, workers.joint_fronts));
  memory.available = least_of_processes(workers, static_cast<double>(available_host_memory()));
  return memory;
}

/// Whether conjugate gradients are taken. Throws if there is not the memory for what is asked for.
bool choose_cg(const LinearStepMemory& memory, std::int64_t boxes, const char* whose,
               LinearMethod method) {
  const bool fits = memory.features + memory.factor <= memory.available;
  const bool is_by_cg = method == LinearMethod::cg || (method == LinearMethod::automatic && !fits);
  const double features = is_by_cg ? memory.features_by_cg : memory.features;
  if (features > memory.available || (!is_by_cg && !fits)) {
    throw Error(
        ErrorKind::out_of_memory,
        fmt::format("least squares needs {:.2f} GB of {} memory for the features of {} "
                    "boxes and {:.2f} GB for the factor; {:.2f} GB are free. Use fewer "
                    "points, smaller networks or boxes that overlap less",
                    features * 1e-9, whose, boxes, memory.factor * 1e-9, memory.available * 1e-9));
  }
  return is_by_cg;
}

/// The order of elimination for the columns that are kept. `is_placed`: boxes are where the order
/// has them, which stays.
void order_kept(Elimination& elimination, bool is_placed, LinearStep& step) {
  const Timer timer(step.order_seconds);
  sparse::BlockGraph& graph = elimination.graph;
  if (step.rank != graph.sizes) {
    graph.sizes = step.rank;
    elimination.tree = is_placed ? sparse::with_sizes(std::move(elimination.tree), graph)
                                 : sparse::nested_dissection(graph);
  }
  step.dense = sparse::dense_cost(graph);
  step.band = sparse::band_cost(graph);
  step.nested_dissection = sparse::cost_of(elimination.tree);
}

/// The rest of a step, when the blocks are where they are needed.
void finish(const BlockSystem& system, const TrainingGeometry& geometry, Elimination elimination,
            std::span<const double> by_coefficients, std::span<const double> residual,
            double rank_tolerance, const sparse::Workers& workers, const LinearSolver& solver,
            LinearStep& step) {
  const sparse::BlockGraph& graph = elimination.graph;
  std::vector<double> b(residual.size());
  std::transform(residual.begin(), residual.end(), b.begin(), std::negate<>());
  // What projections leave of a column in the range of the others is about 1e-14.
  constexpr double least_own_share = 1e-10;
  const MatrixView<const double> border(
      by_coefficients.data(), geometry.rows,
      static_cast<std::int64_t>(by_coefficients.size()) / geometry.rows);
  const double border_tolerance = std::max(rank_tolerance, least_own_share);
  BlockSystem::Solution solution =
      step.is_by_cg
          ? system.solve_by_cg(graph, b, border, border_tolerance, solver.tolerance,
                               solver.max_steps, workers)
          : system.solve(graph, std::move(elimination.tree), b, border, border_tolerance, workers);
  step.cg_steps = solution.cg_steps;
  step.gain = solution.gain;
  step.is_limited = solution.is_limited;
  step.certificate = solution.certificate;
  step.condition = solution.condition;
  step.shift = solution.shift;
  step.refinements = solution.refinements;
  step.factor_seconds = solution.factor_seconds;
  step.solve_seconds = solution.solve_seconds;
  step.is_factored = !solution.failure;
  if (step.is_factored) {
    step.residual = std::move(solution.residual);
    step.coefficients = std::move(solution.z);
    step.coefficients_determined = solution.border_rank;
    step.coefficient_deviations = std::move(solution.border_deviations);
    step.change = system.weights_of(graph.offsets(), solution.y, workers);
  }
}

/// Of fields of like size.
LinearStep step_of(const TrainingGeometry& geometry, const Mlp& mlp,
                   std::span<const double> hidden_weights, const Derivatives& derivatives,
                   std::span<const double> by_coefficients, std::span<const double> residual,
                   double rank_tolerance, const sparse::Workers& workers,
                   const LinearSolver& solver) {
  runtime::host::blas::use_one_thread();  // of however many cores a process has: the same bits
  LinearStep step;
  const std::int64_t columns_of_box = geometry.fields * mlp.features();
  const std::int64_t boxes = geometry.boxes.count();
  LinearStep of_first;  // of the devices of this process
  Elimination elimination;
  {
    const Timer timer(step.order_seconds);
    elimination = elimination_of(
        geometry, std::vector<std::int64_t>(static_cast<std::size_t>(boxes), columns_of_box),
        workers.each);
  }
  if (workers.devices != nullptr) {
    const std::int64_t ranks = workers.devices->ranks();
    const DevicePlacement placement =
        place_on_devices(elimination.tree, ranks, workers.joint_fronts);
    DeviceSlots slots;
    {
      const Timer timer(step.order_seconds);
      slots = slots_on_devices(placement.boxes, geometry.lists, workers.each);
    }
    const double available =
        least_of_processes(workers, static_cast<double>(workers.devices->state().available_memory(
                                        std::numeric_limits<std::int64_t>::max())));
    LinearStepMemory memory =
        device_memory(geometry, columns_of_box, elimination.tree, placement, available);
    if (derivatives.on_devices != nullptr) {  // they have their memory already
      memory.features -= 8.0 * static_cast<double>(geometry.derivatives);
    }
    step.is_by_cg =
        choose_cg(memory, boxes, ranks == 1 ? "the GPU's" : "each GPU's", solver.method);
    const double taken = memory.features + (step.is_by_cg ? 0.0 : memory.factor);
    on_device(workers, taken, [&](mesh::Rank& rank) {
      const sparse::Workers inside = in_program(workers, rank);
      LinearStep mine = step;
      BlocksOnDevice system(rank, geometry, mlp, placement, slots,
                            memory.available - memory.features);
      {
        const Timer timer(mine.rows_seconds);
        system.make(hidden_weights, derivatives, rank_tolerance, inside);
      }
      Elimination kept = elimination;
      mine.rank = system.ranks();
      order_kept(kept, true, mine);
      finish(system, geometry, std::move(kept), by_coefficients, residual, rank_tolerance, inside,
             solver, mine);
      if (rank.leads()) {
        of_first = std::move(mine);
      }
    });
    return of_first;
  }
  step.is_by_cg = choose_cg(host_memory(geometry, columns_of_box, elimination.tree, workers), boxes,
                            "the host's", solver.method);
  BlocksOnHost system(geometry.lists,
                      host_boxes(geometry.lists, elimination, step.is_by_cg, workers));
  {
    const Timer timer(step.rows_seconds);
    make_blocks(geometry, mlp, hidden_weights, derivatives.on_host, rank_tolerance, workers,
                system);
  }
  step.rank = system.ranks();
  order_kept(elimination, false, step);
  if (workers.processes > 1 && !step.is_by_cg) {
    const Timer timer(step.rows_seconds);
    system.bring_to(host_boxes(geometry.lists, elimination, false, workers), workers);
  }
  finish(system, geometry, std::move(elimination), by_coefficients, residual, rank_tolerance,
         workers, solver, step);
  step.feature_bytes = system.most_bytes();
  return step;
}

}  // namespace

LinearStep linear_step(const TrainingGeometry& geometry, const Mlp& mlp,
                       std::span<const double> hidden_weights, const Derivatives& derivatives,
                       std::span<const double> by_coefficients, std::span<const double> residual,
                       double rank_tolerance, const sparse::Workers& workers,
                       const LinearSolver& solver) {
  const auto solve = [&](const Derivatives& of_like_fields) {
    return step_of(geometry, mlp, hidden_weights, of_like_fields, by_coefficients, residual,
                   rank_tolerance, workers, solver);
  };
  const std::vector<int> exponents = field_exponents(geometry, derivatives, workers);
  if (exponents.empty()) {
    return solve(derivatives);
  }
  LinearStep step;
  if (derivatives.on_devices != nullptr) {
    const ScaledOnDevices scaled(geometry, *derivatives.on_devices, exponents, workers);
    step = solve(derivatives);
  } else {
    const std::vector<double> scaled = scaled_fields(geometry, derivatives.on_host, exponents);
    step = solve(scaled);
  }
  const auto features = static_cast<std::size_t>(mlp.features());
  for (std::size_t at = 0; at < step.change.size(); ++at) {
    step.change[at] = std::ldexp(step.change[at], exponents[at / features % exponents.size()]);
  }
  return step;
}

}  // namespace shardsolve::fbpinn
