// With l11 the diagonal tile of a step, l21 the rows below it, both in the slab of the step's
// owner, and b1 the owner's rows of B:
//
//   F B      z += (l11; l21) b1          every rank, for its own steps: nothing waits for another
//            b = sum_r z_r[own rows]     in rank order
//   F^H B    b to all ranks
//            b1 = l11^H b1 + l21^H b2    every rank, for its own steps

#include "dense/cholesky/half_product.hpp"

#include "dense/cholesky/wait_sites.hpp"
#include "programs/bytes_of.hpp"

#include <complex>
#include <vector>

namespace shardsolve::dense::cholesky {

using runtime::Op;

template <Scalar T>
HalfProduct<T>::HalfProduct(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                            std::int64_t columns)
    : rank_(rank),
      layout_(layout),
      slab_(slab),
      kernels_(rank.kernels<T>()),
      all_(rank.workspace<T>(layout.size() * columns, 1)),
      incoming_(rank.workspace<T>(slab.columns() * columns, rank.count())),
      tile_(rank.workspace<T>(layout.tile(), layout.tile())),
      ready_(rank.event()),
      arrived_(rank.event()) {}

template <Scalar T>
MatrixView<T> HalfProduct<T>::part(std::int64_t segment, std::int64_t columns) const {
  const GlobalRange rows = layout_.segment(segment);
  const MatrixView<T> flat = all_.block(rows.begin.value() * columns, 0, rows.size() * columns, 1);
  return {flat.data(), rows.size(), columns};
}

template <Scalar T>
MatrixView<const T> HalfProduct<T>::factor(Step step, GlobalRange rows) const {
  const LocalRange columns = layout_.columns(step);
  return slab_.block(rows.begin.value(), columns.begin.value(), rows.size(), columns.size());
}

template <Scalar T>
MatrixView<const T> HalfProduct<T>::diagonal_tile(Step step) {
  const std::int64_t n = layout_.columns(step).size();
  const MatrixView<T> tile = tile_.block(0, 0, n, n);
  kernels_.lower_triangle(rank_.update(), factor(step, layout_.rows(step)), tile);
  return tile;
}

template <Scalar T>
MatrixView<T> HalfProduct<T>::rows_of(const RowRun& run, std::int64_t columns) const {
  const std::int64_t first = run.rows.begin - layout_.segment(run.rank).begin;
  return part(run.rank, columns).block(first, 0, run.rows.size(), columns);
}

template <Scalar T>
void HalfProduct<T>::run(MatrixView<T> b) {
  const std::int64_t self = rank_.index();
  const std::int64_t k = b.columns();
  std::vector<comm::Bytes> outgoing;
  std::vector<comm::Bytes> incoming;
  std::vector<MatrixView<T>> shares;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    kernels_.fill(rank_.update(), T{0}, part(r, k));
    outgoing.push_back(programs::bytes_of(part(r, k)));
    shares.emplace_back(incoming_.columns_from(r, 1).data(), slab_.columns(), k);
    incoming.push_back(programs::bytes_of(shares.back()));
  }
  // z += (l11; l21) b1
  for (Step step = layout_.next_owned(self, Step(0)); step.value() < layout_.steps();
       step = layout_.next_owned(self, step + 1)) {
    const LocalRange own = layout_.columns(step);
    const MatrixView<T> b1 = b.block(own.begin.value(), 0, own.size(), k);
    kernels_.gemm(rank_.update(), Op::none, Op::none, T{1}, diagonal_tile(step), b1, T{1},
                  part(self, k).block(own.begin.value(), 0, own.size(), k));
    for (const RowRun& run : layout_.rows_from(step + 1)) {
      kernels_.gemm(rank_.update(), Op::none, Op::none, T{1}, factor(step, run.rows), b1, T{1},
                    rows_of(run, k));
    }
  }
  rank_.update().record(ready_);
  rank_.transfer().wait(ready_, sites::half_sums_ready);
  rank_.communicator().all_to_all(rank_.transfer(), std::move(outgoing), std::move(incoming));
  rank_.transfer().record(arrived_);
  rank_.update().wait(arrived_, sites::half_sums_arrived);
  // b = the shares of all ranks
  kernels_.fill(rank_.update(), T{0}, b);
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    const MatrixView<T> share = r == self ? part(r, k) : shares[static_cast<std::size_t>(r)];
    kernels_.add(rank_.update(), T{1}, share, b);
  }
}

template <Scalar T>
void HalfProduct<T>::run_adjoint(MatrixView<T> b) {
  const std::int64_t self = rank_.index();
  const std::int64_t k = b.columns();
  std::vector<comm::Bytes> parts;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    parts.push_back(programs::bytes_of(part(r, k)));
  }
  // b to all ranks
  kernels_.copy(rank_.update(), b, part(self, k));
  rank_.update().record(ready_);
  rank_.transfer().wait(ready_, sites::half_rows_ready);
  rank_.communicator().all_gather(rank_.transfer(), std::move(parts));
  rank_.transfer().record(arrived_);
  rank_.update().wait(arrived_, sites::half_rows_arrived);
  // b1 = l11^H b1 + l21^H b2
  for (Step step = layout_.next_owned(self, Step(0)); step.value() < layout_.steps();
       step = layout_.next_owned(self, step + 1)) {
    const LocalRange own = layout_.columns(step);
    const MatrixView<T> b1 = b.block(own.begin.value(), 0, own.size(), k);
    kernels_.gemm(rank_.update(), Op::conjugate_transpose, Op::none, T{1}, diagonal_tile(step),
                  part(self, k).block(own.begin.value(), 0, own.size(), k), T{0}, b1);
    for (const RowRun& run : layout_.rows_from(step + 1)) {
      kernels_.gemm(rank_.update(), Op::conjugate_transpose, Op::none, T{1}, factor(step, run.rows),
                    rows_of(run, k), T{1}, b1);
    }
  }
}

template class HalfProduct<float>;
template class HalfProduct<double>;
template class HalfProduct<std::complex<float>>;
template class HalfProduct<std::complex<double>>;

}  // namespace shardsolve::dense::cholesky
