/// The reference solver: LU factors of a matrix with a band.
#pragma once

#include "csr.hpp"
#include "linear_solver.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace beam {

/// A LinearSolver: a factorisation, then iterative refinement until the residual is small enough.
/// Rows are not exchanged, so it is for matrices like those of the beam, which are positive
/// definite or nearly so. n rows with w entries beside the diagonal on each side cost 2 n w^2
/// flops, or 4 n w if the matrix is that of the call before. Memory: n (2 w + 1) numbers.
class BandedLu {
 public:
  LinearOutcome operator()(const Csr& a, const Vector& b, double rtol, Vector& x) {
    if (a.values != factored_ && !factor(a)) {
      factored_.clear();
      return {false, 0,
              "LU without exchanges of rows met the pivot " + std::to_string(bad_pivot_) +
                  " in row " + std::to_string(bad_row_)};
    }
    const double goal = rtol * norm(b);
    x.assign(b.size(), 0.0);
    Vector residual = b;
    for (int correction = 0; correction <= most_corrections; ++correction) {
      // x += A^-1 (b - A x)
      solve_lower(residual);
      solve_upper(residual);
      add(1.0, residual, x);
      residual = b;
      add_product(-1.0, a, x, residual);
      if (norm(residual) <= goal) return {true, 0, {}};
    }
    return {false, 0, "LU with iterative refinement does not reach the tolerance"};
  }

 private:
  static constexpr int most_corrections = 3;

  // Entry (i, j) lies at i * (2 w + 1) + w + j - i.
  double* row(std::int64_t i) { return band_.data() + i * 2 * width_ + width_; }

  bool factor(const Csr& a) {
    fill(a);
    for (std::int64_t k = 0; k < n_; ++k) {
      const double pivot = row(k)[k];
      if (!std::isfinite(pivot) || pivot == 0.0) {
        bad_row_ = k;
        bad_pivot_ = pivot;
        return false;
      }
      const std::int64_t end = std::min(n_, k + width_ + 1);
      for (std::int64_t i = k + 1; i < end; ++i) {
        // a_ij -= l_ik u_kj
        const double l = row(i)[k] /= pivot;
        if (l == 0.0) continue;
        const double* upper = row(k);
        double* target = row(i);
        for (std::int64_t j = k + 1; j < end; ++j)
          target[j] -= l * upper[j];
      }
    }
    factored_ = a.values;
    return true;
  }

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

  void solve_lower(Vector& x) {
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t j = std::max<std::int64_t>(0, i - width_); j < i; ++j) {
        x[i] -= row(i)[j] * x[j];
      }
    }
  }

  void solve_upper(Vector& x) {
    for (std::int64_t i = n_ - 1; i >= 0; --i) {
      for (std::int64_t j = i + 1; j < std::min(n_, i + width_ + 1); ++j) {
        x[i] -= row(i)[j] * x[j];
      }
      x[i] /= row(i)[i];
    }
  }

  std::int64_t n_ = 0;
  std::int64_t width_ = 0;  // the largest |i - j| of an entry
  Vector band_;
  Vector factored_;  // values of the matrix whose factors are in band_
  std::int64_t bad_row_ = 0;
  double bad_pivot_ = 0.0;
};

}  // namespace beam
