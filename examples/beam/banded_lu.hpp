/// LU factors of a matrix with a band, and the reference solver that is made of them.
#pragma once

#include "csr.hpp"
#include "linear_solver.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace beam {

/// A = L U, L with ones on the diagonal. Rows are not exchanged, so it is for matrices like those
/// of the beam, which are positive definite or nearly so. n rows with w entries beside the diagonal
/// on each side cost 2 n w^2 flops and n (2 w + 1) numbers.
class BandedFactors {
 public:
  /// Returns why there are no factors; nothing if there are.
  std::string factor(const Csr& a) {
    if (a == factored_) return {};
    factored_ = {};
    fill(a);
    for (std::int64_t k = 0; k < n_; ++k) {
      const double pivot = row(k)[k];
      if (!std::isfinite(pivot) || pivot == 0.0) {
        return "LU without exchanges of rows met the pivot " + std::to_string(pivot) + " in row " +
               std::to_string(k);
      }
      const std::int64_t end = std::min(n_, k + width_ + 1);
      for (std::int64_t i = k + 1; i < end; ++i) {
        // a_ij -= l_ik u_kj
        const double l = row(i)[k] /= pivot;
        if (l == 0.0) continue;
        const double* upper = row(k);
        double* target = row(i);
        for (std::int64_t j = k + 1; j < end; ++j) {
          target[j] -= l * upper[j];
        }
      }
    }
    factored_ = a;
    return {};
  }

  /// x := A^-1 x. 4 n w flops.
  void solve(Vector& x) const {
    for (std::int64_t i = 0; i < n_; ++i) {
      const std::int64_t begin = std::max<std::int64_t>(0, i - width_);
      x[i] -= dot(row(i) + begin, x.data() + begin, i - begin);
    }
    for (std::int64_t i = n_ - 1; i >= 0; --i) {
      const std::int64_t end = std::min(n_, i + width_ + 1);
      x[i] = (x[i] - dot(row(i) + i + 1, x.data() + i + 1, end - i - 1)) / row(i)[i];
    }
  }

 private:
  // Entry (i, j) lies at i (2 w + 1) + w + j - i.
  double* row(std::int64_t i) { return band_.data() + i * 2 * width_ + width_; }
  const double* row(std::int64_t i) const { return band_.data() + i * 2 * width_ + width_; }

  void fill(const Csr& a) {
    n_ = a.rows();
    width_ = 0;
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t k = a.row_pointers[i]; k < a.row_pointers[i + 1]; ++k) {
        width_ = std::max(width_, std::abs(a.column_indices[k] - i));
      }
    }
    band_.assign(n_ * (2 * width_ + 1), 0.0);
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t k = a.row_pointers[i]; k < a.row_pointers[i + 1]; ++k) {
        row(i)[a.column_indices[k]] = a.values[k];
      }
    }
  }

  std::int64_t n_ = 0;
  std::int64_t width_ = 0;  // the largest |i - j| of an entry
  Vector band_;
  Csr factored_;  // the matrix whose factors are in band_
};

/// A LinearSolver: factors, then iterative refinement until the residual is small enough.
class BandedLu {
 public:
  LinearOutcome operator()(const Csr& a, const Vector& b, double rtol, Vector& x) {
    const std::string failure = factors_.factor(a);
    if (!failure.empty()) return {false, 0, failure};
    const double goal = rtol * norm(b);
    x.assign(b.size(), 0.0);
    Vector residual = b;
    for (int correction = 0; correction <= max_corrections; ++correction) {
      // x += A^-1 (b - A x)
      factors_.solve(residual);
      add(1.0, residual, x);
      residual = b;
      add_product(-1.0, a, x, residual);
      if (norm(residual) <= goal) return {true, 0, {}};
    }
    return {false, 0, "LU with iterative refinement does not reach the tolerance"};
  }

 private:
  static constexpr int max_corrections = 3;

  BandedFactors factors_;
};

}  // namespace beam
