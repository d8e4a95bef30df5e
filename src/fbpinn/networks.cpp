#include "fbpinn/networks.hpp"

#include "core/floating_point.hpp"
#include "fbpinn/features.hpp"
#include "fbpinn/on_device.hpp"
#include "fbpinn/on_ranks.hpp"
#include "fbpinn/point_order.hpp"
#include "fbpinn/windows.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/fbpinn.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace shardsolve::fbpinn {

PointsInBoxes points_in_boxes(const Boxes& boxes, const JetSet& set, const double* points,
                              std::int64_t count, std::int64_t first_number,
                              const sparse::Workers& workers) {
  workers.enter("windows");
  PointsInBoxes at{points, find_pairs(boxes, points, count, first_number, workers.each), {}};
  at.inverse_sums.resize(static_cast<std::size_t>(boxes.levels() * count * set.size()));
  each_piece_of_points(count, workers.each, [&](std::int64_t first, std::int64_t last) {
    inverse_window_sums(boxes, set, at.pairs, points, first, last, at.inverse_sums.data());
  });
  return at;
}

Numbers<double> jets_of_networks(const Boxes& boxes, const Mlp& mlp, const JetSet& set, int fields,
                                 const PointsInBoxes& at, std::span<const double> hidden_weights,
                                 std::span<const double> last_layer,
                                 const sparse::Workers& workers) {
  if (workers.devices != nullptr && mlp.own == nullptr) {
    return jets_on_device(boxes, mlp, set, fields, at, hidden_weights, last_layer, workers);
  }
  workers.enter("networks");
  const std::int64_t size = std::int64_t{fields} * set.size();
  const std::int64_t of_box = fields * mlp.features();
  const std::int64_t of_level = at.pairs.points * set.size();
  Numbers<double> of_pairs(static_cast<std::size_t>(at.pairs.count() * size));
  const auto work = [&](std::int64_t box) {
    const auto which = at.pairs.points_of(box);
    if (which.empty()) {
      return;
    }
    solution_jets(
        set, mlp,
        BoxFeatures<double>{boxes.center(box), boxes.half_width(box),
                            hidden_weights.data() + box * mlp.weights(boxes.axes()), box},
        PointsInBox<double>{at.points, at.inverse_sums.data() + boxes.level(box) * of_level,
                            which.data(), static_cast<std::int64_t>(which.size())},
        last_layer.data() + box * of_box, fields,
        of_pairs.data() + at.pairs.box_begin[static_cast<std::size_t>(box)] * size);
  };
  workers.share(boxes.count(), work, [&](std::int64_t box, sparse::Packet& packet) {
    const auto first = at.pairs.box_begin[static_cast<std::size_t>(box)];
    packet.array(of_pairs.data() + first * size,
                 (at.pairs.box_begin[static_cast<std::size_t>(box) + 1] - first) * size);
  });
  Numbers<double> jets(static_cast<std::size_t>(at.pairs.points * size));
  each_piece_of_points(at.pairs.points, workers.each, [&](std::int64_t first, std::int64_t last) {
    std::fill(jets.begin() + first * size, jets.begin() + last * size, 0.0);
    for (std::int64_t p = first; p < last; ++p) {
      for (const std::int32_t pair : at.pairs.pairs_of(p)) {
        const double* const from = of_pairs.data() + pair * size;
        double* const to = jets.data() + p * size;
        for (std::int64_t d = 0; d < size; ++d) {
          to[d] += from[d];
        }
      }
    }
  });
  return jets;
}

namespace {

/// Boxes stick out of their domain, where nothing says what u is.
void refuse_points_outside(const Problem& problem, std::span<const double> points) {
  const Boxes& boxes = problem.boxes();
  const auto axes = static_cast<std::size_t>(boxes.axes());
  std::vector<Interval> trained = boxes.domain();
  const auto is_outside = [&](std::size_t first) {
    constexpr double rounding = 1e-9;
    bool is_outside = false;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      const auto [low, high] = trained[axis];
      const double margin = rounding * (high - low);
      is_outside =
          is_outside || points[first + axis] < low - margin || points[first + axis] > high + margin;
    }
    return is_outside;
  };
  bool is_wider = false;
  for (std::size_t first = 0; first < points.size() && !trained.empty(); first += axes) {
    if (!is_outside(first)) {
      continue;
    }
    if (!is_wider) {  // by what training has seen beyond it
      for (const Term& term : problem.terms()) {
        for (std::size_t i = 0; i < term.points.size(); ++i) {
          Interval& along = trained[i % axes];
          along.low = std::min(along.low, term.points[i]);
          along.high = std::max(along.high, term.points[i]);
        }
      }
      is_wider = true;
    }
    if (is_outside(first)) {
      std::string limits;
      for (const auto [low, high] : trained) {
        limits += fmt::format("{}[{:g}, {:g}]", limits.empty() ? "" : " x ", low, high);
      }
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("point {} at ({}) lies outside of the domain {}: nothing says what u "
                              "is there, even where boxes stick out of it. Leave it out, or train "
                              "on a larger domain",
                              first / axes, fmt::join(points.subspan(first, axes), ", "), limits));
    }
  }
}

}  // namespace

std::vector<double> Trained::evaluate_jets(Mesh& mesh, const JetSet& set,
                                           std::span<const double> points,
                                           std::int64_t chunk) const {
  const Boxes& boxes = problem.boxes();
  const auto axes = static_cast<std::size_t>(boxes.axes());
  if (points.size() % axes != 0 || chunk < 1 || set.axes() != boxes.axes()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} coordinates, derivatives in {} axes and chunks of {} points given; "
                            "{} coordinates a point, as many axes and at least 1 are accepted",
                            points.size(), set.axes(), chunk, axes));
  }
  refuse_points_outside(problem, points);
  const core::IeeeArithmetic ieee;
  const RunOptions run;
  const sparse::Workers workers = on_ranks(mesh, run);
  const auto count = static_cast<std::int64_t>(points.size() / axes);
  const std::int64_t size = std::int64_t{problem.fields()} * set.size();
  std::vector<double> result(static_cast<std::size_t>(count * size));
  for (std::int64_t first = 0; first < count; first += chunk) {
    const std::int64_t part = std::min(chunk, count - first);
    const double* from = points.data() + first * boxes.axes();
    const std::vector<std::int32_t> order = local_order(from, part, boxes.axes());
    std::vector<double> sorted(from, from + (order.empty() ? 0 : part * boxes.axes()));
    if (!order.empty()) {
      find_pairs(boxes, from, part, first);  // names points by their own numbers
      reorder(order, boxes.axes(), sorted);
      from = sorted.data();
    }
    const PointsInBoxes at = points_in_boxes(boxes, set, from, part, first, workers);
    const Numbers<double> v = jets_of_networks(boxes, problem.mlp(), set, problem.fields(), at,
                                               hidden_weights, last_layer, workers);
    Numbers<double> u;
    if (problem.constraint()) {
      u.resize(v.size());
      each_piece_of_points(part, workers.each, [&](std::int64_t begin, std::int64_t end) {
        problem.constraint()({&set, problem.fields(), end - begin, from + begin * boxes.axes(),
                              v.data() + begin * size},
                             u.data() + begin * size, nullptr);
      });
    }
    const Numbers<double>& found = problem.constraint() ? u : v;
    for (std::int64_t i = 0; i < part; ++i) {
      const std::int64_t place = order.empty() ? i : order[static_cast<std::size_t>(i)];
      std::copy_n(found.data() + i * size, size, result.data() + (first + place) * size);
    }
  }
  return result;
}

std::vector<double> Trained::evaluate(Mesh& mesh, std::span<const double> points,
                                      std::int64_t chunk) const {
  return evaluate_jets(mesh, JetSet(problem.boxes().axes()), points, chunk);
}

}  // namespace shardsolve::fbpinn
