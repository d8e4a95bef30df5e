#include "fbpinn/points_between.hpp"

#include "fbpinn/lattice.hpp"
#include "fbpinn/near_points.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>

namespace shardsolve::fbpinn {
namespace between {

/// Of the segment from one point to another the part inside of a box, from 0 to 1.
struct Part {
  double begin = 0.0;
  double end = 1.0;
};

class Segments {
 public:
  Segments(const Boxes& boxes, const Pairs& pairs, const TermPoints& term)
      : boxes_(boxes), pairs_(pairs), term_(term) {}

  /// Whether each level has a box that both points lie in: then windows change little between.
  bool share_boxes(std::int64_t p, std::int64_t q) const {
    for (int level = 0; level < boxes_.levels(); ++level) {
      if (!share_box(p, q, level)) {
        return false;
      }
    }
    return true;
  }

  /// The middle of the segment; where no box of a level has both points, the middle of the part in
  /// which one's box takes over from the other's. None if that is no point well inside of boxes.
  std::optional<std::array<double, max_axes>> point(std::int64_t p, std::int64_t q) const {
    double place = 0.5;
    double least = std::numeric_limits<double>::infinity();
    for (int level = 0; level < boxes_.levels(); ++level) {
      if (!share_box(p, q, level)) {
        narrowest_strip(p, q, level, place, least);
      }
    }
    std::array<double, max_axes> x{};
    for (int axis = 0; axis < boxes_.axes(); ++axis) {
      const double from = at(p)[axis];
      x[static_cast<std::size_t>(axis)] = from + place * (at(q)[axis] - from);
    }
    for (int level = 0; level < boxes_.levels(); ++level) {
      if (!is_covered(x, p, q, level)) {
        return std::nullopt;
      }
    }
    return x;
  }

 private:
  const double* at(std::int64_t p) const {
    return term_.points + (term_.first + p) * boxes_.axes();
  }
  /// Calls act(box) for the boxes of a level around a point of the term.
  template <class Act>
  void each_box(std::int64_t p, int level, const Act& act) const {
    for (const std::int32_t pair : pairs_.pairs_of(term_.first + p)) {
      const std::int64_t box = pairs_.box[static_cast<std::size_t>(pair)];
      if (boxes_.level(box) == level) {
        act(box);
      }
    }
  }
  bool share_box(std::int64_t p, std::int64_t q, int level) const {
    const auto of_p = pairs_.pairs_of(term_.first + p);
    const auto of_q = pairs_.pairs_of(term_.first + q);
    // Both are ascending by box.
    auto at = of_q.begin();
    for (const std::int32_t pair : of_p) {
      const std::int32_t box = box_of(pair);
      while (at != of_q.end() && box_of(*at) < box) {
        ++at;
      }
      if (at != of_q.end() && box_of(*at) == box && boxes_.level(box) == level) {
        return true;
      }
    }
    return false;
  }
  std::int32_t box_of(std::int32_t pair) const {
    return pairs_.box[static_cast<std::size_t>(pair)];
  }
  Part part_in(std::int64_t box, std::int64_t p, std::int64_t q) const {
    Part part;
    for (int axis = 0; axis < boxes_.axes(); ++axis) {
      const double from = at(p)[axis];
      const double step = at(q)[axis] - from;
      const double low = boxes_.center(box)[axis] - boxes_.half_width(box)[axis] - from;
      const double high = boxes_.center(box)[axis] + boxes_.half_width(box)[axis] - from;
      if (step != 0.0) {
        part.begin = std::max(part.begin, std::min(low / step, high / step));
        part.end = std::min(part.end, std::max(low / step, high / step));
      }
    }
    return part;
  }
  void narrowest_strip(std::int64_t p, std::int64_t q, int level, double& place,
                       double& least) const {
    each_box(p, level, [&](std::int64_t of_p) {
      each_box(q, level, [&](std::int64_t of_q) {
        const double begin = part_in(of_q, p, q).begin;
        const double end = part_in(of_p, p, q).end;
        if (end > begin && end - begin < least) {
          least = end - begin;
          place = begin + (end - begin) / 2;
        }
      });
    });
  }
  bool is_covered(const std::array<double, max_axes>& x, std::int64_t p, std::int64_t q,
                  int level) const {
    constexpr double margin = 1e-3;
    bool is_covered = false;
    const auto look = [&](std::int64_t box) {
      bool is_inside = true;
      for (int axis = 0; axis < boxes_.axes(); ++axis) {
        is_inside =
            is_inside && std::abs(x[static_cast<std::size_t>(axis)] - boxes_.center(box)[axis]) <
                             (1.0 - margin) * boxes_.half_width(box)[axis];
      }
      is_covered = is_covered || is_inside;
    };
    each_box(p, level, look);
    each_box(q, level, look);
    return is_covered;
  }

  const Boxes& boxes_;
  const Pairs& pairs_;
  const TermPoints& term_;
};

/// Number k of `most` of the numbers below count, evenly and in step with no lattice.
std::int64_t one_of_some(std::int64_t count, std::int64_t most, std::int64_t k) {
  if (count <= most) {
    return k;
  }
  constexpr double golden = 0.6180339887498949;
  const double turn = golden * static_cast<double>(k);
  const double place = static_cast<double>(k) + (turn - std::floor(turn));
  return std::min(count - 1, static_cast<std::int64_t>(
                                 place * (static_cast<double>(count) / static_cast<double>(most))));
}

/// What act(i, found) appends for `most` of the numbers i below count, in the order of these.
template <class T, class Act>
std::vector<T> found_at_some(std::int64_t count, std::int64_t most, const sparse::ForEach& each,
                             const Act& act) {
  constexpr std::int64_t at_a_time = 256;
  const std::int64_t chosen = std::min(count, most);
  std::vector<std::vector<T>> found(static_cast<std::size_t>((chosen + at_a_time - 1) / at_a_time));
  each(static_cast<std::int64_t>(found.size()), [&](std::int64_t piece) {
    std::vector<T>& mine = found[static_cast<std::size_t>(piece)];
    for (std::int64_t k = piece * at_a_time; k < std::min(chosen, (piece + 1) * at_a_time); ++k) {
      act(one_of_some(count, most, k), mine);
    }
  });
  std::vector<T> all;
  for (const std::vector<T>& of_piece : found) {
    all.insert(all.end(), of_piece.begin(), of_piece.end());
  }
  return all;
}

/// Two points of the term.
using Neighbours = std::array<std::int64_t, 2>;

/// Neighbours p and q along an axis without a box in common. A strip is as long as the boxes are
/// wide, so that some of many points find it.
std::vector<Neighbours> strips_of(const Lattice& lattice, const Segments& segments,
                                  std::int64_t count, const sparse::ForEach& each) {
  constexpr std::int64_t looked_at = 65536;
  return found_at_some<Neighbours>(count, looked_at, each,
                                   [&](std::int64_t p, std::vector<Neighbours>& strips) {
                                     const Lattice::Place place = lattice.at(p);
                                     for (std::size_t k = 0; k < lattice.free_axes().size(); ++k) {
                                       const std::int64_t q = lattice.next(place, 1U << k);
                                       if (q >= 0 && !segments.share_boxes(p, q)) {
                                         strips.push_back({p, q});
                                       }
                                     }
                                   });
}

}  // namespace between

PointsBetween points_between(const Boxes& boxes, const Pairs& pairs, const TermPoints& term,
                             std::int64_t most, const sparse::ForEach& each) {
  using namespace between;
  PointsBetween result;
  const int axes = boxes.axes();
  const Segments segments(boxes, pairs, term);
  const auto take = [&](std::int64_t p, std::int64_t q, std::vector<double>& found) {
    const auto x = q < 0 ? std::nullopt : segments.point(p, q);
    if (x) {
      found.insert(found.end(), x->begin(), x->begin() + axes);
    }
  };
  const double* const points = term.points + term.first * axes;
  const Lattice lattice(points, term.count, axes, each);
  if (lattice.is_one()) {
    result.points = found_at_some<double>(
        term.count, most, each,
        [&](std::int64_t p, std::vector<double>& found) { take(p, lattice.far_corner(p), found); });
    const std::vector<Neighbours> strips = strips_of(lattice, segments, term.count, each);
    const std::vector<double> in_strips =
        found_at_some<double>(static_cast<std::int64_t>(strips.size()), most, each,
                              [&](std::int64_t i, std::vector<double>& found) {
                                const auto [p, q] = strips[static_cast<std::size_t>(i)];
                                take(p, q, found);
                              });
    result.in_strips = static_cast<std::int64_t>(in_strips.size()) / axes;
    result.points.insert(result.points.end(), in_strips.begin(), in_strips.end());
    return result;
  }
  const NearPoints near(points, term.count, axes);
  if (near.fill_space()) {
    result.points = found_at_some<double>(
        term.count, most, each,
        [&](std::int64_t p, std::vector<double>& found) { take(p, near.neighbour(p), found); });
  }
  return result;
}

bool fill_space(const TermPoints& term, int axes, const sparse::ForEach& each) {
  const double* const points = term.points + term.first * axes;
  const Lattice lattice(points, term.count, axes, each);
  if (!lattice.is_one()) {
    return NearPoints(points, term.count, axes).fill_space();
  }
  // Of two coordinates along each axis all points are on the boundary.
  std::int64_t max_of_boundary = 1;
  for (int axis = 0; axis < axes; ++axis) {
    max_of_boundary *= 2;
  }
  if (static_cast<int>(lattice.free_axes().size()) < axes || term.count <= max_of_boundary) {
    return false;
  }
  for (std::int64_t p = 0; p < term.count; ++p) {
    if (lattice.next(lattice.at(p), (1U << static_cast<unsigned>(axes)) - 1U) >= 0) {
      return true;
    }
  }
  return false;
}

}  // namespace shardsolve::fbpinn
