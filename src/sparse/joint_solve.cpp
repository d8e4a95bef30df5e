#include "sparse/joint_solve.hpp"

#include "core/each_dtype.hpp"
#include "programs/bytes_of.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardsolve::sparse {

template <Scalar T>
JointSolve<T>::JointSolve(mesh::Rank& rank, const JointFront& front, MatrixView<const T> slab,
                          std::int64_t columns)
    : rank_(rank),
      front_(front),
      packed_(front.packed_rows()),
      solve_(rank, front.layout(), slab, front.end(), columns),
      rows_(rank.workspace<T>(front.own() + front.pads(), columns)),
      parts_(rank.workspace<T>(front.outer(), columns * rank.count())),
      outer_(rank.workspace<T>(front.outer(), columns)),
      on_host_(rank.host_workspace<T>(std::max((front.own() + front.pads()) * columns,
                                               front.outer() * columns * rank.count()))) {}

template <Scalar T>
MatrixView<T> JointSolve<T>::own_rows(std::int64_t rank, std::int64_t columns) const {
  std::int64_t before = 0;
  for (std::int64_t other = 0; other < rank; ++other) {
    before += front_.own_width(other);
  }
  return {rows_.data() + before * columns, front_.own_width(rank), columns};
}

template <Scalar T>
void JointSolve<T>::forward(MatrixView<T> x) {
  const std::int64_t k = x.columns();
  const MatrixView<T> b1 = own_rows(rank_.index(), k);
  const MatrixView<T> mine(on_host_, b1.rows(), k);
  std::fill_n(on_host_, b1.rows() * k, T{});  // pads
  for (std::int64_t column = 0; column < front_.own(); ++column) {
    if (front_.rank(column) == rank_.index()) {
      for (std::int64_t j = 0; j < k; ++j) {
        mine(front_.place(column), j) = x(column, j);
      }
    }
  }
  rank_.update().copy(b1.data(), on_host_, programs::bytes_of(b1).size);
  std::vector<comm::Bytes> pieces;
  for (std::int64_t other = 0; other < rank_.count(); ++other) {
    pieces.push_back(programs::bytes_of(parts_.columns_from(other * k, k)));
  }
  solve_.forward(b1, parts_.columns_from(rank_.index() * k, k));
  rank_.finish(rank_.update());
  rank_.communicator().all_gather(rank_.transfer(), std::move(pieces));
  const MatrixView<T> parts(on_host_, front_.outer(), k * rank_.count());
  rank_.transfer().copy(on_host_, parts_.data(), programs::bytes_of(parts).size);
  rank_.finish(rank_.transfer());
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t i = 0; i < front_.outer(); ++i) {
      for (std::int64_t other = 0; other < rank_.count(); ++other) {
        x(front_.own() + i, j) -= parts(packed_[static_cast<std::size_t>(i)], other * k + j);
      }
    }
  }
}

template <Scalar T>
void JointSolve<T>::back(MatrixView<T> x) {
  const std::int64_t k = x.columns();
  const MatrixView<T> x2(on_host_, front_.outer(), k);
  for (std::int64_t j = 0; j < k; ++j) {
    for (std::int64_t i = 0; i < front_.outer(); ++i) {
      x2(packed_[static_cast<std::size_t>(i)], j) = x(front_.own() + i, j);
    }
  }
  rank_.update().copy(outer_.data(), on_host_, programs::bytes_of(x2).size);
  solve_.back(own_rows(rank_.index(), k), outer_.columns_from(0, k));
  rank_.finish(rank_.update());
  // To everybody: the rows of all ranks.
  std::vector<comm::Bytes> pieces;
  std::int64_t rows = 0;
  for (std::int64_t other = 0; other < rank_.count(); ++other) {
    pieces.push_back(programs::bytes_of(own_rows(other, k)));
    rows += front_.own_width(other);
  }
  rank_.communicator().all_gather(rank_.transfer(), std::move(pieces));
  rank_.transfer().copy(on_host_, rows_.data(), static_cast<std::size_t>(rows * k) * sizeof(T));
  rank_.finish(rank_.transfer());
  std::vector<MatrixView<T>> parts;
  const T* const on_device = rows_.data();
  for (std::int64_t other = 0; other < rank_.count(); ++other) {
    const MatrixView<T> part = own_rows(other, k);
    parts.emplace_back(on_host_ + (part.data() - on_device), part.rows(), k);
  }
  for (std::int64_t column = 0; column < front_.own(); ++column) {
    const MatrixView<T>& part = parts[static_cast<std::size_t>(front_.rank(column))];
    for (std::int64_t j = 0; j < k; ++j) {
      x(column, j) = part(front_.place(column), j);
    }
  }
}

#define SHARDSOLVE_INSTANTIATE(T) template class JointSolve<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::sparse
