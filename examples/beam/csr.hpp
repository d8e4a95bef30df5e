/// A square sparse matrix row after row, and the few operations on vectors that the beam needs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

namespace beam {

using Vector = std::vector<double>;

/// A square matrix in CSR. Entries of row i are those with the numbers
/// row_pointers[i] <= k < row_pointers[i + 1]; columns of a row ascend.
struct Csr {
  std::vector<std::int64_t> row_pointers{0};
  std::vector<std::int64_t> column_indices;
  Vector values;

  std::int64_t rows() const { return std::ssize(row_pointers) - 1; }
  std::int64_t entries() const { return std::ssize(values); }

  friend bool operator==(const Csr&, const Csr&) = default;
};

/// The number of entry (row, column); -1 if the pattern lacks it. O(log entries of the row).
inline std::int64_t entry_number(const Csr& a, std::int64_t row, std::int64_t column) {
  const auto begin = a.column_indices.begin() + a.row_pointers[row];
  const auto end = a.column_indices.begin() + a.row_pointers[row + 1];
  const auto found = std::lower_bound(begin, end, column);
  return found != end && *found == column ? found - a.column_indices.begin() : -1;
}

/// y += factor A x. Both vectors have as many entries as A has rows.
inline void add_product(double factor, const Csr& a, const Vector& x, Vector& y) {
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    double sum = 0.0;
    for (std::int64_t k = a.row_pointers[row]; k < a.row_pointers[row + 1]; ++k) {
      sum += a.values[k] * x[a.column_indices[k]];
    }
    y[row] += factor * sum;
  }
}

/// y += factor x.
inline void add(double factor, const Vector& x, Vector& y) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] += factor * x[i];
  }
}

inline double dot(const Vector& x, const Vector& y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}

/// The same of `size` entries, in four lanes, so that a sum need not wait for the one before.
inline double dot(const double* x, const double* y, std::int64_t size) {
  double lanes[4] = {};
  std::int64_t i = 0;
  for (; i + 4 <= size; i += 4) {
    for (int lane = 0; lane < 4; ++lane) {
      lanes[lane] += x[i + lane] * y[i + lane];
    }
  }
  for (; i < size; ++i) {
    lanes[0] += x[i] * y[i];
  }
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

inline double norm(const Vector& x) { return std::sqrt(dot(x, x)); }

/// ||b - A x||_2.
inline double residual_norm(const Csr& a, const Vector& b, const Vector& x) {
  Vector residual = b;
  add_product(-1.0, a, x, residual);
  return norm(residual);
}

/// ||A - A^T||_F / ||A||_F. The pattern is symmetric; 0 for a matrix of zeros.
inline double asymmetry(const Csr& a) {
  double difference = 0.0;
  double total = 0.0;
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    for (std::int64_t k = a.row_pointers[row]; k < a.row_pointers[row + 1]; ++k) {
      const double mirrored = a.values[entry_number(a, a.column_indices[k], row)];
      difference += (a.values[k] - mirrored) * (a.values[k] - mirrored);
      total += a.values[k] * a.values[k];
    }
  }
  return total > 0.0 ? std::sqrt(difference / total) : 0.0;
}

}  // namespace beam
