/// Derivatives by dual numbers within dual numbers: slow, and with no formula of ours in them but
/// those of the functions.
#pragma once

#include <shardsolve/jet_scalars.hpp>
#include <shardsolve/jet_set.hpp>

#include <array>
#include <cstddef>
#include <vector>

namespace shardsolve::testing {

namespace detail {
template <int depth>
struct Nested {
  using Type = fbpinn::Dual<typename Nested<depth - 1>::Type>;
};
template <>
struct Nested<0> {
  using Type = double;
};
}  // namespace detail

/// A number that can be differentiated four times.
using NestedDual = detail::Nested<fbpinn::max_order>::Type;

/// x as a variable along the directions that are marked, one for each level.
template <class T>
void set_variable(T& number, double x, const std::array<bool, fbpinn::max_order>& marked,
                  std::size_t level = 0) {
  if constexpr (std::is_same_v<T, double>) {
    number = x;
  } else {
    number = T{};
    set_variable(number.value, x, marked, level + 1);
    if (marked[level]) {
      set_variable(number.slope[0], 1.0, {}, level + 1);
    }
  }
}

template <class T>
double derivative_of(const T& number, int order, std::size_t level = 0) {
  if constexpr (std::is_same_v<T, double>) {
    return number;
  } else {
    return static_cast<int>(level) < order ? derivative_of(number.slope[0], order, level + 1)
                                           : derivative_of(number.value, order, level + 1);
  }
}

/// The derivative of f(x), f taking a vector of any numbers.
template <class F>
double nested_derivative(const F& f, const std::vector<double>& x,
                         const fbpinn::MultiIndex& index) {
  std::vector<int> along;
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    along.insert(along.end(), index[axis], static_cast<int>(axis));
  }
  std::vector<NestedDual> variables(x.size());
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    std::array<bool, fbpinn::max_order> marked{};
    for (std::size_t level = 0; level < along.size(); ++level) {
      marked[level] = along[level] == static_cast<int>(axis);
    }
    set_variable(variables[axis], x[axis], marked);
  }
  return derivative_of(f(variables), static_cast<int>(along.size()));
}

}  // namespace shardsolve::testing
