#include "fbpinn/on_device.hpp"

#include "fbpinn/device_uploads.hpp"
#include "mesh/mesh_state.hpp"
#include "programs/gather.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace shardsolve::fbpinn {
namespace devices {

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

runtime::BoxNetworks upload_networks(mesh::Rank& rank, const Boxes& boxes,
                                     std::span<const std::int32_t> which, const Mlp& mlp,
                                     const JetSet& set, int fields,
                                     std::span<const double> hidden_weights) {
  const std::int64_t of_box = mlp.weights(boxes.axes());
  std::vector<std::int32_t> levels;
  std::vector<double> centers;
  std::vector<double> half_widths;
  std::vector<double> weights;
  for (const std::int32_t box : which) {
    levels.push_back(boxes.level(box));
    centers.insert(centers.end(), boxes.center(box), boxes.center(box) + boxes.axes());
    half_widths.insert(half_widths.end(), boxes.half_width(box),
                       boxes.half_width(box) + boxes.axes());
    const auto first = hidden_weights.begin() + box * of_box;
    weights.insert(weights.end(), first, first + of_box);
  }
  const std::vector<runtime::JetTable> table{table_of(set)};
  runtime::BoxNetworks networks{};
  networks.jets = upload(rank, table);
  networks.jet_size = set.size();
  networks.centers = upload(rank, centers);
  networks.half_widths = upload(rank, half_widths);
  networks.levels = upload(rank, levels);
  networks.weights = upload(rank, weights);
  networks.weights_of_box = of_box;
  networks.fields = fields;
  for (const std::int64_t units : mlp.hidden) {
    networks.hidden[networks.layers++] = static_cast<std::int32_t>(units);
    networks.max_units = std::max(networks.max_units, static_cast<std::int32_t>(units));
  }
  networks.activation = mlp.activation;
  return networks;
}

runtime::BoxPoints upload_points(mesh::Rank& rank, const Boxes& boxes, const PointsInBoxes& at) {
  const auto numbers = static_cast<std::size_t>(at.pairs.points * boxes.axes());
  return {upload(rank, std::span<const double>(at.points, numbers)), upload(rank, at.inverse_sums),
          at.pairs.points, upload(rank, at.pairs.point)};
}

std::int64_t max_points(std::span<const runtime::BoxRun> runs) {
  std::int64_t most = 0;
  for (const runtime::BoxRun& run : runs) {
    most = std::max(most, run.count);
  }
  return most;
}

void leave_if_asked(const mesh::Rank& rank) {
  if (rank.stop_requested()) {
    throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
  }
}

/// The pairs of each box with points [first, end).
std::vector<runtime::BoxRun> runs_among(const Pairs& pairs, std::int64_t first, std::int64_t end) {
  std::vector<runtime::BoxRun> runs;
  for (std::int64_t box = 0; box < pairs.boxes; ++box) {
    const auto points = pairs.points_of(box);
    const auto begin = std::lower_bound(points.begin(), points.end(), first);
    const auto behind = std::lower_bound(begin, points.end(), end);
    if (begin != behind) {
      runs.push_back(
          {.first_pair = pairs.box_begin[static_cast<std::size_t>(box)] + (begin - points.begin()),
           .count = behind - begin,
           .first_slot = 0,
           .first_point = 0,
           .first_derivative = 0,
           .box = static_cast<std::int32_t>(box),
           .equations = 1});
    }
  }
  return runs;
}

}  // namespace devices

void on_device(const sparse::Workers& workers, double bytes,
               const std::function<void(mesh::Rank&)>& work) {
  workers.devices->state().run(*workers.run, [&](mesh::Rank& rank) {
    if (workers.processes > 1) {
      rank.expect_workspace(static_cast<std::int64_t>(bytes));
    }
    work(rank);
  });
}

Numbers<double> jets_on_device(const Boxes& boxes, const Mlp& mlp, const JetSet& set, int fields,
                               const PointsInBoxes& at, std::span<const double> hidden_weights,
                               std::span<const double> last_layer, const sparse::Workers& workers) {
  const std::int64_t numbers = std::int64_t{fields} * set.size();
  Numbers<double> jets(static_cast<std::size_t>(at.pairs.points * numbers));
  std::vector<std::int32_t> all_boxes(static_cast<std::size_t>(boxes.count()));
  std::iota(all_boxes.begin(), all_boxes.end(), 0);
  // Each device has some of the points, and all boxes around them.
  const std::int64_t ranks = workers.devices->ranks();
  std::vector<std::int64_t> begin;
  for (std::int64_t rank = 0; rank <= ranks; ++rank) {
    begin.push_back(at.pairs.points * rank / ranks * numbers);
  }
  const double bytes =
      8.0 * static_cast<double>(hidden_weights.size() + last_layer.size() + jets.size() +
                                at.inverse_sums.size() +
                                static_cast<std::size_t>(at.pairs.count() * (numbers + 1) +
                                                         at.pairs.points * (boxes.axes() + 1) +
                                                         boxes.count() * (2 * boxes.axes() + 8)));
  on_device(workers, bytes, [&](mesh::Rank& rank) {
    const auto mine = static_cast<std::size_t>(rank.index());
    const std::int64_t first = begin[mine] / numbers;
    const std::int64_t end = begin[mine + 1] / numbers;
    rank.report("networks", 0.0);
    const std::vector<runtime::BoxRun> runs = devices::runs_among(at.pairs, first, end);
    runtime::Queue& queue = rank.update();
    const auto& kernels = rank.kernels<runtime::BoxKernels>();
    const runtime::BoxNetworks networks =
        devices::upload_networks(rank, boxes, all_boxes, mlp, set, fields, hidden_weights);
    const runtime::BoxPoints points = devices::upload_points(rank, boxes, at);
    double* const of_pairs = rank.workspace<double>(at.pairs.count() * numbers, 1).data();
    // Where processes tell each other there is room for the jets of all.
    const bool are_told = workers.processes > 1;
    const std::int64_t before = are_told ? begin[mine] : 0;
    const std::int64_t room = are_told ? begin.back() : begin[mine + 1] - begin[mine];
    double* const table = rank.workspace<double>(std::max<std::int64_t>(room, 1), 1).data();
    kernels.network_jets(queue, networks, points, devices::upload(rank, runs),
                         static_cast<std::int64_t>(runs.size()), devices::max_points(runs),
                         devices::upload(rank, last_layer), of_pairs);
    kernels.add_listed(queue, end - first, numbers,
                       devices::upload(rank, at.pairs.point_begin) + first,
                       devices::upload(rank, at.pairs.by_point), of_pairs, table + before);
    if (are_told) {
      programs::gather_table(rank, table, begin);
    }
    queue.copy(jets.data() + (are_told ? 0 : begin[mine]), table,
               static_cast<std::size_t>(room) * sizeof(double));
    rank.finish(queue);
  });
  return jets;
}

}  // namespace shardsolve::fbpinn
