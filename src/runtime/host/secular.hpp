/// Roots and eigenvectors of a secular equation, one at a time.
#pragma once

#include "runtime/secular_equation.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime::host {

/// Root `index`; not found only if a pole or weight is not a number. Takes at most 160 sums.
template <class Real>
SecularRoot<Real> secular_root(const SecularEquation<Real>& equation, std::int64_t index);

/// See TridiagonalKernels::secular_weights: those of `count` poles from `first` on.
template <class Real>
void make_secular_weights(const SecularEquation<Real>& equation, const SecularRoot<Real>* roots,
                          std::int64_t first, std::int64_t count, Real* weights);

/// The eigenvector that belongs to one root; see TridiagonalKernels::secular_vectors.
template <class Real>
void make_secular_vector(const SecularEquation<Real>& equation, const SecularRoot<Real>& root,
                         const std::int64_t* rows, Real* vector);

}  // namespace shardsolve::runtime::host
