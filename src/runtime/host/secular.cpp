#include "runtime/host/secular.hpp"

#include "runtime/secular_search.hpp"

#include <algorithm>
#include <cmath>

namespace shardsolve::runtime::host {

template <class Real>
SecularRoot<Real> secular_root(const SecularEquation<Real>& equation, std::int64_t index) {
  return SecularSearch<Real>(equation, index).run();
}

// weights_i^2 = (x_last - d_i) prod_{j < i} (x_j - d_i) / (d_j - d_i)
//                              prod_{i <= j < last} (x_j - d_i) / (d_{j+1} - d_i).
// As roots and poles alternate, all these quotients are between 0 and 1: no product overflows, and
// none is smaller than the last one.
template <class Real>
void make_secular_weights(const SecularEquation<Real>& equation, const SecularRoot<Real>* roots,
                          std::int64_t first, std::int64_t count, Real* weights) {
  const std::int64_t last = equation.count - 1;
  const std::int64_t end = first + count;
  const Real* const d = equation.poles;
  // Root by root, so that the inner loops run over neighbours and need no order.
  for (std::int64_t i = first; i < end; ++i) {
    weights[i] = from_pole(equation, roots[last], i);
  }
  for (std::int64_t j = 0; j < last; ++j) {
    const Real origin = d[roots[j].origin];
    const Real offset = roots[j].offset;
    const std::int64_t middle = std::clamp(j + 1, first, end);
    for (std::int64_t i = first; i < middle; ++i) {
      weights[i] *= ((origin - d[i]) + offset) / (d[j + 1] - d[i]);
    }
    for (std::int64_t i = middle; i < end; ++i) {
      weights[i] *= ((origin - d[i]) + offset) / (d[j] - d[i]);
    }
  }
  for (std::int64_t i = first; i < end; ++i) {
    weights[i] = std::copysign(std::sqrt(std::abs(weights[i])), equation.weights[i]);
  }
}

template <class Real>
void make_secular_vector(const SecularEquation<Real>& equation, const SecularRoot<Real>& root,
                         const std::int64_t* rows, Real* vector) {
  Real norm = 0;
  for (std::int64_t i = 0; i < equation.count; ++i) {
    const std::int64_t pole = rows[i];
    vector[i] = equation.weights[pole] / from_pole(equation, root, pole);
    norm += vector[i] * vector[i];
  }
  norm = std::sqrt(norm);
  for (std::int64_t i = 0; i < equation.count; ++i) {
    vector[i] /= norm;
  }
}

#define SHARDSOLVE_INSTANTIATE(Real)                                                         \
  template SecularRoot<Real> secular_root(const SecularEquation<Real>&, std::int64_t);       \
  template void make_secular_weights(const SecularEquation<Real>&, const SecularRoot<Real>*, \
                                     std::int64_t, std::int64_t, Real*);                     \
  template void make_secular_vector(const SecularEquation<Real>&, const SecularRoot<Real>&,  \
                                    const std::int64_t*, Real*);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::host
