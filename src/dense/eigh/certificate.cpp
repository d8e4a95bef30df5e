#include "dense/eigh/certificate.hpp"

#include "dense/shared/check_input.hpp"
#include "dense/shared/gather.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <utility>

namespace shardsolve::dense::eigh {

using runtime::Op;

template <Scalar T>
Certificate<T>::Certificate(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab)
    : rank_(rank),
      layout_(layout),
      first_(layout.segment(rank.index()).begin.value()),
      signs_(probe_signs(layout.size() * probes)),
      w_(rank.workspace<T>(layout.size(), probes)) {
  const std::int64_t n = layout.size();
  std::vector<T> g;
  for (const double sign : signs_) {
    g.push_back(static_cast<RealOf<T>>(sign));
  }
  g_ = {rank.upload(rank.update(), g.data(), n * probes), n, probes};
  const MatrixView<T> parts = rank.workspace<T>(n * probes, 1);
  std::vector<std::int64_t> begins;
  for (const std::int64_t row : layout.boundaries()) {
    begins.push_back(row * probes);
  }
  // A is Hermitian: its rows are the conjugates of its columns.
  const auto part = [&](std::int64_t r) {
    return MatrixView<T>(parts.data() + begins[static_cast<std::size_t>(r)], layout.width(r),
                         probes);
  };
  const runtime::Kernels<T>& kernels = rank.kernels<T>();
  kernels.gemm(rank.update(), Op::conjugate_transpose, Op::none, T{1}, slab, g_, T{0},
               part(rank.index()));
  gather(parts, begins);
  for (std::int64_t r = 0; r < rank.count(); ++r) {
    kernels.copy(rank.update(), part(r),
                 w_.block(layout.segment(r).begin.value(), 0, layout.width(r), probes));
  }
  rank.finish(rank.update());
}

template <Scalar T>
void Certificate<T>::gather(MatrixView<T> pieces, const std::vector<std::int64_t>& begins) {
  std::vector<comm::Bytes> bytes;
  for (std::size_t r = 0; r + 1 < begins.size(); ++r) {
    bytes.push_back({pieces.data() + begins[r],
                     static_cast<std::size_t>(begins[r + 1] - begins[r]) * sizeof(T)});
  }
  rank_.finish(rank_.update());
  rank_.communicator().all_gather(rank_.transfer(), std::move(bytes));
  rank_.finish(rank_.transfer());
}

template <Scalar T>
double Certificate<T>::residual(MatrixView<const T> z, const std::vector<RealOf<T>>& values) {
  const runtime::Kernels<T>& kernels = rank_.kernels<T>();
  const MatrixView<T> wz = rank_.workspace<T>(probes, z.columns());
  const MatrixView<T> gz = rank_.workspace<T>(probes, z.columns());
  kernels.gemm(rank_.update(), Op::conjugate_transpose, Op::none, T{1}, w_, z, T{0}, wz);
  kernels.gemm(rank_.update(), Op::conjugate_transpose, Op::none, T{1}, g_, z, T{0}, gz);
  const std::vector<T> of_w = rank_.fetch(rank_.update(), wz.data(), probes * z.columns());
  const std::vector<T> of_g = rank_.fetch(rank_.update(), gz.data(), probes * z.columns());
  double worst = 0.0;
  for (std::int64_t j = 0; j < z.columns(); ++j) {
    const RealOf<T> value = values[static_cast<std::size_t>(first_ + j)];
    double square = 0.0;
    for (std::int64_t i = j * probes; i < (j + 1) * probes; ++i) {
      const auto at = static_cast<std::size_t>(i);
      square += std::norm(std::complex<double>(of_w[at] - value * of_g[at]));
    }
    worst = largest(worst, std::sqrt(square / probes));
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
  std::vector<std::int64_t> begins;
  for (std::int64_t r = 0; r <= rank_.count(); ++r) {
    begins.push_back(r * n * probes);
  }
  const auto share = [&](std::int64_t r) {
    return MatrixView<T>(shares.data() + r * n * probes, n, probes);
  };
  kernels.gemm(rank_.update(), Op::none, Op::none, T{1}, z, g_.block(first, 0, own, probes), T{0},
               share(rank_.index()));
  gather(shares, begins);
  for (std::int64_t r = 1; r < rank_.count(); ++r) {
    kernels.add(rank_.update(), T{1}, share(r), share(0));
  }
  const MatrixView<T> back = rank_.workspace<T>(own, probes);
  kernels.gemm(rank_.update(), Op::conjugate_transpose, Op::none, T{1}, z, share(0), T{0}, back);
  const std::vector<T> all = rank_.fetch(rank_.update(), back.data(), own * probes);
  double worst = 0.0;
  for (std::int64_t i = 0; i < own; ++i) {
    double square = 0.0;
    for (std::int64_t probe = 0; probe < probes; ++probe) {
      const std::complex<double> number = all[static_cast<std::size_t>(probe * own + i)];
      square += std::norm(number - signs_[static_cast<std::size_t>(probe * n + first + i)]);
    }
    worst = largest(worst, std::sqrt(square / probes));
  }
  return worst;
}

template <Scalar T>
Outcome Certificate<T>::check(MatrixView<const T> z, const std::vector<RealOf<T>>& values,
                              double norm) {
  Outcome outcome;
  const double off = largest_of_all(rank_, residual(z, values));
  outcome.residual = off == 0.0 ? 0.0 : off / norm;
  outcome.orthogonality = largest_of_all(rank_, orthogonality(z));
  return outcome;
}

template <Scalar T>
std::int64_t Certificate<T>::elements(const SlabLayout& layout) {
  return probes * (layout.size() * (3 + layout.ranks()) + 3 * layout.max_width());
}

template class Certificate<float>;
template class Certificate<double>;
template class Certificate<std::complex<float>>;
template class Certificate<std::complex<double>>;

}  // namespace shardsolve::dense::eigh
