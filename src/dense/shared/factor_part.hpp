/// What a rank holds of a Cholesky factor.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense {

/// The factor is L in P A P^T = L L^H.
template <Scalar T>
struct FactorPart {
  const SlabLayout& layout;
  MatrixView<const T> slab;   ///< L, and A above the diagonal in elimination order
  const RealOf<T>* diagonal;  ///< of A; layout.width(rank) values on the host
  Scaled norm;                ///< ||A||_1
};

}  // namespace shardsolve::dense
