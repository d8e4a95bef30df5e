#include "dense/qr/small_solver.hpp"

#include "dense/qr/powers.hpp"
#include "runtime/qr_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <utility>

namespace shardsolve::dense::qr {
namespace {

using runtime::Op;
using runtime::Side;
using runtime::Triangle;

template <class Values>
double one_norm(const Values& a, std::int64_t n) {
  double most = 0.0;
  for (std::int64_t j = 0; j < n; ++j) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      sum += std::abs(a[static_cast<std::size_t>(i + j * n)]);
    }
    most = sum <= most ? most : sum;  // a NaN stays, if it is the last
  }
  return most;
}

}  // namespace

template <Scalar W>
SmallSolver<W>::SmallSolver(mesh::Rank& rank, MatrixView<W> r, std::vector<std::int64_t> exponents,
                            std::int64_t columns)
    : rank_(rank),
      r_(r),
      x_(rank.workspace<W>(r.rows(), columns)),
      exponents_(std::move(exponents)),
      kept_(r.rows()) {
  const std::int64_t n = size();
  const MatrixView<W> inverse = rank.workspace<W>(n, n);
  const runtime::Kernels<W>& kernels = rank.kernels<W>();
  kernels.identity(rank.update(), inverse);
  const Values entries = fetched(r_);
  double least = n > 0 ? std::abs(entries[0]) : 1.0;
  for (std::int64_t j = 0; j < n; ++j) {
    least = std::min(least, std::abs(entries[static_cast<std::size_t>(j + j * n)]));
  }
  for (const W entry : entries) {
    norm_ += std::norm(entry);
  }
  norm_ = std::sqrt(norm_);
  if (least > 0.0) {
    kernels.trsm(rank.update(), Side::left, Triangle::upper, Op::none, r_, inverse);
    const double product = one_norm(entries, n) * one_norm(fetched(inverse), n);
    rcond_ = std::isfinite(product) ? 1.0 / product : 0.0;
  }
}

template <Scalar W>
std::int64_t SmallSolver<W>::bytes(std::int64_t n, std::int64_t columns, bool singular_values) {
  return static_cast<std::int64_t>(sizeof(W)) * n * (n * (singular_values ? 4 : 1) + columns) +
         8 * n + 8;
}

template <Scalar W>
bool SmallSolver<W>::find_singular_values() {
  const std::int64_t n = size();
  common_ = exponents_.empty() ? 0 : *std::min_element(exponents_.begin(), exponents_.end());
  Values entries = fetched(r_);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t back = common_ - exponents_[static_cast<std::size_t>(j)];
    for (std::int64_t i = 0; i <= j; ++i) {
      W& entry = entries[static_cast<std::size_t>(i + j * n)];
      entry = times_power<W>(entry, back);
    }
  }
  const MatrixView<W> a = rank_.workspace<W>(n, n);
  const MatrixView<W> u = rank_.workspace<W>(n, n);
  const MatrixView<W> vh = rank_.workspace<W>(n, n);
  const MatrixView<double> s = rank_.workspace<double>(n, 1);
  const MatrixView<std::int64_t> info = rank_.workspace<std::int64_t>(1, 1);
  rank_.update().copy(a.data(), entries.data(), entries.size() * sizeof(W));
  rank_.update().synchronize();  // from here on `entries` may go
  rank_.kernels<runtime::QrKernels<W>>().singular_values(rank_.update(), a, s.data(), u, vh,
                                                         info.data());
  if (rank_.fetch(rank_.update(), info.data(), 1).front() != 0) {
    return false;
  }
  scaled_values_ = rank_.fetch(rank_.update(), s.data(), n);
  u_ = fetched(u);
  vh_ = fetched(vh);
  singular_values_.clear();
  for (const double value : scaled_values_) {
    singular_values_.push_back(times_power<double>(value, -common_));
  }
  return true;
}

template <Scalar W>
typename SmallSolver<W>::Values SmallSolver<W>::fetched(MatrixView<W> values) const {
  return rank_.fetch(rank_.update(), values.data(), values.rows() * values.columns());
}

template <Scalar W>
typename SmallSolver<W>::Values SmallSolver<W>::by_triangle(const Values& c, bool adjoint) const {
  const MatrixView<W> x = x_.columns_from(0, static_cast<std::int64_t>(c.size()) / size());
  rank_.update().copy(x.data(), c.data(), c.size() * sizeof(W));
  rank_.update().synchronize();  // from here on `c` may go
  rank_.kernels<W>().trsm(rank_.update(), Side::left, Triangle::upper,
                          adjoint ? Op::conjugate_transpose : Op::none, r_, x);
  return fetched(x);
}

template <Scalar W>
typename SmallSolver<W>::Values SmallSolver<W>::by_singular_values(const Values& c,
                                                                   bool adjoint) const {
  const std::int64_t n = size();
  const auto entry = [n](const Values& values, std::int64_t i, std::int64_t j) {
    return values[static_cast<std::size_t>(i + j * n)];
  };
  Values x(c.size(), W{0});
  for (std::size_t column = 0; column < c.size(); column += static_cast<std::size_t>(n)) {
    for (std::int64_t l = 0; l < kept_; ++l) {
      W along{0};
      for (std::int64_t i = 0; i < n; ++i) {
        const W part = adjoint ? entry(vh_, l, i) : conjugate(entry(u_, i, l));
        along += part * c[column + static_cast<std::size_t>(i)];
      }
      along /= scaled_values_[static_cast<std::size_t>(l)];
      for (std::int64_t i = 0; i < n; ++i) {
        const W part = adjoint ? entry(u_, i, l) : conjugate(entry(vh_, l, i));
        x[column + static_cast<std::size_t>(i)] += part * along;
      }
    }
  }
  return x;
}

template <Scalar W>
typename SmallSolver<W>::Values SmallSolver<W>::solve(Values c) const {
  if (!is_truncated()) {
    return by_triangle(c, false);
  }
  Values x = by_singular_values(c, false);
  const auto n = static_cast<std::size_t>(size());
  for (std::size_t at = 0; at < x.size(); ++at) {
    x[at] = times_power<W>(x[at], common_ - exponents_[at % n]);
  }
  return x;
}

template <Scalar W>
typename SmallSolver<W>::Values SmallSolver<W>::solve_adjoint(Values b) const {
  const auto n = static_cast<std::size_t>(size());
  if (is_truncated()) {
    Values z = by_singular_values(b, true);
    for (W& value : z) {
      value = times_power<W>(value, common_);
    }
    return z;
  }
  for (std::size_t at = 0; at < b.size(); ++at) {
    b[at] = times_power<W>(b[at], exponents_[at % n]);
  }
  return by_triangle(b, true);
}

template <Scalar W>
typename SmallSolver<W>::Values SmallSolver<W>::along(const Values& c, const Values& basis,
                                                      bool rows_of_basis) const {
  if (!is_truncated()) {
    return c;
  }
  const std::int64_t n = size();
  Values parts(c.size(), W{0});
  for (std::size_t column = 0; column < c.size(); column += static_cast<std::size_t>(n)) {
    for (std::int64_t l = 0; l < kept_; ++l) {
      W& part = parts[column + static_cast<std::size_t>(l)];
      for (std::int64_t i = 0; i < n; ++i) {
        const W entry = basis[static_cast<std::size_t>(rows_of_basis ? l + i * n : i + l * n)];
        part +=
            (rows_of_basis ? entry : conjugate(entry)) * c[column + static_cast<std::size_t>(i)];
      }
    }
  }
  return parts;
}

template <Scalar W>
std::vector<double> SmallSolver<W>::norms(const Values& parts) const {
  const auto n = static_cast<std::size_t>(size());
  std::vector<double> found(parts.size() / n);
  for (std::size_t at = 0; at < parts.size(); ++at) {
    found[at / n] = std::hypot(found[at / n], std::abs(parts[at]));
  }
  return found;
}

template <Scalar W>
std::vector<double> SmallSolver<W>::kept_norms(const Values& c) const {
  return norms(along(c, u_, false));
}

template <Scalar W>
std::vector<double> SmallSolver<W>::kept_norms_adjoint(const Values& b) const {
  return norms(along(b, vh_, true));
}

template <Scalar W>
std::vector<double> SmallSolver<W>::image_norms(const Values& b) const {
  Values parts = along(b, vh_, true);
  for (std::size_t at = 0; at < parts.size(); ++at) {
    parts[at] *= scaled_values_[at % scaled_values_.size()];
  }
  return norms(parts);
}

template <Scalar W>
double SmallSolver<W>::image_norm() const {
  double norm = 0.0;
  for (const double value : scaled_values_) {
    norm = std::hypot(norm, value);
  }
  return norm;
}

template class SmallSolver<double>;
template class SmallSolver<std::complex<double>>;

}  // namespace shardsolve::dense::qr
