/// Points where a training has no row, to look at its residual there.
#pragma once

#include "fbpinn/pairs.hpp"

#include <shardsolve/fbpinn_boxes.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::fbpinn {

/// Some points of one term, among those of all terms.
struct TermPoints {
  const double* points = nullptr;  ///< of all terms, axes numbers each
  std::int64_t first = 0;          ///< of the term
  std::int64_t count = 0;
};

struct PointsBetween {
  std::vector<double> points;  ///< axes numbers each
  /// The last ones: each in a strip that lies whole between two neighbours and in which boxes take
  /// over from others, so that the training has no point where their windows change.
  std::int64_t in_strips = 0;
};

/// In the middle of cells of the lattice that the points lie on (any points of one axis do), so
/// many at most, and in as many strips. Points that lie on none, but fill the space, have the
/// middle between them and a neighbour. None between points of a curve or a surface that no lattice
/// has: the middle would be beside it. The same bits everywhere. `pairs`: of all points.
PointsBetween points_between(const Boxes& boxes, const Pairs& pairs, const TermPoints& term,
                             std::int64_t most, const sparse::ForEach& each = sparse::one_by_one);

/// Whether points are everywhere in a part of space, as those of an equation are, and not on its
/// boundary alone.
bool fill_space(const TermPoints& term, int axes, const sparse::ForEach& each = sparse::one_by_one);

}  // namespace shardsolve::fbpinn
