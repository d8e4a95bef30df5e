// The windows and the layers are done for a chunk of points at a time, arrays by point.

#include "fbpinn/features.hpp"

#include "fbpinn/layer_loops.hpp"
#include "fbpinn/windows.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardsolve::fbpinn {
namespace features {

/// A chunk of points of one box: their places in it and the jets of its window.
template <class T>
class Chunk {
 public:
  Chunk(const JetSet& set, const Mlp& mlp, const BoxFeatures<T>& box, const PointsInBox<T>& at)
      : set_(set), mlp_(mlp), box_(box), at_(at), psi_(rows(set.size())), xi_(rows(set.axes())) {
    for (int axis = 0; axis < set.axes(); ++axis) {
      center_[axis] = static_cast<T>(box.center[axis]);
      half_width_[axis] = static_cast<T>(box.half_width[axis]);
      rates_[axis] = T{1} / half_width_[axis];
    }
    if (mlp.own != nullptr) {
      ask_own_units();
    }
  }

  /// Points first, first + 1, ... of the box; behind the last one it is repeated.
  void begin(std::int64_t first) {
    first_ = first;
    used_ = static_cast<int>(std::min<std::int64_t>(chunk, at_.count - first));
    const int size = set_.size();
    T raw[max_derivatives];
    for (int i = 0; i < chunk; ++i) {
      const std::int64_t p = point(i);
      const T* const x = at_.points + p * set_.axes();
      for (int axis = 0; axis < set_.axes(); ++axis) {
        xi_[static_cast<std::size_t>(axis * chunk + i)] = (x[axis] - center_[axis]) * rates_[axis];
      }
      window_jet(set_, x, center_, half_width_, raw);
      const T* const inverse = at_.inverse_sums + p * size;
      T jet[max_derivatives] = {};
      for (const JetSet::Term& term : set_.terms()) {
        jet[term.result] += static_cast<T>(term.weight) * raw[term.left] * inverse[term.right];
      }
      for (int d = 0; d < size; ++d) {
        psi_[static_cast<std::size_t>(d * chunk + i)] = jet[d];
      }
    }
  }

  int used() const { return used_; }
  std::int64_t point(int i) const { return at_.which[first_ + std::min(i, used_ - 1)]; }
  const T* psi(int d) const { return psi_.data() + d * chunk; }
  const T& psi(int d, int i) const { return psi_[static_cast<std::size_t>(d * chunk + i)]; }

  /// Jets (Taylor coefficients) of the units of the last hidden layer: units x set.size() rows.
  const Row<T>* propagate() {
    const std::size_t size = static_cast<std::size_t>(set_.size());
    in_.assign(static_cast<std::size_t>(set_.axes()) * size * chunk, T{0});
    for (int axis = 0; axis < set_.axes(); ++axis) {
      T* const jet = in_.data() + static_cast<std::size_t>(axis) * size * chunk;
      std::copy_n(xi_.data() + axis * chunk, chunk, jet);
      MultiIndex index{};
      index[static_cast<std::size_t>(axis)] = 1;
      if (const int d = set_.find(index); d >= 0) {
        std::fill_n(jet + d * chunk, chunk, rates_[axis]);
      }
    }
    const T* weights = box_.weights;
    std::int64_t inputs = set_.axes();
    for (const std::int64_t units : mlp_.hidden) {
      out_.resize(static_cast<std::size_t>(units) * size * chunk);
      through_layer(LayerWork<T>{set_, mlp_.activation, weights, inputs, units,
                                 reinterpret_cast<const Row<T>*>(in_.data()),
                                 reinterpret_cast<Row<T>*>(out_.data())});
      weights += units * (inputs + 1);
      inputs = units;
      in_.swap(out_);
    }
    return reinterpret_cast<const Row<T>*>(in_.data());
  }

  /// units x sums rows: of each unit, sum over d of c[sum][d] * its d-th derivative.
  const Row<T>* unit_sums(const std::vector<T>& c, std::int64_t sums) {
    const std::int64_t units = mlp_.hidden.back();
    sums_.resize(static_cast<std::size_t>(units * sums * chunk));
    auto* const result = reinterpret_cast<Row<T>*>(sums_.data());
    const auto* const factors = reinterpret_cast<const Row<T>*>(c.data());
    if (mlp_.own != nullptr) {
      sum_own_units(factors, sums, result);
      return result;
    }
    if (mlp_.hidden.size() == 1) {
      sum_all_units(UnitWork<T>{set_, mlp_.activation, box_.weights, units, rates_,
                                reinterpret_cast<const Row<T>*>(xi_.data()), factors, sums,
                                result});
      return result;
    }
    const Row<T>* const jets = propagate();
    const int size = set_.size();
    for (std::int64_t unit = 0; unit < units; ++unit) {
      for (std::int64_t sum = 0; sum < sums; ++sum) {
        T* const row = result[unit * sums + sum];
        std::fill_n(row, chunk, T{0});
        for (int d = 0; d < size; ++d) {
          const T factorial = static_cast<T>(set_.factorial(d));
          const T* const jet = jets[unit * size + d];
          const T* const factor = factors[sum * size + d];
          for (int i = 0; i < chunk; ++i)
            row[i] += factorial * jet[i] * factor[i];
        }
      }
    }
    return result;
  }

 private:
  /// The jets of the caller's units at all points, in one call.
  void ask_own_units() {
    const int axes = set_.axes();
    std::vector<double> points;
    for (std::int64_t i = 0; i < at_.count; ++i) {
      const T* const x = at_.points + at_.which[i] * axes;
      points.insert(points.end(), x, x + axes);
    }
    own_jets_.resize(static_cast<std::size_t>(at_.count * mlp_.own->count * set_.size()));
    const std::vector<double> parameters(box_.weights, box_.weights + mlp_.own->parameters);
    mlp_.own->jets(set_, box_.number, parameters.data(), at_.count, points.data(),
                   own_jets_.data());
  }

  void sum_own_units(const Row<T>* factors, std::int64_t sums, Row<T>* result) const {
    const int size = set_.size();
    for (std::int64_t unit = 0; unit < mlp_.own->count; ++unit) {
      for (std::int64_t sum = 0; sum < sums; ++sum) {
        for (int i = 0; i < chunk; ++i) {
          const std::int64_t point = first_ + std::min(i, used_ - 1);
          const double* const jet = own_jets_.data() + (point * mlp_.own->count + unit) * size;
          T total = 0;
          for (int d = 0; d < size; ++d) {
            total += factors[sum * size + d][i] * static_cast<T>(jet[d]);
          }
          result[unit * sums + sum][i] = total;
        }
      }
    }
  }

  static std::vector<T> rows(int count) {
    return std::vector<T>(static_cast<std::size_t>(count) * chunk);
  }

  const JetSet& set_;
  const Mlp& mlp_;
  const BoxFeatures<T>& box_;
  const PointsInBox<T>& at_;
  T center_[max_axes];
  T half_width_[max_axes];
  T rates_[max_axes];
  std::int64_t first_ = 0;
  int used_ = 0;
  std::vector<T> psi_;
  std::vector<T> xi_;
  std::vector<T> in_;
  std::vector<T> out_;
  std::vector<T> sums_;
  std::vector<double> own_jets_;  // points x units x set.size()
};

}  // namespace features

template <class T>
void feature_rows(const JetSet& set, const Mlp& mlp, const BoxFeatures<T>& box,
                  const PointsInBox<T>& at, const T* a, std::int64_t first_point, int equations,
                  int fields, T* rows, std::int64_t stride) {
  using features::chunk;
  const int size = set.size();
  const std::int64_t sums = std::int64_t{equations} * fields;
  features::Chunk<T> points(set, mlp, box, at);
  std::vector<T> c(static_cast<std::size_t>(sums * size * chunk));
  for (std::int64_t first = 0; first < at.count; first += chunk) {
    points.begin(first);
    // c_left = sum over the terms of a_result psi_right: the adjoint of Leibniz's rule.
    std::fill(c.begin(), c.end(), T{0});
    for (std::int64_t sum = 0; sum < sums; ++sum) {
      T* const of_sum = c.data() + sum * size * chunk;
      for (int i = 0; i < chunk; ++i) {
        const T* const factors = a + ((points.point(i) - first_point) * sums + sum) * size;
        for (const JetSet::Term& term : set.terms()) {
          of_sum[term.left * chunk + i] +=
              static_cast<T>(term.weight) * factors[term.result] * points.psi(term.right, i);
        }
      }
    }
    const auto* const result = points.unit_sums(c, sums);
    const std::int64_t units = mlp.hidden.back();
    for (int e = 0; e < equations; ++e) {
      for (int f = 0; f < fields; ++f) {
        const std::int64_t sum = std::int64_t{e} * fields + f;
        T* const block = rows + e * at.count + first + f * (units + 1) * stride;
        for (std::int64_t unit = 0; unit < units; ++unit) {
          std::copy_n(result[unit * sums + sum], points.used(), block + unit * stride);
        }
        std::copy_n(c.data() + sum * size * chunk, points.used(), block + units * stride);
      }
    }
  }
}

template <class T>
void solution_jets(const JetSet& set, const Mlp& mlp, const BoxFeatures<T>& box,
                   const PointsInBox<T>& at, const T* last_layer, int fields, T* jets) {
  using features::chunk;
  const int size = set.size();
  const std::int64_t units = mlp.hidden.back();
  features::Chunk<T> points(set, mlp, box, at);
  // Every derivative of every unit: c is a unit matrix.
  std::vector<T> c(static_cast<std::size_t>(size * size * chunk), T{0});
  for (int d = 0; d < size; ++d) {
    std::fill_n(c.data() + (d * size + d) * chunk, chunk, T{1});
  }
  std::vector<T> network(static_cast<std::size_t>(size * chunk));
  for (std::int64_t first = 0; first < at.count; first += chunk) {
    points.begin(first);
    const auto* const unit_jets = points.unit_sums(c, size);
    for (int f = 0; f < fields; ++f) {
      const T* const layer = last_layer + f * (units + 1);
      std::fill(network.begin(), network.end(), T{0});
      std::fill_n(network.data(), chunk, layer[units]);
      for (std::int64_t unit = 0; unit < units; ++unit) {
        for (int d = 0; d < size; ++d) {
          T* const sum = network.data() + d * chunk;
          const T* const jet = unit_jets[unit * size + d];
          for (int i = 0; i < chunk; ++i)
            sum[i] += layer[unit] * jet[i];
        }
      }
      for (int i = 0; i < points.used(); ++i) {
        T* const jet = jets + ((first + i) * fields + f) * size;
        std::fill_n(jet, size, T{0});
        for (const JetSet::Term& term : set.terms()) {
          jet[term.result] += static_cast<T>(term.weight) * points.psi(term.left, i) *
                              network[static_cast<std::size_t>(term.right * chunk + i)];
        }
      }
    }
  }
}

#define SHARDSOLVE_INSTANTIATE(T)                                                         \
  template void feature_rows(const JetSet&, const Mlp&, const BoxFeatures<T>&,            \
                             const PointsInBox<T>&, const T*, std::int64_t, int, int, T*, \
                             std::int64_t);                                               \
  template void solution_jets(const JetSet&, const Mlp&, const BoxFeatures<T>&,           \
                              const PointsInBox<T>&, const T*, int, T*);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::fbpinn
