// Arrays by point: what the loops do is the same for all points of a chunk, so compilers vectorise
// them.

#include "fbpinn/layer_loops.hpp"

#include <array>
#include <cstddef>

namespace shardsolve::fbpinn::features {
namespace {

using activations::Derivatives;

template <class T>
[[gnu::always_inline]] inline void sum_units(const UnitWork<T>& work) {
  const JetSet& set = work.set;
  const int axes = set.axes();
  const int size = set.size();
  const int orders = set.order() + 1;
  Derivatives<T> f;
  Row<T> z;
  Row<T> factor;
  T powers[max_derivatives];
  for (std::int64_t unit = 0; unit < work.units; ++unit) {
    const T* const w = work.weights + unit * axes;
    const T bias = work.weights[work.units * axes + unit];
    std::fill_n(z, chunk, bias);
    for (int axis = 0; axis < axes; ++axis) {
      for (int i = 0; i < chunk; ++i)
        z[i] += w[axis] * work.xi[axis][i];
    }
    activations::derivatives(work.activation, z, orders, f);
    for (int d = 0; d < size; ++d) {
      powers[d] = 1;
      for (int axis = 0; axis < axes; ++axis) {
        for (int k = 0; k < set[d][static_cast<std::size_t>(axis)]; ++k) {
          powers[d] *= w[axis] * work.rates[axis];
        }
      }
    }
    for (std::int64_t sum = 0; sum < work.sums; ++sum) {
      const Row<T>* const c = work.c + sum * size;
      T* const result = work.result[unit * work.sums + sum];
      for (int i = 0; i < chunk; ++i)
        result[i] = 0;
      for (int d = 0; d < size;) {
        const int order = order_of(set[d]);
        for (int i = 0; i < chunk; ++i)
          factor[i] = powers[d] * c[d][i];
        for (++d; d < size && order_of(set[d]) == order; ++d) {
          for (int i = 0; i < chunk; ++i)
            factor[i] += powers[d] * c[d][i];
        }
        for (int i = 0; i < chunk; ++i)
          result[i] += factor[i] * f[order][i];
      }
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void propagate_layer(const LayerWork<T>& work) {
  const JetSet& set = work.set;
  const int size = set.size();
  const int orders = set.order() + 1;
  Derivatives<T> f;
  Row<T> rest[max_derivatives];
  Row<T> product[max_derivatives];
  for (std::int64_t unit = 0; unit < work.units; ++unit) {
    // z = W h + b
    for (int d = 0; d < size; ++d) {
      const T start = d == 0 ? work.weights[work.units * work.inputs + unit] : T{0};
      for (int i = 0; i < chunk; ++i)
        rest[d][i] = start;
    }
    for (std::int64_t input = 0; input < work.inputs; ++input) {
      const T w = work.weights[unit * work.inputs + input];
      for (int d = 0; d < size; ++d) {
        for (int i = 0; i < chunk; ++i)
          rest[d][i] += w * work.in[input * size + d][i];
      }
    }
    activations::derivatives(work.activation, rest[0], orders, f);
    // f(z) by Horner's scheme in z - z_0.
    Row<T>* const out = work.out + unit * size;
    constexpr std::array<double, 5> factorials{1, 1, 2, 6, 24};
    for (int d = 0; d < size; ++d) {
      for (int i = 0; i < chunk; ++i)
        out[d][i] = 0;
    }
    for (int m = orders - 1; m >= 0; --m) {
      if (m < orders - 1) {
        for (int d = 0; d < size; ++d) {
          for (int i = 0; i < chunk; ++i)
            product[d][i] = 0;
        }
        for (const JetSet::Term& term : set.terms()) {
          if (term.right > 0) {
            for (int i = 0; i < chunk; ++i) {
              product[term.result][i] += out[term.left][i] * rest[term.right][i];
            }
          }
        }
        for (int d = 0; d < size; ++d) {
          for (int i = 0; i < chunk; ++i)
            out[d][i] = product[d][i];
        }
      }
      const T inverse = static_cast<T>(1.0 / factorials[static_cast<std::size_t>(m)]);
      for (int i = 0; i < chunk; ++i)
        out[0][i] += inverse * f[m][i];
    }
  }
}

template <class T>
void sum_units_plain(const UnitWork<T>& work) {
  sum_units(work);
}
template <class T>
void propagate_layer_plain(const LayerWork<T>& work) {
  propagate_layer(work);
}
#if defined(__x86_64__)
template <class T>
__attribute__((target("avx2"))) void sum_units_wide(const UnitWork<T>& work) {
  sum_units(work);
}
template <class T>
__attribute__((target("avx2"))) void propagate_layer_wide(const LayerWork<T>& work) {
  propagate_layer(work);
}
bool is_wide() { return __builtin_cpu_supports("avx2"); }
#endif

}  // namespace

template <class T>
void sum_all_units(const UnitWork<T>& work) {
#if defined(__x86_64__)
  if (is_wide()) {
    sum_units_wide(work);
    return;
  }
#endif
  sum_units_plain(work);
}
template <class T>
void through_layer(const LayerWork<T>& work) {
#if defined(__x86_64__)
  if (is_wide()) {
    propagate_layer_wide(work);
    return;
  }
#endif
  propagate_layer_plain(work);
}

template void sum_all_units(const UnitWork<float>&);
template void sum_all_units(const UnitWork<double>&);
template void through_layer(const LayerWork<float>&);
template void through_layer(const LayerWork<double>&);

}  // namespace shardsolve::fbpinn::features
