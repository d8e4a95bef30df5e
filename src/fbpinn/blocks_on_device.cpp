#include "fbpinn/blocks_on_device.hpp"

#include "fbpinn/box_rows.hpp"
#include "fbpinn/device_placement.hpp"
#include "fbpinn/device_uploads.hpp"
#include "programs/gather.hpp"
#include "sparse/fronts_on_devices.hpp"

#include <shardsolve/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {
namespace devices {

/// Told in place of the rank of a box some of whose rows are not finite.
constexpr std::int32_t nonfinite_rank = std::numeric_limits<std::int32_t>::max();

/// Of each of some boxes the points of each term: ordered by box, which are numbered anew.
std::vector<runtime::BoxRun> runs_of(const TrainingGeometry& geometry,
                                     std::span<const std::int32_t> boxes,
                                     const std::vector<std::int64_t>& begin) {
  std::vector<runtime::BoxRun> runs;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto points = geometry.at.pairs.points_of(boxes[i]);
    const std::int64_t first_pair = geometry.at.pairs.box_begin[static_cast<std::size_t>(boxes[i])];
    std::int64_t slot = begin[i];
    for (const Segment& segment : geometry.segments) {
      const PointRange range = range_of(segment, points);
      if (range.count > 0) {
        runs.push_back({first_pair + range.begin, range.count, slot, segment.first_point,
                        segment.first_derivative, static_cast<std::int32_t>(i), segment.equations});
      }
      slot += segment.equations * range.count;
    }
  }
  return runs;
}

template <class T>
T* memory_for(mesh::Rank& rank, std::int64_t count) {
  return rank.workspace<T>(std::max<std::int64_t>(count, 1), 1).data();
}

/// The rows of some boxes, in this order. All of them, ascending, are there already.
const std::int32_t* upload_rows(mesh::Rank& rank, const RowLists& lists,
                                std::span<const std::int32_t> boxes) {
  if (static_cast<std::int64_t>(boxes.size()) == lists.boxes() &&
      std::is_sorted(boxes.begin(), boxes.end())) {
    return upload(rank, lists.row);
  }
  std::vector<std::int32_t> rows;
  for (const std::int32_t box : boxes) {
    const auto of_box = lists.rows_of(box);
    rows.insert(rows.end(), of_box.begin(), of_box.end());
  }
  return upload(rank, rows);
}

/// The Gram matrix's factor, in fronts on the devices.
class FactorOnDevices final : public BlockSystem::Gram {
 public:
  FactorOnDevices(mesh::Rank& rank, const runtime::BoxKernels& kernels,
                  const runtime::BoxBlocks& blocks, std::span<const std::int32_t> held,
                  const sparse::BlockGraph& graph, sparse::EliminationTree tree,
                  const DevicePlacement& placement, double max_bytes)
      : rank_(rank),
        kernels_(kernels),
        blocks_(blocks),
        number_(static_cast<std::size_t>(graph.count()), -1),
        fronts_(rank, graph, std::move(tree), placement.fronts, placement.joint_fronts, max_bytes) {
    for (std::size_t i = 0; i < held.size(); ++i) {
      number_[static_cast<std::size_t>(held[i])] = static_cast<std::int32_t>(i);
    }
  }

  std::optional<sparse::BlockPivot> factor(double shift) override {
    rank_.report("factor", 0.0);
    leave_if_asked(rank_);
    return fronts_.factor([&](std::span<const sparse::FrontsOnDevices::BlockPlace> places) {
      std::vector<runtime::GramBlock> wanted;
      for (const sparse::FrontsOnDevices::BlockPlace& place : places) {
        wanted.push_back({place.target, place.stride, number_[static_cast<std::size_t>(place.row)],
                          number_[static_cast<std::size_t>(place.column)]});
      }
      if (!wanted.empty()) {
        kernels_.gram(rank_.update(), blocks_, upload(rank_, wanted),
                      static_cast<std::int64_t>(wanted.size()), shift);
      }
    });
  }

  void solve(MatrixView<double> b) const override {
    rank_.report("solve", 0.0);
    leave_if_asked(rank_);
    for (std::int64_t j = 0; j < b.columns(); ++j) {
      fronts_.solve(b.data() + j * b.stride());
    }
  }

 private:
  mesh::Rank& rank_;
  const runtime::BoxKernels& kernels_;
  const runtime::BoxBlocks& blocks_;
  std::vector<std::int32_t> number_;  ///< of each box among those that the rank has
  mutable sparse::FrontsOnDevices fronts_;
};

}  // namespace devices

BlocksOnDevice::BlocksOnDevice(mesh::Rank& rank, const TrainingGeometry& geometry, const Mlp& mlp,
                               const DevicePlacement& placement, const DeviceSlots& slots,
                               double max_factor_bytes)
    : BlockSystem(geometry.lists),
      rank_(rank),
      geometry_(geometry),
      mlp_(mlp),
      placement_(placement),
      held_(placement.boxes.held[static_cast<std::size_t>(rank.index())]),
      kernels_(rank.kernels<runtime::BoxKernels>()),
      max_factor_bytes_(max_factor_bytes),
      begin_(devices::begins_of(geometry.lists, held_)),
      is_finite_(held_.size(), 1),
      slots_begin_(slots.begin) {
  const RowLists& lists = geometry.lists;
  const std::int64_t columns = geometry.fields * mlp.features();
  const auto boxes = static_cast<std::int64_t>(held_.size());
  for (const std::int32_t box : held_) {
    blocks_.max_rows =
        std::max(blocks_.max_rows, static_cast<std::int64_t>(lists.rows_of(box).size()));
  }
  blocks_.begin = devices::upload(rank, begin_);
  blocks_.row = devices::upload_rows(rank, lists, held_);
  blocks_.boxes = boxes;
  blocks_.slots = begin_.back();
  blocks_.columns = columns;
  blocks_.q = devices::memory_for<double>(rank, begin_.back() * columns);
  blocks_.r = devices::memory_for<double>(rank, boxes * columns * columns);
  blocks_.kept = devices::memory_for<std::int32_t>(rank, boxes * columns);
  blocks_.rank = devices::memory_for<std::int32_t>(rank, boxes);
  own_ = blocks_;
  own_.boxes = static_cast<std::int64_t>(own_boxes().size());
  own_.slots = begin_[own_boxes().size()];
  by_row_begin_ = devices::upload(rank, lists.by_row_begin);
  by_row_ = devices::upload(rank, slots.by_row);
  slots_ = devices::memory_for<double>(rank, lists.slots());
  of_rows_ = devices::memory_for<double>(rank, lists.rows);
  of_columns_ = devices::memory_for<double>(rank, lists.boxes() * columns);
}

auto BlocksOnDevice::by_kernels(std::span<const double> hidden_weights,
                                const Derivatives& derivatives) -> MakeRows {
  const runtime::BoxNetworks networks = devices::upload_networks(
      rank_, geometry_.boxes, held_, mlp_, geometry_.set, geometry_.fields, hidden_weights);
  const runtime::BoxPoints points = devices::upload_points(rank_, geometry_.boxes, geometry_.at);
  const double* const by_jets = derivatives.on_devices == nullptr
                                    ? devices::upload(rank_, derivatives.on_host)
                                    : derivatives.on_devices->of(rank_.index());
  std::vector<runtime::BoxRun> runs = devices::runs_of(geometry_, held_, begin_);
  const runtime::BoxRun* const there = devices::upload(rank_, runs);
  return [this, networks, points, by_jets, runs = std::move(runs), there](
             std::int64_t first, std::int64_t end, double* rows) {
    const auto begin_of_box = [&](std::int64_t box) {
      return std::find_if(runs.begin(), runs.end(),
                          [box](const runtime::BoxRun& one) { return one.box >= box; });
    };
    const auto run = begin_of_box(first);
    const std::span<const runtime::BoxRun> part(run, begin_of_box(end));
    kernels_.feature_rows(rank_.update(), networks, points, there + (run - runs.begin()),
                          static_cast<std::int64_t>(part.size()), devices::max_points(part),
                          by_jets, blocks_, begin_[static_cast<std::size_t>(first)], rows);
  };
}

auto BlocksOnDevice::by_workers(std::span<const double> hidden_weights,
                                std::span<const double> derivatives, const sparse::Workers& workers)
    -> MakeRows {
  return [this, hidden_weights, derivatives, &workers](std::int64_t first, std::int64_t end,
                                                       double* rows) {
    const auto begin_of_box = [&](std::int64_t box) {
      return begin_[static_cast<std::size_t>(box)];
    };
    std::vector<double> memory(
        static_cast<std::size_t>((begin_of_box(end) - begin_of_box(first)) * blocks_.columns));
    workers.each(end - first, [&](std::int64_t i) {
      const std::span<double> of_box = std::span(memory).subspan(
          static_cast<std::size_t>((begin_of_box(first + i) - begin_of_box(first)) *
                                   blocks_.columns),
          static_cast<std::size_t>((begin_of_box(first + i + 1) - begin_of_box(first + i)) *
                                   blocks_.columns));
      box_rows(geometry_, mlp_, hidden_weights, derivatives,
               held_[static_cast<std::size_t>(first + i)], of_box.data());
      is_finite_[static_cast<std::size_t>(first + i)] = are_finite(of_box) ? 1 : 0;
    });
    rank_.update().copy(rows, memory.data(), memory.size() * sizeof(double));
    rank_.finish(rank_.update());
  };
}

void BlocksOnDevice::make(std::span<const double> hidden_weights, const Derivatives& derivatives,
                          double rank_tolerance, const sparse::Workers& workers) {
  const MakeRows make_rows = mlp_.own == nullptr
                                 ? by_kernels(hidden_weights, derivatives)
                                 : by_workers(hidden_weights, derivatives.on_host, workers);
  double* const rows =
      devices::memory_for<double>(rank_, devices::largest_part(begin_, blocks_.columns));
  for (std::int64_t first = 0; first < blocks_.boxes;) {
    const std::int64_t end = devices::end_of_part(begin_, blocks_.columns, first);
    devices::leave_if_asked(rank_);
    rank_.report("features", static_cast<double>(first) / static_cast<double>(blocks_.boxes));
    make_rows(first, end, rows);
    kernels_.orthonormalise(rank_.update(), blocks_, first, end - first, rank_tolerance, rows);
    first = end;
  }
  agree_on_ranks();
  const auto bad = std::find(ranks_.begin(), ranks_.end(), devices::nonfinite_rank);
  if (bad != ranks_.end()) {
    refuse_nonfinite_units(geometry_, mlp_, hidden_weights, derivatives.on_host,
                           bad - ranks_.begin());
  }
}

/// Columns kept of all boxes, and where those of each rank are in tables.
void BlocksOnDevice::agree_on_ranks() {
  const std::vector<std::int32_t> mine =
      rank_.fetch(rank_.update(), static_cast<const std::int32_t*>(blocks_.rank), blocks_.boxes);
  std::vector<std::int32_t> by_box(static_cast<std::size_t>(geometry_.boxes.count()), -1);
  for (std::size_t i = 0; i < held_.size(); ++i) {
    by_box[static_cast<std::size_t>(held_[i])] =
        is_finite_[i] != 0 ? mine[i] : devices::nonfinite_rank;
  }
  const auto all = programs::gather_from_all(rank_, by_box);
  ranks_.assign(by_box.size(), -1);
  for (const auto& of_rank : all) {
    for (std::size_t box = 0; box < ranks_.size(); ++box) {
      if (of_rank[box] < 0) {
        continue;
      }
      if (ranks_[box] >= 0 && ranks_[box] != of_rank[box]) {
        throw Error(ErrorKind::unsupported,
                    "two GPUs have found different ranks of the same box's columns, as they round "
                    "differently: use GPUs of one kind");
      }
      ranks_[box] = of_rank[box];
    }
  }
  std::vector<std::int64_t> offsets;
  columns_begin_ = {0};
  for (std::size_t r = 0; r < placement_.boxes.owned.size(); ++r) {
    std::int64_t at = columns_begin_.back();
    for (const std::int32_t box : placement_.boxes.owned[r]) {
      if (static_cast<std::int64_t>(r) == rank_.index()) {
        offsets.push_back(at);
      }
      at += ranks_[static_cast<std::size_t>(box)];
    }
    columns_begin_.push_back(at);
  }
  offsets_ = devices::upload(rank_, offsets);
}

/// A vector's columns of the rank's own boxes, in the order of the tables.
std::vector<double> BlocksOnDevice::own_part(const std::vector<std::int64_t>& offsets,
                                             const std::vector<double>& y) const {
  std::vector<double> part;
  for (const std::int32_t box : own_boxes()) {
    const auto first = y.begin() + offsets[static_cast<std::size_t>(box)];
    part.insert(part.end(), first, first + ranks_[static_cast<std::size_t>(box)]);
  }
  return part;
}

std::vector<double> BlocksOnDevice::multiply(const std::vector<std::int64_t>& offsets,
                                             const std::vector<double>& y,
                                             const sparse::Workers& /*workers*/) const {
  runtime::Queue& queue = rank_.update();
  const std::vector<double> part = own_part(offsets, y);
  queue.copy(of_columns_ + begin_of(columns_begin_), part.data(), part.size() * sizeof(double));
  rank_.finish(queue);
  if (own_.boxes > 0) {
    kernels_.multiply(queue, own_, offsets_, of_columns_, slots_ + begin_of(slots_begin_));
  }
  programs::gather_table(rank_, slots_, slots_begin_);
  kernels_.add_listed(queue, geometry_.rows, 1, by_row_begin_, by_row_, slots_, of_rows_);
  return rank_.fetch(queue, static_cast<const double*>(of_rows_), geometry_.rows);
}

std::vector<double> BlocksOnDevice::multiply_adjoint(const std::vector<std::int64_t>& offsets,
                                                     const std::vector<double>& r,
                                                     const sparse::Workers& /*workers*/) const {
  runtime::Queue& queue = rank_.update();
  queue.copy(of_rows_, r.data(), r.size() * sizeof(double));
  if (own_.boxes > 0) {
    kernels_.multiply_adjoint(queue, own_, offsets_, of_rows_, slots_ + begin_of(slots_begin_),
                              of_columns_);
  }
  programs::gather_table(rank_, of_columns_, columns_begin_);
  const std::vector<double> table =
      rank_.fetch(queue, static_cast<const double*>(of_columns_), offsets.back());
  std::vector<double> result(table.size());
  auto from = table.begin();
  for (const auto& of_rank : placement_.boxes.owned) {
    for (const std::int32_t box : of_rank) {
      const auto count = ranks_[static_cast<std::size_t>(box)];
      std::copy_n(from, count, result.begin() + offsets[static_cast<std::size_t>(box)]);
      from += count;
    }
  }
  return result;
}

std::vector<double> BlocksOnDevice::weights_of(const std::vector<std::int64_t>& offsets,
                                               const std::vector<double>& y,
                                               const sparse::Workers& /*workers*/) const {
  runtime::Queue& queue = rank_.update();
  const std::int64_t columns = blocks_.columns;
  std::vector<std::int64_t> begin{0};
  for (const auto& of_rank : placement_.boxes.owned) {
    begin.push_back(begin.back() + static_cast<std::int64_t>(of_rank.size()) * columns);
  }
  double* const weights = devices::memory_for<double>(rank_, begin.back());
  const std::vector<double> part = own_part(offsets, y);
  queue.copy(of_columns_ + begin_of(columns_begin_), part.data(), part.size() * sizeof(double));
  rank_.finish(queue);
  if (own_.boxes > 0) {
    kernels_.weights_of(queue, own_, offsets_, of_columns_, weights + begin_of(begin));
  }
  programs::gather_table(rank_, weights, begin);
  const std::vector<double> table =
      rank_.fetch(queue, static_cast<const double*>(weights), begin.back());
  std::vector<double> result(table.size());
  auto from = table.begin();
  for (const auto& of_rank : placement_.boxes.owned) {
    for (const std::int32_t box : of_rank) {
      std::copy_n(from, columns, result.begin() + box * columns);
      from += columns;
    }
  }
  return result;
}

auto BlocksOnDevice::make_gram(const sparse::BlockGraph& graph, sparse::EliminationTree tree,
                               const sparse::Workers& /*workers*/) const -> std::unique_ptr<Gram> {
  return std::make_unique<devices::FactorOnDevices>(rank_, kernels_, blocks_, held_, graph,
                                                    std::move(tree), placement_, max_factor_bytes_);
}

}  // namespace shardsolve::fbpinn
