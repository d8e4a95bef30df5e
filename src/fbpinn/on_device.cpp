#include "fbpinn/on_device.hpp"

#include "fbpinn/box_rows.hpp"
#include "mesh/mesh_state.hpp"
#include "sparse/fronts_on_device.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {
namespace devices {

/// Numbers of a device's memory that rows take before they are orthonormal: so many boxes at a time
/// as fit, and at least one.
constexpr std::int64_t numbers_at_a_time = std::int64_t{1} << 26U;

runtime::JetTable table_of(const JetSet& set) {
  runtime::JetTable table{};
  table.axes = set.axes();
  table.order = set.order();
  table.size = set.size();
  for (int d = 0; d < set.size(); ++d) {
    std::copy(set[d].begin(), set[d].end(), table.index[d]);
    table.factorial[d] = set.factorial(d);
  }
  for (const JetSet::Term& term : set.terms()) {
    table.term[table.terms++] = {term.weight, term.result, term.left, term.right};
  }
  return table;
}

template <class T>
const T* upload(mesh::Rank& rank, std::span<const T> values) {
  return rank.upload(rank.update(), values.data(), static_cast<std::int64_t>(values.size()));
}
template <class T>
const T* upload(mesh::Rank& rank, const std::vector<T>& values) {
  return upload(rank, std::span<const T>(values));
}

runtime::BoxNetworks upload_networks(mesh::Rank& rank, const Boxes& boxes, const Mlp& mlp,
                                     const JetSet& set, int fields,
                                     std::span<const double> hidden_weights) {
  const auto numbers = static_cast<std::size_t>(boxes.count() * boxes.axes());
  std::vector<std::int32_t> levels;
  for (std::int64_t box = 0; box < boxes.count(); ++box) {
    levels.push_back(boxes.level(box));
  }
  const std::vector<runtime::JetTable> table{table_of(set)};
  runtime::BoxNetworks networks{};
  networks.jets = upload(rank, table);
  networks.jet_size = set.size();
  networks.centers = upload(rank, std::span<const double>(boxes.center(0), numbers));
  networks.half_widths = upload(rank, std::span<const double>(boxes.half_width(0), numbers));
  networks.levels = upload(rank, levels);
  networks.weights = upload(rank, hidden_weights);
  networks.weights_of_box = mlp.weights(boxes.axes());
  networks.fields = fields;
  for (const std::int64_t units : mlp.hidden) {
    networks.hidden[networks.layers++] = static_cast<std::int32_t>(units);
    networks.most_units = std::max(networks.most_units, static_cast<std::int32_t>(units));
  }
  networks.activation = mlp.activation;
  return networks;
}

runtime::BoxPoints upload_points(mesh::Rank& rank, const Boxes& boxes, const PointsInBoxes& at) {
  const auto numbers = static_cast<std::size_t>(at.pairs.points * boxes.axes());
  return {upload(rank, std::span<const double>(at.points, numbers)), upload(rank, at.inverse_sums),
          at.pairs.points, upload(rank, at.pairs.point)};
}

/// Of each box the points of each term: ordered by box.
std::vector<runtime::BoxRun> runs_of(const TrainingGeometry& geometry) {
  std::vector<runtime::BoxRun> runs;
  for (std::int64_t box = 0; box < geometry.boxes.count(); ++box) {
    const auto points = geometry.at.pairs.points_of(box);
    const std::int64_t first_pair = geometry.at.pairs.box_begin[static_cast<std::size_t>(box)];
    std::int64_t slot = geometry.lists.begin[static_cast<std::size_t>(box)];
    for (const Segment& segment : geometry.segments) {
      const PointRange range = range_of(segment, points);
      if (range.count > 0) {
        runs.push_back({first_pair + range.begin, range.count, slot, segment.first_point,
                        segment.first_derivative, static_cast<std::int32_t>(box),
                        segment.equations});
      }
      slot += segment.equations * range.count;
    }
  }
  return runs;
}

std::int64_t most_points(std::span<const runtime::BoxRun> runs) {
  std::int64_t most = 0;
  for (const runtime::BoxRun& run : runs) {
    most = std::max(most, run.count);
  }
  return most;
}

/// The first box behind `first` that does not fit with those from there on.
std::int64_t end_of_part(const RowLists& lists, std::int64_t columns, std::int64_t first) {
  std::int64_t end = first + 1;
  while (end < lists.boxes() && (lists.begin[static_cast<std::size_t>(end) + 1] -
                                 lists.begin[static_cast<std::size_t>(first)]) *
                                        columns <=
                                    numbers_at_a_time) {
    ++end;
  }
  return end;
}

/// Rows times columns of the largest part.
std::int64_t largest_part(const RowLists& lists, std::int64_t columns) {
  std::int64_t most = 0;
  for (std::int64_t first = 0; first < lists.boxes();) {
    const std::int64_t end = end_of_part(lists, columns, first);
    most = std::max(most, lists.begin[static_cast<std::size_t>(end)] -
                              lists.begin[static_cast<std::size_t>(first)]);
    first = end;
  }
  return most * columns;
}

void leave_if_asked(const mesh::Rank& rank) {
  if (rank.stop_requested()) {
    throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
  }
}

/// The Gram matrix's factor, in fronts on the device.
class FactorOnDevice final : public BlockSystem::Gram {
 public:
  FactorOnDevice(mesh::Rank& rank, const runtime::BoxKernels& kernels,
                 const runtime::BoxBlocks& blocks, const sparse::BlockGraph& graph,
                 sparse::EliminationTree tree, double most_bytes)
      : rank_(rank),
        kernels_(kernels),
        blocks_(blocks),
        fronts_(rank, graph, std::move(tree), most_bytes) {
    std::vector<runtime::GramBlock> wanted;
    for (const sparse::FrontsOnDevice::BlockPlace& place : fronts_.places()) {
      wanted.push_back({place.target, place.stride, place.row, place.column});
    }
    count_ = static_cast<std::int64_t>(wanted.size());
    wanted_ = upload(rank, wanted);
    x_ = rank.workspace<double>(graph.columns(), 1).data();
  }

  std::optional<sparse::BlockPivot> factor(double shift) override {
    rank_.report("factor", 0.0);
    leave_if_asked(rank_);
    return fronts_.factor([&] { kernels_.gram(rank_.update(), blocks_, wanted_, count_, shift); });
  }

  void solve(MatrixView<double> b) const override {
    rank_.report("solve", 0.0);
    leave_if_asked(rank_);
    runtime::Queue& queue = rank_.update();
    const std::size_t bytes = static_cast<std::size_t>(b.rows()) * sizeof(double);
    for (std::int64_t j = 0; j < b.columns(); ++j) {
      double* const column = b.data() + j * b.stride();
      queue.copy(x_, column, bytes);
      fronts_.solve(x_);
      queue.copy(column, x_, bytes);
      rank_.finish(queue);
    }
  }

 private:
  mesh::Rank& rank_;
  const runtime::BoxKernels& kernels_;
  const runtime::BoxBlocks& blocks_;
  sparse::FrontsOnDevice fronts_;
  const runtime::GramBlock* wanted_ = nullptr;
  std::int64_t count_ = 0;
  double* x_ = nullptr;
};

}  // namespace devices

void on_device(const sparse::Workers& workers, const std::function<void(mesh::Rank&)>& work) {
  workers.devices->state().run(*workers.run, work);
}

LinearStepMemory device_memory(const TrainingGeometry& geometry, std::int64_t columns_of_box,
                               const sparse::EliminationTree& tree,
                               const sparse::Workers& workers) {
  const RowLists& lists = geometry.lists;
  const double features =
      8.0 * static_cast<double>(lists.slots() * columns_of_box +
                                devices::largest_part(lists, columns_of_box) +
                                lists.boxes() * columns_of_box * columns_of_box);
  const double other =
      8.0 * static_cast<double>(geometry.derivatives + lists.slots() + 2 * lists.rows +
                                geometry.points_count() *
                                    (geometry.set.size() * geometry.boxes.levels() + 4)) +
      4.0 * static_cast<double>(2 * lists.slots() + geometry.at.pairs.count());
  const auto available = static_cast<double>(
      workers.devices->state().available_memory(std::numeric_limits<std::int64_t>::max()));
  return {.features = features + other,
          .factor = sparse::schedule_fronts(tree, available - features - other).bytes(tree),
          .available = available};
}

std::vector<double> jets_on_device(const Boxes& boxes, const Mlp& mlp, const JetSet& set,
                                   int fields, const PointsInBoxes& at,
                                   std::span<const double> hidden_weights,
                                   std::span<const double> last_layer,
                                   const sparse::Workers& workers) {
  const std::int64_t numbers = std::int64_t{fields} * set.size();
  std::vector<double> jets(static_cast<std::size_t>(at.pairs.points * numbers));
  std::vector<runtime::BoxRun> runs;
  for (std::int64_t box = 0; box < boxes.count(); ++box) {
    const std::int64_t first = at.pairs.box_begin[static_cast<std::size_t>(box)];
    const std::int64_t count = at.pairs.box_begin[static_cast<std::size_t>(box) + 1] - first;
    if (count > 0) {
      runs.push_back({.first_pair = first,
                      .count = count,
                      .first_slot = 0,
                      .first_point = 0,
                      .first_derivative = 0,
                      .box = static_cast<std::int32_t>(box),
                      .equations = 1});
    }
  }
  on_device(workers, [&](mesh::Rank& rank) {
    rank.report("networks", 0.0);
    runtime::Queue& queue = rank.update();
    const auto& kernels = rank.kernels<runtime::BoxKernels>();
    const runtime::BoxNetworks networks =
        devices::upload_networks(rank, boxes, mlp, set, fields, hidden_weights);
    const runtime::BoxPoints points = devices::upload_points(rank, boxes, at);
    double* const of_pairs = rank.workspace<double>(at.pairs.count() * numbers, 1).data();
    double* const sums = rank.workspace<double>(at.pairs.points * numbers, 1).data();
    kernels.network_jets(queue, networks, points, devices::upload(rank, runs),
                         static_cast<std::int64_t>(runs.size()), devices::most_points(runs),
                         devices::upload(rank, last_layer), of_pairs);
    kernels.add_listed(queue, at.pairs.points, numbers, devices::upload(rank, at.pairs.point_begin),
                       devices::upload(rank, at.pairs.by_point), of_pairs, sums);
    queue.copy(jets.data(), sums, jets.size() * sizeof(double));
    rank.finish(queue);
  });
  return jets;
}

BlocksOnDevice::BlocksOnDevice(mesh::Rank& rank, const TrainingGeometry& geometry, const Mlp& mlp,
                               double most_factor_bytes)
    : BlockSystem(geometry.lists),
      rank_(rank),
      geometry_(geometry),
      mlp_(mlp),
      kernels_(rank.kernels<runtime::BoxKernels>()),
      most_factor_bytes_(most_factor_bytes) {
  const RowLists& lists = geometry.lists;
  const std::int64_t columns = geometry.fields * mlp.features();
  const std::int64_t boxes = lists.boxes();
  blocks_.begin = devices::upload(rank, lists.begin);
  blocks_.row = devices::upload(rank, lists.row);
  blocks_.boxes = boxes;
  blocks_.slots = lists.slots();
  blocks_.columns = columns;
  for (std::int64_t box = 0; box < boxes; ++box) {
    blocks_.most_rows =
        std::max(blocks_.most_rows, static_cast<std::int64_t>(lists.rows_of(box).size()));
  }
  blocks_.q = rank.workspace<double>(lists.slots() * columns, 1).data();
  blocks_.r = rank.workspace<double>(boxes * columns * columns, 1).data();
  blocks_.kept = rank.workspace<std::int32_t>(boxes * columns, 1).data();
  blocks_.rank = rank.workspace<std::int32_t>(boxes, 1).data();
  by_row_begin_ = devices::upload(rank, lists.by_row_begin);
  by_row_ = devices::upload(rank, lists.by_row);
  slots_ = rank.workspace<double>(lists.slots(), 1).data();
  of_rows_ = rank.workspace<double>(lists.rows, 1).data();
  of_columns_ = rank.workspace<double>(boxes * columns, 1).data();
  offsets_ = rank.workspace<std::int64_t>(boxes + 1, 1).data();
}

auto BlocksOnDevice::by_kernels(std::span<const double> hidden_weights,
                                std::span<const double> derivatives) -> MakeRows {
  const runtime::BoxNetworks networks = devices::upload_networks(
      rank_, geometry_.boxes, mlp_, geometry_.set, geometry_.fields, hidden_weights);
  const runtime::BoxPoints points = devices::upload_points(rank_, geometry_.boxes, geometry_.at);
  const double* const by_jets = devices::upload(rank_, derivatives);
  std::vector<runtime::BoxRun> runs = devices::runs_of(geometry_);
  const runtime::BoxRun* const there = devices::upload(rank_, runs);
  return [this, networks, points, by_jets, runs = std::move(runs), there](
             std::int64_t first, std::int64_t end, double* rows) {
    const auto begin_of = [&](std::int64_t box) {
      return std::find_if(runs.begin(), runs.end(),
                          [box](const runtime::BoxRun& one) { return one.box >= box; });
    };
    const auto run = begin_of(first);
    const std::span<const runtime::BoxRun> part(run, begin_of(end));
    kernels_.feature_rows(rank_.update(), networks, points, there + (run - runs.begin()),
                          static_cast<std::int64_t>(part.size()), devices::most_points(part),
                          by_jets, blocks_, geometry_.lists.begin[static_cast<std::size_t>(first)],
                          rows);
  };
}

auto BlocksOnDevice::by_workers(std::span<const double> derivatives, const sparse::Workers& workers)
    -> MakeRows {
  return [this, derivatives, &workers](std::int64_t first, std::int64_t end, double* rows) {
    const auto begin_of = [&](std::int64_t box) {
      return geometry_.lists.begin[static_cast<std::size_t>(box)];
    };
    std::vector<double> memory(
        static_cast<std::size_t>((begin_of(end) - begin_of(first)) * blocks_.columns));
    workers.each(end - first, [&](std::int64_t i) {
      box_rows(geometry_, mlp_, {}, derivatives, first + i,
               memory.data() + (begin_of(first + i) - begin_of(first)) * blocks_.columns);
    });
    rank_.update().copy(rows, memory.data(), memory.size() * sizeof(double));
    rank_.finish(rank_.update());
  };
}

void BlocksOnDevice::make(std::span<const double> hidden_weights,
                          std::span<const double> derivatives, double rank_tolerance,
                          const sparse::Workers& workers) {
  runtime::Queue& queue = rank_.update();
  const RowLists& lists = geometry_.lists;
  const MakeRows make_rows = mlp_.own == nullptr ? by_kernels(hidden_weights, derivatives)
                                                 : by_workers(derivatives, workers);
  double* const rows =
      rank_.workspace<double>(devices::largest_part(lists, blocks_.columns), 1).data();
  for (std::int64_t first = 0; first < lists.boxes();) {
    const std::int64_t end = devices::end_of_part(lists, blocks_.columns, first);
    devices::leave_if_asked(rank_);
    rank_.report("features", static_cast<double>(first) / static_cast<double>(lists.boxes()));
    make_rows(first, end, rows);
    kernels_.orthonormalise(queue, blocks_, first, end - first, rank_tolerance, rows);
    first = end;
  }
  ranks_ = rank_.fetch(queue, static_cast<const std::int32_t*>(blocks_.rank), blocks_.boxes);
}

std::vector<std::int64_t> BlocksOnDevice::ranks() const { return {ranks_.begin(), ranks_.end()}; }

const std::int64_t* BlocksOnDevice::on_device(const std::vector<std::int64_t>& offsets) const {
  if (last_offsets_ != offsets) {
    last_offsets_ = offsets;
    rank_.update().copy(offsets_, last_offsets_.data(), offsets.size() * sizeof(std::int64_t));
  }
  return offsets_;
}

std::vector<double> BlocksOnDevice::multiply(const std::vector<std::int64_t>& offsets,
                                             const std::vector<double>& y,
                                             const sparse::Workers& /*workers*/) const {
  runtime::Queue& queue = rank_.update();
  const std::int64_t* const there = on_device(offsets);
  queue.copy(of_columns_, y.data(), y.size() * sizeof(double));
  kernels_.multiply(queue, blocks_, there, of_columns_, slots_);
  kernels_.add_listed(queue, geometry_.rows, 1, by_row_begin_, by_row_, slots_, of_rows_);
  return rank_.fetch(queue, static_cast<const double*>(of_rows_), geometry_.rows);
}

std::vector<double> BlocksOnDevice::multiply_adjoint(const std::vector<std::int64_t>& offsets,
                                                     const std::vector<double>& r,
                                                     const sparse::Workers& /*workers*/) const {
  runtime::Queue& queue = rank_.update();
  const std::int64_t* const there = on_device(offsets);
  queue.copy(of_rows_, r.data(), r.size() * sizeof(double));
  kernels_.multiply_adjoint(queue, blocks_, there, of_rows_, slots_, of_columns_);
  return rank_.fetch(queue, static_cast<const double*>(of_columns_), offsets.back());
}

std::vector<double> BlocksOnDevice::weights_of(const std::vector<std::int64_t>& offsets,
                                               const std::vector<double>& y) const {
  runtime::Queue& queue = rank_.update();
  const std::int64_t* const there = on_device(offsets);
  double* const weights = rank_.workspace<double>(blocks_.boxes * blocks_.columns, 1).data();
  queue.copy(of_columns_, y.data(), y.size() * sizeof(double));
  kernels_.weights_of(queue, blocks_, there, of_columns_, weights);
  return rank_.fetch(queue, static_cast<const double*>(weights), blocks_.boxes * blocks_.columns);
}

auto BlocksOnDevice::make_gram(const sparse::BlockGraph& graph, sparse::EliminationTree tree,
                               const sparse::Workers& /*workers*/) const -> std::unique_ptr<Gram> {
  return std::make_unique<devices::FactorOnDevice>(rank_, kernels_, blocks_, graph, std::move(tree),
                                                   most_factor_bytes_);
}

}  // namespace shardsolve::fbpinn
