// What training takes, from geometry alone.

#include "fbpinn/block_system.hpp"
#include "fbpinn/device_placement.hpp"
#include "fbpinn/on_ranks.hpp"
#include "fbpinn/process_memory.hpp"
#include "fbpinn/training_inputs.hpp"
#include "fbpinn/training_reports.hpp"
#include "sparse/elimination_tree.hpp"

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/plan.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::fbpinn {

TrainingPlan plan_least_squares(const Problem& problem) {
  const TrainingGeometry geometry(problem.boxes(), problem.jet_set(), problem.fields(),
                                  training::all_points(problem), training::shapes_of(problem),
                                  sparse::Workers{});
  const std::int64_t columns = problem.fields() * problem.mlp().features();
  const sparse::BlockGraph graph = graph_of(
      problem.boxes(), geometry.lists,
      std::vector<std::int64_t>(static_cast<std::size_t>(problem.boxes().count()), columns));
  TrainingPlan plan;
  plan.boxes = problem.boxes().count();
  plan.points = geometry.points_count();
  plan.pairs = geometry.at.pairs.count();
  plan.rows = geometry.rows;
  plan.columns = plan.boxes * columns;
  plan.coefficients = static_cast<std::int64_t>(problem.coefficients_at_start().size());
  plan.other_bytes =
      8.0 * static_cast<double>(2 * plan.pairs + geometry.lists.slots() + geometry.derivatives +
                                plan.points * (geometry.set.size() + geometry.jet_numbers()) +
                                3 * plan.rows +
                                // their columns, what is beside the boxes' of these, orthonormal
                                3 * plan.rows * plan.coefficients);
  const sparse::EliminationTree tree = sparse::nested_dissection(graph);
  plan.costs =
      training::told(sparse::dense_cost(graph), sparse::band_cost(graph), sparse::cost_of(tree));
  const auto of_processes = [&](int processes) {
    return most_of(
        memory_of_processes(geometry.lists, columns, tree, processes, sparse::JointFronts{}));
  };
  plan.feature_bytes = of_processes(1).features;
  for (const int processes : {1, 2, 4, 8}) {
    if (processes <= plan.boxes) {
      const LinearStepMemory need = of_processes(processes);
      plan.process_bytes.emplace_back(processes, need.features + need.factor + plan.other_bytes);
    }
  }
  for (const int gpus : {1, 2, 4, 8}) {
    if (gpus <= plan.boxes) {
      // As if there were no room: subtrees one after the other.
      const LinearStepMemory need = device_memory(
          geometry, columns, tree, place_on_devices(tree, gpus, joint_fronts_of_gpus), 0.0);
      plan.gpu_bytes.emplace_back(gpus, need.features + need.factor);
    }
  }
  plan.is_by_cg = plan.feature_bytes + plan.costs.nested_dissection.bytes >
                  static_cast<double>(available_host_memory());
  return plan;
}

std::string TrainingPlan::text() const {
  const auto line = [](const char* name, const FactorCosts::Cost& cost) {
    return fmt::format("  {:<18} {:9.2e} flops {:9.3f} GB  up to {} columns\n", name, cost.flops,
                       cost.bytes * 1e-9, cost.largest);
  };
  std::string in_processes;
  for (const auto& [processes, need] : process_bytes) {
    in_processes += processes == 1 ? fmt::format("at most {:.3f} GB in a process", need * 1e-9)
                                   : fmt::format(", {:.3f} in each of {}", need * 1e-9, processes);
  }
  std::string on_gpus;
  for (const auto& [gpus, need] : gpu_bytes) {
    on_gpus += gpus == 1 ? fmt::format("at least {:.3f} GB on a GPU", need * 1e-9)
                         : fmt::format(", {:.3f} on each of {}", need * 1e-9, gpus);
  }
  return fmt::format(
             "{} boxes, {} points, {} pairs ({:.1f} boxes a point)\n"
             "{} rows, {} columns ({:.1f} rows a column){}\n"
             "features {:.3f} GB, other {:.3f} GB, {:.3f} GB in all\n"
             "factorisation of the Gram matrix:\n",
             boxes, points, pairs, static_cast<double>(pairs) / static_cast<double>(points), rows,
             columns, static_cast<double>(rows) / static_cast<double>(columns),
             coefficients > 0 ? fmt::format(", {} numbers of coefficients", coefficients) : "",
             feature_bytes * 1e-9, other_bytes * 1e-9, bytes() * 1e-9) +
         line("nested dissection", costs.nested_dissection) + line("band", costs.band) +
         line("dense", costs.dense) + in_processes + "\n" + on_gpus + "\n" +
         (is_by_cg ? "conjugate gradients are taken: the factor of none fits in memory\n"
                   : "nested dissection is taken: parts of it are independent, and it is "
                     "never more than "
                     "dense\n");
}

}  // namespace shardsolve::fbpinn
