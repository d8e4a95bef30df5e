/// Overlapping boxes that a domain is divided into, and the small networks in them.
#pragma once

#include <shardsolve/export.hpp>
#include <shardsolve/jet_set.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace shardsolve::fbpinn {

struct Interval {
  double low = 0.0;
  double high = 1.0;
};

/// Boxes in 1 to 4 dimensions. Each has the window prod_a ((1 + cos(pi (x_a - m_a) / h_a)) / 2)^2
/// about its center m, which is 0 from a half width h on; windows of one level are divided by their
/// sum, so that they add up to 1 wherever there is a box.
class SHARDSOLVE_EXPORT Boxes {
 public:
  /// counts[a] boxes along axis a, the last axis fastest. Centers are spread evenly over the
  /// interval, ends included (a single one is in the middle); half widths are overlap / 2 of their
  /// distance (of a single one: of the interval).
  /// Throws Error(invalid_argument) unless intervals and counts are 1 to 4 and as many, intervals
  /// are finite and not empty, counts are positive, at most 2^20 boxes in all, and overlap is above
  /// 1, below which points would be in no box.
  static Boxes regular(const std::vector<Interval>& domain, const std::vector<std::int64_t>& counts,
                       double overlap);
  /// Any boxes; both arrays have `axes` numbers for each box. Throws Error(invalid_argument) unless
  /// they are as long as each other, finite, and half widths are positive.
  static Boxes from_arrays(int axes, std::vector<double> centers, std::vector<double> half_widths);
  /// Adds boxes as one more level over the whole domain: its windows add up to 1 by themselves, and
  /// u is the sum over all levels. Throws Error(invalid_argument) if axes differ.
  void add_level(const Boxes& level);
  /// What the boxes are to cover, an interval for each axis; they stick out of it. regular() sets
  /// it, boxes from arrays have none. Throws Error(invalid_argument) unless there are as many
  /// intervals as axes, finite and not empty.
  void set_domain(std::vector<Interval> domain);
  const std::vector<Interval>& domain() const { return domain_; }

  int axes() const { return axes_; }
  int levels() const { return levels_; }
  std::int64_t count() const { return static_cast<std::int64_t>(level_of_.size()); }
  const double* center(std::int64_t box) const { return centers_.data() + box * axes_; }
  const double* half_width(std::int64_t box) const { return half_widths_.data() + box * axes_; }
  int level(std::int64_t box) const { return level_of_[static_cast<std::size_t>(box)]; }

 private:
  Boxes(int axes, std::vector<double> centers, std::vector<double> half_widths);

  int axes_ = 1;
  int levels_ = 1;
  std::vector<double> centers_;
  std::vector<double> half_widths_;
  std::vector<std::int32_t> level_of_;
  std::vector<Interval> domain_;  // empty if not known
};

/// tanh(z), sin(z), 1 / (1 + e^-z), log(1 + e^z), e^(-z^2), z / (1 + e^-z).
enum class Activation : std::uint8_t { tanh, sin, sigmoid, softplus, gaussian, silu };

/// Units of the caller's own in place of hidden layers: any functions of the coordinates and of
/// numbers that each box has its own of. Functions may be called from several threads at once.
struct OwnUnits {
  std::int64_t count = 1;  ///< in each box
  /// Derivatives by the coordinates of each unit of a box at `points` points of it, as `set` lists
  /// them: points x count x set.size() numbers in `jets`. `parameters`: those of the box; `at`:
  /// set.axes() numbers a point.
  std::function<void(const JetSet& set, std::int64_t box, const double* parameters,
                     std::int64_t points, const double* at, double* jets)>
      jets;
  std::int64_t parameters = 0;     ///< numbers of a box that levenberg_marquardt() trains
  std::vector<double> start = {};  ///< `parameters` numbers for each box: what training begins with
  /// Needed if there are parameters, by levenberg_marquardt(): derivatives by them of `sums` sums
  /// over all units and derivatives of factor times jet at each point, points x sums x parameters
  /// numbers. `factors`: points x sums x count x set.size().
  std::function<void(const JetSet& set, std::int64_t box, const double* parameters,
                     std::int64_t points, const double* at, std::int64_t sums,
                     const double* factors, double* by_parameters)>
      pull_back = {};
};

/// The network of a box: hidden layers, then one linear layer. It sees (x - m) / h, which lies in
/// [-1, 1], and each field of the problem is a linear combination of its features: the units of the
/// last hidden layer, and a constant.
struct SHARDSOLVE_EXPORT Mlp {
  std::vector<std::int64_t> hidden{16};  ///< units of each layer
  Activation activation = Activation::tanh;
  /// If not null these are the units, as many as `hidden` has in its only layer; hidden weights are
  /// their parameters.
  std::shared_ptr<const OwnUnits> own{};

  /// Units of the caller's own. Throws Error(invalid_argument) if `units` has no function, or a
  /// number of parameters below 0.
  static Mlp of(OwnUnits units);
  /// Numbers that the hidden layers of one box have: of each layer its matrix, a row for each unit,
  /// and then its biases; or the parameters of the caller's own units.
  std::int64_t weights(int axes) const;
  /// Units of the last hidden layer, and a constant.
  std::int64_t features() const { return hidden.back() + 1; }
  /// weights() numbers for each of `boxes`, weights and biases of a layer uniform in
  /// +-scale / sqrt(inputs of the layer). The same for the same seed, whatever the number of boxes.
  /// Of the caller's own units what they begin with; throws Error(invalid_argument) if that is not
  /// as many numbers.
  std::vector<double> random_weights(int axes, std::int64_t boxes, std::uint64_t seed,
                                     double scale = 1.0) const;
  /// Throws Error(invalid_argument) unless there are 1 to 8 layers of 1 to 4096 units.
  void require_valid() const;
};

}  // namespace shardsolve::fbpinn
