// Jets of window times network against nested dual numbers, for every activation.

#include "fbpinn/features.hpp"
#include "fbpinn/networks.hpp"
#include "matgen/philox.hpp"
#include "tests/support/nested_jets.hpp"

#include <shardsolve/fbpinn_boxes.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

using testing::nested_derivative;

double uniform_number(std::uint64_t seed, std::int64_t i) {
  return matgen::uniform_pair(seed, matgen::Stream::point, i, 1)[0];
}

template <class S>
S activated(Activation activation, const S& z) {
  switch (activation) {
    case Activation::tanh:
      return fbpinn::tanh(z);
    case Activation::sin:
      return fbpinn::sin(z);
    case Activation::sigmoid:
      return 1 / (1 + fbpinn::exp(-z));
    case Activation::softplus:
      return fbpinn::log(1 + fbpinn::exp(z));
    case Activation::gaussian:
      return fbpinn::exp(-(z * z));
    case Activation::silu:
      return z / (1 + fbpinn::exp(-z));
  }
  return z;
}

/// A few boxes that overlap, their networks, and points.
struct Networks {
  Boxes boxes;
  Mlp mlp;
  std::vector<double> weights;
  std::vector<double> points;

  std::int64_t count() const { return static_cast<std::int64_t>(points.size()) / boxes.axes(); }

  /// Unit k of the box times its window, over the sum of all windows.
  template <class S>
  S feature(std::int64_t box, std::int64_t unit, const std::vector<S>& x) const {
    S sum(0.0);
    S own(0.0);
    for (std::int64_t b = 0; b < boxes.count(); ++b) {
      bool is_inside = true;
      S product(1.0);
      for (std::size_t axis = 0; axis < x.size(); ++axis) {
        const double center = boxes.center(b)[axis];
        const double half_width = boxes.half_width(b)[axis];
        is_inside = is_inside && std::abs(value_of(x[axis]) - center) < half_width;
        const S root =
            (1 + fbpinn::cos((x[axis] - center) * (std::numbers::pi / half_width))) / 2.0;
        product = product * root * root;
      }
      if (is_inside) {
        sum = sum + product;
        own = b == box ? product : own;
      }
    }
    std::vector<S> layer;
    for (std::size_t axis = 0; axis < x.size(); ++axis) {
      layer.push_back((x[axis] - boxes.center(box)[axis]) / boxes.half_width(box)[axis]);
    }
    const double* w = weights.data() + box * mlp.weights(boxes.axes());
    for (const std::int64_t units : mlp.hidden) {
      std::vector<S> next;
      const auto inputs = static_cast<std::int64_t>(layer.size());
      for (std::int64_t k = 0; k < units; ++k) {
        S z(w[units * inputs + k]);
        for (std::int64_t i = 0; i < inputs; ++i) {
          z = z + layer[static_cast<std::size_t>(i)] * w[k * inputs + i];
        }
        next.push_back(activated(mlp.activation, z));
      }
      w += units * (inputs + 1);
      layer = next;
    }
    layer.push_back(S(1.0));
    return own / sum * layer[static_cast<std::size_t>(unit)];
  }
};

Networks make_networks(int axes, std::vector<std::int64_t> hidden, Activation activation) {
  const std::vector<Interval> domain(static_cast<std::size_t>(axes), Interval{-1, 1});
  Networks setup{Boxes::regular(domain, std::vector<std::int64_t>(domain.size(), 3), 2.9),
                 {.hidden = std::move(hidden), .activation = activation},
                 {},
                 {}};
  setup.weights = setup.mlp.random_weights(axes, setup.boxes.count(), 11, 1.5);
  // More than a chunk of points in a box, and not a multiple of one.
  for (std::int64_t i = 0; i < 101 * axes; ++i) {
    setup.points.push_back(uniform_number(3, i));
  }
  return setup;
}

/// All derivatives of all features of the box: a unit matrix of coefficients.
template <class T>
std::vector<T> all_jets(const Networks& setup, const JetSet& set, std::int64_t box,
                        const PointsInBoxes& at) {
  const int size = set.size();
  const std::vector<T> points(setup.points.begin(), setup.points.end());
  const std::vector<T> inverses(at.inverse_sums.begin(), at.inverse_sums.end());
  const std::vector<T> weights(setup.weights.begin() + box * setup.mlp.weights(set.axes()),
                               setup.weights.begin() + (box + 1) * setup.mlp.weights(set.axes()));
  const auto which = at.pairs.points_of(box);
  const auto pairs = static_cast<std::int64_t>(which.size());
  std::vector<T> unit(static_cast<std::size_t>(setup.count() * size * size));
  for (std::int64_t p = 0; p < setup.count(); ++p) {
    for (int d = 0; d < size; ++d) {
      unit[static_cast<std::size_t>((p * size + d) * size + d)] = 1;
    }
  }
  std::vector<T> rows(static_cast<std::size_t>(pairs * size * setup.mlp.features()));
  feature_rows(set, setup.mlp,
               BoxFeatures<T>{setup.boxes.center(box), setup.boxes.half_width(box), weights.data()},
               PointsInBox<T>{points.data(), inverses.data(), which.data(), pairs}, unit.data(), 0,
               size, 1, rows.data(), pairs * size);
  return rows;
}

template <class T>
void expect_jets_of_nested_duals(const Networks& setup, const JetSet& set, std::int64_t stride) {
  const std::int64_t box = setup.boxes.count() / 2;
  const PointsInBoxes at =
      points_in_boxes(setup.boxes, set, setup.points.data(), setup.count(), 0, sparse::Workers{});
  const std::vector<T> rows = all_jets<T>(setup, set, box, at);
  const auto which = at.pairs.points_of(box);
  const auto pairs = static_cast<std::int64_t>(which.size());
  const double tolerance = 400 * std::numeric_limits<T>::epsilon();
  for (std::int64_t i = 0; i < pairs; i += stride) {
    const double* const point =
        setup.points.data() + which[static_cast<std::size_t>(i)] * set.axes();
    const std::vector<double> x(point, point + set.axes());
    for (std::int64_t unit = 0; unit < setup.mlp.features(); unit += 2) {
      for (int d = 0; d < set.size(); ++d) {
        const double expected = nested_derivative(
            [&](const auto& v) { return setup.feature(box, unit, v); }, x, set[d]);
        const double found = rows[static_cast<std::size_t>((unit * set.size() + d) * pairs + i)];
        // Windows of half width 0.725 * 2: each derivative may be 4.4 times larger than the last.
        EXPECT_NEAR(found, expected,
                    tolerance * (std::pow(4.4, order_of(set[d])) + std::abs(expected)))
            << "point " << i << ", unit " << unit << ", derivative " << d;
      }
    }
  }
}

class FbpinnFeaturesOf : public ::testing::TestWithParam<Activation> {};

TEST_P(FbpinnFeaturesOf, OneLayer_HasTheJetsOfNestedDuals) {
  for (int axes = 1; axes <= 3; ++axes) {
    const Networks setup = make_networks(axes, {5}, GetParam());
    expect_jets_of_nested_duals<double>(setup, JetSet::full(axes, axes == 3 ? 2 : 4), 13);
    expect_jets_of_nested_duals<float>(setup, JetSet::full(axes, 2), 29);
  }
}

TEST_P(FbpinnFeaturesOf, TwoLayers_HaveTheJetsOfNestedDuals) {
  const Networks setup = make_networks(2, {4, 3}, GetParam());
  expect_jets_of_nested_duals<double>(setup, JetSet::full(2, 4), 17);
  expect_jets_of_nested_duals<float>(setup, JetSet(2, {{1, 1}, {2, 0}}), 29);
}

INSTANTIATE_TEST_SUITE_P(All, FbpinnFeaturesOf,
                         ::testing::Values(Activation::tanh, Activation::sin, Activation::sigmoid,
                                           Activation::softplus, Activation::gaussian,
                                           Activation::silu));

TEST(FbpinnFeatures, FourAxes_HaveTheJetsOfNestedDuals) {
  expect_jets_of_nested_duals<double>(make_networks(4, {3}, Activation::tanh), JetSet::full(4, 2),
                                      9);
}

TEST(FbpinnFeatures, Rows_AreTheJetsTimesTheCoefficients) {
  const Networks setup = make_networks(2, {6}, Activation::tanh);
  const JetSet set(2, {{2, 0}, {0, 2}});
  const PointsInBoxes at =
      points_in_boxes(setup.boxes, set, setup.points.data(), setup.count(), 0, sparse::Workers{});
  const std::int64_t box = 4;
  const std::vector<double> jets = all_jets<double>(setup, set, box, at);
  const auto which = at.pairs.points_of(box);
  const auto pairs = static_cast<std::int64_t>(which.size());
  constexpr int equations = 2;
  constexpr int fields = 3;
  std::vector<double> a;
  for (std::int64_t i = 0; i < setup.count() * equations * fields * set.size(); ++i) {
    a.push_back(uniform_number(9, i));
  }
  const std::int64_t features = setup.mlp.features();
  const std::int64_t stride = equations * pairs + 3;
  std::vector<double> rows(static_cast<std::size_t>(stride * fields * features));
  feature_rows(
      set, setup.mlp,
      BoxFeatures<double>{setup.boxes.center(box), setup.boxes.half_width(box),
                          setup.weights.data() + box * setup.mlp.weights(2)},
      PointsInBox<double>{setup.points.data(), at.inverse_sums.data(), which.data(), pairs},
      a.data(), 0, equations, fields, rows.data(), stride);
  for (int e = 0; e < equations; ++e) {
    for (int f = 0; f < fields; ++f) {
      for (std::int64_t unit = 0; unit < features; ++unit) {
        for (std::int64_t i = 0; i < pairs; ++i) {
          double expected = 0;
          double size = 0;
          for (int d = 0; d < set.size(); ++d) {
            const std::int64_t p = which[static_cast<std::size_t>(i)];
            const double part =
                a[static_cast<std::size_t>(((p * equations + e) * fields + f) * set.size() + d)] *
                jets[static_cast<std::size_t>((unit * set.size() + d) * pairs + i)];
            expected += part;
            size += std::abs(part);
          }
          ASSERT_NEAR(
              rows[static_cast<std::size_t>((f * features + unit) * stride + e * pairs + i)],
              expected, 1e-14 * (1 + size));
        }
      }
    }
  }
}

TEST(FbpinnFeatures, SolutionJets_AreTheSumsOfTheFeatures) {
  const Networks setup = make_networks(2, {6}, Activation::sin);
  const JetSet set = JetSet::full(2, 2);
  const PointsInBoxes at =
      points_in_boxes(setup.boxes, set, setup.points.data(), setup.count(), 0, sparse::Workers{});
  constexpr int fields = 2;
  const std::int64_t features = setup.mlp.features();
  std::vector<double> layer;
  for (std::int64_t i = 0; i < setup.boxes.count() * fields * features; ++i) {
    layer.push_back(uniform_number(10, i));
  }
  const Numbers<double> found = jets_of_networks(setup.boxes, setup.mlp, set, fields, at,
                                                 setup.weights, layer, sparse::Workers{});
  for (std::int64_t p = 0; p < setup.count(); p += 10) {
    const double* const point = setup.points.data() + 2 * p;
    for (int f = 0; f < fields; ++f) {
      const auto sum = [&](const auto& x) {
        auto result = x[0] * 0.0;
        for (const std::int32_t pair : at.pairs.pairs_of(p)) {
          const std::int64_t box = at.pairs.box[static_cast<std::size_t>(pair)];
          for (std::int64_t unit = 0; unit < features; ++unit) {
            result =
                result + setup.feature(box, unit, x) *
                             layer[static_cast<std::size_t>((box * fields + f) * features + unit)];
          }
        }
        return result;
      };
      for (int d = 0; d < set.size(); ++d) {
        const double expected = nested_derivative(sum, {point[0], point[1]}, set[d]);
        EXPECT_NEAR(found[static_cast<std::size_t>((p * fields + f) * set.size() + d)], expected,
                    1e-12 * (20 + std::abs(expected)));
      }
    }
  }
}

}  // namespace
}  // namespace shardsolve::fbpinn
