#include "dense/eigh/certificate.hpp"

#include "dense/shared/check_input.hpp"
#include "dense/shared/hermitian_multiply.hpp"
#include "dense/shared/multiply_adjoint.hpp"
#include "programs/bytes_of.hpp"
#include "programs/gather.hpp"
#include "runtime/band_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <utility>

namespace shardsolve::dense::eigh {

using runtime::Op;

template <Scalar T>
Certificate<T>::Certificate(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                            double norm, const FactorPart<T>* b)
    : rank_(rank),
      layout_(layout),
      first_(layout.segment(rank.index()).begin.value()),
      signs_(probe_signs(layout.size(), probes)),
      norm_(norm),
      b_(b),
      rows_at_once_(rank.kernels<runtime::BandKernels<T>>()
                        .tuning({layout.size(), layout.tile(), is_complex<T>})
                        .rows_at_once) {
  const std::int64_t n = layout.size();
  std::vector<T> g;
  for (const double sign : signs_) {
    g.push_back(static_cast<RealOf<T>>(sign));
  }
  g_ = {rank.upload(rank.update(), g.data(), n * probes), n, probes};
  // A is Hermitian: its rows are the conjugates of its columns.
  const MatrixView<T> parts = rank.workspace<T>(n * probes, 1);
  rank.kernels<T>().gemm(rank.update(), Op::conjugate_transpose, Op::none, T{1}, slab, g_, T{0},
                         part(parts, rank.index()));
  w_ = gather_rows(parts);
  bg_ = multiply_by_b(g_);
  rank.finish(rank.update());
}

template <Scalar T>
MatrixView<const T> Certificate<T>::multiply_by_b(MatrixView<const T> x) {
  if (b_ == nullptr) {
    return x;
  }
  const MatrixView<T> parts = rank_.workspace<T>(layout_.size() * probes, 1);
  HermitianMultiply<T> product(rank_, b_->layout, b_->slab, b_->diagonal, probes);
  product.run(x.block(first_, 0, layout_.width(rank_.index()), probes), part(parts, rank_.index()));
  return gather_rows(parts);
}

template <Scalar T>
MatrixView<T> Certificate<T>::part(MatrixView<T> parts, std::int64_t of) const {
  return {parts.data() + layout_.segment(of).begin.value() * probes, layout_.width(of), probes};
}

template <Scalar T>
MatrixView<T> Certificate<T>::gather_rows(MatrixView<T> parts) {
  std::vector<comm::Bytes> pieces;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    pieces.push_back(programs::bytes_of(part(parts, r)));
  }
  gather(std::move(pieces));
  const MatrixView<T> all = rank_.workspace<T>(layout_.size(), probes);
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    const GlobalRange rows = layout_.segment(r);
    rank_.kernels<T>().copy(rank_.update(), part(parts, r),
                            all.block(rows.begin.value(), 0, rows.size(), probes));
  }
  return all;
}

template <Scalar T>
void Certificate<T>::gather(std::vector<comm::Bytes> pieces) {
  rank_.finish(rank_.update());
  rank_.communicator().all_gather(rank_.transfer(), std::move(pieces));
  rank_.finish(rank_.transfer());
}

template <Scalar T>
double Certificate<T>::residual(MatrixView<const T> z, const std::vector<double>& values) {
  const runtime::Kernels<T>& kernels = rank_.kernels<T>();
  const std::int64_t count = probes * z.columns();
  const auto times_z = [&](MatrixView<const T> x) {
    const MatrixView<T> xz = rank_.workspace<T>(probes, z.columns());
    multiply_adjoint(kernels, rank_.update(), rows_at_once_, x, z, xz);
    return rank_.fetch(rank_.update(), xz.data(), count);
  };
  const std::vector<T> of_w = times_z(w_);
  const std::vector<T> of_bg = times_z(bg_);
  const std::vector<T> of_g = b_ == nullptr ? of_bg : times_z(g_);
  const double norm_of_b = b_ == nullptr ? 0.0 : b_->norm.value();
  double worst = 0.0;
  for (std::int64_t j = 0; j < z.columns(); ++j) {
    const double value = values[static_cast<std::size_t>(first_ + j)];
    double square = 0.0;
    double size = 0.0;
    for (std::int64_t i = j * probes; i < (j + 1) * probes; ++i) {
      const auto at = static_cast<std::size_t>(i);
      square += std::norm(std::complex<double>(of_w[at]) - value * std::complex<double>(of_bg[at]));
      size += std::norm(std::complex<double>(of_g[at]));
    }
    // Without B ||z|| is 1; with it z^H B z is.
    const double length =
        b_ == nullptr ? 1.0 : std::max(std::sqrt(size / probes), 1.0 / std::sqrt(norm_of_b));
    const double off = std::sqrt(square / probes);
    const double scale = (norm_ + std::abs(value) * norm_of_b) * length;
    worst = programs::largest(worst, off == 0.0 ? 0.0 : off / scale);
  }
  return worst;
}

template <Scalar T>
double Certificate<T>::orthogonality(MatrixView<const T> z) {
  const runtime::Kernels<T>& kernels = rank_.kernels<T>();
  const std::int64_t n = layout_.size();
  const std::int64_t own = z.columns();
  const std::int64_t first = own > 0 ? first_ : 0;
  // Z G: the shares of all ranks, added in rank order
  const MatrixView<T> shares = rank_.workspace<T>(n * probes, rank_.count());
  std::vector<comm::Bytes> pieces;
  const auto share = [&](std::int64_t r) {
    return MatrixView<T>(shares.data() + r * n * probes, n, probes);
  };
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    pieces.push_back(programs::bytes_of(share(r)));
  }
  kernels.gemm(rank_.update(), Op::none, Op::none, T{1}, z, g_.block(first, 0, own, probes), T{0},
               share(rank_.index()));
  gather(std::move(pieces));
  for (std::int64_t r = 1; r < rank_.count(); ++r) {
    kernels.add(rank_.update(), T{1}, share(r), share(0));
  }
  const MatrixView<const T> bzg = multiply_by_b(share(0));
  const MatrixView<T> back = rank_.workspace<T>(own, probes);
  multiply_adjoint(kernels, rank_.update(), rows_at_once_, z, bzg, back);
  const std::vector<T> all = rank_.fetch(rank_.update(), back.data(), own * probes);
  double worst = 0.0;
  for (std::int64_t i = 0; i < own; ++i) {
    double square = 0.0;
    for (std::int64_t probe = 0; probe < probes; ++probe) {
      const std::complex<double> number = all[static_cast<std::size_t>(probe * own + i)];
      square += std::norm(number - signs_[static_cast<std::size_t>(probe * n + first + i)]);
    }
    worst = programs::largest(worst, std::sqrt(square / probes));
  }
  return worst;
}

template <Scalar T>
Outcome Certificate<T>::check(MatrixView<const T> z, const std::vector<double>& values) {
  Outcome outcome;
  outcome.residual = programs::largest_of_all(rank_, residual(z, values));
  outcome.orthogonality = programs::largest_of_all(rank_, orthogonality(z));
  return outcome;
}

template <Scalar T>
std::int64_t Certificate<T>::elements(const SlabLayout& layout, bool with_b) {
  const std::int64_t n = layout.size();
  const std::int64_t width = layout.max_width();
  const std::int64_t standard = n * (3 + layout.ranks()) + 3 * width;
  // G, and twice B times some columns: parts, rows of all, and what HermitianMultiply takes
  const std::int64_t product = 5 * n + width * (2 * layout.ranks() + 2) + layout.tile();
  return probes * (standard + (with_b ? width + 2 * product : 0)) +
         (with_b ? 2 * layout.tile() * layout.tile() : 0);
}

template class Certificate<float>;
template class Certificate<double>;
template class Certificate<std::complex<float>>;
template class Certificate<std::complex<double>>;

}  // namespace shardsolve::dense::eigh
