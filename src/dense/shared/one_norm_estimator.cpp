#include "dense/shared/one_norm_estimator.hpp"

#include "core/each_dtype.hpp"
#include "programs/gather.hpp"

#include <shardsolve/error.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <vector>

namespace shardsolve::dense {
namespace {

/// Estimates ||B||_1 for B = s A^-1 from products with B and B^H. Vectors are distributed like
/// right-hand sides, this rank's part on the host.
template <Scalar T>
class OneNormEstimator {
 public:
  /// `scale`: the s above, chosen so that no product leaves the range unless the condition number
  /// does.
  OneNormEstimator(mesh::Rank& rank, const SlabLayout& layout, const SolveInPlace<T>& solve,
                   RealOf<T> scale)
      : rank_(rank),
        scale_(scale),
        n_(layout.size()),
        first_(layout.segment(rank.index()).begin.value()),
        solve_(solve),
        device_(rank.workspace<T>(layout.width(rank.index()), 1)),
        x_(static_cast<std::size_t>(layout.width(rank.index()))) {}

  double run() {
    constexpr int max_iterations = 5;
    std::fill(x_.begin(), x_.end(), T{1} / static_cast<RealOf<T>>(n_));
    apply();
    double estimate = one_norm();
    if (n_ == 1) {
      return estimate;
    }
    std::vector<T> signs = take_signs();
    apply(true);
    std::int64_t column = largest_row();
    for (int iteration = 2; iteration <= max_iterations; ++iteration) {
      // the column of B where the last one pointed
      set_unit(column);
      apply();
      const double last = estimate;
      const double next = one_norm();
      estimate = programs::largest(estimate, next);
      const std::vector<T> old_signs = signs;
      signs = take_signs();
      if (everywhere_equal(signs, old_signs) || next <= last) {
        break;
      }
      apply(true);
      const std::int64_t last_column = column;
      column = largest_row();
      if (column == last_column) {
        break;
      }
    }
    return programs::largest(estimate, alternating());
  }

 private:
  /// x = B x, or B^H x.
  void apply(bool adjoint = false) {
    for (T& value : x_) {
      value *= scale_;
    }
    rank_.update().copy(device_.data(), x_.data(), x_.size() * sizeof(T));
    rank_.update().synchronize();  // from here on x_ may go, whatever happens next
    solve_(device_, adjoint);
    x_ = rank_.fetch(rank_.update(), device_.data(), device_.rows());
  }

  double one_norm() {
    struct Share {
      double sum;
      bool stop;
    };
    Share mine{0.0, rank_.stop_requested()};
    for (const T& value : x_) {
      mine.sum += double{std::abs(value)};
    }
    double sum = 0.0;
    for (const auto& one : programs::gather_from_all(rank_, std::vector<Share>{mine})) {
      sum += one[0].sum;
      mine.stop = mine.stop || one[0].stop;
    }
    if (mine.stop) {
      throw Error(ErrorKind::cancelled, "the call was cancelled as asked");
    }
    return sum;
  }

  /// x = x_i / |x_i|, 1 where x_i is 0; returns a copy.
  std::vector<T> take_signs() {
    for (T& value : x_) {
      const RealOf<T> size = std::abs(value);
      value = size > 0 ? value / size : T{1};
    }
    return x_;
  }
  bool everywhere_equal(const std::vector<T>& a, const std::vector<T>& b) {
    return programs::sum_of_all(rank_, a == b ? 0.0 : 1.0) == 0.0;
  }

  /// The global row of the largest |x_i|, the first of equals.
  std::int64_t largest_row() {
    struct Peak {
      double size;
      std::int64_t row;
    };
    Peak mine{-1.0, 0};
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const double size = double{std::abs(x_[i])};
      if (size > mine.size) {
        mine = {size, first_ + static_cast<std::int64_t>(i)};
      }
    }
    Peak best{-1.0, 0};
    for (const auto& one : programs::gather_from_all(rank_, std::vector<Peak>{mine})) {
      best = one[0].size > best.size ? one[0] : best;
    }
    return best.row;
  }
  void set_unit(std::int64_t row) {
    std::fill(x_.begin(), x_.end(), T{0});
    if (row >= first_ && row < first_ + static_cast<std::int64_t>(x_.size())) {
      x_[static_cast<std::size_t>(row - first_)] = T{1};
    }
  }

  /// A vector of alternating signs catches matrices on which the iteration is misled.
  double alternating() {
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const std::int64_t row = first_ + static_cast<std::int64_t>(i);
      const double size = 1.0 + static_cast<double>(row) / static_cast<double>(n_ - 1);
      x_[i] = static_cast<RealOf<T>>(row % 2 == 0 ? size : -size);
    }
    apply();
    return 2.0 * one_norm() / (3.0 * static_cast<double>(n_));
  }

  mesh::Rank& rank_;
  RealOf<T> scale_;
  std::int64_t n_;
  std::int64_t first_;
  const SolveInPlace<T>& solve_;
  MatrixView<T> device_;
  std::vector<T> x_;
};

}  // namespace

template <Scalar T>
double one_norm_by(mesh::Rank& rank, const SlabLayout& layout,
                   const SolveInPlace<std::type_identity_t<T>>& multiply) {
  return layout.size() == 0 ? 0.0 : OneNormEstimator<T>(rank, layout, multiply, 1).run();
}

template <Scalar T>
double reciprocal_condition_by(mesh::Rank& rank, const SlabLayout& layout, Scaled norm_of_a,
                               const SolveInPlace<std::type_identity_t<T>>& solve) {
  using Limits = std::numeric_limits<RealOf<T>>;
  if (layout.size() == 0) {
    return 1.0;
  }
  const Scaled norm = norm_of_a.normalised();
  // As far below ||A|| as it can be without products with A^-1 becoming subnormal: inside a solve,
  // numbers may be larger than b by the square root of the condition number.
  const int exponent =
      std::clamp(norm.exponent + Limits::min_exponent + 2 * Limits::digits,
                 Limits::min_exponent + Limits::digits, Limits::max_exponent - Limits::digits);
  const auto scale = static_cast<RealOf<T>>(std::ldexp(1.0, exponent));
  const double estimate = OneNormEstimator<T>(rank, layout, solve, scale).run();
  if (!std::isfinite(estimate)) {
    return 0.0;
  }
  // estimate = scale est(||A^-1||), so the condition number is estimate ||A|| / scale.
  return ratio(Scaled{1.0, exponent}, Scaled{estimate, 0} * norm);
}

#define SHARDSOLVE_INSTANTIATE(T)                                                         \
  template double one_norm_by<T>(mesh::Rank&, const SlabLayout&, const SolveInPlace<T>&); \
  template double reciprocal_condition_by<T>(mesh::Rank&, const SlabLayout&, Scaled,      \
                                             const SolveInPlace<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense
