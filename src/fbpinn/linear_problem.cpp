#include "fbpinn/linear_problem.hpp"

#include "fbpinn/features.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <span>

namespace shardsolve::fbpinn {
namespace linear_problem {

std::vector<double> all_points(const Problem& problem) {
  std::vector<double> points;
  for (const Term& term : problem.terms()) {
    points.insert(points.end(), term.points.begin(), term.points.end());
  }
  if (points.empty()) {
    throw Error(ErrorKind::invalid_argument,
                "a problem without terms was given: add the equation at some points, and what else "
                "u is to fulfil");
  }
  return points;
}

/// Of a segment, the pairs of one box: numbers within the box.
struct Range {
  std::int64_t begin;
  std::int64_t count;
};
Range pairs_of(const Segment& segment, std::span<const std::int32_t> points_of_box) {
  const auto begin = std::lower_bound(points_of_box.begin(), points_of_box.end(),
                                      static_cast<std::int32_t>(segment.first_point));
  const auto end =
      std::lower_bound(begin, points_of_box.end(), segment.first_point + segment.points,
                       [](std::int32_t a, std::int64_t b) { return a < b; });
  return {begin - points_of_box.begin(), end - begin};
}

void require_points(const Boxes& boxes, const Pairs& pairs) {
  for (std::int64_t box = 0; box < boxes.count(); ++box) {
    if (pairs.points_of(box).empty()) {
      throw Error(
          ErrorKind::invalid_argument,
          fmt::format(
              "box {} with its center at ({}) has no point in it, so that nothing says "
              "what its network is to be: give points there or leave the box out",
              box,
              fmt::join(std::span(boxes.center(box), static_cast<std::size_t>(boxes.axes())),
                        ", ")));
    }
  }
}

RowLists make_row_lists(const Boxes& boxes, const std::vector<Segment>& segments, std::int64_t rows,
                        const Pairs& pairs) {
  RowLists lists;
  lists.rows = rows;
  lists.begin.push_back(0);
  for (std::int64_t box = 0; box < boxes.count(); ++box) {
    const auto points = pairs.points_of(box);
    for (const Segment& segment : segments) {
      const Range range = pairs_of(segment, points);
      for (int e = 0; e < segment.equations(); ++e) {
        const std::int64_t first = segment.first_row + e * segment.points - segment.first_point;
        for (std::int64_t i = range.begin; i < range.begin + range.count; ++i) {
          lists.row.push_back(
              static_cast<std::int32_t>(first + points[static_cast<std::size_t>(i)]));
        }
      }
    }
    lists.begin.push_back(lists.slots());
  }
  lists.sort_by_row();
  return lists;
}

[[noreturn]] void refuse_nonfinite(const Problem& problem, const TrainingGeometry& geometry,
                                   std::int64_t point) {
  const auto behind =
      std::upper_bound(geometry.segments.begin(), geometry.segments.end(), point,
                       [](std::int64_t p, const Segment& s) { return p < s.first_point; });
  const Segment& segment = *(behind - 1);
  const int axes = problem.boxes().axes();
  const auto pair = geometry.at.pairs.pairs_of(point).front();
  throw Error(
      ErrorKind::invalid_argument,
      fmt::format("the residual of term '{}' or a derivative of it is not finite at its point {} "
                  "at ({}), in box {}: look for a division by 0 or a root there, or leave the "
                  "point out",
                  segment.term->name, point - segment.first_point,
                  fmt::join(std::span(geometry.points.data() + point * axes,
                                      static_cast<std::size_t>(axes)),
                            ", "),
                  geometry.at.pairs.box[static_cast<std::size_t>(pair)]));
}

/// a_v[left] = sum over the terms of a_u[result] times the jet of du/dv [right]: in place.
void differentiate_constraint(const JetSet& set, const double* slopes, double* a) {
  double result[most_derivatives] = {};
  for (const JetSet::Term& term : set.terms()) {
    result[term.left] += term.weight * a[term.result] * slopes[term.right];
  }
  std::copy_n(result, set.size(), a);
}

/// The points [first, last) of a segment.
class PointwisePiece {
 public:
  PointwisePiece(const Problem& problem, const TrainingGeometry& geometry, const Segment& segment,
                 std::int64_t first, std::int64_t last)
      : problem_(problem),
        geometry_(geometry),
        segment_(segment),
        first_(first),
        count_(last - first),
        jet_numbers_(std::int64_t{problem.fields()} * geometry.set.size()) {}

  /// Returns the first point at which something is not finite; -1 if all is.
  std::int64_t compute(const std::vector<double>& v, bool derivatives, PointwiseRows& rows) const {
    const int equations = segment_.equations();
    const std::int64_t first_point = segment_.first_point + first_;
    PointBatch batch{&geometry_.set, problem_.fields(), count_,
                     geometry_.points.data() + first_point * geometry_.set.axes(),
                     v.data() + first_point * jet_numbers_};
    std::vector<double> u;
    std::vector<double> slopes;
    if (problem_.constraint()) {
      u.resize(static_cast<std::size_t>(count_ * jet_numbers_));
      slopes.resize(derivatives ? u.size() : 0);
      problem_.constraint()(batch, u.data(), derivatives ? slopes.data() : nullptr);
      batch.jets = u.data();
    }
    std::vector<double> r(static_cast<std::size_t>(count_ * equations));
    double* const a = derivatives ? rows.derivatives.data() + segment_.first_factor +
                                        first_ * equations * jet_numbers_
                                  : nullptr;
    if (derivatives) {
      segment_.term->residual.linearise(batch, r.data(), a);
    } else {
      segment_.term->residual.evaluate(batch, r.data());
    }
    std::int64_t nonfinite = -1;
    for (std::int64_t p = 0; p < count_; ++p) {
      for (int e = 0; e < equations; ++e) {
        const std::int64_t local = p * equations + e;
        const double target =
            segment_.term->targets.empty()
                ? 0.0
                : segment_.term->targets[static_cast<std::size_t>(first_ * equations + local)];
        const double value = segment_.scale * (r[static_cast<std::size_t>(local)] - target);
        rows.residual[static_cast<std::size_t>(segment_.first_row + e * segment_.points + first_ +
                                               p)] = value;
        bool is_finite = std::isfinite(value);
        if (derivatives) {
          is_finite = is_finite && finish_derivatives(p, a + local * jet_numbers_, slopes);
        }
        if (!is_finite && nonfinite < 0) {
          nonfinite = first_point + p;
        }
      }
    }
    return nonfinite;
  }

 private:
  /// By the jets of v, and scaled. Whether all are finite.
  bool finish_derivatives(std::int64_t p, double* a, const std::vector<double>& slopes) const {
    const int size = geometry_.set.size();
    for (int f = 0; f < problem_.fields() && !slopes.empty(); ++f) {
      differentiate_constraint(geometry_.set, slopes.data() + (p * problem_.fields() + f) * size,
                               a + f * size);
    }
    bool is_finite = true;
    for (std::int64_t d = 0; d < jet_numbers_; ++d) {
      a[d] *= segment_.scale;
      is_finite = is_finite && std::isfinite(a[d]);
    }
    return is_finite;
  }

  const Problem& problem_;
  const TrainingGeometry& geometry_;
  const Segment& segment_;
  std::int64_t first_;
  std::int64_t count_;
  std::int64_t jet_numbers_;
};

}  // namespace linear_problem

TrainingGeometry::TrainingGeometry(const Problem& problem, const sparse::ForEach& each)
    : set(problem.jet_set()), points(linear_problem::all_points(problem)) {
  const int axes = problem.boxes().axes();
  std::int64_t first_point = 0;
  for (const Term& term : problem.terms()) {
    const auto count = static_cast<std::int64_t>(term.points.size()) / axes;
    const int equations = term.residual.equations;
    segments.push_back({&term, first_point, count, rows, factors,
                        term.weight / std::sqrt(static_cast<double>(count))});
    first_point += count;
    rows += count * equations;
    factors += count * equations * problem.fields() * set.size();
  }
  at = points_in_boxes(problem.boxes(), set, points.data(), first_point, 0, each);
  linear_problem::require_points(problem.boxes(), at.pairs);
  lists = linear_problem::make_row_lists(problem.boxes(), segments, rows, at.pairs);
}

double PointwiseRows::loss() const {
  double sum = 0.0;
  for (const double r : residual) {
    sum += r * r;
  }
  return sum;
}

PointwiseRows pointwise_rows(const Problem& problem, const TrainingGeometry& geometry,
                             const std::vector<double>& v, bool derivatives, bool accept_nonfinite,
                             const sparse::ForEach& each) {
  PointwiseRows rows;
  rows.residual.resize(static_cast<std::size_t>(geometry.rows));
  rows.derivatives.resize(derivatives ? static_cast<std::size_t>(geometry.factors) : 0);
  for (const Segment& segment : geometry.segments) {
    std::vector<std::int64_t> nonfinite(
        static_cast<std::size_t>(segment.points / points_at_a_time) + 1, -1);
    each_piece_of_points(segment.points, each, [&](std::int64_t first, std::int64_t last) {
      nonfinite[static_cast<std::size_t>(first / points_at_a_time)] =
          linear_problem::PointwisePiece(problem, geometry, segment, first, last)
              .compute(v, derivatives, rows);
    });
    const auto found = std::find_if(nonfinite.begin(), nonfinite.end(),
                                    [](std::int64_t point) { return point >= 0; });
    if (found != nonfinite.end() && !accept_nonfinite) {
      linear_problem::refuse_nonfinite(problem, geometry, *found);
    }
  }
  return rows;
}

void make_blocks(const Problem& problem, const TrainingGeometry& geometry,
                 const std::vector<double>& hidden_weights, const std::vector<double>& derivatives,
                 double rank_tolerance, BlockSystem& system, const sparse::ForEach& each) {
  const Boxes& boxes = problem.boxes();
  const Mlp& mlp = problem.mlp();
  const std::int64_t columns = problem.fields() * mlp.features();
  const std::int64_t of_level = geometry.at.pairs.points * geometry.set.size();
  each(boxes.count(), [&](std::int64_t box) {
    const BoxFeatures<double> features{boxes.center(box), boxes.half_width(box),
                                       hidden_weights.data() + box * mlp.weights(boxes.axes())};
    const auto points = geometry.at.pairs.points_of(box);
    const auto rows = static_cast<std::int64_t>(geometry.lists.rows_of(box).size());
    std::vector<double> memory(static_cast<std::size_t>(rows * columns));
    std::int64_t row = 0;
    for (const Segment& segment : geometry.segments) {
      const linear_problem::Range range = linear_problem::pairs_of(segment, points);
      const PointsInBox<double> in_box{
          geometry.points.data(), geometry.at.inverse_sums.data() + boxes.level(box) * of_level,
          points.data() + range.begin, range.count};
      feature_rows(geometry.set, mlp, features, in_box, derivatives.data() + segment.first_factor,
                   segment.first_point, segment.equations(), problem.fields(), memory.data() + row,
                   rows);
      row += segment.equations() * range.count;
    }
    system.block(box) =
        orthonormalised(MatrixView<double>(memory.data(), rows, columns), rank_tolerance);
  });
}

}  // namespace shardsolve::fbpinn
