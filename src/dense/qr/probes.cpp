#include "dense/qr/probes.hpp"

#include "dense/qr/column_norms.hpp"
#include "dense/qr/powers.hpp"
#include "dense/shared/check_input.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace shardsolve::dense::qr {

using runtime::Op;

template <Scalar T>
Probes<T>::Probes(mesh::Rank& rank, MatrixView<const T> a,
                  const std::vector<std::int64_t>& exponents)
    : rank_(rank),
      signs_(probe_signs(a.columns(), probe_count)),
      g_(rank.workspace<T>(a.columns(), probe_count)),
      product_(rank.workspace<T>(a.rows(), probe_count)),
      other_(rank.workspace<T>(a.rows(), probe_count)),
      sums_(rank, a.columns(), probe_count) {
  upload(exponents, g_);
  rank.kernels<T>().gemm(rank.update(), Op::none, Op::none, T{1}, a, g_, T{0}, product_);
}

template <Scalar T>
std::int64_t Probes<T>::bytes(std::int64_t ranks, std::int64_t rows, std::int64_t columns,
                              Dtype dtype) {
  return element_size(dtype) * probe_count * (2 * rows + columns) +
         Sums<Wide>::bytes(ranks, columns, probe_count) +
         static_cast<std::int64_t>(sizeof(Wide)) * columns * 3 * probe_count + 16 * columns +
         64 * probe_count * (ranks + 2);
}

template <Scalar T>
void Probes<T>::upload(const std::vector<std::int64_t>& exponents, MatrixView<T> target) {
  constexpr std::int64_t most = std::numeric_limits<RealOf<T>>::max_exponent - 1;
  std::vector<T> values;
  values.reserve(signs_.size());
  for (std::size_t at = 0; at < signs_.size(); ++at) {
    const std::int64_t exponent = exponents.empty() ? 0 : exponents[at % exponents.size()];
    values.push_back(times_power<T>(signs_[at], std::min(exponent, most)));
  }
  rank_.update().copy(target.data(), values.data(), values.size() * sizeof(T));
  rank_.update().synchronize();  // from here on `values` may go
}

namespace {

/// target = source, which may be of the same dtype.
template <Scalar Target, Scalar Source>
void convert(mesh::Rank& rank, MatrixView<const Source> source, MatrixView<Target> target) {
  if constexpr (std::is_same_v<Target, Source>) {
    rank.kernels<Target>().copy(rank.update(), source, target);
  } else {
    rank.kernels<Target>().convert(rank.update(), source, target);
  }
}

}  // namespace

template <Scalar T>
void Probes<T>::judge(MatrixView<const T> q, MatrixView<const Wide> r, Outcome& outcome) {
  const std::int64_t n = q.columns();
  double norm = 0.0;
  if (rank_.index() == 0) {
    const MatrixView<Wide> signs = rank_.workspace<Wide>(n, probe_count);
    const MatrixView<Wide> image = rank_.workspace<Wide>(n, probe_count);
    const std::vector<Wide> wide(signs_.begin(), signs_.end());
    rank_.update().copy(signs.data(), wide.data(), wide.size() * sizeof(Wide));
    rank_.update().synchronize();  // from here on `wide` may go
    rank_.kernels<Wide>().gemm(rank_.update(), Op::none, Op::none, Wide{1}, r, signs, Wide{0},
                               image);
    convert<T, Wide>(rank_, image, g_);
    const MatrixView<double> sizes = rank_.workspace<double>(2, n);
    rank_.kernels<runtime::QrKernels<Wide>>().column_sizes(rank_.update(), r, sizes.data());
    const std::vector<double> found = rank_.fetch(rank_.update(), sizes.data(), 2 * n);
    for (std::size_t at = 0; at < found.size(); at += 2) {
      norm = std::hypot(norm, found[at] * std::sqrt(found[at + 1]));
    }
  }
  from_first(rank_, g_);
  judge_image(q, numbers_from_first(rank_, {norm}).front(), outcome);
}

template <Scalar T>
void Probes<T>::take_image(
    const std::function<void(MatrixView<const T> g, MatrixView<T> part)>& multiply) {
  const MatrixView<T> part = rank_.workspace<T>(g_.rows(), probe_count);
  upload({}, g_);
  multiply(g_, part);
  convert<Wide, T>(rank_, part, sums_.share(probe_count));
  sums_.to_first(probe_count);
  if (rank_.index() == 0) {
    convert<T, Wide>(rank_, sums_.share(probe_count), g_);
  }
  from_first(rank_, g_);
}

template <Scalar T>
void Probes<T>::judge_image(MatrixView<const T> q, double norm, Outcome& outcome) {
  const runtime::Kernels<T>& kernels = rank_.kernels<T>();
  const std::int64_t n = q.columns();
  // A D G - Q (R G)
  kernels.gemm(rank_.update(), Op::none, Op::none, T{-1}, q, g_, T{1}, product_);
  double sum = 0.0;
  for (const double one : column_norms<T>(rank_, product_)) {
    sum += one * one / static_cast<double>(probe_count);
  }
  // Q^H (Q G) - G
  upload({}, g_);
  kernels.gemm(rank_.update(), Op::none, Op::none, T{1}, q, g_, T{0}, other_);
  rank_.kernels<runtime::QrKernels<T>>().adjoint_product(rank_.update(), q, other_,
                                                         sums_.share(probe_count));
  sums_.to_first(probe_count);
  double largest = 0.0;
  if (rank_.index() == 0) {
    const std::vector<Wide> back =
        rank_.fetch(rank_.update(), sums_.share(probe_count).data(), n * probe_count);
    for (std::int64_t i = 0; i < n; ++i) {
      double of_row = 0.0;
      for (std::int64_t j = 0; j < probe_count; ++j) {
        const auto at = static_cast<std::size_t>(i + j * n);
        of_row += std::norm(back[at] - signs_[at]) / static_cast<double>(probe_count);
      }
      largest = programs::largest(largest, std::sqrt(of_row));
    }
  }
  outcome.residual = norm > 0.0 ? std::sqrt(sum) / norm : std::sqrt(sum);
  outcome.orthogonality = numbers_from_first(rank_, {largest}).front();
}

template class Probes<float>;
template class Probes<double>;
template class Probes<std::complex<float>>;
template class Probes<std::complex<double>>;

}  // namespace shardsolve::dense::qr
