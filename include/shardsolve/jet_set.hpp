/// Which derivatives of a function of a few variables are kept together.
#pragma once

#include <shardsolve/export.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

inline constexpr int max_axes = 4;
inline constexpr int max_order = 4;
/// Derivatives of order 0 to 4 in four variables.
inline constexpr int max_derivatives = 70;

/// How often a function is differentiated along each axis; axes beyond the last have 0.
using MultiIndex = std::array<std::uint8_t, max_axes>;

/// How often in all.
constexpr int order_of(const MultiIndex& index) {
  return index[0] + index[1] + index[2] + index[3];
}

/// A set of derivatives that holds, with each, all that are lower in every axis: what products and
/// compositions need. Ascending in order; within one order the first axis counts most (u, u_x, u_y,
/// u_xx, u_xy, u_yy). A jet is the values of one function's derivatives in the order of such a set.
class SHARDSOLVE_EXPORT JetSet {
 public:
  /// The value alone.
  explicit JetSet(int axes = 1) : JetSet(axes, {}) {}
  /// The least such set that holds the value and all of `wanted`. Throws Error(invalid_argument)
  /// unless 1 <= axes <= 4, every order is at most 4 and no axis is beyond the last.
  JetSet(int axes, const std::vector<MultiIndex>& wanted);
  /// All derivatives up to an order from 0 to 4. Throws likewise.
  static JetSet full(int axes, int order);

  int axes() const { return axes_; }
  /// The largest order in it.
  int order() const { return order_; }
  int size() const { return static_cast<int>(indices_.size()); }
  const MultiIndex& operator[](int i) const { return indices_[static_cast<std::size_t>(i)]; }
  std::span<const MultiIndex> indices() const { return indices_; }
  /// The place of a derivative; -1 if it is not in the set.
  int find(const MultiIndex& index) const;
  /// Product of the factorials of the multi-index.
  double factorial(int i) const { return factorials_[static_cast<std::size_t>(i)]; }

  /// One term of Leibniz's rule: (f g)_result has weight * f_left * g_right.
  struct Term {
    std::uint8_t result;
    std::uint8_t left;
    std::uint8_t right;
    double weight;  ///< the product of the binomial coefficients
  };
  /// All terms, by result and then left.
  std::span<const Term> terms() const { return terms_; }

  friend bool operator==(const JetSet& a, const JetSet& b) {
    return a.axes_ == b.axes_ && a.indices_ == b.indices_;
  }

 private:
  int axes_;
  int order_ = 0;
  std::vector<MultiIndex> indices_;
  std::vector<double> factorials_;
  std::vector<Term> terms_;
  std::array<std::int8_t, 625> place_{};
};

}  // namespace shardsolve::fbpinn
