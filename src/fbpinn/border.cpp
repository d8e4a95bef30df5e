#include "fbpinn/border.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace shardsolve::fbpinn {

Border::Border(MatrixView<const double> columns, const Multiply& multiply, const Project& project,
               double tolerance, const sparse::Workers& workers) {
  const std::int64_t rows = columns.rows();
  std::vector<std::vector<double>> left;
  for (std::int64_t k = 0; k < columns.columns(); ++k) {
    const double* const column = columns.data() + k * columns.stride();
    double sum = 0.0;
    for (std::int64_t i = 0; i < rows; ++i) {
      sum += column[i] * column[i];
    }
    scales_.push_back(std::sqrt(sum));
    left.emplace_back(column, column + rows);
    for (double& value : left.back()) {
      value = sum > 0.0 ? value / scales_.back() : 0.0;
    }
  }
  // Twice is enough (Parlett, The Symmetric Eigenvalue Problem, 6.9).
  for (int pass = 0; pass < 2; ++pass) {
    const std::vector<std::vector<double>> y = project(left);
    in_q_.resize(y.size());
    for (std::size_t k = 0; k < y.size(); ++k) {
      in_q_[k].resize(y[k].size());
      for (std::size_t i = 0; i < y[k].size(); ++i) {
        in_q_[k][i] += y[k][i];
      }
      const std::vector<double> part = multiply(y[k]);
      for (std::size_t i = 0; i < part.size(); ++i) {
        left[k][i] -= part[i];
      }
    }
  }
  std::vector<double> rest;
  for (const std::vector<double>& column : left) {
    rest.insert(rest.end(), column.begin(), column.end());
  }
  // Columns have the norm 1 before the projection: a pivot is the share of one that is its own.
  workers.once(
      [&] {
        block_ = orthonormalised(MatrixView<double>(rest.data(), rows, columns.columns()), 0.0,
                                 tolerance);
      },
      [&](sparse::Packet& packet) {
        packet.value(block_.rows);
        packet.value(block_.columns);
        packet.value(block_.rank);
        packet.vector(block_.adjoint);
        packet.vector(block_.r);
        packet.vector(block_.kept_columns);
      });
  find_those_alone(left);
}

/// `left`: P.
void Border::find_those_alone(const std::vector<std::vector<double>>& left) {
  is_alone_.assign(scales_.size(), 0);
  for (const std::int32_t k : block_.kept_columns) {
    is_alone_[static_cast<std::size_t>(k)] = 1;
  }
  const std::vector<char> is_kept = is_alone_;
  // A column left out is a combination of those kept with these weights.
  constexpr double least_part = 1e-3;
  std::vector<double> weights(scales_.size(), 0.0);
  for (std::size_t j = 0; j < scales_.size() && block_.rank > 0; ++j) {
    if (is_kept[j] != 0) {
      continue;
    }
    const std::vector<double> z = multiply_adjoint(left[j]);
    block_.weights_of(z.data(), weights.data());
    for (std::size_t k = 0; k < scales_.size(); ++k) {
      if (std::abs(weights[k]) > least_part) {
        is_alone_[k] = 0;
      }
    }
  }
}

std::vector<double> Border::deviations(std::span<const double> residual,
                                       std::int64_t freedom) const {
  std::vector<double> alike(scales_.size(), 0.0);
  std::vector<double> by_row(scales_.size(), 0.0);
  std::vector<double> weights(scales_.size(), 0.0);
  double sum = 0.0;
  for (std::size_t row = 0; row < residual.size() && block_.rank > 0; ++row) {
    const double square = residual[row] * residual[row];
    sum += square;
    // What one more in this row adds to the weights: a column of R^-1 Q_c^T.
    block_.weights_of(block_.adjoint.data() + row * static_cast<std::size_t>(block_.rank),
                      weights.data());
    for (std::size_t k = 0; k < scales_.size(); ++k) {
      alike[k] += weights[k] * weights[k];
      by_row[k] += weights[k] * weights[k] * square;
    }
  }
  const auto rows = static_cast<double>(residual.size());
  const auto free = static_cast<double>(std::max<std::int64_t>(freedom, 1));
  std::vector<double> result;
  for (std::size_t k = 0; k < scales_.size(); ++k) {
    const double variance = std::max(alike[k] * (sum / free), by_row[k] * (rows / free));
    result.push_back(is_alone_[k] != 0 ? std::sqrt(variance) / scales_[k]
                                       : std::numeric_limits<double>::infinity());
  }
  return result;
}

std::vector<double> Border::multiply_adjoint(std::span<const double> r) const {
  std::vector<double> z(static_cast<std::size_t>(block_.rank), 0.0);
  for (std::size_t row = 0; row < r.size(); ++row) {
    const double* const q = block_.adjoint.data() + row * z.size();
    for (std::size_t k = 0; k < z.size(); ++k) {
      z[k] += q[k] * r[row];
    }
  }
  return z;
}

void Border::subtract(std::span<const double> z, std::vector<double>& r) const {
  for (std::size_t row = 0; row < r.size(); ++row) {
    const double* const q = block_.adjoint.data() + row * z.size();
    double sum = 0.0;
    for (std::size_t k = 0; k < z.size(); ++k) {
      sum += q[k] * z[k];
    }
    r[row] -= sum;
  }
}

std::vector<double> Border::weights_of(std::span<const double> z, std::vector<double>& y) const {
  std::vector<double> weights(scales_.size(), 0.0);
  if (block_.rank == 0) {
    return weights;
  }
  block_.weights_of(z.data(), weights.data());
  for (const std::int32_t k : block_.kept_columns) {
    const auto column = static_cast<std::size_t>(k);
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] -= weights[column] * in_q_[column][i];
    }
    weights[column] /= scales_[column];
  }
  return weights;
}

}  // namespace shardsolve::fbpinn
