#include "dense/shared/hermitian_multiply.hpp"

#include "dense/shared/wait_sites.hpp"
#include "programs/bytes_of.hpp"

#include <algorithm>

namespace shardsolve::dense {

using runtime::Op;

template <Scalar T>
HermitianMultiply<T>::HermitianMultiply(mesh::Rank& rank, const SlabLayout& layout,
                                        MatrixView<const T> slab, const RealOf<T>* diagonal,
                                        std::int64_t columns)
    : rank_(rank),
      layout_(layout),
      slab_(slab),
      diagonal_(rank.upload(rank.update(), diagonal, slab.columns())),
      kernels_(rank.kernels<T>()),
      hermitian_(rank.kernels<runtime::HermitianKernels<T>>()),
      x_(rank.workspace<T>(layout.size() * columns, 1)),
      sums_(rank.workspace<T>(layout.size() * 2 * columns, 1)),
      incoming_(rank.workspace<T>(slab.columns() * 2 * columns, rank.count())),
      total_(rank.workspace<T>(slab.columns(), 2 * columns)),
      ready_(rank.event()),
      arrived_(rank.event()) {
  if (columns == 1 && rank.count() <= runtime::UpperPart<T, RealOf<T>>::max_ranks) {
    describe_upper_part();
  } else {
    const std::int64_t tile = std::min(layout.tile(), slab.columns());
    tile_ = rank.workspace<T>(tile, tile);
    product_ = rank.workspace<T>(layout.tile(), columns);
  }
}

template <Scalar T>
void HermitianMultiply<T>::describe_upper_part() {
  runtime::UpperPart<T, RealOf<T>>& upper = upper_.emplace();
  upper.slab = slab_;
  upper.diagonal = diagonal_;
  upper.rank = static_cast<std::int32_t>(rank_.index());
  upper.ranks = static_cast<std::int32_t>(rank_.count());
  upper.tile = layout_.tile();
  for (std::int64_t r = 0; r < layout_.ranks(); ++r) {
    upper.begin[r] = layout_.segment(r).begin.value();
  }
  upper.begin[layout_.ranks()] = layout_.size();
  std::vector<std::int64_t> eliminated;
  for (Step step = layout_.next_owned(rank_.index(), Step(0)); step.value() < layout_.steps();
       step = layout_.next_owned(rank_.index(), step + 1)) {
    for (std::int64_t r = 0; r < layout_.ranks(); ++r) {
      eliminated.push_back(layout_.eliminated(r, step).value());
    }
  }
  upper.eliminated =
      rank_.upload(rank_.update(), eliminated.data(), static_cast<std::int64_t>(eliminated.size()));
  scratch_ = rank_.workspace<std::byte>(hermitian_.hermitian_multiply_scratch(upper), 1);
}

template <Scalar T>
MatrixView<T> HermitianMultiply<T>::part(MatrixView<T> memory, std::int64_t segment,
                                         std::int64_t columns) const {
  const GlobalRange rows = layout_.segment(segment);
  const MatrixView<T> flat =
      memory.block(rows.begin.value() * columns, 0, rows.size() * columns, 1);
  return {flat.data(), rows.size(), columns};
}

template <Scalar T>
void HermitianMultiply<T>::run(MatrixView<const T> x, MatrixView<T> y) {
  kernels_.fill(rank_.update(), T{0}, y);
  residual(x, y, y);
}

template <Scalar T>
void HermitianMultiply<T>::residual(MatrixView<const T> x, MatrixView<const T> b, MatrixView<T> y) {
  const std::int64_t k = x.columns();
  const MatrixView<T> high = total_.columns_from(0, k);
  const MatrixView<T> low = total_.columns_from(k, k);
  // total = -b
  kernels_.copy(rank_.update(), b, high);
  kernels_.scale(rank_.update(), RealOf<T>{-1}, high);
  kernels_.fill(rank_.update(), T{0}, low);
  add_product(x);
  kernels_.copy(rank_.update(), high, y);
  kernels_.add(rank_.update(), T{1}, low, y);
}

template <Scalar T>
void HermitianMultiply<T>::add_product(MatrixView<const T> x) {
  const std::int64_t k = x.columns();
  std::vector<comm::Bytes> parts_of_x;
  std::vector<comm::Bytes> outgoing;
  std::vector<comm::Bytes> incoming;
  std::vector<MatrixView<T>> shares;
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    parts_of_x.push_back(programs::bytes_of(part(x_, r, k)));
    outgoing.push_back(programs::bytes_of(part(sums_, r, 2 * k)));
    shares.emplace_back(incoming_.columns_from(r, 1).data(), slab_.columns(), 2 * k);
    incoming.push_back(programs::bytes_of(shares.back()));
  }

  // X to all ranks
  kernels_.copy(rank_.update(), x, part(x_, rank_.index(), k));
  rank_.update().record(ready_);
  rank_.transfer().wait(ready_, sites::multiply_x_ready);
  rank_.communicator().all_gather(rank_.transfer(), std::move(parts_of_x));
  rank_.transfer().record(arrived_);

  rank_.update().wait(arrived_, sites::multiply_x_arrived);
  if (upper_) {
    hermitian_.hermitian_multiply(rank_.update(), *upper_, x_.data(), sums_.data(),
                                  scratch_.data());
  } else {
    multiply(k);
  }

  // Each rank its rows of Y: the shares of all ranks, added in rank order
  rank_.update().record(ready_);
  rank_.transfer().wait(ready_, sites::multiply_sums_ready);
  rank_.communicator().all_to_all(rank_.transfer(), std::move(outgoing), std::move(incoming));
  rank_.transfer().record(arrived_);
  rank_.update().wait(arrived_, sites::multiply_sums_arrived);
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    const MatrixView<T> share =
        r == rank_.index() ? part(sums_, r, 2 * k) : shares[static_cast<std::size_t>(r)];
    hermitian_.add_twofold(rank_.update(), share, total_.columns_from(0, 2 * k));
  }
}

template <Scalar T>
void HermitianMultiply<T>::multiply(std::int64_t columns) {
  const std::int64_t blocks = (slab_.columns() + layout_.tile() - 1) / layout_.tile();
  for (std::int64_t r = 0; r < rank_.count(); ++r) {
    kernels_.fill(rank_.update(), T{0}, part(sums_, r, 2 * columns));
  }
  const std::int64_t tile = layout_.tile();
  for (const layout::Piece& piece : layout::upper_staircase(layout_, rank_.index(), 0, blocks)) {
    for (std::int64_t j = 0; j < piece.columns.size(); j += tile) {
      for (std::int64_t i = 0; i < piece.rows.size(); i += tile) {
        layout::Piece some = piece;
        some.rows.begin = piece.rows.begin + i;
        some.rows.end = std::min(some.rows.begin + tile, piece.rows.end);
        some.columns.begin = piece.columns.begin + j;
        some.columns.end = std::min(some.columns.begin + tile, piece.columns.end);
        multiply(some, columns);
      }
    }
  }
}

/// `piece`: at most a tile.
template <Scalar T>
void HermitianMultiply<T>::multiply(const layout::Piece& piece, std::int64_t columns) {
  const std::int64_t self = rank_.index();
  const std::int64_t row = piece.rows.begin - layout_.segment(piece.segment).begin;
  const std::int64_t column = piece.columns.begin.value();
  const std::int64_t m = piece.rows.size();
  const std::int64_t n = piece.columns.size();
  const MatrixView<const T> a = slab_.block(piece.rows.begin.value(), column, m, n);
  const MatrixView<T> x_rows = part(x_, piece.segment, columns).block(row, 0, m, columns);
  const MatrixView<T> x_columns = part(x_, self, columns).block(column, 0, n, columns);
  const MatrixView<T> y_rows =
      part(sums_, piece.segment, 2 * columns).block(row, 0, m, 2 * columns);
  const MatrixView<T> y_columns = part(sums_, self, 2 * columns).block(column, 0, n, 2 * columns);
  // y += op(factor) x
  const auto add = [&](Op op, MatrixView<const T> factor, MatrixView<T> x, MatrixView<T> y) {
    const MatrixView<T> product = product_.block(0, 0, y.rows(), columns);
    kernels_.gemm(rank_.update(), op, Op::none, T{1}, factor, x, T{0}, product);
    hermitian_.add_twofold(rank_.update(), product, y);
  };
  if (piece.diagonal) {
    const MatrixView<T> tile = tile_.block(0, 0, n, n);
    kernels_.hermitian_tile(rank_.update(), a, diagonal_ + column, tile);
    add(Op::none, tile, x_columns, y_columns);
  } else {
    add(Op::none, a, x_columns, y_rows);
    add(Op::conjugate_transpose, a, x_rows, y_columns);
  }
}

template class HermitianMultiply<float>;
template class HermitianMultiply<double>;
template class HermitianMultiply<std::complex<float>>;
template class HermitianMultiply<std::complex<double>>;

}  // namespace shardsolve::dense
