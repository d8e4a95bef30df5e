/// The windows of boxes, with exact derivatives.
#pragma once

#include "fbpinn/pairs.hpp"

#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_set.hpp>

#include <cmath>
#include <cstdint>
#include <numbers>

namespace shardsolve::fbpinn {

/// ((1 + cos t) / 2)^2 = cos(t/2)^4 for t = pi (x - center) / half_width, and its derivatives by x
/// up to `order` <= 4. For |x - center| < half_width.
template <class T>
void window_along_axis(T x, T center, T half_width, int order, T* derivatives) {
  const T rate = std::numbers::pi_v<T> / (2 * half_width);
  const T c = std::cos(rate * (x - center));
  const T s = std::sin(rate * (x - center));
  const T c2 = c * c;
  const T s2 = s * s;
  derivatives[0] = c2 * c2;
  if (order >= 1) derivatives[1] = -4 * c2 * c * s * rate;
  if (order >= 2) derivatives[2] = c2 * (12 * s2 - 4 * c2) * (rate * rate);
  if (order >= 3) derivatives[3] = c * s * (40 * c2 - 24 * s2) * (rate * rate * rate);
  if (order >= 4) {
    derivatives[4] = (24 * s2 * s2 - 192 * c2 * s2 + 40 * c2 * c2) * (rate * rate * rate * rate);
  }
}

/// Derivative i of the window, from those along each axis.
template <class T>
T product_along(const JetSet& set, int i, const T* const* along) {
  T product = along[0][set[i][0]];
  for (int axis = 1; axis < set.axes(); ++axis) {
    product *= along[axis][set[i][static_cast<std::size_t>(axis)]];
  }
  return product;
}

/// The jet of a box's window at x, not yet divided by the sum.
template <class T>
void window_jet(const JetSet& set, const T* x, const T* center, const T* half_width, T* jet) {
  T values[max_axes][max_order + 1];
  const T* along[max_axes];
  for (int axis = 0; axis < set.axes(); ++axis) {
    window_along_axis(x[axis], center[axis], half_width[axis], set.order(), values[axis]);
    along[axis] = values[axis];
  }
  for (int i = 0; i < set.size(); ++i) {
    jet[i] = product_along(set, i, along);
  }
}

/// jet := the jet of 1 / f, from that of f.
template <class T>
void invert_jet(const JetSet& set, T* jet) {
  T inverse[max_derivatives];
  inverse[0] = 1 / jet[0];
  for (int i = 1; i < set.size(); ++i) {
    inverse[i] = 0;
  }
  // (f g)_i = 0 for i > 0; the term with f_0 is solved for.
  for (const JetSet::Term& term : set.terms()) {
    if (term.result > 0 && term.left > 0) {
      inverse[term.result] -= static_cast<T>(term.weight) * jet[term.left] * inverse[term.right];
    }
    if (term.result > 0 && term.left == term.result) {
      inverse[term.result] /= jet[0];
    }
  }
  for (int i = 0; i < set.size(); ++i) {
    jet[i] = inverse[i];
  }
}

/// The jets of 1 / (sum of the windows of a level) at the points from `first` on that are less than
/// `last`: levels x points x set.size() numbers in `inverses`. Windows are added by their box, so
/// bits do not depend on who does which points.
template <class T>
void inverse_window_sums(const Boxes& boxes, const JetSet& set, const Pairs& pairs, const T* points,
                         std::int64_t first, std::int64_t last, T* inverses);

}  // namespace shardsolve::fbpinn
