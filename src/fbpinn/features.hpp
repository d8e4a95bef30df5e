/// Jets of window times network, contracted with what the residual asks for.
#pragma once

#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_set.hpp>

#include <cstdint>

namespace shardsolve::fbpinn {

/// What one box's features are made from. Plain arrays, so that callers of any kind can give them.
template <class T>
struct BoxFeatures {
  const double* center = nullptr;      ///< axes numbers
  const double* half_width = nullptr;  ///< likewise
  const T* weights = nullptr;          ///< of the hidden layers, Mlp::weights() numbers
  std::int64_t number = 0;             ///< of the box, for units of the caller's own
};

/// Some points of one box.
template <class T>
struct PointsInBox {
  const T* points = nullptr;            ///< axes numbers for each point of the problem
  const T* inverse_sums = nullptr;      ///< set.size() numbers for each: inverse_window_sums()
  const std::int32_t* which = nullptr;  ///< the points that lie in the box
  std::int64_t count = 0;
};

/// Rows of the matrix that is linear in the last layer's weights:
///   row (e, i), column (f, k):  sum_d a[p][e][f][d] * d-th derivative of (window * unit k) at p
/// for the i-th point p of `at`. `a`: equations x fields x set.size() numbers for each point from
/// `first_point` on. `rows`: equations * at.count rows, equation after equation, column-major with
/// `stride` from column to column; fields * mlp.features() columns, the constant last in each
/// field.
///
/// With a unit matrix for `a` (equations = set.size(), one field) these are the jets themselves.
/// About 20 + 2 (axes + set.size()) flops a point and unit beside the activation.
template <class T>
void feature_rows(const JetSet& set, const Mlp& mlp, const BoxFeatures<T>& box,
                  const PointsInBox<T>& at, const T* a, std::int64_t first_point, int equations,
                  int fields, T* rows, std::int64_t stride);

/// The jets of window * (sum over k of last_layer[f][k] * unit k) at each point of `at`: fields x
/// set.size() numbers a point in `jets`. last_layer: fields x mlp.features() numbers.
template <class T>
void solution_jets(const JetSet& set, const Mlp& mlp, const BoxFeatures<T>& box,
                   const PointsInBox<T>& at, const T* last_layer, int fields, T* jets);

}  // namespace shardsolve::fbpinn
