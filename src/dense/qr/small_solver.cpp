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

std::int64_t common_exponent(const std::vector<std::int64_t>& exponents) {
  return exponents.empty() ? 0 : *std::min_element(exponents.begin(), exponents.end());
}

template <Scalar W>
void undo_scales(mesh::Rank& rank, MatrixView<const W> r,
                 const std::vector<std::int64_t>& exponents, MatrixView<W> target) {
  std::vector<std::int64_t> back;
  back.reserve(exponents.size());
  const std::int64_t common = common_exponent(exponents);
  for (const std::int64_t exponent : exponents) {
    back.push_back(common - exponent);
  }
  rank.kernels<runtime::QrKernels<W>>().scale_columns(
      rank.update(), r, rank.upload(rank.update(), back.data(), r.columns()), target);
}

template <Scalar W>
SmallSolver<W>::SmallSolver(mesh::Rank& rank, MatrixView<W> r, std::vector<std::int64_t> exponents,
                            std::int64_t columns)
    : rank_(rank),
      r_(r),
      x_(rank.workspace<W>(r.rows(), columns)),
      parts_(rank.workspace<W>(r.rows(), columns)),
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
  return static_cast<std::int64_t>(sizeof(W)) * n * (n * (singular_values ? 4 : 1) + 2 * columns) +
         16 * n + 8;
}

template <Scalar W>
bool SmallSolver<W>::find_singular_values(bool with_vectors) {
  const std::int64_t n = size();
  const MatrixView<W> a = rank_.workspace<W>(n, n);
  const std::int64_t vectors = with_vectors ? n : 0;
  const MatrixView<W> u = rank_.workspace<W>(vectors, vectors);
  const MatrixView<W> vh = rank_.workspace<W>(vectors, vectors);
  const MatrixView<double> s = rank_.workspace<double>(n, 1);
  const MatrixView<std::int64_t> info = rank_.workspace<std::int64_t>(1, 1);
  undo_scales<W>(rank_, r_, exponents_, a);
  rank_.kernels<runtime::QrKernels<W>>().singular_values(rank_.update(), a, s.data(), u, vh,
                                                         info.data());
  if (rank_.fetch(rank_.update(), info.data(), 1).front() != 0) {
    return false;
  }
  if (with_vectors) {
    rank_.kernels<W>().conjugate_transpose(rank_.update(), u, a);
  }
  use_singular_values(rank_.fetch(rank_.update(), s.data(), n), with_vectors ? a : u, vh);
  return true;
}

template <Scalar W>
void SmallSolver<W>::use_singular_values(std::vector<double> values, MatrixView<W> uh,
                                         MatrixView<W> vh) {
  scaled_values_ = std::move(values);
  common_ = common_exponent(exponents_);
  uh_ = uh;
  vh_ = vh;
  singular_values_.clear();
  for (const double value : scaled_values_) {
    singular_values_.push_back(times_power<double>(value, -common_));
  }
}

template <Scalar W>
typename SmallSolver<W>::Values SmallSolver<W>::fetched(MatrixView<W> values) const {
  return rank_.fetch(rank_.update(), values.data(), values.rows() * values.columns());
}

template <Scalar W>
MatrixView<W> SmallSolver<W>::uploaded(const Values& c) const {
  const MatrixView<W> x = x_.columns_from(0, static_cast<std::int64_t>(c.size()) / size());
  rank_.update().copy(x.data(), c.data(), c.size() * sizeof(W));
  rank_.update().synchronize();  // from here on `c` may go
  return x;
}

template <Scalar W>
typename SmallSolver<W>::Values SmallSolver<W>::by_triangle(const Values& c, bool adjoint) const {
  const MatrixView<W> x = uploaded(c);
  rank_.kernels<W>().trsm(rank_.update(), Side::left, Triangle::upper,
                          adjoint ? Op::conjugate_transpose : Op::none, r_, x);
  return fetched(x);
}

template <Scalar W>
typename SmallSolver<W>::Values SmallSolver<W>::along(MatrixView<const W> basis,
                                                      const Values& c) const {
  if (kept_ == 0) {
    return {};
  }
  const MatrixView<W> x = uploaded(c);
  const MatrixView<W> parts(parts_.data(), kept_, x.columns());
  rank_.kernels<W>().gemm(rank_.update(), Op::none, Op::none, W{1},
                          basis.block(0, 0, kept_, size()), x, W{0}, parts);
  return fetched(parts);
}

/// x = V S^-1 U^H c, or U S^-1 V^H c, of what is kept.
template <Scalar W>
typename SmallSolver<W>::Values SmallSolver<W>::by_singular_values(const Values& c,
                                                                   bool adjoint) const {
  Values parts = along(adjoint ? vh_ : uh_, c);
  if (parts.empty()) {
    return Values(c.size());
  }
  for (std::size_t at = 0; at < parts.size(); ++at) {
    parts[at] /= scaled_values_[at % static_cast<std::size_t>(kept_)];
  }
  const MatrixView<W> x = x_.columns_from(0, static_cast<std::int64_t>(c.size()) / size());
  const MatrixView<W> there(parts_.data(), kept_, x.columns());
  rank_.update().copy(there.data(), parts.data(), parts.size() * sizeof(W));
  rank_.update().synchronize();  // from here on `parts` may go
  rank_.kernels<W>().gemm(rank_.update(), Op::conjugate_transpose, Op::none, W{1},
                          (adjoint ? uh_ : vh_).block(0, 0, kept_, size()), there, W{0}, x);
  return fetched(x);
}

template <Scalar W>
typename SmallSolver<W>::Values SmallSolver<W>::solve(const Values& c) const {
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
std::vector<double> SmallSolver<W>::norms(const Values& values, std::size_t columns) const {
  std::vector<double> found(columns);
  for (std::size_t at = 0; at < values.size(); ++at) {
    double& norm = found[at / (values.size() / columns)];
    norm = std::hypot(norm, std::abs(values[at]));
  }
  return found;
}

template <Scalar W>
std::vector<double> SmallSolver<W>::kept_norms(MatrixView<const W> basis, const Values& c) const {
  const std::size_t columns = c.size() / static_cast<std::size_t>(size());
  return norms(is_truncated() ? along(basis, c) : c, columns);
}

template <Scalar W>
std::vector<double> SmallSolver<W>::kept_norms(const Values& c) const {
  return kept_norms(uh_, c);
}

template <Scalar W>
std::vector<double> SmallSolver<W>::kept_norms_adjoint(const Values& b) const {
  return kept_norms(vh_, b);
}

template <Scalar W>
std::vector<double> SmallSolver<W>::image_norms(const Values& b) const {
  Values parts = along(vh_, b);
  for (std::size_t at = 0; at < parts.size(); ++at) {
    parts[at] *= scaled_values_[at % static_cast<std::size_t>(kept_)];
  }
  return norms(parts, b.size() / static_cast<std::size_t>(size()));
}

template <Scalar W>
double SmallSolver<W>::image_norm() const {
  double norm = 0.0;
  for (const double value : scaled_values_) {
    norm = std::hypot(norm, value);
  }
  return norm;
}

template void undo_scales(mesh::Rank&, MatrixView<const double>, const std::vector<std::int64_t>&,
                          MatrixView<double>);
template void undo_scales(mesh::Rank&, MatrixView<const std::complex<double>>,
                          const std::vector<std::int64_t>&, MatrixView<std::complex<double>>);
template class SmallSolver<double>;
template class SmallSolver<std::complex<double>>;

}  // namespace shardsolve::dense::qr
