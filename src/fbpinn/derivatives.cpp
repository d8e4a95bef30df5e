#include "fbpinn/derivatives.hpp"

#include "fbpinn/on_device.hpp"
#include "mesh/mesh_state.hpp"
#include "runtime/box_kernels.hpp"

#include <shardsolve/mesh.hpp>

#include <algorithm>
#include <cmath>

namespace shardsolve::fbpinn {
namespace {

double larger(double x, double y) { return std::isnan(x) || y <= x ? x : y; }

}  // namespace

DerivativesOnDevices::DerivativesOnDevices(const sparse::Workers& workers, std::int64_t count)
    : count_(count) {
  const auto bytes = static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(double);
  for (std::int64_t rank = 0; rank < workers.devices->ranks(); ++rank) {
    of_rank_.push_back(workers.devices->state().device(rank).allocate(bytes));
  }
}

std::vector<double> fetch(const DerivativesOnDevices& derivatives, const sparse::Workers& workers) {
  std::vector<double> result;
  on_device(workers, 0.0, [&](mesh::Rank& rank) {
    if (rank.leads()) {
      const double* const from = derivatives.of(rank.index());
      result = rank.fetch(rank.update(), from, derivatives.count());
    }
  });
  return result;
}

std::vector<Largest> largest_of(const DerivativesOnDevices& a, const DerivativesOnDevices* b,
                                const std::vector<DerivativeRange>& ranges,
                                const sparse::Workers& workers) {
  std::vector<Largest> result(ranges.size());
  on_device(workers, 0.0, [&](mesh::Rank& rank) {
    if (!rank.leads()) {
      return;
    }
    std::vector<std::int64_t> begin{0};
    for (const DerivativeRange& range : ranges) {
      begin.push_back(begin.back() + 2 * runtime::SeenByWarps::warps(range.count));
    }
    double* const seen = rank.workspace<double>(std::max<std::int64_t>(begin.back(), 1), 1).data();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const double* const other = b == nullptr ? nullptr : b->of(rank.index()) + ranges[i].first;
      rank.kernels<runtime::BoxKernels>().largest(rank.update(),
                                                  a.of(rank.index()) + ranges[i].first, other,
                                                  ranges[i].count, seen + begin[i]);
    }
    const std::vector<double> all =
        rank.fetch(rank.update(), static_cast<const double*>(seen), begin.back());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      for (std::int64_t k = begin[i]; k < begin[i + 1]; k += 2) {
        const auto at = static_cast<std::size_t>(k);
        result[i] = {larger(result[i].size, all[at]), larger(result[i].difference, all[at + 1])};
      }
    }
  });
  return result;
}

}  // namespace shardsolve::fbpinn
