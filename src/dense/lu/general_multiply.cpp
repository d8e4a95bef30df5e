#include "dense/lu/general_multiply.hpp"

#include "dense/lu/wait_sites.hpp"
#include "programs/bytes_of.hpp"

#include <algorithm>
#include <complex>
#include <type_traits>
#include <utility>

namespace shardsolve::dense::lu {

using runtime::Op;

template <Scalar T>
GeneralMultiply<T>::GeneralMultiply(mesh::Rank& rank, const SlabLayout& layout,
                                    MatrixView<const T> slab, std::int64_t columns, Sums sums)
    : rank_(rank),
      layout_(layout),
      slab_(slab),
      kind_(sums),
      base_(rank.kernels<T>()),
      real_(rank.kernels<Real>()),
      double_(rank.kernels<double>()),
      twofold_(rank.kernels<runtime::HermitianKernels<T>>()),
      kernels_(rank.kernels<runtime::LuKernels<T>>()),
      x_(rank.workspace<T>(layout.size() * columns, 1)),
      sums_(rank.workspace<T>(layout.size() * 2 * columns, 1)),
      sizes_(rank.workspace<double>(layout.size() * columns, 1)),
      incoming_(rank.workspace<T>(slab.columns() * 2 * columns, rank.count())),
      size_incoming_(rank.workspace<double>(slab.columns() * columns, rank.count())),
      total_memory_(rank.workspace<T>(slab.columns(), 2 * columns)),
      size_memory_(rank.workspace<double>(slab.columns(), columns)),
      ready_(rank.event()),
      arrived_(rank.event()) {
  if (kind_ == Sums::quick) {
    const std::int64_t rows = layout.max_width();
    product_ = rank.workspace<T>(rows * columns, 1);
    moduli_ = rank.workspace<Real>(rows * layout.tile(), 1);
    moduli_of_x_ = rank.workspace<Real>(layout.tile() * columns, 1);
    quick_sizes_ = rank.workspace<Real>(rows * columns, 1);
  }
}

template <Scalar T>
template <class V>
MatrixView<V> GeneralMultiply<T>::part(MatrixView<V> memory, std::int64_t segment,
                                       std::int64_t columns) const {
  const GlobalRange rows = layout_.segment(segment);
  const MatrixView<V> flat =
      memory.block(rows.begin.value() * columns, 0, rows.size() * columns, 1);
  return {flat.data(), rows.size(), columns};
}

template <Scalar T>
void GeneralMultiply<T>::residual(Op op, MatrixView<const T> x, MatrixView<const T> b,
                                  MatrixView<T> y) {
  const std::int64_t k = x.columns();
  total_ = total_memory_.columns_from(0, 2 * k);
  size_total_ = size_memory_.columns_from(0, k);
  const MatrixView<T> high = total_.columns_from(0, k);
  const MatrixView<T> low = total_.columns_from(k, k);
  // total = -b
  base_.copy(rank_.update(), b, high);
  base_.scale(rank_.update(), RealOf<T>{-1}, high);
  base_.fill(rank_.update(), T{0}, low);
  double_.fill(rank_.update(), 0.0, size_total_);
  op == Op::none ? multiply(x) : multiply_adjoint(op, x);
  base_.copy(rank_.update(), high, y);
  base_.add(rank_.update(), T{1}, low, y);
}

/// Each rank multiplies with its columns and gives every rank the sums for its rows.
template <Scalar T>
void GeneralMultiply<T>::multiply(MatrixView<const T> x) {
  const std::int64_t k = x.columns();
  std::vector<comm::Bytes> outgoing;
  std::vector<comm::Bytes> incoming;
  std::vector<comm::Bytes> sizes_outgoing;
  std::vector<comm::Bytes> sizes_incoming;
  std::vector<MatrixView<T>> shares;
  std::vector<MatrixView<double>> size_shares;
  const std::int64_t own = slab_.columns();
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    const GlobalRange rows = layout_.segment(r);
    add_up(Op::none, slab_.block(rows.begin.value(), 0, rows.size(), own), x, part(sums_, r, 2 * k),
           part(sizes_, r, k));
    outgoing.push_back(programs::bytes_of(part(sums_, r, 2 * k)));
    sizes_outgoing.push_back(programs::bytes_of(part(sizes_, r, k)));
    shares.emplace_back(incoming_.columns_from(r, 1).data(), own, 2 * k);
    size_shares.emplace_back(size_incoming_.columns_from(r, 1).data(), own, k);
    incoming.push_back(programs::bytes_of(shares.back()));
    sizes_incoming.push_back(programs::bytes_of(size_shares.back()));
  }
  rank_.update().record(ready_);
  rank_.transfer().wait(ready_, sites::multiply_sums_ready);
  rank_.communicator().all_to_all(rank_.transfer(), std::move(outgoing), std::move(incoming));
  rank_.communicator().all_to_all(rank_.transfer(), std::move(sizes_outgoing),
                                  std::move(sizes_incoming));
  rank_.transfer().record(arrived_);
  rank_.update().wait(arrived_, sites::multiply_sums_arrived);
  // the shares of all ranks, added in rank order
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    const bool mine = r == rank_.index();
    const auto at = static_cast<std::size_t>(r);
    twofold_.add_twofold(rank_.update(), mine ? part(sums_, r, 2 * k) : shares[at], total_);
    double_.add(rank_.update(), 1.0, mine ? part(sizes_, r, k) : size_shares[at], size_total_);
  }
}

/// Each rank has the columns that its rows of op(A) are, and needs all of X.
template <Scalar T>
void GeneralMultiply<T>::multiply_adjoint(Op op, MatrixView<const T> x) {
  const std::int64_t k = x.columns();
  std::vector<comm::Bytes> parts_of_x;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    parts_of_x.push_back(programs::bytes_of(part(x_, r, k)));
  }
  base_.copy(rank_.update(), x, part(x_, rank_.index(), k));
  rank_.update().record(ready_);
  rank_.transfer().wait(ready_, sites::multiply_x_ready);
  rank_.communicator().all_gather(rank_.transfer(), std::move(parts_of_x));
  rank_.transfer().record(arrived_);
  rank_.update().wait(arrived_, sites::multiply_x_arrived);
  const MatrixView<T> share = {sums_.data(), slab_.columns(), 2 * k};
  const MatrixView<double> size_share = {sizes_.data(), slab_.columns(), k};
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    const GlobalRange rows = layout_.segment(r);
    add_up(op, slab_.block(rows.begin.value(), 0, rows.size(), slab_.columns()), part(x_, r, k),
           share, size_share);
    twofold_.add_twofold(rank_.update(), share, total_);
    double_.add(rank_.update(), 1.0, size_share, size_total_);
  }
}

template <Scalar T>
void GeneralMultiply<T>::add_up(Op op, MatrixView<const T> a, MatrixView<const T> x,
                                MatrixView<T> y, MatrixView<double> sizes) {
  if (kind_ == Sums::exact) {
    kernels_.multiply(rank_.update(), op, a, x, y, sizes);
    return;
  }
  const MatrixView<Real> quick_sizes(quick_sizes_.data(), sizes.rows(), sizes.columns());
  base_.fill(rank_.update(), T{0}, y);
  real_.fill(rank_.update(), Real{0}, quick_sizes);
  const std::int64_t tile = layout_.tile();
  for (std::int64_t first = 0; first < x.rows(); first += tile) {
    const std::int64_t terms = std::min(tile, x.rows() - first);
    const MatrixView<const T> some =
        op == Op::none ? a.columns_from(first, terms) : a.block(first, 0, terms, a.columns());
    add_tile(op, some, x.block(first, 0, terms, x.columns()), y, quick_sizes);
  }
  if constexpr (std::is_same_v<Real, double>) {
    double_.copy(rank_.update(), quick_sizes, sizes);
  } else {
    double_.convert(rank_.update(), quick_sizes, sizes);
  }
}

template <Scalar T>
void GeneralMultiply<T>::add_tile(Op op, MatrixView<const T> a, MatrixView<const T> x,
                                  MatrixView<T> y, MatrixView<Real> sizes) {
  const MatrixView<T> product(product_.data(), y.rows(), x.columns());
  base_.gemm(rank_.update(), op, Op::none, T{1}, a, x, T{0}, product);
  twofold_.add_twofold(rank_.update(), product, y);
  const MatrixView<Real> of_a(moduli_.data(), a.rows(), a.columns());
  const MatrixView<Real> of_x(moduli_of_x_.data(), x.rows(), x.columns());
  kernels_.moduli(rank_.update(), a, of_a);
  kernels_.moduli(rank_.update(), x, of_x);
  real_.gemm(rank_.update(), op == Op::none ? Op::none : Op::transpose, Op::none, Real{1}, of_a,
             of_x, Real{1}, sizes);
}

template class GeneralMultiply<float>;
template class GeneralMultiply<double>;
template class GeneralMultiply<std::complex<float>>;
template class GeneralMultiply<std::complex<double>>;

}  // namespace shardsolve::dense::lu
