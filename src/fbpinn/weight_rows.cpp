#include "fbpinn/weight_rows.hpp"

#include "fbpinn/windows.hpp"

#include <shardsolve/jet_scalars.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {
namespace weights {

using Series = Taylor<double>;

/// f(z) and f'(z).
std::pair<Series, Series> activated(Activation activation, const Series& z) {
  const auto sigmoid = [](const Series& x) { return 0.5 + 0.5 * tanh(0.5 * x); };
  switch (activation) {
    case Activation::tanh:
      return {tanh(z), compose(functions::Tanh{}, z, 1)};
    case Activation::sin:
      return {sin(z), cos(z)};
    case Activation::sigmoid: {
      const Series s = sigmoid(z);
      return {s, s * (1.0 - s)};
    }
    case Activation::softplus: {
      // Neither exponential overflows.
      const Series f = z[0] > 0.0 ? z + log(1.0 + exp(-z)) : log(1.0 + exp(z));
      return {f, sigmoid(z)};
    }
    case Activation::gaussian: {
      const Series f = exp(-(z * z));
      return {f, -2.0 * z * f};
    }
    case Activation::silu: {
      const Series s = sigmoid(z);
      return {z * s, s + z * s * (1.0 - s)};
    }
  }
  return {z, z};
}

/// One point's network, forward and back.
class PointNetwork {
 public:
  PointNetwork(const JetSet& set, const Mlp& mlp, const BoxFeatures<double>& box)
      : set_(set),
        mlp_(mlp),
        box_(box),
        values_(mlp.hidden.size() + 1),
        slopes_(mlp.hidden.size()) {}

  void forward(const double* x) {
    values_[0].clear();
    for (int axis = 0; axis < set_.axes(); ++axis) {
      const double rate = 1.0 / box_.half_width[axis];
      Series xi = Series::variable(set_, 0.0, axis) * rate;
      xi[0] = (x[axis] - box_.center[axis]) * rate;
      values_[0].push_back(xi);
    }
    const double* weights = box_.weights;
    for (std::size_t layer = 0; layer < mlp_.hidden.size(); ++layer) {
      const std::vector<Series>& in = values_[layer];
      const std::int64_t units = mlp_.hidden[layer];
      const auto inputs = static_cast<std::int64_t>(in.size());
      values_[layer + 1].clear();
      slopes_[layer].clear();
      for (std::int64_t unit = 0; unit < units; ++unit) {
        Series z(set_, weights[units * inputs + unit]);
        for (std::int64_t i = 0; i < inputs; ++i) {
          z += in[static_cast<std::size_t>(i)] * weights[unit * inputs + i];
        }
        auto [value, slope] = activated(mlp_.activation, z);
        values_[layer + 1].push_back(value);
        slopes_[layer].push_back(slope);
      }
      weights += units * (inputs + 1);
    }
  }

  /// From the derivatives of something by the units' coefficients those by the weights, each
  /// `stride` behind the other.
  void backward(std::vector<Series> by_units, double* by_weights, std::int64_t stride) const {
    std::int64_t end = mlp_.weights(set_.axes());
    for (std::size_t layer = mlp_.hidden.size(); layer-- > 0;) {
      const std::vector<Series>& in = values_[layer];
      const std::int64_t units = mlp_.hidden[layer];
      const auto inputs = static_cast<std::int64_t>(in.size());
      end -= units * (inputs + 1);
      std::vector<Series> by_inputs(in.size(), Series(set_, 0.0));
      for (std::int64_t unit = 0; unit < units; ++unit) {
        // dh = f'(z) dz as polynomials; this is the adjoint.
        const Series& slope = slopes_[layer][static_cast<std::size_t>(unit)];
        const Series& by_unit = by_units[static_cast<std::size_t>(unit)];
        Series by_z(set_, 0.0);
        for (const JetSet::Term& term : set_.terms()) {
          by_z[term.left] += by_unit[term.result] * slope[term.right];
        }
        for (std::int64_t i = 0; i < inputs; ++i) {
          const Series& value = in[static_cast<std::size_t>(i)];
          double sum = 0.0;
          for (int d = 0; d < set_.size(); ++d) {
            sum += by_z[d] * value[d];
          }
          by_weights[(end + unit * inputs + i) * stride] = sum;
          by_inputs[static_cast<std::size_t>(i)] += by_z * box_.weights[end + unit * inputs + i];
        }
        by_weights[(end + units * inputs + unit) * stride] = by_z[0];
      }
      by_units = std::move(by_inputs);
    }
  }

 private:
  const JetSet& set_;
  const Mlp& mlp_;
  const BoxFeatures<double>& box_;
  std::vector<std::vector<Series>> values_;  // inputs, then of each layer
  std::vector<std::vector<Series>> slopes_;  // f' of each layer
};

/// The jet of a box's window at a point, divided by the sum of all.
std::array<double, max_derivatives> window_at(const JetSet& set, const BoxFeatures<double>& box,
                                              const PointsInBox<double>& at, std::int64_t p) {
  double raw[max_derivatives];
  window_jet(set, at.points + p * set.axes(), box.center, box.half_width, raw);
  std::array<double, max_derivatives> window{};
  for (const JetSet::Term& term : set.terms()) {
    window[term.result] +=
        term.weight * raw[term.left] * at.inverse_sums[p * set.size() + term.right];
  }
  return window;
}

/// What a row's derivatives by the jets of the units are, units x set.size() numbers: of `factors`,
/// fields x set.size(), those by the jets of the sum of the networks.
void pull_to_units(const JetSet& set, const std::array<double, max_derivatives>& window,
                   const double* factors, int fields, std::int64_t units, const double* last_layer,
                   double* by_units) {
  const int size = set.size();
  std::fill_n(by_units, units * size, 0.0);
  for (int f = 0; f < fields; ++f) {
    double by_network[max_derivatives] = {};
    for (const JetSet::Term& term : set.terms()) {
      by_network[term.left] += term.weight * factors[f * size + term.result] * window[term.right];
    }
    for (std::int64_t unit = 0; unit < units; ++unit) {
      const double weight = last_layer[f * (units + 1) + unit];
      for (int d = 0; d < size; ++d) {
        by_units[unit * size + d] += weight * by_network[d];
      }
    }
  }
}

/// All points in one call of the caller's function.
void own_rows(const JetSet& set, const OwnUnits& own, const BoxFeatures<double>& box,
              const PointsInBox<double>& at, std::int64_t equations,
              const std::vector<double>& by_units, double* rows, std::int64_t stride) {
  std::vector<double> points;
  for (std::int64_t i = 0; i < at.count; ++i) {
    const double* const x = at.points + at.which[i] * set.axes();
    points.insert(points.end(), x, x + set.axes());
  }
  std::vector<double> found(static_cast<std::size_t>(at.count * equations * own.parameters));
  own.pull_back(set, box.number, box.weights, at.count, points.data(), equations, by_units.data(),
                found.data());
  for (std::int64_t i = 0; i < at.count; ++i) {
    for (std::int64_t e = 0; e < equations; ++e) {
      const double* const from = found.data() + (i * equations + e) * own.parameters;
      for (std::int64_t w = 0; w < own.parameters; ++w) {
        rows[e * at.count + i + w * stride] = from[w];
      }
    }
  }
}

}  // namespace weights

void weight_rows(const JetSet& set, const Mlp& mlp, const BoxFeatures<double>& box,
                 const PointsInBox<double>& at, const double* a, std::int64_t first_point,
                 int equations, int fields, const double* last_layer, double* rows,
                 std::int64_t stride) {
  if (at.count == 0) {
    return;
  }
  const int size = set.size();
  const std::int64_t units = mlp.hidden.back();
  const std::int64_t of_row = units * size;
  std::vector<double> by_units(static_cast<std::size_t>(at.count * equations * of_row));
  for (std::int64_t i = 0; i < at.count; ++i) {
    const std::int64_t p = at.which[i];
    const auto window = weights::window_at(set, box, at, p);
    for (int e = 0; e < equations; ++e) {
      weights::pull_to_units(set, window, a + ((p - first_point) * equations + e) * fields * size,
                             fields, units, last_layer,
                             by_units.data() + (i * equations + e) * of_row);
    }
  }
  if (mlp.own != nullptr) {
    weights::own_rows(set, *mlp.own, box, at, equations, by_units, rows, stride);
    return;
  }
  weights::PointNetwork network(set, mlp, box);
  for (std::int64_t i = 0; i < at.count; ++i) {
    network.forward(at.points + at.which[i] * set.axes());
    for (int e = 0; e < equations; ++e) {
      const double* const from = by_units.data() + (i * equations + e) * of_row;
      std::vector<weights::Series> by_series(static_cast<std::size_t>(units),
                                             weights::Series(set, 0.0));
      for (std::int64_t unit = 0; unit < units; ++unit) {
        for (int d = 0; d < size; ++d) {
          by_series[static_cast<std::size_t>(unit)][d] = from[unit * size + d] * set.factorial(d);
        }
      }
      network.backward(std::move(by_series), rows + e * at.count + i, stride);
    }
  }
}

}  // namespace shardsolve::fbpinn
