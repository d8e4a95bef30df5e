#include <shardsolve/error.hpp>
#include <shardsolve/jet_set.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace shardsolve::fbpinn {
namespace {

/// Below 5^4; the largest of an order comes first among equals of order when compared downwards.
int key_of(const MultiIndex& index) {
  return ((index[0] * 5 + index[1]) * 5 + index[2]) * 5 + index[3];
}

void require_index(const MultiIndex& index, int axes) {
  if (order_of(index) > max_order) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("a derivative of order {} was asked for; up to {} is accepted",
                            order_of(index), max_order));
  }
  for (int axis = axes; axis < max_axes; ++axis) {
    if (index[static_cast<std::size_t>(axis)] != 0) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("a derivative along axis {} was asked for; the problem has {} axes, "
                              "counted from 0",
                              axis, axes));
    }
  }
}

void require_axes(int axes) {
  if (axes < 1 || axes > max_axes) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} axes given; 1 to {} are accepted", axes, max_axes));
  }
}

/// Whether every entry of a is at most that of b.
bool is_lower(const MultiIndex& a, const MultiIndex& b) {
  for (std::size_t axis = 0; axis < max_axes; ++axis) {
    if (a[axis] > b[axis]) {
      return false;
    }
  }
  return true;
}

double binomials(const MultiIndex& n, const MultiIndex& k) {
  constexpr std::array<double, 5> factorials{1, 1, 2, 6, 24};
  double product = 1.0;
  for (std::size_t axis = 0; axis < max_axes; ++axis) {
    product *= factorials[n[axis]] /
               (factorials[k[axis]] * factorials[static_cast<std::size_t>(n[axis] - k[axis])]);
  }
  return product;
}

/// All multi-indices of order up to 4.
std::vector<MultiIndex> all_indices(int axes, int order) {
  std::vector<MultiIndex> result;
  const auto bound = [&](int axis) { return axis < axes ? order : 0; };
  for (int a = 0; a <= bound(0); ++a) {
    for (int b = 0; b <= bound(1); ++b) {
      for (int c = 0; c <= bound(2); ++c) {
        for (int d = 0; d <= bound(3); ++d) {
          if (a + b + c + d <= order) {
            result.push_back({static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b),
                              static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(d)});
          }
        }
      }
    }
  }
  return result;
}

}  // namespace

JetSet::JetSet(int axes, const std::vector<MultiIndex>& wanted) : axes_(axes) {
  require_axes(axes);
  for (const MultiIndex& index : wanted) {
    require_index(index, axes);
    order_ = std::max(order_, order_of(index));
  }
  for (const MultiIndex& index : all_indices(axes, order_)) {
    const bool is_needed = order_of(index) == 0 ||
                           std::any_of(wanted.begin(), wanted.end(),
                                       [&](const MultiIndex& one) { return is_lower(index, one); });
    if (is_needed) {
      indices_.push_back(index);
    }
  }
  std::sort(indices_.begin(), indices_.end(), [](const MultiIndex& a, const MultiIndex& b) {
    return order_of(a) != order_of(b) ? order_of(a) < order_of(b) : key_of(a) > key_of(b);
  });
  place_.fill(-1);
  for (int i = 0; i < size(); ++i) {
    const MultiIndex& index = (*this)[i];
    place_[static_cast<std::size_t>(key_of(index))] = static_cast<std::int8_t>(i);
    double factorial = 1.0;
    for (const int times : index) {
      for (int k = 2; k <= times; ++k) {
        factorial *= k;
      }
    }
    factorials_.push_back(factorial);
  }
  for (int result = 0; result < size(); ++result) {
    for (int left = 0; left < size(); ++left) {
      const MultiIndex& whole = (*this)[result];
      const MultiIndex& part = (*this)[left];
      if (is_lower(part, whole)) {
        MultiIndex rest{};
        for (std::size_t axis = 0; axis < max_axes; ++axis) {
          rest[axis] = static_cast<std::uint8_t>(whole[axis] - part[axis]);
        }
        terms_.push_back({static_cast<std::uint8_t>(result), static_cast<std::uint8_t>(left),
                          static_cast<std::uint8_t>(find(rest)), binomials(whole, part)});
      }
    }
  }
}

JetSet JetSet::full(int axes, int order) {
  require_axes(axes);
  if (order < 0 || order > max_order) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("derivatives up to order {} were asked for; 0 to {} is accepted", order,
                            max_order));
  }
  return {axes, all_indices(axes, order)};
}

int JetSet::find(const MultiIndex& index) const {
  return order_of(index) > max_order ? -1 : place_[static_cast<std::size_t>(key_of(index))];
}

}  // namespace shardsolve::fbpinn
