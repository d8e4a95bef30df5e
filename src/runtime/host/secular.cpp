#include "runtime/host/secular.hpp"

#include "runtime/secular_search.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace shardsolve::runtime::host {
namespace {

/// See SecularSearch. All sums in one thread, which adds to neighbours at a time.
struct AdderOfThread {
  template <class Real, class Term>
  static SecularSum<Real> sum(std::int64_t begin, std::int64_t end, Term term) {
    Real value[secular_sums_at_once] = {};
    Real slope[secular_sums_at_once] = {};
    const auto add = [&](std::int64_t first, std::int64_t count) {
      for (std::int64_t l = 0; l < count; ++l) {
        const SecularSum<Real> next = term(first + l);
        value[l] += next.value;
        slope[l] += next.slope;
      }
    };
    std::int64_t i = begin;
    for (; i + secular_sums_at_once <= end; i += secular_sums_at_once) {
      add(i, secular_sums_at_once);
    }
    add(i, end - i);
    for (std::int64_t half = secular_sums_at_once / 2; half > 0; half /= 2) {
      for (std::int64_t l = 0; l < half; ++l) {
        value[l] += value[l + half];
        slope[l] += slope[l + half];
      }
    }
    return {value[0], slope[0]};
  }
};

}  // namespace

template <class Real>
SecularRoot<Real> secular_root(const SecularEquation<Real>& equation, std::int64_t index) {
  return SecularSearch<Real, AdderOfThread>(equation, index).run();
}

// weights_i^2 = (x_last - d_i) prod_{j < i} (x_j - d_i) / (d_j - d_i)
//                              prod_{i <= j < last} (x_j - d_i) / (d_{j+1} - d_i).
// As roots and poles alternate, all these quotients are between 0 and 1: no product overflows, and
// that of some of them is no smaller than that of all.
template <class Real>
void make_secular_weights(const SecularEquation<Real>& equation, const SecularRoot<Real>* roots,
                          std::int64_t first, std::int64_t count, Real* weights) {
  const std::int64_t last = equation.count - 1;
  const std::int64_t end = first + count;
  const Real* const d = equation.poles;
  for (std::int64_t i = first; i < end; ++i) {
    weights[i] = from_pole(equation, roots[last], i);
  }
  std::vector<Real> products(static_cast<std::size_t>(count));
  const std::int64_t part = secular_part(last);
  for (std::int64_t begin = 0; begin < last; begin += part) {
    std::fill(products.begin(), products.end(), Real{1});
    Real* const product = products.data() - first;
    // Root by root, so that the inner loops run over neighbours and need no order.
    for (std::int64_t j = begin; j < std::min(begin + part, last); ++j) {
      const Real origin = d[roots[j].origin];
      const Real offset = roots[j].offset;
      const std::int64_t middle = std::clamp(j + 1, first, end);
      for (std::int64_t i = first; i < middle; ++i) {
        product[i] *= ((origin - d[i]) + offset) / (d[j + 1] - d[i]);
      }
      for (std::int64_t i = middle; i < end; ++i) {
        product[i] *= ((origin - d[i]) + offset) / (d[j] - d[i]);
      }
    }
    for (std::int64_t i = first; i < end; ++i) {
      weights[i] *= product[i];
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
