/// The rows of the Jacobian that belong to hidden weights.
#pragma once

#include "fbpinn/features.hpp"

#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_set.hpp>

#include <cstdint>

namespace shardsolve::fbpinn {

/// As feature_rows, but the derivatives by the hidden weights of the box, in their order:
///   row (e, i), column w:  sum_{f, d} a[p][e][f][d] * d/dw of the d-th derivative of (window *
///   sum_k last_layer[f][k] unit k) at p
/// for the i-th point p of `at`. last_layer: fields x mlp.features() numbers. Reverse mode over the
/// layers, each a step on polynomials: about 6 weights set.terms().size() flops a row.
void weight_rows(const JetSet& set, const Mlp& mlp, const BoxFeatures<double>& box,
                 const PointsInBox<double>& at, const double* a, std::int64_t first_point,
                 int equations, int fields, const double* last_layer, double* rows,
                 std::int64_t stride);

}  // namespace shardsolve::fbpinn
