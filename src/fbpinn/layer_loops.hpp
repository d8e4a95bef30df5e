/// The inner loops over the units of a layer, for a chunk of points at a time.
#pragma once

#include "fbpinn/activations.hpp"

#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_set.hpp>

#include <cstdint>

namespace shardsolve::fbpinn::features {

using activations::chunk;

/// The values at one chunk of points of something that has many.
template <class T>
using Row = T[chunk];

/// What a unit of a network with one hidden layer needs: sums of f^(m)(z) times polynomials in its
/// weights.
template <class T>
struct UnitWork {
  const JetSet& set;
  Activation activation;
  const T* weights;  ///< of the layer: units x axes, then units
  std::int64_t units;
  const T* rates;     ///< 1 / half width along each axis
  const Row<T>* xi;   ///< axes: (x - center) / half width
  const Row<T>* c;    ///< sums x set.size(): what each derivative of a unit is multiplied by
  std::int64_t sums;  ///< rows of the result for each unit
  Row<T>* result;     ///< units x sums
};

/// By the widest instructions that give the same bits.
template <class T>
void sum_all_units(const UnitWork<T>& work);

/// Jets through further layers: Taylor coefficients of each unit, set.size() rows each.
template <class T>
struct LayerWork {
  const JetSet& set;
  Activation activation;
  const T* weights;  ///< units x inputs, then units
  std::int64_t inputs;
  std::int64_t units;
  const Row<T>* in;  ///< inputs x set.size()
  Row<T>* out;       ///< units x set.size()
};

template <class T>
void through_layer(const LayerWork<T>& work);

}  // namespace shardsolve::fbpinn::features
