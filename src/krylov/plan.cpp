#include "krylov/plan.hpp"

#include "core/require_memory.hpp"
#include "krylov/problem.hpp"
#include "krylov/spelling.hpp"
#include "krylov/tables.hpp"
#include "programs/plan_parts.hpp"
#include "runtime/krylov/program.hpp"
#include "runtime/krylov/state.hpp"
#include "runtime/krylov/sum_layout.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardsolve {
namespace krylov {
namespace {

template <class... Arguments>
[[noreturn]] void refuse_options(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(ErrorKind::invalid_argument,
              fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// Of the parts of all ranks, and where each begins.
std::int64_t bytes_of_sums(const SlabLayout& layout, const Problem& problem, std::int64_t element) {
  const SumLayout shape{.n = layout.size(),
                        .ranks = layout.ranks(),
                        .boundaries = layout.boundaries().data(),
                        .block_leaves = SumLayout::block_leaves_of(layout.size())};
  std::int64_t bytes = 0;
  int most = 1;
  for (const TableReduction& reduction : table_of(problem.method).reductions) {
    const int slots = reduction.slots(problem.cycle);
    most = std::max(most, slots);
    for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
      bytes += element * SumTable<double>::length(shape.part(rank), slots);
    }
    bytes += 8 * (layout.ranks() + 1);
  }
  return bytes + most * static_cast<std::int64_t>(sizeof(Number));
}

}  // namespace

void require_options(const Options& options) {
  const auto is_tolerance = [](double value) { return value >= 0.0 && std::isfinite(value); };
  const double rtol = options.rtol.value_or(1.0);
  if (!is_tolerance(rtol) || !is_tolerance(options.atol)) {
    refuse_options("{} and {} given; finite numbers from 0 on are accepted", option("rtol", rtol),
                   option("atol", options.atol));
  }
  if (rtol == 0.0 && options.atol == 0.0) {
    refuse_options("{} and {} given: no residual is that small; give one of them",
                   option("rtol", 0), option("atol", 0));
  }
  if (options.method > Method::fgmres) {
    refuse_options("method number {} given; cg, minres, bicgstab and fgmres are accepted",
                   static_cast<int>(options.method));
  }
  if (options.max_iterations < 1) {
    refuse_options("{} given; at least 1 is accepted",
                   option("max_iterations", options.max_iterations));
  }
  constexpr std::int64_t max_restart = 1000;
  if (options.method == Method::fgmres && (options.restart < 1 || options.restart > max_restart)) {
    refuse_options("{} given; 1 to {} is accepted, usually 20 to 100",
                   option("restart", options.restart), max_restart);
  }
}

void require_workspace(const Options& options, std::int64_t wanted, std::int64_t available,
                       std::int64_t ranks) {
  core::require_memory(wanted, available, ranks, "the workspace of krylov::solve",
                       options.method == Method::fgmres ? "a smaller restart or a narrower dtype"
                                                        : "or a narrower dtype");
}

}  // namespace krylov

Plan plan_krylov_solve(const SlabLayout& layout, Dtype dtype, const krylov::Options& options) {
  krylov::require_options(options);
  const krylov::Problem problem = krylov::problem_of({.method = options.method,
                                                      .n = layout.size(),
                                                      .restart = options.restart,
                                                      .max_iterations = options.max_iterations,
                                                      .log = options.log},
                                                     dtype);
  const krylov::MethodTable& table = krylov::table_of(options.method);
  const std::int64_t element = element_size(dtype);
  const auto matrices = static_cast<std::int64_t>(table.matrices.size());
  const std::int64_t hessenberg = table.hessenberg == nullptr ? 0 : table.hessenberg(problem.cycle);
  Plan plan = programs::begin_plan(layout, dtype);
  plan.matrix_bytes = 0;
  plan.right_hand_side_bytes = 2 * element * layout.max_width();  // b and x
  plan.workspace_bytes =
      element * layout.max_width() * (table.vectors + matrices * problem.cycle) +
      krylov::bytes_of_sums(layout, problem, element) +
      static_cast<std::int64_t>(sizeof(krylov::Number)) * (hessenberg + 2 * (problem.cycle + 1)) +
      static_cast<std::int64_t>(sizeof(krylov::Record)) * problem.records +
      static_cast<std::int64_t>(sizeof(krylov::State)) + 1024 * layout.ranks();
  return plan;
}

}  // namespace shardsolve
