#include "dense/svd/certificate.hpp"

#include "dense/shared/check_input.hpp"
#include "programs/gather.hpp"
#include "runtime/qr_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>

namespace shardsolve::dense::svd {
namespace {

using runtime::Op;

constexpr std::int64_t probes = 4;

}  // namespace

template <Scalar T>
std::int64_t Certificate<T>::bytes(std::int64_t ranks, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t wide = 16;
  return wide * probes * (4 * rows + columns * (8 + 3 * ranks));
}

template <Scalar T>
MatrixView<T> Certificate<T>::signs(std::int64_t of, GlobalRange rows) {
  const std::vector<double> all = probe_signs(of, probes);
  std::vector<T> values;
  for (std::int64_t j = 0; j < probes; ++j) {
    for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
      values.push_back(
          static_cast<T>(static_cast<RealOf<T>>(all[static_cast<std::size_t>(i + j * of)])));
    }
  }
  const MatrixView<T> g = rank_.workspace<T>(rows.size(), probes);
  rank_.update().copy(g.data(), values.data(), values.size() * sizeof(T));
  rank_.update().synchronize();  // from here on `values` may go
  return g;
}

template <Scalar T>
template <class V>
std::vector<V> Certificate<T>::sum(const std::vector<V>& mine) {
  std::vector<V> total(mine.size(), V{0});
  for (const auto& one : programs::gather_from_all(rank_, mine)) {
    std::transform(one.begin(), one.end(), total.begin(), total.begin(),
                   [](V part, V before) { return before + part; });
  }
  return total;
}

/// ||A G - U image||, over the root of the number of vectors.
template <Scalar T>
double Certificate<T>::norm_of_rest(MatrixView<const T> a, MatrixView<const T> u,
                                    const std::vector<T>& image) {
  const runtime::Kernels<T>& kernels = rank_.kernels<T>();
  const MatrixView<T> g = signs(a.columns(), {GlobalIndex(0), GlobalIndex(a.columns())});
  const MatrixView<T> rest = rank_.workspace<T>(a.rows(), probes);
  kernels.gemm(rank_.update(), Op::none, Op::none, T{1}, a, g, T{0}, rest);
  rank_.update().copy(g.data(), image.data(), image.size() * sizeof(T));
  kernels.gemm(rank_.update(), Op::none, Op::none, T{-1}, u, g, T{1}, rest);
  double sum = 0.0;
  for (const T entry : rank_.fetch(rank_.update(), rest.data(), a.rows() * probes)) {
    sum += std::norm(std::complex<double>(entry));
  }
  return std::sqrt(programs::sum_of_all(rank_, sum) / static_cast<double>(probes));
}

template <Scalar T>
double Certificate<T>::residual(MatrixView<const T> a, MatrixView<const T> u,
                                const std::vector<RealOf<T>>& s, MatrixView<const T> v,
                                GlobalRange own) {
  using Wide = runtime::WideOf<T>;
  const std::int64_t n = v.columns();
  // S V^H G
  const MatrixView<Wide> product = rank_.workspace<Wide>(n, probes);
  rank_.kernels<Wide>().fill(rank_.update(), Wide{0}, product);
  rank_.kernels<runtime::QrKernels<T>>().adjoint_product(rank_.update(), v, signs(n, own), product);
  const std::vector<Wide> sums = sum<Wide>(rank_.fetch(rank_.update(), product.data(), n * probes));
  std::vector<T> image;
  for (std::size_t at = 0; at < sums.size(); ++at) {
    image.push_back(static_cast<T>(sums[at] * double{s[at % s.size()]}));
  }
  return norm_of_rest(a, u, image);
}

template <Scalar T>
double Certificate<T>::residual(MatrixView<const T> a, MatrixView<const T> u, MatrixView<const T> h,
                                GlobalRange own) {
  const MatrixView<T> product = rank_.workspace<T>(h.rows(), probes);
  rank_.kernels<T>().fill(rank_.update(), T{0}, product);
  rank_.kernels<T>().gemm(rank_.update(), Op::none, Op::none, T{1}, h, signs(h.rows(), own), T{1},
                          product);
  return norm_of_rest(a, u, sum<T>(rank_.fetch(rank_.update(), product.data(), h.rows() * probes)));
}

template <Scalar T>
double Certificate<T>::orthogonality(MatrixView<const T> q) {
  using Wide = runtime::WideOf<T>;
  const std::int64_t n = q.columns();
  const MatrixView<T> g = signs(n, {GlobalIndex(0), GlobalIndex(n)});
  const MatrixView<T> image = rank_.workspace<T>(q.rows(), probes);
  rank_.kernels<T>().gemm(rank_.update(), Op::none, Op::none, T{1}, q, g, T{0}, image);
  const MatrixView<Wide> back = rank_.workspace<Wide>(n, probes);
  rank_.kernels<Wide>().fill(rank_.update(), Wide{0}, back);
  rank_.kernels<runtime::QrKernels<T>>().adjoint_product(rank_.update(), q, image, back);
  const std::vector<Wide> sums = sum<Wide>(rank_.fetch(rank_.update(), back.data(), n * probes));
  const std::vector<double> given = probe_signs(n, probes);
  double most = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    double of_row = 0.0;
    for (std::int64_t j = 0; j < probes; ++j) {
      const auto at = static_cast<std::size_t>(i + j * n);
      of_row += std::norm(sums[at] - given[at]) / static_cast<double>(probes);
    }
    most = programs::largest(most, std::sqrt(of_row));
  }
  return most;
}

template class Certificate<float>;
template class Certificate<double>;
template class Certificate<std::complex<float>>;
template class Certificate<std::complex<double>>;

}  // namespace shardsolve::dense::svd
