#include "dense/eigh/back_transform.hpp"
#include "dense/eigh/call_sizes.hpp"
#include "dense/eigh/certificate.hpp"
#include "dense/eigh/divide_and_conquer.hpp"
#include "dense/eigh/mirror.hpp"
#include "dense/eigh/row_order.hpp"
#include "dense/eigh/solve_columns.hpp"
#include "dense/eigh/store_adjoint.hpp"
#include "programs/plan_parts.hpp"

#include <shardsolve/plan.hpp>

#include <algorithm>

namespace shardsolve {
namespace {

using dense::eigh::CallSizes;
using dense::eigh::SweepGroups;

/// As on GPUs, which take more than CPUs: TridiagonalTuning, the sweeps of a group, and how many
/// windows are kept of.
constexpr runtime::TridiagonalTuning merges{.rows = 2048, .columns = 1024};
constexpr std::int64_t sweeps_of_a_group = 64;
constexpr std::int64_t sweeps_at_once = 128;

/// Elements that the reductions to a tridiagonal take, on the rank that needs most.
std::int64_t reduction(const CallSizes& sizes, const SweepGroups& groups) {
  const std::int64_t n = sizes.layout.size();
  const std::int64_t b = sizes.layout.tile();
  const std::int64_t deferred = std::min(sizes.deferred - 1 + b, n);
  std::int64_t elements = (3 * b + 1) * n;  // band and t
  elements += 2 * (n + sizes.layout.max_width()) * deferred + 2 * deferred * b + 3 * n * b;
  elements += 3 * b * b + sizes.layout.max_width();  // these two: full_to_band
  // of CPUs
  elements += dense::eigh::Mirror<double>::elements(sizes.layout);
  // band_to_tridiagonal
  constexpr std::int64_t queues = 3;
  elements += (queues + 1) * (b + 1) * groups.max_columns();
  // of panel_qr, and of chase on each queue: BandKernels::scratch()
  constexpr std::int64_t rows_of_scratch = 3 * 128 + 4;
  elements += (queues + 1) * std::max(b, rows_of_scratch) * b;
  elements += 2 * n;
  // RowOrder, whose two lists have numbers of at most two elements each
  return elements + 4 * n + dense::eigh::RowOrder<double>::elements(sizes.layout);
}

/// Elements of the way back for so many columns of Z.
std::int64_t way_back(const CallSizes& sizes, const SweepGroups& groups, std::int64_t columns) {
  const std::int64_t n = sizes.layout.size();
  const std::int64_t b = sizes.layout.tile();
  const std::int64_t merged = std::min(std::max(sizes.merged, b), n);
  const std::int64_t windows =
      std::min(std::max<std::int64_t>(sweeps_at_once / groups.size, 1), groups.count());
  std::int64_t elements =
      (2 * (b + 1) + windows * 2 * (b + groups.size - 1)) * groups.max_columns();
  elements += n * (2 * b + merged) + merged * (merged + 3 * b + 2 * columns);
  return elements;
}

/// Reflectors that the rank with most of them keeps.
std::int64_t max_reflectors(const SweepGroups& groups) {
  return (groups.chase.bandwidth + 1) * groups.columns_of(0);
}

}  // namespace

Plan plan_eigh(const SlabLayout& layout, Dtype dtype, bool vectors,
               std::optional<std::int64_t> factor_tile) {
  const CallSizes sizes(layout);
  Plan plan = programs::begin_plan(sizes.layout, dtype);
  const bool is_complex = dtype == Dtype::complex64 || dtype == Dtype::complex128;
  const bool is_single = programs::is_split(dtype);
  const std::int64_t element = element_size(dtype);
  const std::int64_t real = is_single ? 4 : 8;
  const std::int64_t n = layout.size();
  const std::int64_t width = layout.max_width();
  const SweepGroups groups = sizes.groups(is_complex, sweeps_of_a_group);
  const auto size = static_cast<double>(n);
  const double received = size * size * static_cast<double>(layout.ranks() - 1);

  plan.workspace_bytes = element * reduction(sizes, groups) + programs::small_change(layout, 1);
  // as on one rank and on CPUs; several GPUs make half as many again
  plan.flops = programs::multiply_add(dtype) * size * size * size * 2.0 / 3.0;
  plan.bytes_moved = received * static_cast<double>(element);
  if (vectors) {
    plan.workspace_bytes +=
        element * (way_back(sizes, groups, width) + max_reflectors(groups) +
                   dense::eigh::Certificate<double>::elements(layout, factor_tile.has_value()) +
                   dense::eigh::store_adjoint_elements(layout)) +
        (is_single ? dense::eigh::divide_and_conquer_bytes<float>(n, width, merges)
                   : dense::eigh::divide_and_conquer_bytes<double>(n, width, merges));
    // Z by rows, on its way, and by columns as numbers of the dtype
    plan.workspace_bytes += (2 * real + element) * n * width;
    plan.flops +=
        programs::multiply_add(dtype) * size * size * size * 2.0 + size * size * size * 8.0 / 3.0;
    plan.bytes_moved +=
        received * static_cast<double>(element) + size * size * static_cast<double>(real);
  }
  if (factor_tile) {
    const SlabLayout factor(layout.boundaries(), *factor_tile);
    const std::int64_t solves = vectors ? 3 : 2;
    // L on its way, A beside its adjoint, the check of A as it is then
    plan.workspace_bytes +=
        element * (solves * dense::eigh::solve_columns_elements(factor) + n * width +
                   2 * dense::eigh::store_adjoint_elements(factor)) +
        programs::small_change(layout, 1);
    plan.flops +=
        programs::multiply_add(dtype) * size * size * size * 0.5 * static_cast<double>(solves);
    plan.bytes_moved +=
        received * static_cast<double>(element) * (2.0 + 0.5 * static_cast<double>(solves));
  }
  return plan;
}

}  // namespace shardsolve
